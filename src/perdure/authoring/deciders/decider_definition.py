"""A decider checked and made ready, once per class.

`definition_of` refuses a class that cannot work, with what to change, and works out how its inputs,
events, rejections and state are stored. The result is kept on the class.
"""

from __future__ import annotations

import copy
import inspect
import sys
import typing
from typing import Any, TypeVar, get_args, get_origin

import msgspec

from perdure.authoring.activity import Activity
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.members import Members, is_immutable
from perdure.authoring.definition import DefinedFunction
from perdure.codec import ValueCodec, check_id, show, union_members
from perdure.errors import (
    DefinitionError,
    InvalidIdError,
    LimitExceededError,
    PayloadError,
    PerdureError,
    UsageError,
)
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.histories.events import EventRecorded

AnyDecider: typing.TypeAlias = Decider[Any, Any, Any, Any]

SEPARATOR = ":"
"""Stands between a decider's name and the id that it gives an instance."""


class DeciderDefinition:
    """What a decider's class says, in the form that runs it."""

    what = "decider"

    def __init__(self, cls: type[AnyDecider]) -> None:
        """Check a class and work everything out.

        Raises:
            DefinitionError: It cannot work as written.
        """
        self.cls = cls
        self.name = _checked_name(cls)
        self._prefix = f"{self.name}{SEPARATOR}"
        self.decider = _made(cls)
        _check_attributes(cls)
        try:
            state, *unions = _type_arguments(cls)
            self.inputs, self.events, self.rejections = (
                Members(union, what=what, decider=self.name)
                for union, what in zip(unions, ("input", "event", "rejection"), strict=True)
            )
            where = f"state of decider {self.name!r}"
            self.state: ValueCodec[Any] = ValueCodec(state, where=where)
            self.has_immutable_state = is_immutable(state, where=where)
        except NameError as error:
            raise DefinitionError(
                f"decider {self.name!r} ({self.place}): a type cannot be resolved ({error}); "
                "define or import it at module level, outside `if TYPE_CHECKING`"
            ) from error
        self._check_members()
        self._check_initial()
        self._allows_none = self._has_state(None)
        self.has_unique_key = cls.unique_key is not Decider.unique_key
        self.has_own_snapshots = cls.should_snapshot is not Decider.should_snapshot
        self.schema, self.snapshot_every = cls.schema, cls.snapshot_every
        self.keep_events = cls.keep_events
        self.observes_inputs = cls.observe_inputs
        self._event_versions = _event_versions(self.name, cls, self.events)
        self._returning: dict[Any, bool] = {}

    def __repr__(self) -> str:
        return f"<decider {self.name}>"

    @property
    def place(self) -> str:
        """Where it is written, for messages."""
        return _place(self.cls)

    # ---------------------------------------------------------------------- ids

    def instance_of(self, input: object) -> str:
        """Return the stored id of the instance that an input is for.

        Raises:
            DefinitionError: The decider's `instance_id` returns something else than an id.
            InvalidIdError: It returns one that begins with the decider's name.
        """
        own_id = self.decider.instance_id(input)
        stored_id = self.stored_id(own_id)
        if stored_id == own_id:
            raise InvalidIdError(
                f"instance id of decider {self.name!r}",
                own_id,
                f"begins with {self._prefix!r}, which is put before it: let instance_id of "
                f"{self.place} return it without",
            )
        return stored_id

    def stored_id(self, instance_id: str) -> str:
        """Return the id that an instance is stored under.

        One that is given as it is stored, as lists, jobs and contexts tell it, is that very one: so
        whatever an id was got from, it can be handed over.

        Raises:
            InvalidIdError: It has forbidden characters, is empty, or is too long with the name.
        """
        check_id(f"instance id of decider {self.name!r}", instance_id)
        if instance_id.startswith(self._prefix) and instance_id != self._prefix:
            return instance_id
        return check_id("instance id", self._prefix + instance_id)

    def own_id(self, stored_id: str) -> str:
        """Return an id as the decider gives it."""
        return stored_id[len(self._prefix) :]

    # ------------------------------------------------------------------- values

    def write_event(self, event: object) -> EventRecorded:
        """Return an event as it is recorded."""
        tag, data = self.events.encode(event)
        version = self._event_versions.get(tag, 1)
        return EventRecorded(tag=tag, event=msgspec.Raw(data), event_version=version)

    def read_event(self, recorded: EventRecorded) -> Any:
        """Return a recorded event as it would be written now.

        Raises:
            PayloadError: This code cannot read it.
        """
        tag, data = recorded.tag, bytes(recorded.event)
        now = self._event_versions.get(tag, 1)
        if recorded.event_version > now and tag in self.events.by_tag:
            raise PayloadError(
                f"event {tag} of decider {self.name!r}",
                f"was written in shape {recorded.event_version} and this code knows it up to "
                f"{now}; run newer code",
            )
        if recorded.event_version < now or tag not in self.events.by_tag:
            tag, value = self.decider.upcast(tag, recorded.event_version, msgspec.json.decode(data))
            data = msgspec.json.encode(value)
        return self.events.decode(tag, data)

    def read_state(self, schema: int, data: bytes) -> Any:
        """Return a state that stands for removed events, as it would be written now.

        Raises:
            PayloadError: This code cannot read it.
            Exception: What `upcast_state` raised.
        """
        if schema == self.schema:
            return self.state.decode(data)
        what = f"the state of decider {self.name!r} that stands for removed events"
        if schema > self.schema:
            raise PayloadError(
                what, f"has schema {schema} and this code has {self.schema}; run newer code"
            )
        if not _has_upcast_state(self.cls):
            raise PayloadError(
                what,
                f"has schema {schema} and this code has {self.schema}: write upcast_state, which "
                "returns such a state as it would be written now",
            )
        upcast = self.decider.upcast_state(schema, msgspec.json.decode(data))
        return self.state.decode(msgspec.json.encode(upcast))

    def evolve(self, state: Any, event: Any) -> Any:
        """Return the state after an event.

        Raises:
            UsageError: `evolve` returned None, and that is no state: nothing of it may be kept.
            Exception: What `evolve` raised.
        """
        after = self.decider.evolve(state, event)
        if after is None and not self._allows_none:
            raise self._wrong_state(event, "None")
        return after

    def check_evolved(self, state: Any, event: Any) -> None:
        """Refuse what `evolve` returned if it does not fit the type of the state, in full.

        Too slow for every turn: a state may be large.

        Raises:
            UsageError: It does not fit.
        """
        try:
            self.state.encode(state, "it")
        except PayloadError as error:
            raise self._wrong_state(event, f"what is no state ({error})") from error
        except LimitExceededError:
            return  # Only a snapshot would be too large.

    def copy_state(self, state: Any) -> Any:
        """Return a state that can be handed out: what is done to it does not matter here."""
        if self.has_immutable_state:
            return state
        try:
            return self.state.decode(self.state.encode(state, "state"))
        except PerdureError:
            # Too large to be stored in one piece, or not what it says: that shows elsewhere.
            return copy.deepcopy(state)

    def returns_input(self, activity: Activity[..., Any]) -> bool:
        """Return whether what an effect returns is an input of this decider, or nothing at all.

        Raises:
            DefinitionError: It returns something else.
        """
        known = self._returning.get(activity.definition)
        if known is not None:
            return known
        codec = activity.definition.codec.returns
        where = f"effect {activity.name!r} of decider {self.name!r}"
        members = [
            member
            for member in union_members(codec.annotation, where=where)
            if member is not type(None)
        ]
        tags = self.inputs.tags
        known_types = [member.annotation for member in self.inputs.by_tag.values()]
        for member in members:
            if member is Any:
                raise DefinitionError(
                    f"{where} does not say what it returns: annotate it as None, or as inputs of "
                    f"the decider ({', '.join(tags)})"
                )
            if member not in known_types:
                raise DefinitionError(
                    f"{where} returns {show(member)}, which is no input of the decider "
                    f"({', '.join(tags)}): let it return None or one of those"
                )
        self._returning[activity.definition] = bool(members)
        return bool(members)

    # ------------------------------------------------------------------- checks

    def _check_members(self) -> None:
        for members in (self.inputs, self.events):
            if not members.by_tag:
                raise DefinitionError(
                    f"decider {self.name!r} ({self.place}) has no {members.what}s: name a class, "
                    "or a union of classes, among its type arguments"
                )
        if "None" in self.inputs.by_tag:
            raise DefinitionError(
                f"decider {self.name!r} ({self.place}): None is no input, since an effect that "
                "returns None gives none; use a class"
            )

    def _has_state(self, value: object) -> bool:
        try:
            self.state.encode(value, "state")
        except PayloadError:
            return False
        return True

    def _wrong_state(self, event: object, returned: str) -> UsageError:
        return UsageError(
            f"evolve of decider {self.name!r} ({self.place}) returned {returned} for event "
            f"{type(event).__qualname__}: return the new state ({show(self.state.annotation)})"
        )

    def _check_initial(self) -> None:
        try:
            initial = self.decider.initial()
        except Exception as error:
            raise DefinitionError(
                f"decider {self.name!r} ({self.place}): initial() raised {type(error).__name__}: "
                f"{error}"
            ) from error
        try:
            self.state.encode(initial, "it")
        except Exception as error:
            raise DefinitionError(
                f"decider {self.name!r} ({self.place}): what initial() returns is no state that "
                f"can be stored: {type(error).__name__}: {error}"
            ) from error


