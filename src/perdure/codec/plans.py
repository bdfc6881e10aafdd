"""How values are written as JSON and read back: one plan per kind of annotation.

A plan is two functions. `dump` takes a value and gives what msgspec writes as JSON; it accepts only
the exact types of its annotation, so that what it accepts comes back as it was. `load` takes parsed
JSON and gives the value. Both raise `Misfit`, which collects the path while it travels outwards, so
that a value that fits pays nothing for it.

Plans are put together from plans. Which plan belongs to which annotation is decided in
`types`; bytes, limits and the errors users see are in `codec`. A message names types and
places, never the values themselves: errors end up in logs.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag
from types import NoneType
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from perdure.errors import DefinitionError
from perdure.limits import MAX_INT_DIGITS as MAX_INT_DIGITS

Json: TypeAlias = Any
"""What `json.loads` returns: dict, list, text, number, truth value or None."""
Convert: TypeAlias = Callable[[Any], Any]

_INT_BOUND = 10**MAX_INT_DIGITS
_MAX_SHOWN = 40
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Misfit(Exception):  # noqa: N818 - never leaves the codec; users see a PayloadError
    """A value, or stored JSON, does not fit. `path` leads to it from where it is caught."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = ""

    def under(self, step: str) -> Misfit:
        """Put one more step in front of the path."""
        self.path = step + self.path
        return self


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """How the values of one annotation are written and read."""

    name: str
    """What people call it; also its tag in a union."""

    types: tuple[type, ...]
    """The exact Python types it takes; none for `Any`."""

    kinds: tuple[type, ...]
    """What msgspec parses its JSON to."""

    dump: Convert
    load: Convert
    is_object: bool = False
    """Written as an object of named fields, so that a tag fits in."""


def type_name(kind: type) -> str:
    """Return a type's name as people write it."""
    return "None" if kind is NoneType else kind.__name__


def key_step(key: object) -> str:
    """Return the step of a path that leads to a key."""
    shown = repr(key)
    return f"[{shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 3] + '...'}]"


def wrong_type(value: object, expected: str) -> Misfit:
    """Return the misfit of a value whose type is not the annotated one."""
    found = type_name(type(value))
    if isinstance(value, Awaitable):
        return _unawaited(value)
    other = f", or annotate {found}" if _is_stored(type(value)) else ""
    return Misfit(f"got {found} where {expected} is annotated; pass {expected}{other}")


def _unawaited(value: object) -> Misfit:
    if isinstance(value, Coroutine):
        name = getattr(value, "__name__", "it")
        return Misfit(f"got a call that was not awaited; write `await {name}(...)`")
    what = "task" if isinstance(value, asyncio.Task) else "future, such as gather(...) returns,"
    return Misfit(f"got a {what} that was not awaited; write `await` before it")


def _is_stored(kind: type) -> bool:
    """Return whether values of a type can be stored where it is annotated."""
    from perdure.codec.types import PlanBuilder  # It builds on what is here.

    try:
        PlanBuilder("").plan(kind)
    except (DefinitionError, NameError):
        return False
    return True


def wrong_data(data: object, expected: str) -> Misfit:
    """Return the misfit of stored JSON that cannot become the annotated type."""
    found = {dict: "an object", list: "an array", NoneType: "null"}.get(type(data))
    return Misfit(f"stored is {found or type_name(type(data))}, which does not fit {expected}")


# Leaves


def _dump_str(value: object) -> str:
    if type(value) is not str:
        raise wrong_type(value, "str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Misfit(
                "holds a lone surrogate, which is not text; decode with errors='replace', "
                "or use bytes"
            ) from None
    return value


def _dump_int(value: object) -> int:
    if type(value) is not int:
        raise wrong_type(value, "int")
    if not -_INT_BOUND < value < _INT_BOUND:
        raise Misfit(f"is an int of more than {MAX_INT_DIGITS} digits; pass it as str")
    return value


