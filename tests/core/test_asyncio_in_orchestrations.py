"""Plain asyncio inside orchestrations: it does what asyncio users expect, and it replays.

The programs are in `programs`, what happens around them in `scenarios`.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.authoring.activity import activity
from perdure.authoring.context import Context, context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import Orchestration, orchestration
from perdure.authoring.race import race
from perdure.core.orchestrations.execution import ExecutionId
from perdure.errors import UsageError
from perdure.model.histories.events import ActivityCompleted, ActivityFailed, Failure
from tests.core import elsewhere, programs
from tests.core.harness import START_MS, Script, go_on, raw
from tests.core.scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).parents[2]

each_scenario = pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS]
)


@each_scenario
def test_outcome(scenario: Scenario) -> None:
    script = scenario.run()

    last = script.event(len(script.history))
    match last.kind:
        case "completed":
            assert (scenario.ends, scenario.gives) == ("completed", script.result)
        case "failed":
            assert (scenario.ends, scenario.gives) == ("failed", last.failure.type_name)
        case "continued_as_new":
            assert (scenario.ends, scenario.gives) == ("continued_as_new", script.next_input)
        case kind:
            assert (scenario.ends, scenario.gives) == (kind, last.reason)
    if scenario.order:
        assert script.kinds[1:] == scenario.order


@each_scenario
def test_every_beginning_replays_and_goes_on_the_same_way(scenario: Scenario) -> None:
    scenario.run().check_every_beginning()


def test_each_scenario_has_a_name_of_its_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("histories") / "histories.json"
    elsewhere.write({scenario.name: scenario.run() for scenario in SCENARIOS}, file)
    return file


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_histories_replay_in_a_process_with_another_hash_seed(
    recorded: Path, hash_seed: str
) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tests.core.elsewhere", "replay", recorded],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)


# ---------------------------------------------------- any order of what happens


ALL_PROGRAMS = sorted(
    (
        program
        for program in vars(programs).values()
        if isinstance(program, Orchestration)
        and program not in (programs.interrupts, programs.looks_at_itself, programs.passes_values)
    ),
    key=lambda program: program.name,
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    program=st.sampled_from(ALL_PROGRAMS)
    | st.sampled_from([programs.does_everything, programs.lasts]),
    choices=st.lists(st.integers(0, 999), max_size=40),
)
def test_whatever_happens_in_whatever_order_replays(
    program: Orchestration[..., object], choices: list[int]
) -> None:
    script = Script(program, *(["a"] if program is programs.child else []))
    for choice in choices:
        if script.kinds[-1] == "continued_as_new":
            script.check_every_beginning()
            script = script.continued()
        elif script.has_ended:
            break
        do_something(script, choice)

    script.check_every_beginning()
    script.execution.tear_down()


def do_something(script: Script, choice: int) -> None:
    choice, what = divmod(choice, 10)
    if what == 0:
        script.signal("number" if choice % 2 else "other", choice)
    elif what == 1 and choice % 4 == 0:
        script.cancel()
    elif what == 2:
        script.now_ms += choice * 100
        script.signal("nobody waits for this", None)
    elif script.open:
        seq = script.open[choice % len(script.open)]
        kind = script.event(seq).kind
        if kind == "signal_awaited":
            script.signal(script.event(seq).name, choice)
        elif kind == "child_scheduled" and what == 3:
            script.child_fails(seq)
        elif kind == "detached_scheduled" and what == 3:
            script.detached_is_refused(seq)
        elif kind in ("activity_scheduled", "inline_scheduled") and what == 3:
            script.fail(seq)
        else:
            script.answer(seq, lambda event: "X")


@settings(max_examples=50, deadline=None)
@given(order=st.permutations(list(programs.WORDS)), sizes=st.lists(st.integers(1, 4), max_size=12))
def test_answers_make_the_same_history_in_one_turn_or_in_many(
    order: list[str], sizes: list[int]
) -> None:
    one_by_one = Script(programs.takes_tasks_as_they_complete)
    one_by_one.say(*order)
    in_turns = Script(programs.takes_tasks_as_they_complete)
    rest = order
    for size in sizes:
        if rest:
            in_turns.say_together(*rest[:size])
            rest = rest[size:]
    if rest:
        in_turns.say_together(*rest)

    assert in_turns.history == one_by_one.history


# --------------------------------------------------------------- further things


def test_time_ids_and_random_numbers_are_the_executions_own() -> None:
    script = Script(programs.looks_at_itself, "a")
    script.now_ms += 1_234
    script.say("a")
    first = script.result
    script.replayed()
    other = Script(programs.looks_at_itself, "a", id=ExecutionId("i-1", 78, 1))
    other.now_ms += 1_234
    other.say("a")

    assert first[0] == "2027-01-15T08:00:00+00:00"
    assert first[4] == "2027-01-15T08:00:01.234000+00:00"
    assert first[-4:] == ["i-1", 1, "looks_at_itself", "1.0.0"]
    assert len({first[1], first[5], other.result[1], other.result[5]}) == 4
    assert first[2] != other.result[2]


def test_an_exception_named_in_raises_comes_back_as_itself() -> None:
    script = Script(programs.catches_its_own_type)
    details = json.dumps(
        {
            "class": f"{programs.__name__}.CardDeclinedError",
            "args": ["no money"],
            "state": {},
        }
    )
    failure = Failure("CardDeclinedError", "no money", details=details)
    script.deliver(ActivityFailed(schedule=2, failures=(failure,)))

    assert script.result == "no money"


def test_an_exception_in_a_callback_is_logged_once_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script(programs.fails_in_a_callback)
    script.say("a")
    script.replayed()

    assert script.result == "A"
    assert [getattr(record, "error_type", None) for record in caplog.records] == [
        "ValueError",
        "SystemExit",
    ]


def test_an_exception_that_nobody_awaits_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    script = Script(programs.loses_an_exception)
    script.say("a")
    script.replayed().tear_down()
    script.execution.tear_down()

    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "unawaited" in record.getMessage()
    assert getattr(record, "error_type", None) == "ValueError"
    assert str(getattr(record, "raised_at", None)).endswith(" in fail")


def test_an_interrupt_passes_and_leaves_the_outer_loop_as_it_was() -> None:
    async def outer() -> None:
        script = Script(programs.interrupts)
        task = asyncio.current_task()
        with pytest.raises(KeyboardInterrupt):
            script.say("a")
        assert asyncio.current_task() is task
        await asyncio.sleep(0)

    asyncio.run(outer())


def test_a_turn_inside_a_running_loop_leaves_it_as_it_was() -> None:
    async def outer() -> str:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        script = Script(programs.names_tasks)
        script.say("a", "b")
        assert asyncio.get_running_loop() is loop
        assert asyncio.current_task() is task
        return str(script.result[0])

    assert asyncio.run(outer()) == "root"


def test_context_variables_of_the_caller_do_not_reach_an_orchestration() -> None:
    token = programs._variable.set("of the worker")
    try:
        script = Script(programs.sets_variables)
        script.say("a", "b", "c", "d")
    finally:
        programs._variable.reset(token)

    assert script.result[0] == "unset"
    script.replayed()


def test_a_call_is_awaited_once() -> None:
    @orchestration
    async def awaits_twice() -> str:
        call = programs.say("a")
        await call
        return await call

    script = Script(awaits_twice)
    script.say("a")

    assert "was awaited before, and a call is awaited once" in script.failure.message


def test_two_tasks_cannot_await_one_call() -> None:
    @orchestration
    async def shares_a_call() -> list[str]:
        call = programs.say("a")

        async def wait() -> str:
            return await call

        found = await asyncio.gather(wait(), wait(), return_exceptions=True)
        return [str(each) for each in found]

    script = Script(shares_a_call)
    script.say("a")

    assert script.result[0] == "A"
    assert "is being awaited already" in script.result[1]


def test_an_activity_that_raises_stop_iteration_does_not_return() -> None:
    @activity(name="say", raises=[StopIteration])
    async def stops(word: str) -> str:
        return word

    @orchestration
    async def is_not_fooled() -> str:
        return await stops("a")

    script = Script(is_not_fooled)
    details = json.dumps({"class": "builtins.StopIteration", "args": ["x"], "state": {}})
    failure = Failure("StopIteration", "x", details=details)
    script.deliver(ActivityFailed(schedule=2, failures=(failure,)))

    assert script.failure.type_name == "RuntimeError"


def test_a_call_that_is_never_awaited_warns_with_its_line() -> None:
    @orchestration
    async def forgets() -> str:
        programs.say("forgotten")  # type: ignore[unused-coroutine]  # that is what it is about
        return await programs.say("a")

    with pytest.warns(
        RuntimeWarning, match=r"'say' at test_asyncio_in_orchestrations.py:\d+ in forgets was never"
    ):
        script = Script(forgets)

    script.say("a")
    script.replayed()  # says nothing: a warning would be an error here


def test_a_million_years_of_sleep_need_no_timer() -> None:
    @orchestration
    async def sleeps_for_ever() -> None:
        await asyncio.sleep(float("inf"))

    script = Script(sleeps_for_ever)

    assert script.kinds == ["started"]
    script.cancel()
    assert script.kinds[-1] == "cancelled"


@pytest.mark.parametrize("seconds", [0.001, 0.1, 0.3, 1.1, 59.999, 86_400.123, 3.1e9])
def test_a_timer_is_due_at_the_exact_millisecond(seconds: float) -> None:
    @orchestration
    async def sleeps() -> float:
        await asyncio.sleep(seconds)
        return asyncio.get_running_loop().time()

    script = Script(sleeps)

    assert script.event(2).due_ms - START_MS == round(seconds * 1000)


def test_a_turn_that_comes_late_fires_what_is_past_at_once() -> None:
    @orchestration
    async def sleeps_twice() -> float:
        loop = asyncio.get_running_loop()
        wake = loop.time() + 20
        await asyncio.sleep(10)
        async with asyncio.timeout_at(wake):
            await asyncio.sleep(0)
            return loop.time()
        return -1

    script = Script(sleeps_twice)
    script.now_ms += 60_000
    script.fire(2)

    assert script.kinds == ["started", "timer_scheduled", "timer_fired", "failed"]
    assert script.failure.type_name == "TimeoutError"
    script.check_every_beginning()


def test_the_race_of_nothing_is_refused() -> None:
    @orchestration
    async def races_nothing() -> None:
        await race()

    assert Script(races_nothing).failure.type_name == "ValueError"


def test_race_works_on_any_loop() -> None:
    async def main() -> tuple[int, str]:
        slow = asyncio.create_task(asyncio.sleep(60, "slow"))
        found = await race(slow, asyncio.sleep(0, "quick"))
        assert slow.cancelled()
        return found

    assert asyncio.run(main()) == (1, "quick")


def test_more_open_calls_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.core.orchestrations.calls.MAX_OPEN_CALLS", 20)

    @orchestration
    async def asks_for_much() -> None:
        await asyncio.gather(*(programs.say("a") for _ in range(21)))

    @orchestration
    async def sleeps_much() -> None:
        await asyncio.gather(*(asyncio.sleep(1) for _ in range(21)))

    for program in (asks_for_much, sleeps_much):
        failure = Script(program).failure
        assert failure.type_name == "LimitExceededError"
        assert "limited to 20" in failure.message


def test_what_is_not_open_does_not_count_as_open_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.core.orchestrations.calls.MAX_OPEN_CALLS", 20)

    @orchestration
    async def takes_and_notes(ctx: Context) -> int:
        await programs.say("a")
        for n in range(50):
            await programs.number.receive()
            ctx.report(n)
        return len(await asyncio.gather(*(programs.say(str(n)) for n in range(20))))

    script = Script(takes_and_notes)
    for n in range(50):
        script.signal("number", n)
    script.say("a")
    assert len(script.open) == 20
    script.answer_all(lambda _: "x")

    assert script.result == 20


def test_async_iteration_over_as_completed_gives_back_the_tasks() -> None:
    if sys.version_info < (3, 13):
        pytest.skip("new in Python 3.13")

    @orchestration
    async def iterates() -> list[str]:
        tasks = [asyncio.create_task(programs.say(word), name=word) for word in programs.WORDS]
        return [task.get_name() async for task in asyncio.as_completed(tasks)]

    script = Script(iterates)
    script.say(*reversed(programs.WORDS))

    assert script.result == list(reversed(programs.WORDS))
    script.check_every_beginning()


def test_a_replayed_execution_takes_over_where_the_old_one_was() -> None:
    script = Script(programs.gathers)
    script.say("b")
    execution = script.replayed()

    answers = [ActivityCompleted(schedule=seq, result=raw("x")) for seq in execution.open]
    with execution.entered():
        for answer in answers:
            assert execution.accepts(answer)
            execution.advance(answer, [])

    assert execution.terminal is not None
    assert go_on(script.replayed(), []) == []


def test_outside_an_orchestration_the_calls_say_what_to_do() -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: programs.child("a"), "client.start"),
        (programs.number.receive, "handle.send"),
        (lambda: inline(programs._shout, "a"), "just call the function"),
        (context, "works inside one"),
    ]
    for call, advice in calls:
        with pytest.raises(UsageError, match=advice):
            call()
