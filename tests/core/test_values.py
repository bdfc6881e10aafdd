"""Values by key and reports: what a turn commits, the limits, and wrong uses."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure.authoring.context import Context
from perdure.authoring.inline import inline
from perdure.authoring.orchestration import orchestration
from perdure.errors import (
    InvalidIdError,
    LimitExceededError,
    NondeterminismError,
    PayloadError,
    UsageError,
)
from perdure.limits import MAX_KV_KEYS, MAX_KV_VALUE_BYTES, MAX_REPORT_BYTES
from perdure.model.histories.events import KvEntry, Parent, SignalReceived, read_event
from perdure.model.turns import Turn
from tests.core import programs
from tests.core.harness import START_MS, Script, new_execution, raw
from tests.core.programs import Order, number, say

Use = Callable[[Context], object]


def changes(turn: Turn) -> dict[str, Any]:
    return {key: None if value is None else json.loads(value) for key, value in turn.kv}


def used(use: Use) -> Script:
    """Run an orchestration that does one thing with its context, and returns what that gives."""

    @orchestration
    async def uses(ctx: Context) -> Any:
        return use(ctx)

    return Script(uses)


def error_of(use: Use) -> Exception:
    """Return what a use raises, right at its line."""
    seen: list[Exception] = []

    def attempt(ctx: Context) -> None:
        try:
            use(ctx)
        except Exception as error:
            seen.append(error)

    script = used(attempt)
    assert script.kinds[-1] == "completed", script.failure
    return seen[0]


# ------------------------------------------------------------------ what is committed


def test_a_turn_commits_what_each_changed_key_holds_in_the_end() -> None:
    @orchestration
    async def writes(ctx: Context) -> None:
        ctx.kv.update(b=1, a=1, c=1)
        await say("a")
        ctx.kv["c"] = 2
        ctx.kv["b"] = 2
        ctx.kv["b"] = 3
        del ctx.kv["a"]
        ctx.kv["gone"] = 1
        del ctx.kv["gone"]
        await say("b")

    script = Script(writes)
    assert changes(script.turns[0]) == {"a": 1, "b": 1, "c": 1}
    script.say("a")
    assert changes(script.turns[1]) == {"a": None, "b": 3, "c": 2, "gone": None}
    script.say("b")
    assert script.turns[2].kv == (), "only what changed"


def test_several_stretches_of_one_turn_commit_one_change_per_key() -> None:
    script = Script(programs.counts_in_kv)
    turn = script.deliver(*(SignalReceived(name="number", value=raw(each)) for each in (1, 2, 3)))

    assert changes(turn) == {"at 1": 1, "at 3": 2, "at 6": 3, "sum": 6}


def test_a_replay_changes_nothing() -> None:
    script = Script(programs.counts_in_kv)
    script.signal("number", 3)
    script.execution = script.replayed()

    turn = script.signal("number", 4)

    assert changes(turn) == {"at 7": 4, "sum": 7}
    assert turn.report is None


def test_values_do_not_come_from_what_the_store_has_now() -> None:
    """A replay sees them as they were: the table has what later turns wrote."""
    script = Script(programs.counts_in_kv, started={"kv": (KvEntry("sum", raw(2), 5),)})
    for value in (3, 4):
        script.signal("number", value)

    assert script.values["sum"] == 9
    for length in script.boundaries:
        assert script.replayed(length).scope.kv.keys() <= script.execution.scope.kv.keys()
    script.check_every_beginning()


def test_the_last_report_of_a_turn_is_committed() -> None:
    script = Script(programs.reports)

    assert script.turns[0].report == b'{"done":1}'
    script.say("a")
    assert json.loads(script.turns[1].report or b"") == {"order_id": 1, "lines": ["x"]}
    script.say("b")
    assert script.turns[2].report == b"null", "taken back"


def test_a_turn_without_a_report_leaves_it_as_it_was() -> None:
    @orchestration
    async def reports_once(ctx: Context) -> Any:
        ctx.report("begun")
        await say("a")
        await say("b")
        return ctx.reported

    script = Script(reports_once)
    script.say("a", "b")

    assert [turn.report for turn in script.turns] == [b'"begun"', None, None]
    assert script.result == "begun"


def test_a_report_survives_a_replay_in_the_middle() -> None:
    script = Script(programs.reports)
    script.execution = script.replayed()
    script.say("a", "b")

    assert script.result[1] == {"done": 1}


def test_what_is_reported_may_change_with_the_code() -> None:
    """Only that something was reported is compared; what is on record counts."""

    @orchestration(name="reports")
    async def reports_in_other_words(ctx: Context) -> Any:
        ctx.report("none yet")
        ctx.report(["1", "of", "2"])
        await say("a")
        ctx.report(None)
        await say("b")
        return ctx.reported

    script = Script(programs.reports)
    execution = script.replayed(by=reports_in_other_words)

    assert execution.scope.report == script.execution.scope.report == b'{"done":1}'


def test_prune_removes_by_the_recorded_times_and_not_those_of_the_replay() -> None:
    script = Script(programs.prunes)
    script.fire()
    script.now_ms += 17_000
    script.fire()

    kept = script.execution.scope.kv
    assert {key: entry.updated_ms for key, entry in kept.items()} == {
        "first": START_MS + 27_000,
        "fourth": START_MS + 27_000,
    }
    replayed = new_execution(programs.prunes)
    replayed.scope.now_ms = START_MS + 10**9
    replayed.replay(script.history)
    assert replayed.scope.kv == kept


def test_keys_and_values_have_one_order() -> None:
    words = ["b", "a", "ü", "Z", "10", "9"]

    def sets(ctx: Context) -> object:
        for word in words:
            ctx.kv[word] = word
        return [list(ctx.kv), list(ctx.kv.values()), next([*item] for item in ctx.kv.items())]

    assert used(sets).result == [sorted(words), sorted(words), ["10", "10"]]


def test_what_is_read_is_a_copy() -> None:
    def changes_a_copy(ctx: Context) -> object:
        value = [1]
        ctx.kv["a"] = value
        value.append(2)
        ctx.kv["a"].append(3)
        return ctx.kv["a"]

    assert used(changes_a_copy).result == [1]


@dataclass
class Trip:
    at: datetime
    orders: list[Order]


def test_anything_that_can_be_stored_can_be_set_and_read_as_its_type() -> None:
    at = datetime(2027, 1, 2, 3, 4, tzinfo=UTC)
    trip = Trip(at, [Order(1, ["x"])])

    def sets(ctx: Context) -> object:
        ctx.kv["trip"] = trip
        ctx.kv["several"] = {"trips": [trip], "at": at, "none": None}
        ctx.report({"trip": trip, "at": at})
        assert ctx.kv.read("trip", Trip) == trip
        assert ctx.kv.read("several", dict[str, Any]) == ctx.kv["several"]
        assert ctx.kv.read("nothing", Trip) is None
        assert ctx.kv.read("nothing", Trip | None) is None
        return [ctx.kv["trip"]["at"], ctx.kv["several"]["trips"][0]["orders"], ctx.reported["at"]]

    assert used(sets).result == [
        "2027-01-02T03:04:00+00:00",
        [{"order_id": 1, "lines": ["x"]}],
        "2027-01-02T03:04:00+00:00",
    ]


def test_a_dict_it_is() -> None:
    def asks(ctx: Context) -> object:
        kv = ctx.kv
        kv.update({"a": 1}, b=2)
        with pytest.raises(KeyError):
            kv["c"]
        with pytest.raises(KeyError):
            del kv["c"]
        no_key: Any = 5
        found = [kv == {"b": 2, "a": 1}, "a" in kv, no_key in kv, bool(kv), repr(kv)]
        return [*found, list(kv.popitem()), dict(kv)]

    assert used(asks).result == [
        *(True, True, False, True),
        *("KV({'a': 1, 'b': 2})", ["a", 1], {"b": 2}),
    ]


# ------------------------------------------------------------------------- limits


def test_the_number_of_keys_is_counted_over_all_turns_and_executions() -> None:
    """Elsewhere only the keys of one turn were counted."""

    @orchestration
    async def adds_one_each(ctx: Context) -> str:
        try:
            for n in range(MAX_KV_KEYS + 1):
                ctx.kv[f"key {n}"] = n
                await number.receive()
        except LimitExceededError as error:
            return str(error)
        return "no limit"

    kept = tuple(KvEntry(f"old {n}", raw(n), 5) for n in range(MAX_KV_KEYS - 2))
    script = Script(adds_one_each, started={"kv": kept})
    script.signal("number", 0)
    script.signal("number", 0)

    assert script.result == (
        "kv['key 2']: the number of keys of one instance is limited to 150, found 151; delete "
        "keys, prune old ones, or keep a dict under one key"
    )


def test_a_key_that_is_there_can_be_set_at_the_limit() -> None:
    def sets(ctx: Context) -> object:
        for n in range(MAX_KV_KEYS):
            ctx.kv[f"key {n}"] = n
        ctx.kv["key 0"] = "again"
        del ctx.kv["key 1"]
        ctx.kv["another"] = 1
        return len(ctx.kv)

    assert used(sets).result == MAX_KV_KEYS


def _set_too_much(ctx: Context) -> None:
    ctx.kv["a"] = "x" * MAX_KV_VALUE_BYTES


def _report_too_much(ctx: Context) -> None:
    ctx.report("x" * MAX_REPORT_BYTES)


@pytest.mark.parametrize("use", [_set_too_much, _report_too_much])
def test_going_over_a_limit_raises_at_the_line_and_records_nothing(use: Use) -> None:
    error = error_of(use)

    assert isinstance(error, LimitExceededError)
    assert error.found == error.allowed + 2
    assert "limited to" in str(error)

    @orchestration
    async def goes_on(ctx: Context) -> str:
        try:
            use(ctx)
        except LimitExceededError:
            return await say("a")
        return "no limit"

    script = Script(goes_on)
    assert script.kinds == ["started", "activity_scheduled"]
    script.check_every_beginning()


@pytest.mark.parametrize("use", [_set_too_much, _report_too_much])
def test_a_limit_that_nobody_catches_fails_the_instance_and_its_parent_hears_of_it(
    use: Use,
) -> None:
    """Elsewhere the parent was never told, and waited for ever."""

    @orchestration
    async def goes_over(ctx: Context) -> None:
        use(ctx)

    script = Script(goes_over, started={"parent": Parent("boss", 5, 2, 9)})

    assert script.failure.type_name == "LimitExceededError"
    assert f"in {use.__name__}" in script.failure.traceback_text, "the user's own line"
    [delivery] = script.turns[-1].deliveries
    told: Any = read_event(delivery.kind, delivery.body)
    assert (delivery.instance_id, told.schedule) == ("boss", 9)
    assert told.failure.type_name == "LimitExceededError"


def test_values_at_the_limits_are_accepted() -> None:
    def sets(ctx: Context) -> object:
        ctx.kv["k" * 200] = "x" * (MAX_KV_VALUE_BYTES - 2)
        ctx.report("x" * (MAX_REPORT_BYTES - 2))
        return len(ctx.kv)

    assert used(sets).result == 1


# -------------------------------------------------------------------- wrong uses


WRONG: list[tuple[Use, type[Exception], str]] = [
    (lambda ctx: ctx.kv.update({5: 1}), InvalidIdError, "kv key 5 is int; it must be str"),  # type: ignore[dict-item]  # on purpose
    (lambda ctx: ctx.kv.update({"": 1}), InvalidIdError, "kv key '' has 0 bytes"),
    (lambda ctx: ctx.kv.update({"x" * 201: 1}), InvalidIdError, "has 201 bytes; allowed are 1"),
    (lambda ctx: ctx.kv.update({"a\n": 1}), InvalidIdError, r"contains '\\n'"),
    (lambda ctx: ctx.kv.update(a=threading.Lock()), PayloadError, r"kv\['a'\]: got lock, which"),
    (lambda ctx: ctx.kv.update(a=[1, {"b": threading.Lock()}]), PayloadError, r"kv\['a'\]\[1\]"),
    (lambda ctx: ctx.kv.update(a={1: 2}), PayloadError, r"kv\['a'\]\[1\]: has a key of type int"),
    (lambda ctx: ctx.kv.update(a=float("nan")), PayloadError, r"kv\['a'\]"),
    (lambda ctx: ctx.kv.update(a=object()), PayloadError, r"kv\['a'\]: got object, which is no d"),
    (lambda ctx: ctx.kv.update(a=(1, object())), PayloadError, r"kv\['a'\]\[1\]: got object"),
    (lambda ctx: ctx.report({object()}), PayloadError, r"report\{...\}: got object, which is no"),
    (lambda ctx: ctx.report(object()), PayloadError, "report: got object, which is no data"),
    (lambda ctx: ctx.report("\ud800"), PayloadError, "report: holds a lone surrogate"),
    (lambda ctx: ctx.report({"\ud800"}), PayloadError, r"report\{...\}: holds a lone surrogate"),
    (lambda ctx: ctx.report(threading.Lock()), PayloadError, "report: got lock, which is no data"),
    (lambda ctx: ctx.report(_endless()), PayloadError, "report: is nested too deeply"),
    (lambda ctx: ctx.kv.prune(datetime(2027, 1, 1)), ValueError, "has no time zone"),
    (lambda ctx: ctx.patched(""), InvalidIdError, "change '' has 0 bytes"),
    (lambda ctx: ctx.patched(5), InvalidIdError, "change 5 is int; it must be str"),  # type: ignore[arg-type]  # on purpose
]


def _endless() -> list[object]:
    endless: list[object] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(("use", "kind", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_a_wrong_use_raises_at_the_line_and_says_what_is_wrong(
    use: Use, kind: type[Exception], text: str
) -> None:
    error = error_of(use)

    assert isinstance(error, kind)
    # There is none here that could be written differently.
    assert "annotat" not in str(error)
    with pytest.raises(kind, match=text):
        raise error


def test_a_value_that_is_none_of_the_type_names_the_key() -> None:
    def reads(ctx: Context) -> None:
        ctx.kv["a"] = {"order_id": "x"}
        ctx.kv.read("a", Order)

    assert str(error_of(reads)).startswith("kv['a'] as Order.order_id: ")


# ------------------------------------------------- only inside, only while it runs


OUTSIDE: dict[str, Use] = {
    "kv": lambda ctx: ctx.kv.get("a"),
    "kv set": lambda ctx: ctx.kv.update(a=1),
    "kv clear": lambda ctx: ctx.kv.clear(),
    "kv prune": lambda ctx: ctx.kv.prune(ctx.now()),
    "report": lambda ctx: ctx.report(1),
    "reported": lambda ctx: ctx.reported,
    "patched": lambda ctx: ctx.patched("x"),
    "start": lambda ctx: ctx.start(programs.child, "a"),
    "read_kv": lambda ctx: ctx.read_kv("other", "a", int),
    "ref": lambda ctx: ctx.ref("other").result(),
}


@pytest.mark.parametrize("use", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_outside_its_own_orchestration_the_context_says_what_to_do(use: Use) -> None:
    kept: list[Context] = []

    @orchestration
    async def lets_it_out(ctx: Context) -> None:
        kept.append(ctx)
        await say("a")

    script = Script(lets_it_out)

    with pytest.raises(UsageError, match=r"only inside (its own|an) orchestration.*client\.handle"):
        use(kept[0])
    with pytest.raises(UsageError, match="only inside"):
        asyncio.run(_use(use, kept[0]))
    assert script.execution.calls.asks == []


async def _use(use: Use, ctx: Context) -> None:
    use(ctx)


@pytest.mark.parametrize(
    "use", [use for name, use in OUTSIDE.items() if name != "ref"], ids=list(OUTSIDE)[:-1]
)
def test_another_orchestration_cannot_use_it(use: Use) -> None:
    kept: list[Context] = []
    used(kept.append)

    error = error_of(lambda _: use(kept[0]))

    assert isinstance(error, UsageError)
    assert "of instance 'i-1' works only inside its own orchestration" in str(error)


def test_inline_code_cannot_use_it() -> None:
    @orchestration
    async def uses_it_inline(ctx: Context) -> None:
        await inline(lambda: ctx.kv.get("a"), name="peeks")

    script = Script(uses_it_inline)
    request: Any = getattr(script.execution.open[2], "request", None)

    with pytest.raises(UsageError, match="hand values to activities and inline calls as arguments"):
        request.run()


# ------------------------------------------------------------ the determinism check


def replay_error(before: Use, after: Use) -> NondeterminismError:
    @orchestration(name="uses")
    async def then(ctx: Context) -> None:
        before(ctx)
        await say("a")

    @orchestration(name="uses")
    async def now(ctx: Context) -> None:
        after(ctx)
        await say("a")

    with pytest.raises(NondeterminismError) as caught:
        Script(then).replayed(by=now)
    return caught.value


AT = datetime(2027, 1, 2, tzinfo=UTC)


def _nothing(ctx: Context) -> None:
    pass


def _sets(ctx: Context) -> None:
    ctx.kv["a"] = 1


def _sets_more(ctx: Context) -> None:
    ctx.kv["a"] = 2


def _sets_true(ctx: Context) -> None:
    ctx.kv["a"] = True


def _sets_another(ctx: Context) -> None:
    ctx.kv["b"] = 1


def _sets_and_removes(ctx: Context) -> None:
    ctx.kv["a"] = 1
    del ctx.kv["a"]


def _sets_and_clears(ctx: Context) -> None:
    ctx.kv["a"] = 1
    ctx.kv.clear()


def _sets_and_prunes(ctx: Context) -> None:
    ctx.kv["a"] = 1
    ctx.kv.prune(ctx.now() + timedelta(seconds=1))


def _sets_and_prunes_later(ctx: Context) -> None:
    ctx.kv["a"] = 1
    ctx.kv.prune(ctx.now() + timedelta(seconds=2))


def _reports(ctx: Context) -> None:
    ctx.report(1)


@pytest.mark.parametrize(
    ("before", "after", "recorded", "asked"),
    [
        (_sets, _sets_more, "kv set 'a' 1", "kv set 'a' 2"),
        (_sets, _sets_true, "kv set 'a' 1", "kv set 'a' true"),
        (_sets, _sets_another, "kv set 'a'", "kv set 'b'"),
        (_sets, _nothing, "kv set 'a'", "activity scheduled say"),
        (_nothing, _sets, "activity scheduled say", "kv set 'a'"),
        (_sets_and_removes, _sets, "kv removed 'a'", "activity scheduled say"),
        (_sets_and_clears, _sets_and_removes, "kv cleared", "kv removed 'a'"),
        (
            _sets_and_prunes,
            _sets_and_prunes_later,
            "kv pruned before 2027-01-15 08:00:01.000",
            "kv pruned before 2027-01-15 08:00:02.000",
        ),
        (_reports, _nothing, "reported", "activity scheduled say"),
        (_reports, _sets, "reported", "kv set 'a'"),
    ],
)
def test_a_difference_is_found_and_both_sides_are_shown(
    before: Use, after: Use, recorded: str, asked: str
) -> None:
    error = replay_error(before, after)

    assert (error.recorded, error.asked) == (recorded, asked)
    assert recorded in str(error)
    assert asked in str(error)


def test_the_line_that_sets_a_value_is_named() -> None:
    error = replay_error(_nothing, _sets)

    line = _sets.__code__.co_firstlineno + 1
    assert error.place == f"test_values.py:{line} in _sets"


def test_the_line_is_the_users_also_when_the_dict_is_updated() -> None:
    def updates(ctx: Context) -> None:
        ctx.kv.update({"a": 1})

    assert str(replay_error(_nothing, updates).place).endswith(" in updates")


def test_the_order_of_keys_within_a_value_is_no_difference() -> None:
    @orchestration(name="uses")
    async def then(ctx: Context) -> None:
        ctx.kv["a"] = {"x": 1, "y": [{"p": 1, "q": 2}]}
        await say("a")

    @orchestration(name="uses")
    async def now(ctx: Context) -> None:
        ctx.kv["a"] = {"y": [{"q": 2, "p": 1}], "x": 1}
        await say("a")

    script = Script(then)
    script.replayed(by=now)


# ------------------------------------------------------------------------ teardown


@pytest.mark.parametrize("use", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_nothing_is_kept_or_said_by_code_that_is_torn_down(use: Use) -> None:
    reached: list[str] = []

    @orchestration
    async def cleans_up(ctx: Context) -> None:
        ctx.kv["a"] = 1
        try:
            await say("a")
        finally:
            try:
                ctx.kv["b"] = 2
            finally:
                use_of = use(ctx)
                if asyncio.iscoroutine(use_of):
                    use_of.close()
                reached.append("end")

    execution = Script(cleans_up).execution
    before = (
        execution.last_seq,
        execution.digest(),
        dict(execution.scope.kv),
        execution.scope.report,
    )
    assert execution.tear_down() == []
    assert (
        execution.last_seq,
        execution.digest(),
        dict(execution.scope.kv),
        execution.scope.report,
    ) == before
    assert execution.calls.asks == []