def _dump_float(value: object) -> float:
    if type(value) is int:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if number != value:
            raise Misfit("is an int that no float equals; annotate int")
        return number
    if type(value) is not float:
        raise wrong_type(value, "float")
    if not math.isfinite(value):
        raise Misfit("is NaN or infinite, which JSON cannot hold; use None or a str for it")
    return value


def _load_float(data: Json) -> float:
    if type(data) is float:
        return data
    if type(data) is int:
        try:
            return float(data)
        except OverflowError:
            raise wrong_data(data, "float") from None
    raise wrong_data(data, "float")


def _dump_decimal(value: object) -> Decimal:
    if type(value) is not Decimal:
        raise wrong_type(value, "Decimal")
    if not value.is_finite():
        raise Misfit("is NaN or infinite, which never comes back equal; use None for it")
    return value


def _dump_datetime(value: object) -> str:
    if type(value) is not datetime:
        raise wrong_type(value, "datetime")
    text = value.isoformat()
    zone = value.tzinfo
    if zone is not UTC:
        _check_offset(value, value.utcoffset())
        # In an hour that a zone has twice, a value equals nothing in any other zone.
        if type(zone) is not timezone and datetime.fromisoformat(text) != value:
            raise Misfit("does not come back equal from its UTC offset; use .astimezone(UTC)")
    return text


def _dump_time(value: object) -> str:
    if type(value) is not time:
        raise wrong_type(value, "time")
    _check_offset(value, value.utcoffset())
    return value.isoformat()


def _check_offset(value: datetime | time, offset: timedelta | None) -> None:
    """Refuse what ISO 8601 loses: stored is the offset, not the zone and not the fold."""
    if offset is None:
        if value.tzinfo is not None:
            raise Misfit("has a zone that gives no UTC offset; use UTC")
        if value.fold:
            raise Misfit("is naive with fold=1, which is not kept; use an aware datetime")
    elif offset.microseconds:
        raise Misfit("has a UTC offset with a fraction of a second; use .astimezone(UTC)")


def _dump_exact(kind: type) -> Convert:
    def dump(value: object) -> object:
        if type(value) is not kind:
            raise wrong_type(value, type_name(kind))
        return value

    return dump


def _load_exact(kind: type) -> Convert:
    def load(data: Json) -> object:
        if type(data) is not kind:
            raise wrong_data(data, type_name(kind))
        return data

    return load


def _load_text(kind: type, parse: Convert) -> Convert:
    def load(data: Json) -> object:
        if type(data) is not str:
            raise wrong_data(data, type_name(kind))
        try:
            return parse(data)
        except (ValueError, ArithmeticError) as error:
            raise Misfit(f"stored text is no {type_name(kind)}") from error

    return load


def _msgspec_parse(kind: type) -> Convert:
    return lambda text: msgspec.convert(text, type=kind)


def _leaf(kind: type, json_kind: type, dump: Convert, load: Convert) -> Plan:
    return Plan(name=type_name(kind), types=(kind,), kinds=(json_kind,), dump=dump, load=load)


def _text_leaf(kind: type, dump: Convert, parse: Convert) -> Plan:
    return _leaf(kind, str, dump, _load_text(kind, parse))


LEAVES: dict[type, Plan] = {
    plan.types[0]: plan
    for plan in (
        _leaf(NoneType, NoneType, _dump_exact(NoneType), _load_exact(NoneType)),
        _leaf(bool, bool, _dump_exact(bool), _load_exact(bool)),
        _leaf(int, int, _dump_int, _load_exact(int)),
        _leaf(float, float, _dump_float, _load_float),
        _leaf(str, str, _dump_str, _load_exact(str)),
        _text_leaf(bytes, _dump_exact(bytes), _msgspec_parse(bytes)),
        _text_leaf(Decimal, _dump_decimal, Decimal),
        _text_leaf(UUID, _dump_exact(UUID), _msgspec_parse(UUID)),
        _text_leaf(date, _dump_exact(date), date.fromisoformat),
        _text_leaf(time, _dump_time, time.fromisoformat),
        _text_leaf(datetime, _dump_datetime, datetime.fromisoformat),
        _text_leaf(timedelta, _dump_exact(timedelta), _msgspec_parse(timedelta)),
    )
}
"""The plans of types without parts."""


