"""The members of a decider's unions: how inputs, events and rejections are told apart and stored.

Every member has a tag that is stored beside its values: the class's name, or its own `tag` if it
has one (a class attribute, or the tag of a msgspec struct). Rename a class freely once it has a tag
of its own. A value belongs to the member that is its exact type.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, NamedTuple, get_args, get_origin

import msgspec

from perdure.codec import ValueCodec, check_id, show, union_members, value_codec
from perdure.errors import DefinitionError, PayloadError


class Tagged(NamedTuple):
    """A value as it is stored: which member it is, and its JSON."""

    tag: str
    data: bytes


class UnionMember(NamedTuple):
    """One member of a union."""

    tag: str
    annotation: Any
    codec: ValueCodec[Any]


class Members:
    """The members of one union by tag and by type."""

    def __init__(self, annotation: Any, *, what: str, decider: str) -> None:
        """Work them out.

        Args:
            annotation: The union; `Never` has no members.
            what: input, event or rejection, for messages.
            decider: The decider's name, for messages.

        Raises:
            DefinitionError: Two members cannot be told apart, or one can never be stored.
            NameError: The annotation names something that does not exist yet.
        """
        self.what = what
        self._decider = decider
        self.by_tag: dict[str, UnionMember] = {}
        self._by_type: dict[type, UnionMember] = {}
        where = f"{what} of decider {decider!r}"
        if annotation in (typing.Never, typing.NoReturn):
            return
        for found in union_members(annotation, where=where):
            self._add(found, where)

    def __repr__(self) -> str:
        return f"Members({self.what}: {', '.join(self.by_tag)})"

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags, in the order of the union."""
        return tuple(self.by_tag)

    def member_of(self, kind: type) -> UnionMember | None:
        """Return the member that values of a type belong to."""
        return self._by_type.get(kind)

    def encode(self, value: object) -> Tagged:
        """Return a value as it is stored.

        Raises:
            PayloadError: It is no member, or cannot be stored.
        """
        member = self._by_type.get(type(value))
        if member is None:
            raise PayloadError(
                f"{self.what} of decider {self._decider!r}",
                f"got {type(value).__qualname__}, which is none of its {self.what}s "
                f"({', '.join(self.by_tag) or 'it has none'})",
            )
        path = f"{self.what} {member.tag} of decider {self._decider!r}"
        return Tagged(member.tag, member.codec.encode(value, path))

    def decode(self, tag: str, data: bytes) -> Any:
        """Return a stored value.

        Raises:
            PayloadError: There is no member of that tag, or the data does not fit it.
        """
        member = self.by_tag.get(tag)
        if member is None:
            raise PayloadError(
                f"{self.what} of decider {self._decider!r}",
                f"stored is {tag!r}, which is none of its {self.what}s "
                f"({', '.join(self.by_tag) or 'it has none'}); has a class been renamed? "
                f"Give it the class attribute tag = {tag!r}",
            )
        return member.codec.decode(data)

    def decode_json(self, tag: str, value: Any) -> Any:
        """Return the value that JSON from outside stands for.

        Raises:
            PayloadError: It is no JSON, or does not stand for a member of that tag.
        """
        if tag not in self.by_tag:
            raise PayloadError(
                f"{self.what} of decider {self._decider!r}",
                f"got {tag!r}, which is none of its {self.what}s "
                f"({', '.join(self.by_tag) or 'it has none'})",
            )
        try:
            data = msgspec.json.encode(value)
        except (TypeError, ValueError, RecursionError) as error:
            where = f"{self.what} {tag} of decider {self._decider!r}"
            raise PayloadError(where, f"is no JSON: {error}") from None
        return self.decode(tag, data)

    def _add(self, annotation: Any, where: str) -> None:
        if annotation is Any or annotation is object:
            raise DefinitionError(
                f"{where}: Any cannot be told apart from anything; name the classes, "
                "as in Placed | Shipped"
            )
        tag = tag_of_member(annotation, where)
        member = UnionMember(tag, annotation, ValueCodec(annotation, where=f"{where}, {tag}"))
        other = self.by_tag.get(tag)
        if other is not None:
            raise DefinitionError(
                f"{where}: {show(other.annotation)} and {show(annotation)} both have the tag "
                f"{tag!r}, which is what tells them apart when stored; rename one, or give it a "
                'class attribute such as tag = "other"'
            )
        self.by_tag[tag] = member
        for kind in _types_of(annotation):
            other = self._by_type.get(kind)
            if other is not None:
                raise DefinitionError(
                    f"{where}: {show(other.annotation)} and {show(annotation)} are the same type "
                    "at run time; wrap one in a class of its own"
                )
            self._by_type[kind] = member


