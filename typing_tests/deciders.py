"""Deciders: what a decision may hold, what `execute` gives, and what checkers refuse."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Never, assert_never, assert_type

from perdure import (
    Acceptance,
    Accepted,
    Activity,
    AlreadyCompleted,
    Client,
    Context,
    Decider,
    Decision,
    Engine,
    Rejected,
    activity,
    orchestration,
)
from perdure.authoring.deciders.decider import DeadEffect, EndedOrchestration
from perdure.testing import check_invariants, given


@dataclass(frozen=True)
class Place:
    cart_id: str


@dataclass(frozen=True)
class Pay:
    cart_id: str


@dataclass(frozen=True)
class Declined:
    cart_id: str


@dataclass(frozen=True)
class Expire:
    cart_id: str


CartInput = Place | Pay | Declined | Expire


@dataclass(frozen=True)
class Placed:
    at: datetime


@dataclass(frozen=True)
class Paid:
    pass


@dataclass(frozen=True)
class Expired:
    pass


CartEvent = Placed | Paid | Expired


@dataclass(frozen=True)
class NotPlaced:
    pass


@dataclass(frozen=True)
class TooLate:
    pass


CartRejection = NotPlaced | TooLate


@dataclass(frozen=True)
class CartState:
    is_paid: bool = False


@activity
async def charge(cart_id: str) -> Pay | Declined | None:
    return Pay(cart_id)


@activity
def charge_at_once(cart_id: str) -> Pay | Declined:
    return Declined(cart_id)


@activity
async def mail(to: str, text: str = "") -> None: ...


@activity
async def count(word: str) -> int:
    return len(word)


@orchestration
async def ship(ctx: Context, cart_id: str) -> str:
    return cart_id


class Cart(Decider[CartState, CartInput, CartEvent, CartRejection]):
    name = "cart"

    def initial(self) -> CartState:
        return CartState()

    def instance_id(self, input: CartInput, /) -> str:
        return input.cart_id

    def decide(
        self, state: CartState, input: CartInput, now: datetime, /
    ) -> Decision[CartInput, CartEvent, CartRejection]:
        match input:
            case Place(cart_id):
                return (
                    Decision.accept(Placed(now))
                    .effect(charge, cart_id)
                    .effect(mail, cart_id, text="thanks")
                    .timer("expire", after=timedelta(hours=1), input=Expire(cart_id))
                    .timer("later", at=now, input=Pay(cart_id))
                    .cancel_timer("reminder")
                    .send(Stock, Take(cart_id, 1))
                    .start("ship-1", ship, cart_id)
                    .start(ship, cart_id)
                    .reply({"anything": 1})
                    .in_order()
                )
            case Pay() if state.is_paid:
                return Decision.reject(TooLate())
            case Pay():
                return Decision.accept(Paid(), Placed(now))
            case Declined():
                return Decision.accept()
            case Expire():
                return Decision.reject(NotPlaced())
            case _:
                assert_never(input)

    def evolve(self, state: CartState, event: CartEvent, /) -> CartState:
        return CartState(is_paid=isinstance(event, Paid))

    def unique_key(self, input: CartInput, /) -> str | None:
        return None

    def on_dead(self, effect: DeadEffect, /) -> CartInput | None:
        return Declined(effect.instance_id)

    def on_ended(self, ended: EndedOrchestration, /) -> CartInput | None:
        return None


@dataclass(frozen=True)
class Take:
    cart_id: str
    amount: int


@dataclass(frozen=True)
class Taken:
    amount: int


class Stock(Decider[int, Take, Taken, Never]):
    """Never rejects."""

    name = "stock"

    def initial(self) -> int:
        return 0

    def instance_id(self, input: Take, /) -> str:
        return "main"

    def decide(self, state: int, input: Take, now: datetime, /) -> Decision[Take, Taken, Never]:
        return Decision.accept(Taken(input.amount))

    def evolve(self, state: int, event: Taken, /) -> int:
        return state + event.amount


# ------------------------------------------------------------------ what fits a decision


def a_decision_may_be_built_step_by_step(
    words: list[str], is_urgent: bool
) -> Decision[CartInput, CartEvent, CartRejection]:
    # None, since an effect may return that instead of an input.
    decision: Acceptance[CartInput | None, CartEvent] = Decision.accept(Paid())
    for word in words:
        decision = decision.effect(charge, word).effect(charge_at_once, word)
        decision = decision.effect(mail, word)
        decision = decision.timer(word, after=timedelta(hours=1), input=Expire(word))
    if is_urgent:
        decision = decision.start(ship, words[0]).cancel_timer(words[0])
    decision = decision.effect(count, "c")  # type: ignore[call-overload]  # pyright: ignore[reportAssignmentType]
    decision = decision.reply(1)
    return decision.in_order()


def effects_may_return_inputs_or_nothing(
    now: datetime,
) -> list[Decision[Pay | Declined, Placed, Never]]:
    return [
        Decision.accept(Placed(now)).effect(charge, "c"),
        Decision.accept(Placed(now)).effect(charge_at_once, cart_id="c"),
        Decision.accept(Placed(now)).effect(mail, "ada"),
        Decision.accept(Placed(now)).effect(charge.with_options(tag="x"), "c"),
        Decision.accept(Placed(now)).effect(Activity.named("pay", Pay | None), "c", anything=1),
    ]


def effects_that_return_nothing_can_be_added_in_a_loop(
    now: datetime, names: list[str]
) -> Decision[Never, Placed, Never]:
    decision = Decision.accept(Placed(now))
    for name in names:
        decision = decision.effect(mail, name)
    return decision


def many_events_of_one_type(names: list[Placed]) -> Decision[Pay, Placed, NotPlaced]:
    return Decision.accept(*names)


def one_that_rejects_may_stand_for_more(now: datetime) -> Decision[CartInput, CartEvent, TooLate]:
    return Decision.reject(TooLate())


# -------------------------------------------------------------------- what is refused


def an_event_of_something_else(now: datetime) -> Decision[Pay, Placed, NotPlaced]:
    return Decision.accept(Paid())  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def an_effect_that_returns_no_input(now: datetime) -> Decision[Pay, Placed, NotPlaced]:
    return Decision.accept(Placed(now)).effect(count, "x")  # type: ignore[call-overload,no-any-return]  # pyright: ignore[reportReturnType]


def an_effect_with_wrong_arguments(now: datetime) -> None:
    Decision.accept(Placed(now)).effect(mail, 3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType,reportCallIssue]


def a_timer_with_something_else(now: datetime) -> Decision[Pay, Placed, NotPlaced]:
    return Decision.accept(Placed(now)).timer("k", at=now, input=Take("c", 1))  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def a_timer_without_a_time(now: datetime) -> None:
    Decision.accept(Placed(now)).timer("k", input=Pay("c"))  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


def a_wrong_reason(now: datetime) -> Decision[Pay, Placed, NotPlaced]:
    return Decision.reject(TooLate())  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def nothing_follows_from_a_rejection() -> None:
    Decision.reject(TooLate()).effect(mail, "ada")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]


def an_input_of_another_decider(now: datetime) -> None:
    Decision.accept(Placed(now)).send(Stock, Pay("c"))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


def an_orchestration_with_wrong_arguments(now: datetime) -> None:
    Decision.accept(Placed(now)).start(ship, 3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType,reportCallIssue]


# ------------------------------------------------------------------ asking deciders


async def execute_gives_an_outcome_to_match(client: Client) -> str:
    outcome = await client.execute(Cart, Place("c"), input_id="r-1", expected_version=0)
    match outcome:
        case Accepted(events, state, version):
            for event in events:
                assert_type(event, CartEvent)
            assert_type(state, CartState)
            assert_type(version, int)
            return str(outcome.reply)
        case Rejected(reason):
            assert_type(reason, CartRejection)
            return "rejected"
        case AlreadyCompleted():
            return "completed"
        case _:
            assert_never(outcome)


async def state_and_send_are_typed(engine: Engine) -> None:
    assert_type(await engine.state(Cart, "c"), CartState)
    assert_type(await engine.state(Stock, "main", at=3), int)
    await engine.send(Cart, Pay("c"), input_id="r-2")
    await engine.send(Cart, Take("c", 1))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    await engine.execute(Stock, Pay("c"))  # type: ignore[misc]  # pyright: ignore[reportArgumentType]


def deciders_are_definitions() -> Engine:
    return Engine("sqlite://", [Cart, Stock, charge, ship])


# ------------------------------------------------------------------------ the test kit


def given_when_then_is_typed() -> None:
    result = given(Cart, Placed(datetime.now(UTC))).when(Pay("c"), now=datetime.now(UTC))
    assert_type(result.events, tuple[CartEvent, ...])
    assert_type(result.state, CartState)
    assert_type(result.rejection, CartRejection | None)
    given(Cart).when(Take("c", 1))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def invariants_see_the_state() -> None:
    def is_fine(state: CartState) -> bool:
        return not state.is_paid

    def is_wrong(state: str) -> bool:
        return bool(state)

    check_invariants(Cart, inputs=[Pay("c")], invariant=is_fine)
    check_invariants(Cart, inputs=[Pay("c")], invariant=is_wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def any_decider(decider: type[Decider[Any, Any, Any, Any]]) -> str:
    return decider.name