def object_of_decider(decider: Decider[Any, Any, Any, Any]) -> DefinitionError:
    """Return what is said of an object where a decider's class is meant."""
    return DefinitionError(
        f"{decider!r} is an object: hand over its class, {type(decider).__name__}"
    )


def definition_of(decider: type[AnyDecider]) -> DeciderDefinition:
    """Return a decider's class in the form that runs it; the same one every time.

    Raises:
        DefinitionError: It is no decider, or cannot work as written.
    """
    if not (isinstance(decider, type) and issubclass(decider, Decider)):
        if isinstance(decider, Decider):
            raise object_of_decider(decider)
        started = isinstance(decider, DefinedFunction) and decider.definition.what
        other = "; an orchestration is started: client.start(...)"
        raise DefinitionError(
            f"{decider!r} is no decider: hand over a subclass of Decider"
            f"{other if started == 'orchestration' else ''}"
        )
    found = decider.__dict__.get(_KEPT)
    if found is None:
        found = DeciderDefinition(decider)
        setattr(decider, _KEPT, found)
    definition: DeciderDefinition = found
    return definition


_KEPT = "__perdure_definition__"


def stored_id_of(decider: str, instance_id: str) -> str:
    """Return the id that an instance of a decider is stored under, whose code need not be here.

    Raises:
        InvalidIdError: It has forbidden characters, is empty, or is too long with the name.
    """
    prefix = f"{decider}{SEPARATOR}"
    if not isinstance(instance_id, str):
        return check_id("instance id", instance_id)
    is_stored = instance_id.startswith(prefix) and instance_id != prefix
    return check_id("instance id", instance_id if is_stored else prefix + instance_id)