def _dump_json(value: Any) -> Json:
    kind = type(value)
    if kind is list:
        seen: list[Json] = []
        try:
            seen.extend(map(_dump_json, value))
        except Misfit as misfit:
            raise misfit.under(f"[{len(seen)}]") from None
        return value
    if kind is dict:
        for key, item in value.items():
            try:
                if type(key) is not str:
                    raise Misfit(f"has a key of type {type_name(type(key))}; annotate the dict")
                _dump_str(key)
                _dump_json(item)
            except Misfit as misfit:
                raise misfit.under(key_step(key)) from None
        return value
    dump = _JSON_LEAVES.get(kind)
    if dump is None:
        if isinstance(value, Awaitable):
            raise _unawaited(value)
        found = type_name(kind)
        if not _is_stored(kind):
            raise Misfit(
                f"got {found}, which cannot be stored: it is not plain data. Use a dataclass, a "
                "model or the JSON types, or pass an id and look the thing up where it is used"
            )
        raise Misfit(
            f"got {found} where the annotation allows plain JSON only, from which it would not "
            f"come back as {found}; annotate it, for example as {found}"
        )
    return dump(value)


_JSON_LEAVES = {kind: LEAVES[kind].dump for kind in (NoneType, bool, int, float, str)}

JSON_PLAN = Plan(name="Any", types=(), kinds=(), dump=_dump_json, load=lambda data: data)
"""The plan of `Any`: the JSON types, exactly."""


