"""From an orchestration and its arguments to an instance that can be started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import SEPARATOR
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import BEHAVIOUR, orchestration_key
from perdure.clock import to_ms
from perdure.codec import MAX_ID_BYTES, check_id
from perdure.errors import InvalidIdError, UsageError
from perdure.ids import fresh_id
from perdure.model.histories.events import Started, write_event
from perdure.model.instances import InstanceRow, NewInstance
from perdure.model.messages import Delivery

if TYPE_CHECKING:
    from perdure.client.core import ClientCore


def split(
    first: Any, args: tuple[Any, ...]
) -> tuple[str | None, Orchestration[..., Any], tuple[Any, ...]]:
    """Return the id, if there is one, the orchestration and its arguments."""
    instance_id = None
    if isinstance(first, str):
        instance_id = check_id("instance id", first)
        if not args:
            raise UsageError("start(instance_id, orchestration, ...): the orchestration is missing")
        first, *rest = args
        args = tuple(rest)
    elif args and isinstance(args[0], Orchestration) and not isinstance(first, Orchestration):
        raise InvalidIdError("instance id", first, _instead_of(first, args[0].name))
    return instance_id, check_orchestration("start", first), args


def _instead_of(instance_id: object, name: str) -> str:
    """Return what to say instead of an id that is no text."""
    if instance_id is None:
        return f"is no text: leave it out for one that is made, as in start({name}, ...)"
    if isinstance(instance_id, bytes | tuple | list | dict | set):
        return f"is no text: say start('...', {name}, ...)"
    return f"is no text: say start({str(instance_id)!r}, {name}, ...)"


def check_orchestration(method: str, given: Any) -> Orchestration[..., Any]:
    """Return an orchestration that a caller gave."""
    if not isinstance(given, Orchestration):
        other = ""
        if isinstance(given, type) and issubclass(given, Decider):
            other = f"; a decider is given inputs, as in client.execute({given.__name__}, ...)"
        raise UsageError(
            f"{given!r} is not an orchestration: {method} takes a function made with @orchestration"
            f"{other}"
        )
    return given


def new_instance(
    instance_id: str | None,
    orchestration: Orchestration[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    now_ms: int,
    code: str,
    messages: tuple[Delivery, ...] = (),
) -> NewInstance:
    """Return an instance to be started.

    Args:
        instance_id: Its id; None for one that is made.
        orchestration: What it runs, with the options of the start.
        args: Arguments by position.
        kwargs: Arguments by name.
        now_ms: The time by the store's clock.
        code: Digest of the code, where it is known that this code will run.
        messages: Delivered with the start.
    """
    if instance_id is None:
        instance_id = orchestration.options.instance_id
    delay = orchestration.options.delay
    return _new(
        instance_id or made_id(orchestration.name, now_ms),
        orchestration.name,
        orchestration.version,
        encode_arguments(orchestration, args, kwargs),
        now_ms=now_ms,
        code=code,
        visible_at_ms=0 if delay is None else now_ms + to_ms(delay),
        messages=messages,
    )


_NO_ARGUMENTS = {
    "instance_id": "the id comes first, as in start({value!r}, {name}, ...)",
    "id": "the id comes first, as in start({value!r}, {name}, ...)",
    "timeout": "say how long to wait at result(timeout=...)",
    "url": "run() takes its store from $PERDURE_STORE, and Engine(url, ...) is given one",
    "store": "run() takes its store from $PERDURE_STORE, and Engine(url, ...) is given one",
    "retry": "activities are what is retried, as in @activity(retry=Retry(...))",
    "delay": "say {name}.with_options(delay={value!r})",
    "if_exists": "say {name}.with_options(if_exists={value!r})",
}
"""What people say with a start that belongs elsewhere, and where."""


def encode_arguments(
    orchestration: Orchestration[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bytes:
    """Return the arguments of a start as they are stored.

    Raises:
        UsageError: They do not fit the signature.
        PayloadError: One does not fit its annotation, or would not come back equal.
    """
    try:
        return orchestration.definition.codec.encode(args, kwargs)
    except UsageError as error:
        name = orchestration.name
        for key, where in _NO_ARGUMENTS.items():
            if key in kwargs and f"keyword argument {key!r}" in str(error):
                advice = where.format(name=name, value=kwargs[key])
                raise UsageError(
                    f"{error}; all keywords are arguments of {name}: {advice}"
                ) from None
        raise


def successor(row: InstanceRow, *, now_ms: int, code: str) -> NewInstance:
    """Return an instance with the id, definition and input of one that has ended."""
    return _new(row.instance_id, row.name, row.version, row.input, now_ms=now_ms, code=code)


def id_for_handle(instance_id: Any) -> str:
    """Return an id that a handle was asked for by.

    Raises:
        InvalidIdError: It is none.
    """
    if isinstance(instance_id, Orchestration):
        raise InvalidIdError(
            "instance id",
            instance_id,
            f"is no text: the id comes first, as in handle('...', {instance_id.name})",
        )
    return check_id("instance id", instance_id)


def made_id(name: str, now_ms: int) -> str:
    """Return an id of an instance that was given none."""
    # Time first, so that ids made one after another lie beside each other in the indexes.
    made = f"{name}-{now_ms:x}{fresh_id() & 0xFFFFFFFFFF:010x}"
    return made if len(made.encode()) <= MAX_ID_BYTES else made[-MAX_ID_BYTES // 4 :]


def refuse_deciders_id(core: ClientCore, instance_id: str | None) -> None:
    """Refuse an id of an orchestration that would be taken for that of a decider's instance."""
    name, separator, _ = (instance_id or "").partition(SEPARATOR)
    if separator and core.find_decider(name) is not None:
        raise InvalidIdError(
            "instance id",
            instance_id,
            f"begins with {name + SEPARATOR!r}, which is for instances of decider {name!r}: "
            "use another id",
        )


def _new(
    instance_id: str,
    name: str,
    version: str,
    input: bytes,
    *,
    now_ms: int,
    code: str,
    visible_at_ms: int = 0,
    messages: tuple[Delivery, ...] = (),
) -> NewInstance:
    kind, body = write_event(
        Started(
            name=name, version=version, behaviour=BEHAVIOUR, input=msgspec.Raw(input), code=code
        )
    )
    return NewInstance(
        instance_id=instance_id,
        incarnation=fresh_id(),
        definition=orchestration_key(name, version),
        input=input,
        start_kind=kind,
        start_body=body,
        created_ms=now_ms,
        visible_at_ms=visible_at_ms,
        commit_id=fresh_id(),
        messages=messages,
    )