def is_concrete(cls: object) -> bool:
    """Return whether something is a decider that can be run, and no base class of others."""
    return (
        isinstance(cls, type)
        and issubclass(cls, Decider)
        and cls is not Decider
        and not inspect.isabstract(cls)
        and isinstance(getattr(cls, "name", None), str)
    )


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _checked_name(cls: type[AnyDecider]) -> str:
    if cls is Decider:
        raise DefinitionError("Decider itself is no decider: hand over a subclass of it")
    name: object = getattr(cls, "name", None)
    if name is None:
        raise DefinitionError(
            f"decider {_place(cls)} has no name: give it a class attribute such as "
            f'name = "{cls.__name__.lower()}"'
        )
    try:
        name = check_id("name", name)
    except InvalidIdError as error:
        raise DefinitionError(f"decider {_place(cls)}: {error}") from error
    if SEPARATOR in name:
        raise DefinitionError(
            f"decider {_place(cls)}: its name {name!r} contains {SEPARATOR!r}, which separates it "
            "from the ids of its instances; use another character"
        )
    if name.startswith(RESERVED_PREFIX) and not cls.__module__.startswith(RESERVED_PREFIX):
        raise DefinitionError(
            f"decider {_place(cls)}: names that begin with {RESERVED_PREFIX!r} are reserved; "
            f"give it another one than {name!r}"
        )
    return name


