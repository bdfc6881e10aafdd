"""Code that asks for something else than what is recorded is stopped, and told where and why."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from perdure.authoring.activity import Activity, activity
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.signal import Signal
from perdure.errors import NondeterminismError
from perdure.model.histories.events import StoredEvent, TimerFired, write_event
from perdure.model.options import Retry
from tests.core.harness import Script, raw
from tests.core.programs import child, say

Code = Callable[[], Any]


def as_orchestration(code: Code) -> Orchestration[[], Any]:
    """Make code an orchestration of a name that is the same before and after a change."""
    return orchestration(name="fulfil")(code)


def begin(code: Code) -> Script:
    return Script(as_orchestration(code))


def error_of(script: Script, code: Code, digest: str = "9c01") -> NondeterminismError:
    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=as_orchestration(code), code=digest)
    return caught.value


@activity
async def shout(word: str) -> str:
    return word


# ------------------------------------------------------------- what is compared


async def says_a_by_name() -> None:
    await Activity.named("say", str)("a")


async def says_b_by_name() -> None:
    await Activity.named("say", str)("b")


async def says_a() -> None:
    await say("a")


async def shouts_a() -> None:
    await shout("a")


async def says_b() -> None:
    await say("b")


@pytest.mark.parametrize(
    ("before", "after", "other"),
    [(says_a_by_name, says_a, says_b), (says_a, says_a_by_name, says_b_by_name)],
)
def test_a_call_with_the_code_and_one_by_name_fit_both_ways(
    before: Code, after: Code, other: Code
) -> None:
    script = begin(before)

    script.replayed(by=as_orchestration(after))
    error_of(script, other)


async def says_a_on_gpu() -> None:
    await say.with_options(tag="gpu")("a")


async def says_a_in_a_session() -> None:
    await say.with_options(session="s")("a")


async def has_a_child() -> None:
    await child("a")


async def has_a_child_with_an_id() -> None:
    await child.with_options(instance_id="kid")("a")


async def has_a_newer_child() -> None:
    await child.with_options(version="2.0.0")("a")


async def has_an_abandoned_child() -> None:
    await child.with_options(on_parent_close="abandon")("a")


async def has_another_child() -> None:
    await orchestration(name="nephew")(child.fn)("a")


async def has_a_child_with_another_input() -> None:
    await child("b")


async def sleeps_a_minute() -> None:
    await asyncio.sleep(60)


async def sleeps_an_hour() -> None:
    await asyncio.sleep(3600)


async def receives_one() -> None:
    await Signal("one", int).receive()


async def receives_two() -> None:
    await Signal("two", int).receive()


async def runs_a_inline() -> None:
    await inline(len, "a", name="length", returns=int)


async def runs_b_inline() -> None:
    await inline(len, "b", name="length", returns=int)


async def runs_another_inline() -> None:
    await inline(len, "a", name="size", returns=int)


async def returns_at_once() -> None:
    return


async def says_a_and_b() -> None:
    await asyncio.gather(say("a"), say("b"))


DIFFERENCES: list[tuple[Code, Code]] = [
    (says_a, shouts_a),
    (says_a, says_b),
    (says_a, says_a_on_gpu),
    (says_a_on_gpu, says_a),
    (says_a, says_a_in_a_session),
    (says_a, has_a_child),
    (says_a, sleeps_a_minute),
    (says_a, receives_one),
    (has_a_child, has_a_child_with_an_id),
    (has_a_child, has_a_newer_child),
    (has_a_child, has_an_abandoned_child),
    (has_a_child, has_another_child),
    (has_a_child, has_a_child_with_another_input),
    (sleeps_a_minute, sleeps_an_hour),
    (receives_one, receives_two),
    (runs_a_inline, runs_b_inline),
    (runs_a_inline, runs_another_inline),
    (says_a, returns_at_once),
    (says_a_and_b, says_a),
    (says_a, says_a_and_b),
]


@pytest.mark.parametrize(
    ("before", "after"),
    DIFFERENCES,
    ids=[f"{before.__name__}-{after.__name__}" for before, after in DIFFERENCES],
)
def test_a_difference_is_found_and_right_code_goes_on(before: Code, after: Code) -> None:
    script = begin(before)

    error = error_of(script, after)

    assert error.seq in (2, 3)
    assert error.recorded != error.asked
    assert script.replayed(by=as_orchestration(before)).open.keys() == set(script.open)


def test_finding_a_difference_asks_for_nothing() -> None:
    script = begin(says_a)
    execution = script.replayed(upto=0)
    history = list(script.history)

    with pytest.raises(NondeterminismError):
        begin_with(shouts_a, history)

    assert script.history == history
    assert list(execution.open) == []


def begin_with(code: Code, history: list[StoredEvent]) -> None:
    script = begin(code)
    script.history = history
    script.replayed()


def test_code_that_ends_early_is_stopped() -> None:
    script = begin(says_a)
    script.say("a")

    async def ends_early() -> None:
        return

    error = error_of(script, ends_early)

    assert (error.seq, error.recorded, error.asked) == (2, "activity scheduled say", "completed")


def test_history_left_over_when_the_code_has_ended_is_found() -> None:
    script = begin(says_a)
    script.say("a")
    extra = write_event(TimerFired(schedule=2))
    script.history.append(StoredEvent(5, extra.kind, script.now_ms, extra.body))

    error = error_of(script, says_a)

    assert (error.seq, error.recorded, error.asked) == (5, "timer fired (of 2)", "nothing more")


def test_a_call_more_than_was_recorded_is_found() -> None:
    script = begin(says_a)

    error = error_of(script, says_a_and_b)

    assert (error.seq, error.recorded, error.asked) == (
        3,
        "nothing more",
        "activity scheduled say",
    )


def test_a_call_less_than_was_recorded_is_found() -> None:
    script = begin(says_a_and_b)

    error = error_of(script, says_a)

    assert (error.seq, error.asked) == (3, "nothing more")


@pytest.mark.parametrize("schedule", [1, 2, 3, 99])
def test_a_completion_without_a_schedule_is_found(schedule: int) -> None:
    script = begin(says_a)
    fired = write_event(TimerFired(schedule=schedule))
    script.history.append(StoredEvent(3, fired.kind, script.now_ms, fired.body))

    assert error_of(script, says_a).seq == 3


def test_a_second_completion_is_found() -> None:
    script = begin(says_a_and_b)
    script.say("a")
    again = script.history[3]._replace(seq=5)
    script.history.append(again)

    assert error_of(script, says_a_and_b).seq == 5


def test_a_changed_result_is_found() -> None:
    async def returns_one() -> int:
        return 1

    async def returns_two() -> int:
        return 2

    error = error_of(begin(returns_one), returns_two)

    assert (error.recorded, error.asked) == ("completed 1", "completed 2")


def test_a_failure_instead_of_a_result_is_found() -> None:
    async def returns_one() -> int:
        return 1

    async def raises() -> int:
        raise ValueError("no")

    async def raises_another() -> int:
        raise TypeError("no")

    assert error_of(begin(returns_one), raises).asked == "failed ValueError: no"
    assert error_of(begin(raises), raises_another).asked == "failed TypeError: no"


def test_the_text_of_a_failure_may_change() -> None:
    async def raises() -> None:
        raise ValueError("at 0x7f1")

    async def raises_elsewhere() -> None:
        raise ValueError("at 0x7f2")

    begin(raises).replayed(by=as_orchestration(raises_elsewhere))


def test_a_missing_cancellation_is_found() -> None:
    async def gives_up() -> None:
        try:
            await asyncio.wait_for(say("a"), 60)
        except TimeoutError:
            await say("b")

    async def does_not_give_up() -> None:
        done, _ = await asyncio.wait([asyncio.ensure_future(say("a"))], timeout=60)
        if not done:
            await say("b")

    # Python before 3.12 asks for the timer first as well, so that only the cancellation differs.
    script = begin(gives_up)
    script.fire()

    assert error_of(script, does_not_give_up).recorded == "activity cancelled (of 3)"


# ------------------------------------------------------ what makes no difference


@dataclass
class Order:
    order_id: int


@activity(name="ship")
async def ship_then(order: Order) -> Order:
    return order


@dataclass
class OrderWithMore:
    order_id: int
    express: bool = False


@activity(name="ship")
async def ship_now(order: OrderWithMore, carrier: str = "post") -> OrderWithMore:
    return order


def test_new_parameters_and_fields_with_defaults_are_no_difference() -> None:
    @orchestration(name="ships")
    async def ships_then(order: Order) -> Order:
        return await ship_then(order)

    @orchestration(name="ships")
    async def ships_now(order: OrderWithMore, gift: bool = False) -> OrderWithMore:
        return await ship_now(order)

    @orchestration(name="ships")
    async def ships_with_the_default(order: OrderWithMore) -> OrderWithMore:
        return await ship_now(order, carrier="post")

    @orchestration(name="ships")
    async def ships_by_another(order: OrderWithMore) -> OrderWithMore:
        return await ship_now(order, carrier="ups")

    script = Script(ships_then, Order(1))
    script.complete(2, {"order_id": 1})

    script.replayed(by=ships_now)
    script.replayed(by=ships_with_the_default)
    with pytest.raises(NondeterminismError):
        script.replayed(by=ships_by_another)


def test_added_retries_timeouts_and_deadlines_are_no_difference() -> None:
    async def tries_hard() -> None:
        patient = say.with_options(
            retry=Retry(max_attempts=5),
            timeout=timedelta(seconds=1),
            deadline=timedelta(minutes=1),
        )
        await patient("a")

    execution = begin(says_a).replayed(by=as_orchestration(tries_hard))
    back = begin(tries_hard).replayed(by=as_orchestration(says_a))

    assert execution.calls.next_due_ms() is None, "what is on record counts: there is no such timer"
    assert back.calls.next_due_ms() is not None, "and here there is one"


# ----------------------------------------------------------------------- the text


def test_the_error_shows_both_sides_the_line_and_the_code() -> None:
    async def fulfil() -> None:
        await say("a")
        await asyncio.sleep(86_400)
        await shout("sent by email")

    async def fulfil_by_sms() -> None:
        await say("a")
        await asyncio.sleep(86_400)
        await say("sent by sms")

    script = begin(fulfil)
    script.say("a")
    script.fire()
    error = error_of(script, fulfil_by_sms)

    line = fulfil_by_sms.__code__.co_firstlineno + 3
    place = f"test_determinism_check.py:{line} in fulfil_by_sms"
    assert (error.seq, error.recorded) == (6, "activity scheduled shout")
    assert (error.asked, error.place) == ("activity scheduled say", place)
    assert str(error).splitlines() == [
        "i-1 no longer matches its history at event 6: recorded is activity scheduled shout, and "
        f"the code asks for activity scheduled say at {place}",
        "",
        "    recorded  2027-01-15 08:00  code c0de        asked now  code 9c01",
        "    3 activity completed (of 2)                    3 same",
        "    4 timer until 2027-01-16 08:00:00.000          4 same",
        "    5 timer fired (of 4)                           5 same",
        f">   6 activity scheduled shout                     6 activity scheduled say    {place}",
        "",
        'The code of "fulfil" changed after this instance started (c0de -> 9c01).',
        'Code that keeps both sides fits all instances: if ctx.patched("..."): the new one, '
        "else: the old one.",
        "The instance is blocked. Nothing was lost and nothing ran twice. It goes on by itself",
        "when a worker comes whose code asks for what is recorded.",
    ]


def test_a_new_parameter_without_a_default_is_told_for_what_it_is() -> None:
    @orchestration(name="fulfil")
    async def before(word: str) -> None:
        await say(word)

    @orchestration(name="fulfil")
    async def after(word: str, times: int) -> None:
        await say(word)

    script = Script(before, "a")
    with pytest.raises(NondeterminismError) as caught:
        script.replayed(by=after, code="9c01")

    text = str(caught.value)
    assert "no value for a parameter that is new, after(times): give it a\ndefault" in text
    assert "ctx.patched" not in text


def test_a_renamed_activity_is_told_how_to_keep_its_name() -> None:
    async def fulfil() -> None:
        await say("a")

    async def fulfil_renamed() -> None:
        await shout("a")

    text = str(error_of(begin(fulfil), fulfil_renamed))

    assert 'If "say" was only renamed, keep the name that is recorded:' in text
    assert '@activity(name="say").' in text


def test_the_columns_stay_side_by_side_when_names_are_long() -> None:
    async def has_long_names() -> None:
        await child.with_options(instance_id="a-child-with-quite-a-long-name")("a")
        await say("a")

    async def has_other_names() -> None:
        await child.with_options(instance_id="a-child-with-quite-a-long-name")("a")
        await say("b")

    script = begin(has_long_names)
    script.child_completes(2, "x")
    lines = str(error_of(script, has_other_names)).splitlines()

    rows = [line for line in lines if line.rstrip().endswith("same") or line.startswith(">")]
    columns = {line.index("same") for line in rows if line.endswith("same")}
    assert len(rows) == 4
    assert columns == {rows[-1].index("activity scheduled", 10)}


def test_unchanged_code_is_told_that_a_value_decided() -> None:
    text = str(error_of(begin(says_a), says_b, digest="c0de"))

    assert 'The code of "fulfil" is the same as when the instance started' in text
    assert "time, random, the environment, the order of a set" in text


def test_where_the_names_are_equal_the_text_shows_what_differs() -> None:
    error = error_of(begin(says_a), says_b)
    tagged = error_of(begin(says_a), says_a_on_gpu)

    assert error.recorded == 'activity scheduled say {"word":"a"}'
    assert error.asked == 'activity scheduled say {"word":"b"}'
    assert tagged.asked == 'activity scheduled say {"word":"a"} tag=\'gpu\''


def test_a_timer_names_the_line_that_set_it() -> None:
    async def sleeps_in_a_helper() -> None:
        await sleeps_an_hour()

    async def times_out() -> None:
        async with asyncio.timeout(3600):
            await say("a")

    async def sleeps_as_a_task() -> None:
        await asyncio.gather(asyncio.sleep(3600))

    script = begin(sleeps_a_minute)

    assert str(error_of(script, sleeps_in_a_helper).place).endswith(" in sleeps_an_hour")
    assert str(error_of(script, times_out).place).endswith(" in times_out")
    assert error_of(script, sleeps_as_a_task).place is None, "asyncio's own line is nobody's"


def test_a_loop_over_signals_names_the_users_line() -> None:
    async def iterates() -> None:
        async for _ in Signal("two", int):
            pass

    assert str(error_of(begin(receives_one), iterates).place).endswith(" in iterates")


def test_a_damaged_event_is_shown_as_such() -> None:
    script = begin(says_a)
    script.history[1] = script.history[1]._replace(kind="from_the_future", body=b"{}")

    error = error_of(script, says_a)

    assert error.recorded == "from_the_future (unreadable)"


def test_the_first_turn_records_the_code_that_ran_it() -> None:
    """Whoever starts an instance, a client or a parent, may not have its code."""
    script = begin(says_a)

    assert script.event(1).code == "c0de"


def test_code_that_is_not_recorded_is_not_blamed() -> None:
    script = begin(says_a)
    body = script.history[0].body.replace(b'"code":"c0de",', b"").replace(b',"code":"c0de"', b"")
    script.history[0] = script.history[0]._replace(body=body)

    assert "It is not recorded with which code" in str(error_of(script, says_b))


def test_a_result_that_no_longer_fits_the_annotation_raises_at_the_await() -> None:
    async def reads() -> str:
        try:
            return await say("a")
        except Exception as error:
            return type(error).__name__

    script = begin(reads)
    script.complete(2, 17)

    assert script.result == "PayloadError"
    assert raw(17) == raw(17)


def test_a_change_of_python_alone_is_named_as_such() -> None:
    text = str(error_of(begin(says_a), shouts_a, digest="c0de-py3.12"))

    assert "is the same as when the instance started, but Python is another" in text
    assert "(c0de -> c0de-py3.12)" in text


def test_the_headings_name_the_source_and_leave_the_python_version_out() -> None:
    text = str(error_of(begin(says_a), shouts_a, digest="beef1234-py3.11"))

    heading = text.splitlines()[2]
    assert "code c0de  " in heading
    assert heading.endswith("  asked now  code beef1234")
