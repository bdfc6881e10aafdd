"""What the codec accepts comes back as it was; what it refuses, it refuses with a place."""

import contextlib
import enum
import inspect
import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import partial
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
import typing_extensions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.codec import (
    JSON,
    MAX_DEPTH,
    MAX_ID_BYTES,
    MAX_PAYLOAD_BYTES,
    ArgumentsCodec,
    ValueCodec,
    check_id,
    value_codec,
)
from perdure.errors import (
    DefinitionError,
    InvalidIdError,
    LimitExceededError,
    PayloadError,
    UsageError,
)

T = TypeVar("T")


@dataclass
class Line:
    sku: str
    price: Decimal


@dataclass
class Order:
    order_id: str
    lines: list[Line]
    note: str | None = None


@dataclass
class RushOrder(Order):
    by: int = 0


@dataclass
class Refund:
    order_id: str


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Shape(enum.Enum):
    DOT = (0, 0)
    BOX = (1, 1)


class Rights(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Point(NamedTuple):
    x: int
    y: int = 0


class Address(TypedDict):
    street: str
    floor: NotRequired[int]


class Struct(msgspec.Struct, rename="camel"):
    first_name: str
    size: int = 0


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Model(pydantic.BaseModel):
    name: str
    at: datetime
    tags: set[str] = set()


class OtherModel(pydantic.BaseModel):
    name: str


class Ids(pydantic.RootModel[list[int]]):
    pass


@attrs.define
class Parcel:
    weight: float
    _code: str = ""


def _rounded(value: float) -> float:
    return float(round(value))


@attrs.define
class Rounded:
    value: float = attrs.field(converter=_rounded)


@dataclass
class Tree:
    name: str
    children: list["Tree"] = field(default_factory=list)
    parent: Optional["Tree"] = None


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Pair(Box[list[T]], Generic[T]):
    other: T


class BoxStruct(msgspec.Struct, Generic[T]):
    item: T


class BoxTuple(NamedTuple, Generic[T]):
    item: T


class BoxDict(TypedDict, Generic[T]):
    item: T


class BoxModel(pydantic.BaseModel, Generic[T]):
    item: T


@attrs.define
class BoxAttrs(Generic[T]):
    item: T


@dataclass(eq=False)
class Bare:
    x: int


@dataclass
class Doubling:
    x: int

    def __post_init__(self) -> None:
        self.x *= 2


@dataclass
class Summed:
    parts: list[int]
    total: int = field(init=False)

    def __post_init__(self) -> None:
        self.total = sum(self.parts)


@dataclass
class Forgetful:
    x: int
    seed: InitVar[int]


class MyStr(str):
    __slots__ = ()


UserId = NewType("UserId", str)
Names = typing_extensions.TypeAliasType("Names", list[T], type_params=(T,))


class RecursiveAlias:
    """Stands for `type Nested = int | list[Nested]`, which Python 3.11 cannot say."""

    __type_params__ = ()

    def __repr__(self) -> str:
        return "Nested"

    @property
    def __value__(self) -> Any:
        return int | _of(list, NESTED)


NESTED: Any = RecursiveAlias()


def round_trip(annotation: Any, value: object) -> Any:
    codec = value_codec(annotation)
    return codec.decode(codec.encode(value, "value"))


def refusal(annotation: Any, value: object) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        value_codec(annotation).encode(value, "value")
    return caught.value


def same_types(one: Any, two: Any) -> bool:
    """Compare types all the way down, independently of the code under test."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return list(one) == list(two) and all(
            same_types(a, b) and same_types(one[a], two[b]) for a, b in zip(one, two, strict=True)
        )
    if isinstance(one, list | tuple):
        return all(same_types(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, set | frozenset):
        return sorted(repr(type(a)) for a in one) == sorted(repr(type(a)) for a in two)
    if hasattr(one, "item") and not isinstance(one, enum.Enum):
        return same_types(one.item, two.item)
    return True


# Round trips

VALUES: list[tuple[Any, Any]] = [
    (None, None),
    (bool, False),
    (int, 0),
    (int, 2**63),
    (int, -(2**64) - 1),
    (int, 10**399),
    (float, 0.1),
    (float, 1e300),
    (float, 5e-324),
    (str, ""),
    (str, "a\x00b ☃ 𝄞 \u2028"),
    (bytes, b"\x00\xff"),
    (Decimal, Decimal("1.500")),
    (Decimal, Decimal("-0E-20")),
    (UUID, UUID(int=5)),
    (date, date.min),
    (time, time(1, 2, 3, 4, tzinfo=UTC)),
    (datetime, datetime(2020, 1, 2, 3, 4, 5, 6)),
    (datetime, datetime(2020, 1, 2, tzinfo=UTC)),
    (datetime, datetime(2020, 1, 2, tzinfo=timezone(timedelta(seconds=3661)))),
    (datetime, datetime(2020, 6, 2, tzinfo=ZoneInfo("Europe/Berlin"))),
    (timedelta, timedelta.max),
    (timedelta, timedelta(microseconds=-1)),
    (list, [1, "a", None]),
    (list[int], []),
    (Sequence[int], [1]),
    (Mapping[str, int], {"b": 1, "a": 2}),
    (tuple, (1, "a")),
    (tuple[int, ...], (1, 2)),
    (tuple[int, str], (1, "a")),
    (tuple[()], ()),
    (set[int], {1, 2}),
    (frozenset[str], frozenset({"a"})),
    (dict, {"a": [1]}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[UUID, int], {UUID(int=5): 1}),
    (dict[date, int], {date(2020, 1, 1): 1}),
    (dict[bytes, int], {b"\xff": 1}),
    (dict[float, int], {0.5: 1}),
    (dict[Color, int], {Color.RED: 1}),
    (dict[tuple[int, int], str], {(1, 2): "a"}),
    (dict[int | str, int], {1: 1, "1": 2}),
    (Color, Color.RED),
    (Level, Level.HIGH),
    (Shape, Shape.BOX),
    (Rights, Rights.READ | Rights.WRITE),
    (Literal["a", 1, None], 1),
    (Literal[Color.RED, b"x"], b"x"),
    (int | None, None),
    (Color | None, Color.BLUE),
    (int | float, 1),
    (int | float, 1.0),
    (str | datetime, "2020-01-01T00:00:00"),
    (str | datetime, datetime(2020, 1, 1)),
    (datetime | UUID | None, UUID(int=1)),
    (list[int] | tuple[int, ...], (1,)),
    (Literal["auto"] | str, "other"),
    (Literal["auto"] | int, "auto"),
    (Order | Refund, Refund("r")),
    (Order | Refund | dict[str, int], {"$type": 1}),
    (Order | datetime | str, Order("o", [])),
    (Order | RushOrder, RushOrder("o", [], by=2)),
    (Cat | Dog, Dog("rex")),
    (Model | OtherModel, OtherModel(name="a")),
    (Order | Point | Address, {"street": "s"}),
    (Order | Point | Address, Point(1, 2)),
    (Color | str, "red"),
    (Color | str, Color.RED),
    (Annotated[list[Annotated[int, "x"]], "y"], [1]),
    (UserId, UserId("u")),
    (Names[str], ["a"]),
    (NESTED, [1, [2, [3]]]),
    (Order, Order("o", [Line("a", Decimal("1.0"))])),
    (Point, Point(1)),
    (Address, {"floor": 1, "street": "s"}),
    (Struct, Struct("Ada", 3)),
    (Model, Model(name="a", at=datetime(2020, 1, 1, tzinfo=UTC), tags={"x"})),
    (Ids, Ids([1, 2])),
    (Ids | list[int], Ids([1, 2])),
    (Parcel, Parcel(1.5, "c")),
    (Rounded, Rounded(2.2)),
    (Summed, Summed([1, 2])),
    (Tree, Tree("a", [Tree("b", parent=Tree("c"))])),
    (Box[int], Box(1)),
    (Pair[int], Pair([1], 2)),
    (Box[Box[datetime]], Box(Box(datetime(2020, 1, 1)))),
]


@pytest.mark.parametrize(("annotation", "value"), VALUES, ids=str)
def test_a_supported_value_comes_back_equal_and_of_the_same_type(
    annotation: Any, value: Any
) -> None:
    back = round_trip(annotation, value)

    assert back == value
    assert same_types(back, value)


def test_an_int_under_float_comes_back_as_float() -> None:
    back = round_trip(float, 1)

    assert back == 1
    assert type(back) is float
    assert value_codec(float).encode(1, "v") == value_codec(float).encode(1.0, "v")


def test_an_object_without_eq_is_compared_field_by_field() -> None:
    assert round_trip(Bare, Bare(3)).x == 3


def test_a_renamed_field_of_a_struct_is_stored_under_its_new_name() -> None:
    assert value_codec(Struct).encode(Struct("Ada"), "v") == b'{"firstName":"Ada","size":0}'


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(round_trip(dict[str, int], {"b": 1, "a": 2})) == ["b", "a"]


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_ints = st.integers(-(10**30), 10**30)
_floats = st.floats(allow_nan=False, allow_infinity=False)
_offsets = st.integers(-86399, 86399).map(lambda seconds: timezone(timedelta(seconds=seconds)))


def _unfolded(value: Any) -> Any:
    return value.replace(fold=0)


Typed = tuple[Any, st.SearchStrategy[Any]]

HASHABLE: list[Typed] = [
    (str, _texts),
    (int, _ints),
    (bool, st.booleans()),
    (float, _floats),
    (bytes, st.binary(max_size=8)),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (UUID, st.uuids()),
    (date, st.dates()),
    (time, st.times(timezones=st.none() | _offsets).map(_unfolded)),
    (datetime, st.datetimes(timezones=st.none() | _offsets).map(_unfolded)),
    (timedelta, st.timedeltas()),
    (Color, st.sampled_from(Color)),
    (Level, st.sampled_from(Level)),
    (Shape, st.sampled_from(Shape)),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Point, st.builds(Point, _ints, _ints)),
]
_json = st.recursive(
    st.none() | st.booleans() | _ints | _floats | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
LEAVES: list[Typed] = [*HASHABLE, (Any, _json), (type(None), st.none())]


def _of(generic: Any, *arguments: Any) -> Any:
    """Return `generic[arguments]`, which checkers take for a type when it is written out."""
    return generic[arguments if len(arguments) > 1 else arguments[0]]


def _list_of(pair: Typed) -> Typed:
    return _of(list, pair[0]), st.lists(pair[1], max_size=3)


def _tuple_of(pair: Typed) -> Typed:
    return _of(tuple, pair[0], ...), st.lists(pair[1], max_size=3).map(tuple)


def _two_of(both: tuple[Typed, Typed]) -> Typed:
    (one, ones), (two, twos) = both
    return _of(tuple, one, two), st.tuples(ones, twos)


def _dict_of(both: tuple[Typed, Typed]) -> Typed:
    (key, keys), (item, items) = both
    return _of(dict, key, item), st.dictionaries(keys, items, max_size=3)


def _set_of(pair: Typed) -> Typed:
    return _of(set, pair[0]), st.sets(pair[1], max_size=3)


def _frozenset_of(pair: Typed) -> Typed:
    return _of(frozenset, pair[0]), st.frozensets(pair[1], max_size=3)


def _optional(pair: Typed) -> Typed:
    return _of(Union, pair[0], None), st.none() | pair[1]


def _union_of(pairs: list[Typed]) -> Typed:
    return _of(Union, *(pair[0] for pair in pairs)), st.one_of([pair[1] for pair in pairs])


def _keyed(pair: Typed) -> Typed:
    return _of(BoxDict, pair[0]), st.fixed_dictionaries({"item": pair[1]})


def _grow(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    hashable = st.sampled_from(HASHABLE)
    several = st.lists(hashable, min_size=2, max_size=4, unique_by=lambda pair: str(pair[0]))
    return st.one_of(
        inner.map(_list_of),
        inner.map(_tuple_of),
        st.tuples(inner, inner).map(_two_of),
        st.tuples(hashable, inner).map(_dict_of),
        hashable.map(_set_of),
        hashable.map(_frozenset_of),
        inner.map(_optional),
        several.map(_union_of),
        inner.map(_keyed),
        *(inner.map(_boxed(box)) for box in (Box, BoxStruct, BoxTuple, BoxAttrs)),
        # A model takes what pydantic takes: no structs, no attrs.
        st.one_of(hashable, hashable.map(_list_of), hashable.map(_set_of)).map(_boxed(BoxModel)),
    )


def _boxed(box: Any) -> Callable[[Typed], Typed]:
    def make(pair: Typed) -> Typed:
        annotation, values = pair
        # Without validation: pydantic must not repair what the test hands over.
        build = box[annotation].model_construct if box is BoxModel else box
        return box[annotation], values.map(lambda value: build(item=value))

    return make


TYPED_VALUES = st.recursive(st.sampled_from(LEAVES), _grow, max_leaves=4).flatmap(
    lambda pair: st.tuples(st.just(pair[0]), pair[1])
)


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(TYPED_VALUES)
def test_whatever_is_accepted_round_trips_with_its_types(typed: tuple[Any, Any]) -> None:
    """S13, and nothing is refused without need."""
    annotation, value = typed
    try:
        codec = ValueCodec[Any](annotation, where="test")
        data = codec.encode(value, "value")
    except (PayloadError, DefinitionError):
        # pydantic has rules of its own, such as bytes that must be UTF-8.
        assert "BoxModel" in str(annotation)
        return

    back = codec.decode(data)

    assert back == value
    assert same_types(back, value)
    assert codec.encode(back, "value") == data
    json.loads(data)


@settings(max_examples=300, deadline=None)
@given(_json)
def test_any_json_round_trips_without_an_annotation(value: object) -> None:
    back = JSON.decode(JSON.encode(value, "value"))

    assert back == value
    assert same_types(back, value)


# Refusals of values


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ((1,), "value"),
        ([1, (2,)], "value[1]"),
        ({"a": {1: 2}}, "value['a'][1]"),
        ([datetime(2020, 1, 1)], "value[0]"),
        ({"a": Decimal(1)}, "value['a']"),
        ({"a": [b""]}, "value['a'][0]"),
        ([set[int]()], "value[0]"),
        ([MyStr("a")], "value[0]"),
        ([Level.LOW], "value[0]"),
        ([Point(1)], "value[0]"),
        ([Order("o", [])], "value[0]"),
        ([math.nan], "value[0]"),
        (math.inf, "value"),
        (["a", "\ud800"], "value[1]"),
        ({"\udfff": 1}, "value['\\udfff']"),
    ],
    ids=str,
)
def test_what_is_no_json_is_refused_under_any_with_its_path(value: object, path: str) -> None:
    assert refusal(Any, value).path == path


def test_a_tuple_under_any_is_refused_with_the_advice_to_annotate() -> None:
    assert "annotate it, for example as tuple" in str(refusal(object, ((1,),)))


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, True, "value"),
        (int, Level.LOW, "value"),
        (int, 1.0, "value"),
        (int, 10**400, "value"),
        (float, True, "value"),
        (float, 2**53 + 1, "value"),
        (float, 10**350, "value"),
        (float, math.nan, "value"),
        (float, -math.inf, "value"),
        (bool, 1, "value"),
        (str, MyStr("a"), "value"),
        (str, "a\ud800", "value"),
        (str, Color.RED, "value"),
        (str, b"a", "value"),
        (bytes, bytearray(b"a"), "value"),
        (Decimal, Decimal("NaN"), "value"),
        (date, datetime(2020, 1, 1), "value"),
        (datetime, datetime(2020, 1, 1, fold=1), "value"),
        (datetime, datetime(2020, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")), "value"),
        (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(microseconds=1))), "value"),
        (time, time(1, fold=1), "value"),
        (time, time(1, tzinfo=ZoneInfo("Europe/Berlin")), "value"),
        (time, time(1, tzinfo=timezone(timedelta(microseconds=1))), "value"),
        (list[int], (1,), "value"),
        (list[int], [1, 2, "3"], "value[2]"),
        (tuple[int, str], (1,), "value"),
        (tuple[int, str], (1, 2), "value[1]"),
        (set[int], {"a"}, "value{...}"),
        (dict[int, int], {"a": 1}, "value['a']"),
        (dict[str, list[int]], {"a": [None]}, "value['a'][0]"),
        (Literal[1], True, "value"),
        (Literal["a"], [], "value"),
        (int | str, True, "value"),
        (Order, RushOrder("o", []), "value"),
        (Order, {"order_id": "o"}, "value"),
        (Order, Order("o", [Line("a", Decimal(1)), Line("b", 2)]), "value.lines[1].price"),  # type: ignore[arg-type]
        (Order | Refund, RushOrder("o", []), "value"),
        (Point, Point("a"), "value.x"),  # type: ignore[arg-type]
        (Point, (1, 2), "value"),
        (Address, {"floor": 1}, "value"),
        (Address, {"street": "s", "zip": 1}, "value['zip']"),
        (Address, {"street": 1}, "value['street']"),
        (Struct, Struct(1), "value.first_name"),  # type: ignore[arg-type]
        (Parcel, Parcel("heavy"), "value.weight"),  # type: ignore[arg-type]
        (BoxModel[Any], BoxModel[Any](item=(1,)), "value.item"),
        (BoxModel[Any], BoxModel[Any](item=[Level.LOW]), "value.item[0]"),
        (BoxModel[float], BoxModel[float](item=math.nan), "value"),
        (BoxModel[bytes], BoxModel[bytes](item=b"\xff"), "value"),
        (OtherModel, Model.model_construct(name="a"), "value"),
        (Doubling, Doubling(1), "value.x"),
        (Forgetful, Forgetful(1, 2), "value"),
    ],
    ids=str,
)
def test_what_would_not_come_back_is_refused_with_its_path(
    annotation: Any, value: object, path: str
) -> None:
    assert refusal(annotation, value).path == path


def test_a_field_changed_behind_the_constructors_back_is_refused() -> None:
    value = Summed([1, 2])
    value.total = 7

    assert refusal(Summed, value).path == "value.total"


def test_a_converter_that_was_got_round_is_refused() -> None:
    value = Rounded(1.0)
    object.__setattr__(value, "value", 1.5)

    assert refusal(Rounded, value).path == "value.value"


def test_a_zone_that_gives_no_offset_is_refused() -> None:
    class Nowhere(tzinfo):
        def utcoffset(self, when: datetime | None) -> None:
            return None

        def dst(self, when: datetime | None) -> None:
            return None

        def tzname(self, when: datetime | None) -> str:
            return "nowhere"

    assert refusal(datetime, datetime(2020, 1, 1, tzinfo=Nowhere())).path == "value"


def test_a_message_names_types_and_never_the_value() -> None:
    """SEC-23: errors end up in logs, payloads must not."""
    for annotation in (int, Literal["a"], Color, Order | Refund, list[int]):
        assert "hunter2" not in str(refusal(annotation, "hunter2"))
        with pytest.raises(PayloadError) as caught:
            value_codec(annotation).decode(b'"hunter2"')
        assert "hunter2" not in str(caught.value)
    with pytest.raises(PayloadError) as caught:
        value_codec(OtherModel).decode(b'{"name":["hunter2"]}')
    assert "hunter2" not in str(caught.value)


# Limits


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_the_deepest_value_allowed_round_trips() -> None:
    value = _nested(MAX_DEPTH)

    assert JSON.decode(JSON.encode(value, "value")) == value


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 990, 100_000])
def test_a_value_nested_too_deep_is_refused(depth: int) -> None:
    assert "deeper than 200" in str(refusal(Any, _nested(depth)))
    with pytest.raises(PayloadError, match="deeper than 200"):
        JSON.decode(b"[" * depth + b"]" * depth)


def test_a_tree_nested_too_deep_is_refused() -> None:
    tree = Tree("leaf")
    for _ in range(MAX_DEPTH):
        tree = Tree("node", [tree])

    assert "deeper than 200" in str(refusal(Tree, tree))


def test_a_list_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)

    assert "contains itself" in str(refusal(Any, value))


def test_brackets_inside_texts_are_no_depth() -> None:
    value = ['[{"\\' * 300]

    assert JSON.decode(JSON.encode(value, "value")) == value


def test_the_largest_payload_allowed_is_accepted_and_one_byte_more_is_not() -> None:
    fits = "x" * (MAX_PAYLOAD_BYTES - 2)
    assert len(value_codec(str).encode(fits, "value")) == MAX_PAYLOAD_BYTES

    with pytest.raises(LimitExceededError, match=r"^blob: .*2,097,152, found 2,097,153; keep"):
        value_codec(str).encode(fits + "x", "blob")


# Definitions that cannot work


@pytest.mark.parametrize(
    "annotation",
    [
        socket.socket,
        Callable[[int], int],
        Generator[int, None, None],
        type[int],
        complex,
        list[socket.socket],
        Box[socket.socket],
        dict[str, Callable[..., Any]],
        MyStr,
        list[int] | list[str],
        Box[int] | Box[str],
        Address | dict[str, int],
        int | Any,
        Literal["eA==", b"x"],
        "Order",
        3,
    ],
    ids=str,
)
def test_a_type_that_can_never_be_stored_is_refused_at_the_definition(annotation: Any) -> None:
    with pytest.raises(DefinitionError, match=r"activity 'charge': .* cannot be stored: .*Use a "):
        ValueCodec(annotation, where="activity 'charge'")


def test_two_members_of_a_union_with_one_name_are_refused() -> None:
    @dataclass
    class Refund:
        x: int

    with pytest.raises(DefinitionError, match="same name"):
        ValueCodec(globals()["Refund"] | Refund, where="test")


# Unions on disk


def test_a_lone_class_in_a_union_is_written_like_the_class() -> None:
    refund = Refund("r")

    assert value_codec(Refund | None).encode(refund, "v") == value_codec(Refund).encode(refund, "v")


@pytest.mark.parametrize(
    ("annotation", "value", "data"),
    [
        (Order | Refund, Refund("r"), b'{"$type":"Refund","order_id":"r"}'),
        (Cat | Dog, Cat("tom"), b'{"$type":"cat","name":"tom"}'),
        (str | date, date(2020, 1, 1), b'{"$type":"date","value":"2020-01-01"}'),
        (str | date, "x", b'"x"'),
    ],
    ids=str,
)
def test_a_member_that_json_cannot_tell_apart_is_tagged(
    annotation: Any, value: object, data: bytes
) -> None:
    assert value_codec(annotation).encode(value, "v") == data


def test_what_was_stored_before_the_annotation_became_a_union_can_still_be_read() -> None:
    recorded = value_codec(Order).encode(Order("o", []), "v")
    codec = value_codec(Order | Refund | Point | Address)

    with pytest.raises(PayloadError):
        codec.decode(recorded)  # an Order, or a Refund with fields it does not know
    assert value_codec(Order | Point).decode(recorded) == Order("o", [])
    assert value_codec(Order | Point).same(recorded, b'{"$type":"Order",' + recorded[1:])


# Stored data


@pytest.mark.parametrize("annotation", [pair[0] for pair in VALUES], ids=str)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=20) | _json.map(lambda value: json.dumps(value).encode()))
def test_decoding_whatever_bytes_raises_nothing_but_payload_error(
    annotation: Any, data: bytes
) -> None:
    with contextlib.suppress(PayloadError):
        value_codec(annotation).decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"NaN",
        b"1 2",
        b"\xef\xbb\xbf1",
        b'"\xff"',
        b'"\\ud800"',
        b'"\xed\xa0\x80"',
        b"1" * 5000,
        b"1e999",
    ],
)
def test_data_that_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(PayloadError):
        JSON.decode(data)


def test_stored_data_that_does_not_fit_is_refused_with_its_path() -> None:
    codec = ValueCodec[Order](Order, where="activity 'charge' result")

    with pytest.raises(PayloadError) as caught:
        codec.decode(b'{"order_id":"o","lines":[{"sku":"a","price":true}]}')

    assert caught.value.path == "activity 'charge' result.lines[0].price"


def test_a_missing_field_without_default_is_refused_by_name() -> None:
    with pytest.raises(PayloadError, match="lines"):
        value_codec(Order).decode(b'{"order_id":"o"}')


def test_a_new_field_with_a_default_never_invalidates_a_value() -> None:
    codec = value_codec(Order)
    asked = codec.encode(Order("o", []), "v")

    assert codec.same(b'{"order_id":"o","lines":[]}', asked)
    assert not codec.same(b'{"order_id":"p","lines":[]}', asked)
    assert not codec.same(b'{"lines":[]}', asked)
    assert not codec.same(b"not json", asked)


SEEDED = """
import pydantic
from perdure.codec import value_codec
class Model(pydantic.BaseModel):
    tags: set[str]
    deep: list[frozenset[str]]
names = {"b", "a", "", "longer", "\\u00e9"}
print(value_codec(set[str]).encode(names, "v"))
print(value_codec(frozenset[tuple[str, int]]).encode(frozenset((n, 1) for n in names), "v"))
print(value_codec(dict[str, set[str]]).encode({"z": names, "a": names}, "v"))
print(value_codec(Model).encode(Model(tags=names, deep=[frozenset(names)]), "v"))
"""


def test_the_same_value_gives_the_same_bytes_under_every_hash_seed() -> None:
    """S10: replay in another process must ask for the same bytes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SEEDED],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }

    assert len(outputs) == 1


