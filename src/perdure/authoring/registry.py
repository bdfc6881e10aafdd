"""Which definitions a worker has: handed over as a list, checked when it is made.

There is no global registry. A module stands for all definitions found in it, a registry for all of
its own, a decider's class for itself. An orchestration may be there in several versions; which of
them begins when a start leaves that open is the registry's policy: the latest, or an exact one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeAlias

from perdure.authoring.activity import Activity
from perdure.authoring.builtin.builtin_orchestrations import BUILTIN_CODE, BUILTIN_ORCHESTRATIONS
from perdure.authoring.code_digest import code_beside, code_of_function
from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import (
    DeciderDefinition,
    definition_of,
    is_concrete,
    object_of_decider,
)
from perdure.authoring.deciders.projection import AnyProjection
from perdure.authoring.deciders.readers import (
    AnyReader,
    add_reader,
    check_names,
    is_reader,
    readers_in,
)
from perdure.authoring.definition import DefinedFunction
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.schedules.decider import ScheduleDecider
from perdure.authoring.schedules.schedule import Schedule
from perdure.errors import DefinitionError, NotRegisteredError
from perdure.limits import MAX_VERSION_CHARS
from perdure.model.builtins import SCHEDULE
from perdure.model.instances import DefinitionKey
from perdure.model.versions import ascending, is_version

BEHAVIOUR = 1
"""Number of the core's manner of replaying. Raised when the same code would get another history."""


