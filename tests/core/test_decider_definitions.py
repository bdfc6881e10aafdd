"""A decider that cannot work is refused when it is handed over, with what to change."""

from __future__ import annotations

import types
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, Literal, Never, TypeVar, cast

import msgspec
import pydantic
import pytest

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import definition_of
from perdure.authoring.deciders.decision import Decision
from perdure.authoring.registry import Registry, decider_key
from perdure.errors import DefinitionError, InvalidIdError, NotRegisteredError, PayloadError
from tests.core import orders
from tests.core.orders import Order, Placed, Stock


@dataclass(frozen=True)
class Go:
    id: str


@dataclass(frozen=True)
class Gone:
    pass


class Base(Decider[Any, Any, Any, Any]):
    """Has all methods; what its subclasses say of their types counts."""

    def initial(self) -> Any:
        return 0

    def instance_id(self, input: Any, /) -> str:
        return str(input.id)

    def decide(self, state: Any, input: Any, now: datetime, /) -> Decision[Any, Any, Any]:
        return Decision.accept(Gone())

    def evolve(self, state: Any, event: Any, /) -> Any:
        return state + 1


def make(types_: Any, /, **attributes: Any) -> type[Decider[Any, Any, Any, Any]]:
    """Return a decider class with these type arguments and attributes."""
    methods = {name: vars(Base)[name] for name in ("initial", "instance_id", "decide", "evolve")}
    body = {"name": "made", "__module__": __name__, **methods, **attributes}
    decider: Any = Decider
    base = decider if types_ is None else decider[types_]
    made: Any = types.new_class("Made", (base,), {}, lambda scope: scope.update(body))
    return cast(type[Decider[Any, Any, Any, Any]], made)


GOOD = (int, Go, Gone, Never)


def refusal(cls: Any) -> str:
    with pytest.raises(DefinitionError) as refused:
        definition_of(cls)
    return str(refused.value)


# ----------------------------------------------------------------------------- names


def test_a_decider_without_a_name_is_told_to_have_one() -> None:
    cls = make(GOOD)
    del cls.name

    assert 'name = "made"' in refusal(cls)


@pytest.mark.parametrize("name", ["", 5, "a\nb", "x" * 300])
def test_a_name_that_cannot_be_stored_is_refused(name: object) -> None:
    assert "Made" in refusal(make(GOOD, name=name))


def test_a_name_must_not_have_the_separator_in_it() -> None:
    assert "separates it from the ids" in refusal(make(GOOD, name="a:b"))


def test_reserved_names_are_refused() -> None:
    assert "reserved" in refusal(make(GOOD, name="perdure.x"))


def test_two_deciders_of_one_name_are_refused_where_they_are_handed_over() -> None:
    with pytest.raises(DefinitionError, match="two deciders are named 'made'"):
        Registry([make(GOOD), make(GOOD)])


# ----------------------------------------------------------------------------- types


def test_type_arguments_are_required() -> None:
    assert "class Made(Decider[State, Input, Event, Rejection])" in refusal(make(None))


def test_type_variables_are_no_types() -> None:
    some = TypeVar("some")

    assert "does not say its types" in refusal(make((int, some, Gone, Never)))


def test_types_given_to_a_base_class_count() -> None:
    S = TypeVar("S")

    class Counting(Decider[S, Go, Gone, Never], Generic[S]):
        pass

    class Counter(Counting[int]):
        name = "counter"
        initial = Base.initial
        instance_id = Base.instance_id
        decide = Base.decide
        evolve = Base.evolve

    definition = definition_of(Counter)

    assert definition.state.annotation is int
    assert definition.inputs.tags == ("Go",)
    assert definition.rejections.tags == ()


class Later(Decider["LaterState", "LaterGo", "LaterGone", "Never"]):
    name = "later"

    def initial(self) -> LaterState:
        return LaterState(0)

    instance_id = Base.instance_id
    decide = Base.decide
    evolve = Base.evolve


@dataclass(frozen=True)
class LaterState:
    n: int


@dataclass(frozen=True)
class LaterGo:
    id: str


@dataclass(frozen=True)
class LaterGone:
    id: str


def test_types_may_be_named_before_they_exist() -> None:
    assert definition_of(Later).events.tags == ("LaterGone",)


def test_a_type_that_never_exists_is_refused() -> None:
    text = refusal(make(("Nowhere", Go, Gone, Never)))

    assert "Nowhere" in text
    assert "module level" in text


def test_a_missing_method_is_named() -> None:
    class Half(Decider[int, Go, Gone, Never]):
        name = "half"

        def initial(self) -> int:
            return 0

    assert "decide, evolve, instance_id" in refusal(Half)


def test_an_async_decide_is_refused() -> None:
    async def decide(self: Any, state: Any, input: Any, now: Any) -> Any: ...

    assert "decide is async" in refusal(make(GOOD, decide=decide))


def test_a_constructor_that_wants_something_is_refused() -> None:
    def init(self: Any, database: str) -> None: ...

    assert "cannot be made without arguments" in refusal(make(GOOD, __init__=init))


def test_a_first_state_that_is_none_is_refused() -> None:
    zero = make(GOOD, initial=lambda self: "zero")
    broken = make(GOOD, initial=lambda self: 1 / 0)

    assert "what initial() returns is no state" in refusal(zero)
    assert "initial() raised ZeroDivisionError: division by zero" in refusal(broken)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("snapshot_every", -1),
        ("schema", 0),
        ("schema", "1"),
        ("keep_events", 0),
        ("keep_events", True),
        ("keep_events", "all"),
    ],
)
def test_attributes_that_make_no_sense_are_refused(attribute: str, value: object) -> None:
    assert f"{attribute} must be a whole number" in refusal(make(GOOD, **{attribute: value}))