def test_a_set_inside_a_set_of_a_model_is_refused() -> None:
    model = BoxModel[frozenset[frozenset[int]]](item=frozenset({frozenset({1})}))

    assert "stable order" in str(refusal(BoxModel[frozenset[frozenset[int]]], model))


def test_importing_the_codec_loads_neither_pydantic_nor_attrs() -> None:
    script = "import sys, perdure.codec; print({'pydantic', 'attr', 'attrs'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)

    assert done.stdout.strip() == b"set()"


# Arguments


def charge(order: Order, attempts: int = 1, *, note: str = "") -> Decimal:
    raise NotImplementedError


def spread(first: int, /, second: int = 2, *rest: int, key: str = "", **more: float) -> None:
    raise NotImplementedError


def plain(value, other=None):  # type: ignore[no-untyped-def]  # what is tested
    raise NotImplementedError


def later(item: "DefinedBelow") -> "list[DefinedBelow]":
    raise NotImplementedError


later_codec = ArgumentsCodec(later, where="activity 'later'")


@dataclass
class DefinedBelow:
    x: int


def arguments(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    codec = ArgumentsCodec(fn, where="test")
    return codec.decode(codec.encode(args, kwargs))


def bound(fn: Callable[..., Any], got: tuple[list[Any], dict[str, Any]]) -> dict[str, Any]:
    return dict(inspect.signature(fn).bind(*got[0], **got[1]).arguments)


def test_arguments_are_stored_by_name_in_the_order_of_the_signature_and_only_if_given() -> None:
    codec = ArgumentsCodec(charge, where="test")

    data = codec.encode((), {"note": "n", "order": Order("o", [])})

    assert data == b'{"order":{"order_id":"o","lines":[],"note":null},"note":"n"}'
    assert data == codec.encode((Order("o", []),), {"note": "n"})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {}),
        ((1, 5), {}),
        ((1,), {"second": 5}),
        ((1, 2, 3, 4), {}),
        ((1, 2, 3), {"key": "k", "x": 1.5, "first": 2.0}),
        ((1,), {"x": 1.0}),
    ],
)
def test_every_kind_of_parameter_comes_back_as_it_was_given(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    got = arguments(spread, *args, **kwargs)

    assert bound(spread, got) == bound(spread, (list(args), kwargs))


def test_a_function_without_parameters_stores_an_empty_object() -> None:
    def nothing() -> None: ...

    codec = ArgumentsCodec(nothing, where="test")

    assert codec.encode((), {}) == b"{}"
    assert codec.decode(b"{}") == ([], {})


def test_the_first_parameter_can_be_left_out_of_the_call() -> None:
    def act(ctx: "NeverDefined", name: str) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    codec = ArgumentsCodec(act, skip_first=True, where="test")

    assert codec.encode(("Ada",), {}) == b'{"name":"Ada"}'


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "missing a required argument: 'order'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"order": 2}, "multiple values for argument 'order'"),
        ((1,), {"color": 2}, "got an unexpected keyword argument 'color'"),
    ],
)
def test_arguments_that_do_not_fit_the_signature_are_refused_with_it(
    args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    codec = ArgumentsCodec(charge, where="test")

    with pytest.raises(UsageError) as caught:
        codec.encode(args, kwargs)

    assert str(caught.value).startswith("charge(order: ")
    assert str(caught.value).endswith(problem)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "path"),
    [
        (charge, (Order("o", [Line("a", 1)]),), {}, "charge(order.lines[0].price)"),  # type: ignore[arg-type]
        (charge, (Order("o", []), True), {}, "charge(attempts)"),
        (plain, ([1, (2,)],), {}, "plain(value[1])"),
        (spread, (1, 2, 3, "4"), {}, "spread(rest[1])"),
        (spread, (1,), {"x": "y"}, "spread(more['x'])"),
    ],
)
def test_an_argument_that_cannot_be_stored_is_refused_with_its_path(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], path: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        ArgumentsCodec(fn, where="test").encode(args, kwargs)

    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")