class Registry:
    """Definitions by name; orchestrations also by version.

    Handed to a worker, it is copied: what the worker serves is `worker.registry`, and there the
    policy can be changed while it works.
    """

    def __init__(self, definitions: GivenDefinitions = ()) -> None:
        """Collect definitions.

        Raises:
            DefinitionError: Two are named alike, one has no proper version, or something is not a
                definition.
        """
        self.activities: dict[str, Activity[..., Any]] = {}
        self.orchestrations: dict[tuple[str, str], Orchestration[..., Any]] = {}
        self.deciders: dict[str, DeciderDefinition] = {}
        self.readers: dict[str, AnyReader] = {}
        """Projections and subscriptions by name."""
        self.schedules: dict[str, Schedule[..., Any]] = {}
        """What workers with this registry declare, by name."""
        self._code: dict[tuple[str, str], str] = {}
        self._code_beside: dict[str, str] = {}
        self._tags: dict[str, set[str]] = {}
        self._preferred: dict[str, str] = {}
        self._versions: dict[str, list[str]] = {}
        for part in _parts_of(definitions):
            if isinstance(part, Registry):
                self._take(part)
            else:
                for reader in readers_in(part):
                    add_reader(self.readers, reader)
                for schedule in _schedules_in(part):
                    self._add_schedule(schedule)
                for found in _expand(part):
                    self._add(found)
        check_names(self.readers, set(self.deciders))

    def __repr__(self) -> str:
        own = [f"{name} {version}" for name, version in self.orchestrations]
        return f"Registry({', '.join([*own, *self.deciders, *self.activities])})"

    def merge(self, other: Registry) -> Registry:
        """Return a registry with the definitions and preferences of both.

        Raises:
            DefinitionError: They have different definitions under one name and version, or prefer
                different versions.
        """
        return Registry((self, other))

    def check_values(self) -> None:
        """Look at every parameter and result, before the first call does.

        Raises:
            DefinitionError: One is of a type that can never be stored, or that cannot be resolved.
        """
        for defined in (*self.activities.values(), *self.orchestrations.values()):
            try:
                defined.definition.codec.check()
            except DefinitionError as error:
                error.add_note(f"written at {defined.definition.place}")
                raise

    # ----------------------------------------------------------------- looking up

    def activity(self, name: str) -> Activity[..., Any]:
        """Return an activity by name."""
        found = self.activities.get(name)
        if found is None:
            raise NotRegisteredError("activity", name, known=list(self.activities))
        return found

    def orchestration(self, name: str, version: str) -> Orchestration[..., Any]:
        """Return an orchestration by name and exact version."""
        found = self.code_for(name, version)
        if found is None:
            known = [f"{name}@{version}" for name, version in self.orchestrations]
            raise NotRegisteredError("orchestration", f"{name}@{version}", known=known)
        return found

    def code_for(self, name: str, version: str) -> Orchestration[..., Any] | None:
        """Return an orchestration by name and exact version, also one of perdure's own."""
        key = name, version
        return self.orchestrations.get(key) or BUILTIN_ORCHESTRATIONS.get(key)

    @property
    def served_deciders(self) -> dict[str, DeciderDefinition]:
        """The deciders that a worker with this registry serves: its own, and the built-in one."""
        return {**self.deciders, SCHEDULE: definition_of(ScheduleDecider)}

    def decider(self, name: str) -> DeciderDefinition:
        """Return a decider by name."""
        found = self.served_deciders.get(name)
        if found is None:
            raise NotRegisteredError("decider", name, known=list(self.deciders))
        return found

    def names(self) -> list[str]:
        """Return the names of the orchestrations, sorted."""
        return sorted(self._versions)

    def versions(self, name: str) -> list[str]:
        """Return the versions of an orchestration, from the lowest to the highest; none if it is
        not here."""
        return list(self._versions.get(name, ()))

    def code_of(self, name: str, version: str) -> str:
        """Return the digest of the code behind an orchestration."""
        key = (name, version)
        if key in BUILTIN_ORCHESTRATIONS:
            return BUILTIN_CODE
        code = self._code.get(key)
        if code is None:
            code = self._code[key] = self._find_code(self.orchestrations[key].fn)
        return code

    def code_of_decider(self, name: str) -> str:
        """Return the digest of the code behind a decider."""
        if name == SCHEDULE:
            return SCHEDULE  # Of any release: it is folded, and each reads what all have written.
        key = (name, "")
        code = self._code.get(key)
        if code is None:
            code = self._code[key] = self._find_code(self.deciders[name].cls)
        return code

    def _find_code(self, written: Any) -> str:
        # All definitions of a module have the same: it covers the files around them.
        beside = self._code_beside.get(written.__module__)
        if beside is None:
            beside = self._code_beside[written.__module__] = code_beside(written)
        return beside or code_of_function(written)

    def tags_of(self, name: str) -> list[str]:
        """Return the tags that the definitions of an activity carry themselves."""
        return sorted(self._tags.get(name, ()))

    # ----------------------------------------------------------------- the policy

    def prefer(self, name: str, version: str | None) -> None:
        """Say which version begins when that is left open. None: the latest.

        It counts from the next such start on, and for instances that continue as new; executions
        under way stay on their version.

        Raises:
            NotRegisteredError: There is no such version here.
        """
        if version is None:
            if name not in self._versions:
                raise NotRegisteredError("orchestration", name, known=self.names())
            self._preferred.pop(name, None)
        else:
            self.orchestration(name, version)
            self._preferred[name] = version

    def preferred(self, name: str) -> str | None:
        """Return which version begins when that is left open; None if there is none here."""
        found = self._versions.get(name)
        return self._preferred.get(name, found[-1]) if found else None

    # -------------------------------------------------------------------- queues

    def queues(self) -> Iterator[DefinitionKey]:
        """Return the queues of jobs that a worker with these definitions runs unless told
        otherwise: inline calls, and activities untagged and with the tags they carry themselves."""
        for name, version in self.orchestrations:
            yield inline_key(name, version)
        for name in self.activities:
            yield activity_key(name, None)
            for tag in self.tags_of(name):
                yield activity_key(name, tag)

    # ---------------------------------------------------------------- collecting

    def _take(self, other: Registry) -> None:
        for schedule in other.schedules.values():
            self._add_schedule(schedule)
        for reader in other.readers.values():
            add_reader(self.readers, reader)
        for activity in other.activities.values():
            self._add(activity)
        for orchestration in other.orchestrations.values():
            self._add(orchestration)
        for decider in other.deciders.values():
            self._add_decider(decider)
        for name, tags in other._tags.items():
            self._tags.setdefault(name, set()).update(tags)
        for name, version in other._preferred.items():
            if self._preferred.setdefault(name, version) != version:
                raise DefinitionError(
                    f"two registries prefer different versions of {name!r}: "
                    f"{self._preferred[name]} and {version}; call prefer on one of them"
                )

    def _add(self, found: _Expanded) -> None:
        if isinstance(found, type):
            self._add_decider(definition_of(found))
            return
        if isinstance(found, Activity):
            self._refuse_other(self.activities.setdefault(found.name, found), found, found.name)
            if found.options.tag is not None:
                self._tags.setdefault(found.name, set()).add(found.options.tag)
        else:
            self._add_orchestration(found)

    def _add_orchestration(self, found: Orchestration[..., Any]) -> None:
        name, version = found.name, found.version
        if not is_version(version):
            raise DefinitionError(
                f"version {version!r} of {name!r} is not a semantic version such as '1.0.0', "
                f"of at most {MAX_VERSION_CHARS} characters"
            )
        known = self.orchestrations.setdefault((name, version), found)
        self._refuse_other(known, found, f"{name} {version}")
        if version not in self._versions.get(name, ()):
            self._versions[name] = ascending([*self._versions.get(name, ()), version])

    def _add_schedule(self, found: Schedule[..., Any]) -> None:
        known = self.schedules.setdefault(found.name, found)
        if known is not found and not known.spec.is_same(found.spec):
            raise DefinitionError(
                f"two schedules are named {found.name!r}: {known!r} and {found!r}; give one "
                "another name"
            )

    def _add_decider(self, found: DeciderDefinition) -> None:
        known = self.deciders.setdefault(found.name, found)
        if known is not found:
            raise DefinitionError(
                f"two deciders are named {found.name!r}: {known.place} and {found.place}; "
                "give one another name"
            )

    def _refuse_other(self, known: DefinedFunction, found: DefinedFunction, label: str) -> None:
        if known.definition is not found.definition:
            remedy = "name" if isinstance(found, Activity) else "name or version"
            raise DefinitionError(
                f"two {found.definition.what} definitions are named {label!r}: "
                f"{known.definition.place} and {found.definition.place}; give one another {remedy}"
            )