def tag_of_member(annotation: Any, where: str = "tag") -> str:
    """Return the tag of a member of a union.

    Raises:
        InvalidIdError: Its `tag` is empty, too long or has forbidden characters.
    """
    cls = get_origin(annotation) or annotation
    if not isinstance(cls, type):
        return show(annotation).partition("[")[0]
    config = getattr(cls, "__struct_config__", None)
    if config is not None and config.tag is not None:
        return check_id(where, str(config.tag))
    own = getattr(cls, "tag", None)
    if isinstance(own, str) and not isinstance(own, Enum) and "tag" not in _field_names(cls):
        return check_id(where, own)
    return "None" if cls is types.NoneType else cls.__name__


def encode_returned_input(value: object) -> bytes:
    """Return what an effect gives back as an input, without knowing for which decider."""
    if value is None:
        return b"null"
    data = value_codec(type(value)).encode(value, "returned input")
    tag = tag_of_member(type(value))
    return msgspec.json.encode({"tag": tag, "input": msgspec.Raw(data)})


def is_immutable(annotation: Any, *, where: str) -> bool:
    """Return whether no value of a type can be changed in place, as far as its annotation says."""
    return _is_immutable(annotation, where, frozenset())


_LEAVES = (int, float, str, bytes, bool, complex, types.NoneType)


def _is_immutable(annotation: Any, where: str, seen: frozenset[Any]) -> bool:
    for member in union_members(annotation, where=where):
        if member in seen:
            continue
        if not _is_member_immutable(member, where, seen | {member}):
            return False
    return True


def _is_member_immutable(member: Any, where: str, seen: frozenset[Any]) -> bool:
    cls = get_origin(member) or member
    if cls is typing.Literal:
        return True
    if not isinstance(cls, type):
        return False
    if issubclass(cls, Enum) or cls in _LEAVES or cls.__module__ in _IMMUTABLE_MODULES:
        return True
    if cls in (tuple, frozenset):
        parts = [part for part in get_args(member) if part is not Ellipsis]
        return bool(parts) and all(_is_immutable(part, where, seen) for part in parts)
    hints = _frozen_fields(cls)
    return hints is not None and all(_is_immutable(hint, where, seen) for hint in hints)


_IMMUTABLE_MODULES = frozenset({"datetime", "decimal", "uuid", "fractions"})


def _frozen_fields(cls: type) -> list[Any] | None:
    """Return the types of the fields of a class whose objects cannot be changed."""
    if dataclasses.is_dataclass(cls):
        is_frozen = bool(cls.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # it has
    elif issubclass(cls, msgspec.Struct):
        is_frozen = bool(cls.__struct_config__.frozen)
    else:
        is_frozen = issubclass(cls, tuple) and hasattr(cls, "_fields")
    if not is_frozen:
        return None
    try:
        hints = typing.get_type_hints(cls)
    except NameError:
        return None  # Not known yet; copies do no harm.
    return [hints.get(name, Any) for name in _field_names(cls)]


def _field_names(cls: type) -> tuple[str, ...]:
    if issubclass(cls, msgspec.Struct):
        return tuple(cls.__struct_fields__)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    if hasattr(cls, "__attrs_attrs__"):
        return tuple(field.name for field in cls.__attrs_attrs__)
    return tuple(getattr(cls, "_fields", ()))


def _types_of(annotation: Any) -> set[type]:
    """Return the exact types that values of a member have."""
    cls = get_origin(annotation) or annotation
    if cls is typing.Literal:
        return {type(value) for value in get_args(annotation)}
    if isinstance(cls, type) and hasattr(cls, "__required_keys__"):
        return {dict}
    found = _CONCRETE.get(cls, cls)
    return {found} if isinstance(found, type) else set()


_CONCRETE: dict[Any, type] = {
    typing.get_origin(typing.Sequence[int]): list,
    typing.get_origin(typing.Mapping[str, int]): dict,
}