def test_an_argument_changed_by_its_constructor_is_refused_with_its_path() -> None:
    def act(item: Doubling) -> None: ...

    with pytest.raises(PayloadError) as caught:
        ArgumentsCodec(act, where="test").encode((Doubling(1),), {})

    assert caught.value.path == "act(item.x)"


def test_arguments_that_are_too_large_together_are_refused_by_name() -> None:
    half = "x" * (MAX_PAYLOAD_BYTES // 2)

    with pytest.raises(LimitExceededError, match=r"^plain\(value, other\): "):
        ArgumentsCodec(plain, where="test").encode((half, half), {})


def test_a_class_defined_further_down_is_found_at_the_first_call() -> None:
    data = later_codec.encode((DefinedBelow(1),), {})

    assert later_codec.decode(data) == ([], {"item": DefinedBelow(1)})
    assert later_codec.returns.decode(b'[{"x":1}]') == [DefinedBelow(1)]


def test_a_name_that_never_appears_is_refused_at_the_first_call() -> None:
    def act(item: "NeverDefined") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    codec = ArgumentsCodec(act, where="activity 'act'")

    with pytest.raises(DefinitionError, match=r"activity 'act': .*NeverDefined"):
        codec.encode((1,), {})


def test_a_parameter_that_can_never_be_stored_is_refused_at_the_definition() -> None:
    def act(connection: socket.socket) -> None: ...

    with pytest.raises(DefinitionError, match=r"activity 'act': socket cannot be stored"):
        ArgumentsCodec(act, where="activity 'act'")


@pytest.mark.parametrize("annotation", ["1 +", "3"])
def test_an_annotation_that_is_no_type_is_refused_at_the_definition(annotation: str) -> None:
    def act(item): ...  # type: ignore[no-untyped-def]  # annotated below

    act.__annotations__["item"] = annotation

    with pytest.raises(DefinitionError):
        ArgumentsCodec(act, where="test")


def test_any_callable_can_be_called() -> None:
    class Adder:
        def __call__(self, day: date, days: int) -> date:
            raise NotImplementedError

    for fn in (Adder(), partial(Adder(), days=1), Adder().__call__):
        codec = ArgumentsCodec(fn, where="test")
        data = codec.encode((date(2020, 1, 1),), {"days": 2})
        assert data == b'{"day":"2020-01-01","days":2}'
        assert codec.returns.decode(b'"2020-01-01"') == date(2020, 1, 1)
    assert ArgumentsCodec(len, where="test").encode(([1],), {}) == b'{"obj":[1]}'


def test_a_callable_without_a_signature_is_refused_at_the_definition() -> None:
    with pytest.raises(DefinitionError, match="function of your own"):
        ArgumentsCodec(max, where="test")


def test_a_result_that_can_never_be_stored_is_refused_at_the_definition() -> None:
    async def act() -> socket.socket:
        raise NotImplementedError

    with pytest.raises(DefinitionError, match=r"activity 'act' result: socket cannot be stored"):
        ArgumentsCodec(act, where="activity 'act'")


def test_the_result_is_what_an_async_function_gives_when_awaited() -> None:
    async def act() -> date:
        raise NotImplementedError

    def acts() -> Awaitable[date]:
        raise NotImplementedError

    for fn in (act, acts):
        assert ArgumentsCodec(fn, where="test").returns.decode(b'"2020-01-01"') == date(2020, 1, 1)


def test_an_unannotated_function_takes_and_returns_json() -> None:
    codec = ArgumentsCodec(plain, where="test")

    assert codec.decode(codec.encode(({"a": 1},), {})) == ([], {"value": {"a": 1}})
    assert codec.returns.decode(b"[1]") == [1]


def test_keyword_arguments_by_typed_dict_are_checked_by_it() -> None:
    def act(**address: Unpack[Address]) -> None: ...

    codec = ArgumentsCodec(act, where="test")

    assert codec.decode(codec.encode((), {"street": "s"})) == ([], {"street": "s"})
    with pytest.raises(PayloadError):
        codec.encode((), {"street": 1})


def test_a_new_parameter_with_a_default_never_invalidates_a_call() -> None:
    codec = ArgumentsCodec(charge, where="test")
    recorded = b'{"order":{"order_id":"o","lines":[]}}'

    assert codec.same(recorded, codec.encode((Order("o", []),), {}))
    assert codec.same(recorded, codec.encode((Order("o", []), 1), {}))
    assert not codec.same(recorded, codec.encode((Order("o", []), 2), {}))
    assert not codec.same(recorded, codec.encode((Order("p", []),), {}))
    assert not codec.same(b"[]", recorded)


def test_a_default_stands_in_before_arguments_that_only_have_a_place() -> None:
    codec = ArgumentsCodec(spread, where="test")

    assert codec.decode(b'{"first":1,"rest":[3]}') == ([1, 2, 3], {})


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"[]", "charge()"),
        (b"{}", "charge(order)"),
        (b'{"order":1}', "charge(order)"),
        (b'{"order":{"order_id":"o","lines":[]},"discount":5}', "charge(discount)"),
        (b"nonsense", "charge()"),
    ],
)
def test_stored_arguments_that_do_not_fit_are_refused_with_their_path(
    data: bytes, path: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        ArgumentsCodec(charge, where="test").decode(data)

    assert caught.value.path == path


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=20) | _json.map(lambda value: json.dumps(value).encode()))
def test_decoding_whatever_arguments_raises_nothing_but_payload_error(data: bytes) -> None:
    for fn in (charge, spread, plain):
        with contextlib.suppress(PayloadError):
            ArgumentsCodec(fn, where="test").decode(data)


# Ids


@pytest.mark.parametrize("value", ["a", "order-1/ü ☃:x", "x" * MAX_ID_BYTES, "...", ".a", "a/.."])
def test_an_id_of_printable_text_is_accepted(value: str) -> None:
    assert check_id("instance id", value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x" * 201,
        "ü" * 101,
        "a\x00",
        "a\n",
        "\x7f",
        "\x85",
        "\ud800",
        "../a",
        ".",
        "..",
        "a\\b",
        3,
        None,
        b"a",
    ],
    ids=ascii,
)
def test_an_id_that_cannot_be_stored_or_shown_is_refused(value: object) -> None:
    with pytest.raises(InvalidIdError, match=r"^instance id "):
        check_id("instance id", value)


def test_an_id_is_returned_as_plain_text() -> None:
    assert type(check_id("tag", MyStr("gpu"))) is str