_Expanded: TypeAlias = (
    Activity[..., Any] | Orchestration[..., Any] | type[Decider[Any, Any, Any, Any]]
)
Defined: TypeAlias = (
    ModuleType
    | DefinedFunction
    | type[Decider[Any, Any, Any, Any]]
    | AnyReader
    | type[AnyProjection[Any]]
    | Schedule[..., Any]
    | Registry
)
"""What a worker can be handed: an activity, an orchestration, a decider's class, a projection or
its class, a subscription, a schedule, a module with such things, a registry of them."""
GivenDefinitions: TypeAlias = Defined | Iterable[Defined]
"""What is handed to a worker: definitions, or one alone."""


def _parts_of(definitions: Any) -> Iterable[Defined]:
    """Return what was handed over, one by one.

    Raises:
        DefinitionError: It is none, or a text.
    """
    is_alone = isinstance(definitions, ModuleType | DefinedFunction | Registry | Schedule | type)
    if is_alone or is_reader(definitions):
        return (definitions,)
    if isinstance(definitions, str) or not isinstance(definitions, Iterable):
        raise DefinitionError(
            f"{definitions!r} is not a list of definitions: hand over what has been imported, as "
            "in [checkout, charge], or a module of them"
        )
    return definitions


@lru_cache(maxsize=1024)
def orchestration_key(name: str, version: str) -> DefinitionKey:
    """Return what instances of an orchestration are claimed by. Without a version it is open: the
    worker that takes the first turn chooses one."""
    return DefinitionKey("orchestration", name, version, BEHAVIOUR)


def reader_key(name: str) -> DefinitionKey:
    """Return what a projection or subscription is named by in a worker's sign of life."""
    return DefinitionKey("projection", name, "")


def schedule_key(name: str) -> DefinitionKey:
    """Return what a schedule of the code is named by in a worker's sign of life."""
    return DefinitionKey("schedule", name, "")


def decider_key(name: str) -> DefinitionKey:
    """Return what instances of a decider are claimed by."""
    return DefinitionKey("decider", name, "", BEHAVIOUR)


def inline_key(name: str, version: str) -> DefinitionKey:
    """Return the queue of an orchestration's inline calls: workers with its code run them."""
    return DefinitionKey("inline", name, version, BEHAVIOUR)


@lru_cache(maxsize=1024)
def activity_key(name: str, tag: str | None) -> DefinitionKey:
    """Return the queue of an activity."""
    return DefinitionKey("activity", name, tag or "")


def _schedules_in(part: object) -> Iterator[Schedule[..., Any]]:
    """Return what is or lies in something handed over."""
    found = vars(part).values() if isinstance(part, ModuleType) else (part,)
    yield from (value for value in found if isinstance(value, Schedule))


def _expand(definition: object) -> Iterator[_Expanded]:
    match definition:
        case Activity() | Orchestration():
            if definition.is_elsewhere:
                raise DefinitionError(
                    f"{definition.name!r} is known here by name only: hand it to the worker that "
                    "has its code"
                )
            yield definition
        case ModuleType():
            for value in vars(definition).values():
                if isinstance(value, Activity | Orchestration):
                    if not value.is_elsewhere:
                        yield value
                elif is_concrete(value):
                    yield value
        case type() if issubclass(definition, Decider):
            yield definition
        case _ if is_reader(definition) or isinstance(definition, Schedule):
            return
        case _:
            raise _no_definition(definition)


def _no_definition(given: object) -> DefinitionError:
    if isinstance(given, Decider):
        return object_of_decider(given)
    return DefinitionError(
        f"{given!r} is not a definition: hand over modules, registries, functions made with "
        "@activity, @transaction or @orchestration, subclasses of Decider, projections, "
        "subscriptions and schedules"
    )