def test_events_that_are_not_kept_need_snapshots_and_a_way_to_read_their_state() -> None:
    kept: dict[str, object] = {"keep_events": 10}
    assert "needs snapshots" in refusal(make(GOOD, **kept, snapshot_every=0))
    assert "needs upcast_state" in refusal(make(GOOD, **kept, schema=2))
    definition_of(make(GOOD, **kept))
    definition_of(make(GOOD, **kept, snapshot_every=0, should_snapshot=lambda *_: True))
    definition_of(make(GOOD, **kept, schema=2, upcast_state=lambda self, schema, state: state))


def test_an_object_instead_of_its_class_is_refused() -> None:
    assert "hand over its class, Order" in refusal(Order())


# -------------------------------------------------------------------------------- tags


class Tagged:
    tag = "moved"

    @dataclass(frozen=True)
    class A:
        tag: ClassVar[str] = "moved"

    @dataclass(frozen=True)
    class B:
        tag: ClassVar[str] = "moved"

    @dataclass(frozen=True)
    class Field:
        tag: str = "a value, no tag"


class Strukt(msgspec.Struct, frozen=True, tag="strukt"):
    n: int = 0


class Model(pydantic.BaseModel):
    n: int = 0


def test_members_of_all_sorts_are_told_apart_by_name_or_tag() -> None:
    union = Go | Tagged.A | Tagged.Field | Strukt | Model | str | list[int] | Literal[3]

    events = definition_of(make((int, Go, union, Never))).events

    assert events.tags == (
        "Go", "moved", "Field", "strukt", "Model", "str", "list", "Literal",
    )  # fmt: skip
    for value in (Go("1"), Tagged.A(), Tagged.Field("x"), Strukt(3), Model(n=4), "s", [1, 2], 3):
        assert events.decode(*events.encode(value)) == value


def test_two_members_of_one_tag_are_refused() -> None:
    text = refusal(make((int, Tagged.A | Tagged.B, Gone, Never)))

    assert "Tagged.A and Tagged.B both have the tag 'moved'" in text


def test_two_members_that_are_one_type_at_run_time_are_refused() -> None:
    assert "tag 'list'" in refusal(make((int, Go, list[int] | list[str], Never)))


def test_any_is_no_member() -> None:
    assert "name the classes" in refusal(make((int, Any, Gone, Never)))


def test_none_is_no_input_since_effects_return_it() -> None:
    assert "None is no input" in refusal(make((int, Go | None, Gone, Never)))


def test_none_may_be_a_rejection() -> None:
    assert definition_of(make((int, Go, Gone, None))).rejections.tags == ("None",)


def test_there_must_be_an_event() -> None:
    assert "has no events" in refusal(make((int, Go, Never, Never)))


@pytest.mark.parametrize("place", range(4))
def test_a_member_that_can_never_be_stored_is_refused(place: int) -> None:
    class Socket:
        pass

    arguments = list(GOOD)
    arguments[place] = Socket

    assert "Socket cannot be stored" in refusal(make(tuple(arguments)))


def test_a_value_of_another_type_is_refused_with_what_there_is() -> None:
    with pytest.raises(PayloadError, match="got Placed, which is none of its inputs") as refused:
        definition_of(Order).inputs.encode(Placed([]))

    assert "Place, Pay" in str(refused.value)


def test_an_event_version_must_be_about_an_event() -> None:
    cls = make(GOOD, event_versions={Go: 2})

    assert "event_versions names Go, which is none of its events" in refusal(cls)


# -------------------------------------------------------------------------------- ids


def test_an_instance_is_stored_under_name_and_id() -> None:
    definition = definition_of(Order)

    assert definition.instance_of(orders.Pay("o-1", 3)) == "order:o-1"
    assert definition.own_id("order:o:1") == "o:1"


def test_an_id_that_is_too_long_with_the_name_is_refused() -> None:
    with pytest.raises(InvalidIdError):
        definition_of(Order).stored_id("x" * 198)


def test_an_id_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidIdError, match="decider 'order'"):
        definition_of(Order).instance_of(orders.Pay(7, 3))  # type: ignore[arg-type]  # the point


# ---------------------------------------------------------------------- the registry


def test_a_module_stands_for_its_deciders() -> None:
    registry = Registry([orders])

    assert set(registry.deciders) == {"order", "stock"}
    assert registry.decider("stock").cls is Stock
    assert "order" in repr(registry)


def test_registries_are_merged_with_their_deciders() -> None:
    both = Registry([Order]).merge(Registry([Stock, Order]))

    assert set(both.deciders) == {"order", "stock"}
    assert len(both.code_of_decider("order")) > 8


def test_an_unknown_decider_is_named() -> None:
    with pytest.raises(NotRegisteredError, match=r"no decider named 'x' .*known: order"):
        Registry([Order]).decider("x")


def test_a_wrong_decider_is_refused_when_it_is_handed_over() -> None:
    with pytest.raises(DefinitionError, match="has no events"):
        Registry([make((int, Go, Never, Never))])


def test_a_base_class_in_a_module_is_left_alone() -> None:
    module = types.ModuleType("m")
    vars(module).update(Base=Base, Decider=Decider, Order=Order)

    assert set(Registry([module]).deciders) == {"order"}


def test_a_decider_is_claimed_under_its_name() -> None:
    assert decider_key("order")[:3] == ("decider", "order", "")