def _made(cls: type[AnyDecider]) -> AnyDecider:
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise DefinitionError(
            f"decider {cls.name!r} ({_place(cls)}) has no {', '.join(missing)}: write "
            f"{'it' if len(missing) == 1 else 'them'}"
        )
    for method in ("initial", "instance_id", "decide", "evolve", "is_terminal", "unique_key"):
        if inspect.iscoroutinefunction(getattr(cls, method)):
            raise DefinitionError(
                f"decider {cls.name!r} ({_place(cls)}): {method} is async; it is pure and must be "
                "a plain def. What has to wait is an effect"
            )
    try:
        return cls()
    except TypeError as error:
        raise DefinitionError(
            f"decider {cls.name!r} ({_place(cls)}) cannot be made without arguments ({error}): "
            "it has no state of its own; hand values in with the inputs"
        ) from error


def _check_attributes(cls: type[AnyDecider]) -> None:
    for attribute, least in (("snapshot_every", 0), ("schema", 1)):
        value: object = getattr(cls, attribute)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise DefinitionError(
                f"decider {cls.name!r} ({_place(cls)}): {attribute} must be a whole number of at "
                f"least {least}, got {value!r}"
            )
    if cls.keep_events is not None:
        _check_keep_events(cls, cls.keep_events)


def _check_keep_events(cls: type[AnyDecider], keep: object) -> None:
    where = f"decider {cls.name!r} ({_place(cls)})"
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 1:
        raise DefinitionError(
            f"{where}: keep_events must be a whole number of at least 1, or None to keep all, got "
            f"{keep!r}"
        )
    if not cls.snapshot_every and cls.should_snapshot is Decider.should_snapshot:
        raise DefinitionError(
            f"{where}: keep_events={keep} needs snapshots, since events are removed only behind "
            "one; set snapshot_every, or write should_snapshot"
        )
    if cls.schema > 1 and not _has_upcast_state(cls):
        raise DefinitionError(
            f"{where}: keep_events={keep} with schema={cls.schema} needs upcast_state, since the "
            "state of removed events cannot be folded anew; let it return a state of an earlier "
            "schema as it would be written now"
        )


def _has_upcast_state(cls: type[AnyDecider]) -> bool:
    return cls.upcast_state is not Decider.upcast_state


def _event_versions(name: str, cls: type[AnyDecider], events: Members) -> dict[str, int]:
    found = {}
    for kind, version in cls.event_versions.items():
        member = events.member_of(kind)
        if member is None:
            raise DefinitionError(
                f"decider {name!r}: event_versions names {show(kind)}, which is none of its events "
                f"({', '.join(events.tags)})"
            )
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise DefinitionError(
                f"decider {name!r}: event_versions has {version!r} for {show(kind)}; it must be a "
                "whole number of at least 1"
            )
        found[member.tag] = version
    return found


# ------------------------------------------------------------ the type arguments


def _type_arguments(cls: type[AnyDecider]) -> list[Any]:
    """Return state, input, event and rejection as the class names them."""
    found = _arguments_of(cls, {})
    if found is None or any(isinstance(each, TypeVar) for each in found):
        raise DefinitionError(
            f"decider {cls.name!r} ({_place(cls)}) does not say its types: write "
            f"class {cls.__name__}(Decider[State, Input, Event, Rejection])"
        )
    return found


def _arguments_of(cls: type, given: dict[Any, Any]) -> list[Any] | None:
    """Follow the bases up to Decider, with type variables replaced by what they stand for."""
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, Decider)):
            continue
        own = [_resolved(argument, cls, given) for argument in get_args(base)]
        if origin is Decider:
            return own or None
        parameters = getattr(origin, "__parameters__", ())
        return _arguments_of(origin, dict(zip(parameters, own, strict=False)))
    return None


def _resolved(argument: Any, cls: type, given: dict[Any, Any]) -> Any:
    if isinstance(argument, TypeVar):
        return given.get(argument, argument)
    if isinstance(argument, str):
        argument = typing.ForwardRef(argument)
    if isinstance(argument, typing.ForwardRef):
        module = sys.modules.get(cls.__module__)
        hints = typing.get_type_hints(
            _Annotated(argument.__forward_arg__), globalns=vars(module) if module else {}
        )
        return hints["it"]
    return argument


class _Annotated:
    def __init__(self, text: str) -> None:
        self.__annotations__ = {"it": text}
