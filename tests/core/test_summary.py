"""What a history says without running code, and what it takes to stop an instance."""

from typing import Any

from perdure.core.identity import child_incarnation
from perdure.core.summary import Stop, Summary
from perdure.model.histories.events import (
    CancelRequested,
    Parent,
    Started,
    Terminated,
    read_event,
    write_event,
)
from perdure.model.messages import Delivery
from tests.core import programs
from tests.core.harness import ID, START_MS, Script

PARENT = Parent("boss", 5, 2, 9)


def read(delivery: Delivery) -> Any:
    return read_event(delivery.kind, delivery.body)


def test_a_detached_start_is_open_until_it_is_answered() -> None:
    script = Script(programs.starts_detached)
    assert {seq: event.kind for seq, (event, _) in Summary(script.history).open.items()} == {
        2: "detached_scheduled"
    }

    script.detached_starts(2)
    script.detached_is_refused(4)
    assert Summary(script.history).open == {}


def test_values_reports_and_changes_wait_for_nothing() -> None:
    for program in (programs.keeps_values, programs.reports, programs.is_patched):
        script = Script(program)
        assert list(Summary(script.history).open) == script.open


def test_stopping_a_continued_instance_tells_its_parent() -> None:
    script = Script(programs.counts_down, started={"parent": PARENT})
    script.say("a")
    second = script.continued()

    stop = Stop(second.execution.id, Summary(second.history), None, "for good", START_MS)

    [delivery] = stop.deliveries
    assert (delivery.instance_id, delivery.incarnation, delivery.execution) == ("boss", 5, 2)
    assert read(delivery).status == "was terminated"
    assert [kind for kind, _ in stop.events] == ["terminated"]


def test_stopping_between_two_executions_records_the_start_and_tells_the_parent() -> None:
    """The commit that continues has put the start into the inbox; no turn has taken it yet."""
    script = Script(programs.counts_down, started={"parent": PARENT})
    script.say("a")
    continued = script.turns[-1].continued
    assert continued is not None
    unstarted = read_event(*continued.start)
    assert isinstance(unstarted, Started)

    stop = Stop(ID._replace(execution=2), Summary(), unstarted, "for good", START_MS)

    assert [kind for kind, _ in stop.events] == ["started", "terminated"]
    assert [delivery.instance_id for delivery in stop.deliveries] == ["boss"]


def test_stopping_a_continued_instance_closes_the_children_of_that_execution() -> None:
    script = Script(programs.continues_leaving_everything)
    open_before = Stop(ID, Summary(script.history), None, "stop", START_MS).deliveries
    seqs = [seq for seq, event in enumerate(script.kinds, 1) if event == "child_scheduled"]

    closed = {delivery.instance_id: delivery for delivery in open_before}
    why = "its parent 'i-1' was terminated"
    assert {name: read(delivery) for name, delivery in closed.items()} == {
        "cancel": CancelRequested(reason=why),
        "terminate": Terminated(reason=why),
    }
    assert closed["cancel"].incarnation == child_incarnation(ID, seqs[0])
    script.say("b")
    second = script.continued()
    assert (
        Stop(second.execution.id, Summary(second.history), None, "stop", START_MS).deliveries == ()
    )


def test_a_summary_in_parts_is_that_of_the_whole() -> None:
    script = Script(programs.starts_detached)
    script.detached_starts(2)
    script.detached_is_refused(4)
    history = script.history
    news = [write_event(CancelRequested(reason="enough"))]
    whole = Summary(history)

    for cut in range(len(history) + 1):
        parts = Summary(history[:cut])
        before = parts.copy()
        parts.add(history[cut:])

        assert (parts.open, parts.started) == (whole.open, whole.started)
        assert parts.digest_with(news, 9) == whole.digest_with(news, 9)
        assert before.open == Summary(history[:cut]).open
