"""The plans of classes: dataclasses, attrs, msgspec structs, named tuples, TypedDicts, pydantic.

An object is written as a JSON object of its fields and made again by its constructor. Where the
constructor may do more than to store what it is given, `check_same` compares the two, field by
field and type by type. pydantic and attrs are never imported; their classes are known by the
attributes they carry.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from functools import lru_cache
from typing import Any

import msgspec

from perdure.codec.plans import (
    Convert,
    Json,
    Misfit,
    Plan,
    key_step,
    wrong_data,
    wrong_type,
)

MAX_KNOWN_CLASSES = 1024
"""Classes whose fields are kept in mind."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredField:
    """One field of a class as it is read, written and handed to the constructor."""

    name: str
    key: str
    parameter: str


@lru_cache(maxsize=MAX_KNOWN_CLASSES)
def compared_fields(cls: Any) -> tuple[str, ...] | None:
    """Return the fields in which two objects of a class can differ; `None` for other classes."""
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if is_model(cls):
        return (*cls.model_fields, "__pydantic_extra__", "__pydantic_private__")
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.compare or field.init)
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(field.name for field in cls.__attrs_attrs__ if field.eq or field.init)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    return None


def is_model(cls: Any) -> bool:
    """Return whether a class is a pydantic model."""
    return hasattr(cls, "__pydantic_validator__") and hasattr(cls, "model_validate_json")


def stored_fields(cls: type) -> list[StoredField] | None:
    """Return the fields that make up an object of a class; `None` for a class that is no data."""
    if issubclass(cls, msgspec.Struct):
        keys = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        return [StoredField(name, key, name) for name, key in keys]
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in dataclasses.fields(cls) if field.init]
        return [StoredField(name, name, name) for name in names]
    if hasattr(cls, "__attrs_attrs__"):
        attributes = [field for field in cls.__attrs_attrs__ if field.init]
        return [StoredField(field.name, field.name, field.alias) for field in attributes]
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return [StoredField(name, name, name) for name in cls._fields]
    return None


def makes_no_detours(cls: type) -> bool:
    """Return whether a constructor does nothing but store what it is given."""
    if hasattr(cls, "__post_init__"):
        return False
    if issubclass(cls, msgspec.Struct):
        return cls.__init__ is msgspec.Struct.__init__
    if issubclass(cls, tuple):
        return cls.__init__ is tuple.__init__ and cls.__bases__ == (tuple,)
    if not dataclasses.is_dataclass(cls):
        return False
    code = getattr(cls.__init__, "__code__", None)
    fields = dataclasses.fields(cls)
    return (
        # The file name that dataclasses gives to the methods it writes. One more parameter than
        # fields is `self`; any other is an InitVar, which no object keeps.
        code is not None
        and code.co_filename == "<string>"
        and code.co_argcount + code.co_kwonlyargcount == len(fields) + 1
        and type(cls).__call__ is type.__call__
        and cls.__new__ is object.__new__
        and cls.__getattribute__ is object.__getattribute__
        and (cls.__setattr__ is object.__setattr__ or _is_frozen(cls))
        and all(field.init and _is_plain_attribute(cls, field.name) for field in fields)
    )


def _is_frozen(cls: Any) -> bool:
    return bool(cls.__dataclass_params__.frozen)