def enum_plan(cls: type[Enum]) -> Plan:
    """Return the plan of an enum: by value where the values are JSON, else by name."""
    kinds = {type(member.value) for member in cls.__members__.values()}
    by_value = kinds <= {str, int} or issubclass(cls, Flag)

    def dump(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_type(value, cls.__name__)
        return value.value if by_value else value.name

    def load(data: Json) -> Enum:
        if type(data) not in (str, int):
            raise wrong_data(data, cls.__name__)
        try:
            return cls(data) if by_value else cls[data]
        except (ValueError, KeyError, TypeError) as error:
            raise Misfit(f"stored is no member of {cls.__name__}") from error

    json_kinds = tuple(sorted(kinds, key=type_name)) if by_value else (str,)
    return Plan(name=cls.__name__, types=(cls,), kinds=json_kinds, dump=dump, load=load)


def literal_plan(allowed: list[tuple[object, Plan]]) -> Plan:
    """Return the plan of a `Literal`: its values, each with the plan of its own type."""
    name = f"Literal[{', '.join(repr(value) for value, _ in allowed)}]"
    dumped = {(type(value), value): plan.dump(value) for value, plan in allowed}
    loaded = {_encode(data): value for (_, value), data in dumped.items()}
    if len(loaded) != len(dumped):
        raise Misfit("two of its values are the same JSON; use an enum")

    def dump(value: object) -> Json:
        try:
            return dumped[type(value), value]
        except (KeyError, TypeError):
            raise Misfit(f"is not one of {name}") from None

    def load(data: Json) -> object:
        try:
            return loaded[_encode(data)]
        except KeyError:
            raise wrong_data(data, name) from None

    types = tuple(dict.fromkeys(kind for kind, _ in dumped))
    kinds = tuple(dict.fromkeys(type(_decode(text)) for text in loaded))
    return Plan(name="Literal", types=types, kinds=kinds, dump=dump, load=load)


# Containers


def many_plan(cls: type[Any], item: Plan) -> Plan:
    """Return the plan of a `list` or `tuple[X, ...]`."""

    def convert_all(convert: Convert, given: Iterable[Any]) -> list[Any]:
        out: list[Any] = []
        try:
            # What was converted before the misfit stays in `out`, so its length is the index.
            out.extend(map(convert, given))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return out

    def dump(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_type(value, cls.__name__)
        return convert_all(item.dump, value)

    def load(data: Json) -> object:
        if type(data) is not list:
            raise wrong_data(data, cls.__name__)
        out = convert_all(item.load, data)
        return out if cls is list else cls(out)

    return Plan(name=cls.__name__, types=(cls,), kinds=(list,), dump=dump, load=load)


def set_plan(cls: type[Any], item: Plan) -> Plan:
    """Return the plan of a set, written in the order of its elements' bytes."""
    many = many_plan(list, item)

    def dump(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_type(value, cls.__name__)
        out = []
        for element in value:
            try:
                out.append(item.dump(element))
            except Misfit as misfit:
                raise misfit.under("{...}") from None
        # Not the set's own order: that changes with PYTHONHASHSEED.
        out.sort(key=_encode)
        return out

    def load(data: Json) -> object:
        try:
            return cls(many.load(data))
        except TypeError as error:
            raise Misfit(f"stored elements cannot be in a {cls.__name__}") from error

    return Plan(name=cls.__name__, types=(cls,), kinds=(list,), dump=dump, load=load)


def tuple_plan(items: list[Plan]) -> Plan:
    """Return the plan of a tuple with a type for each place."""
    size = len(items)

    def convert_all(converts: list[Convert], given: Iterable[Any]) -> list[Any]:
        out: list[Any] = []
        try:
            for convert, part in zip(converts, given, strict=True):
                out.append(convert(part))
        except Misfit as misfit:
            raise misfit.under(f"[{len(out)}]") from None
        return out

    def dump(value: object) -> Json:
        if type(value) is not tuple:
            raise wrong_type(value, "tuple")
        if len(value) != size:
            raise Misfit(f"has {len(value)} items where {size} are annotated")
        return convert_all([item.dump for item in items], value)

    def load(data: Json) -> object:
        if type(data) is not list or len(data) != size:
            raise wrong_data(data, f"a tuple of {size}")
        return tuple(convert_all([item.load for item in items], data))

    return Plan(name="tuple", types=(tuple,), kinds=(list,), dump=dump, load=load)


def dict_plan(key: Plan, item: Plan) -> Plan:
    """Return the plan of a dict. Keys that are no text are written as their JSON."""
    dump_key, load_key = _key_converters(key)

    def dump(value: Any) -> Json:
        if type(value) is not dict:
            raise wrong_type(value, "dict")
        out = {}
        for given, part in value.items():
            try:
                out[dump_key(given)] = item.dump(part)
            except Misfit as misfit:
                raise misfit.under(key_step(given)) from None
        return out

    def load(data: Json) -> object:
        if type(data) is not dict:
            raise wrong_data(data, "dict")
        out = {}
        for text, part in data.items():
            try:
                out[load_key(text)] = item.load(part)
            except Misfit as misfit:
                raise misfit.under(key_step(text)) from None
        return out

    return Plan(name="dict", types=(dict,), kinds=(dict,), dump=dump, load=load)


def _key_converters(key: Plan) -> tuple[Convert, Convert]:
    if key is LEAVES[str]:
        return key.dump, key.load
    is_text = key.kinds == (str,)

    def dump(value: Any) -> str:
        try:
            data = _encode(key.dump(value))
        except Misfit as misfit:
            misfit.problem = f"its key: {misfit.problem}"
            raise
        return str(_decode(data)) if is_text else data.decode()

    def load(text: str) -> Any:
        try:
            loaded = key.load(text if is_text else _decode(text))
            hash(loaded)
        except (msgspec.DecodeError, TypeError) as error:
            raise Misfit(f"its key is no {key.name}") from error
        return loaded

    return dump, load