def _is_plain_attribute(cls: type, name: str) -> bool:
    found = inspect.getattr_static(cls, name, None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(found, "__set__")


def object_plan(cls: type, fields: list[tuple[StoredField, Plan]]) -> Plan:
    """Return the plan of a class that is made of its fields."""
    return Plan(
        name=tag_of(cls),
        types=(cls,),
        kinds=(dict,),
        dump=_object_dump(cls, [(field.name, field.key, plan.dump) for field, plan in fields]),
        load=_object_load(cls, [(field.parameter, field.key, plan.load) for field, plan in fields]),
        is_object=True,
    )


def _object_dump(cls: type, writers: list[tuple[str, str, Convert]]) -> Convert:
    def dump(value: object) -> Json:
        if type(value) is not cls:
            raise wrong_type(value, cls.__name__)
        out = {}
        name = ""
        try:
            for name, key, write in writers:
                out[key] = write(getattr(value, name))
        except Misfit as misfit:
            raise misfit.under(f".{name}") from None
        except AttributeError as error:
            raise Misfit(f"this {cls.__name__} has no value here").under(f".{name}") from error
        return out

    return dump


def _object_load(cls: type, readers: list[tuple[str, str, Convert]]) -> Convert:
    def load(data: Json) -> object:
        if type(data) is not dict:
            raise wrong_data(data, cls.__name__)
        given = {}
        key = ""
        try:
            for parameter, key, read in readers:
                # A field that is not stored is newer than what is stored: its default stands in.
                if key in data:
                    given[parameter] = read(data[key])
        except Misfit as misfit:
            raise misfit.under(f".{key}") from None
        try:
            return cls(**given)
        except Exception as error:
            raise Misfit(f"stored is no {cls.__name__}: {_without_input(error)}") from error

    return load


def typed_dict_plan(name: str, plans: dict[str, Plan], required: set[str]) -> Plan:
    """Return the plan of a `TypedDict`, whose keys keep the order they have."""
    writers = {key: plan.dump for key, plan in plans.items()}
    readers = {key: plan.load for key, plan in plans.items()}

    def dump(value: Any) -> Json:
        if type(value) is not dict:
            raise wrong_type(value, name)
        for key in value:
            if key not in plans:
                raise Misfit(f"{name} has no such key").under(key_step(key))
        return _convert_keys(name, writers, required, value)

    def load(data: Json) -> object:
        if type(data) is not dict:
            raise wrong_data(data, name)
        return _convert_keys(name, readers, required, data)

    return Plan(name=name, types=(dict,), kinds=(dict,), dump=dump, load=load, is_object=True)


def _convert_keys(
    name: str, converts: dict[str, Convert], required: set[str], given: dict[str, Any]
) -> dict[str, Any]:
    out = {}
    key = ""
    try:
        for key, part in given.items():
            if key in converts:
                out[key] = converts[key](part)
    except Misfit as misfit:
        raise misfit.under(key_step(key)) from None
    if missing := required - out.keys():
        raise Misfit(f"lacks {', '.join(sorted(missing))}, which {name} requires")
    return out


def model_plan(cls: Any) -> Plan:
    """Return the plan of a pydantic model, which pydantic itself writes and reads."""
    is_root = bool(getattr(cls, "__pydantic_root_model__", False))

    @lru_cache(maxsize=1)
    def may_hold_sets() -> bool:
        # At the first use, when all classes that the model names exist.
        return "set'" in repr(cls.__pydantic_core_schema__)

    def dump(value: Any) -> Json:
        if type(value) is not cls:
            raise wrong_type(value, cls.__name__)
        try:
            data = value.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
        except Exception as error:
            raise Misfit(f"pydantic cannot write it: {error}") from error
        if may_hold_sets():
            _order_sets(value, data)
        return data

    def load(data: Json) -> object:
        try:
            return cls.model_validate_json(msgspec.json.encode(data))
        except Exception as error:
            raise Misfit(f"stored is no {cls.__name__}: {_without_input(error)}") from error

    kinds = (types.NoneType, bool, int, float, str, list, dict) if is_root else (dict,)
    return Plan(
        name=cls.__name__, types=(cls,), kinds=kinds, dump=dump, load=load, is_object=not is_root
    )


def _without_input(error: Any) -> str:
    """Return what a pydantic error says, without the values it would quote."""
    if not hasattr(error, "errors"):
        return str(error)
    found = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found)


def _order_sets(value: Any, data: Json) -> None:
    """Bring what pydantic wrote of sets into an order that is the same in every process."""
    if type(value) in (set, frozenset) and type(data) is list:
        if any(_holds_set(element) for element in value):
            raise Misfit("has a set inside a set, which has no stable order; use a list")
        data.sort(key=msgspec.json.encode)
    elif type(data) in (list, dict):
        written = data if type(data) is list else data.values()
        for (_, part), below in zip(_parts(value), written, strict=False):
            _order_sets(part, below)


def _holds_set(value: object) -> bool:
    is_set = type(value) in (set, frozenset)
    return is_set or any(_holds_set(part) for _, part in _parts(value))


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a value that have a place in it, each with the step that leads there."""
    kind: Any = type(value)
    names = compared_fields(kind)
    if names is not None:
        return [(f".{name}", getattr(value, name, None)) for name in names]
    if kind in (list, tuple):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if kind is dict:
        return [(key_step(key), part) for key, part in value.items()]
    return []


def tag_of(cls: type) -> str:
    """Return the name by which a union tells a class from others."""
    config = getattr(cls, "__struct_config__", None)
    return str(getattr(config, "tag", None) or cls.__name__)


def check_same(before: object, after: object) -> None:
    step = _difference(before, after)
    if step is not None:
        raise Misfit(
            "does not come back as it was when it is stored and read again; "
            "look for converters, validators and fields that the constructor does not take"
        ).under(step)


def _difference(before: Any, after: Any) -> str | None:
    """Return the path to the first place where two values differ in type or value."""
    kind: Any = type(before)
    if type(after) is not type(before):
        return ""
    if kind in (dict, set, frozenset):
        # Keys and elements that are equal may still differ in type, as 1 and True do.
        was, now = ([(type(key), key) for key in side] for side in (before, after))
        if was != now and (kind is dict or set(was) != set(now)):
            return ""
    elif compared_fields(kind) is None and kind not in (list, tuple):
        return None if _equals(before, after) else ""
    parts, others = _parts(before), _parts(after)
    if len(parts) != len(others):
        return ""
    for (step, part), (_, other) in zip(parts, others, strict=True):
        rest = _difference(part, other)
        if rest is not None:
            return step + rest
    return None


def _equals(before: object, after: object) -> bool:
    try:
        return bool(before == after)
    except Exception:  # a type whose comparison gives no answer, such as an array
        return False
