from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from perdure.authoring.activity import Activity, activity
from perdure.authoring.failures import revive_activity_error
from perdure.clock import to_datetime
from perdure.errors import DefinitionError
from perdure.jobs.processes import check_process_activity
from perdure.jobs.slots import SlotKind
from perdure.model.histories.events import ActivityFailed
from perdure.model.options import WorkerOptions
from tests.jobs import busywork
from tests.jobs.job_harness import (
    INSTANCE,
    NO_GRACE,
    bench,
    failures_of,
    last_failure,
    lease_of,
    result_of,
    until,
)
from tests.sizes import WITHIN_S

ONE = WorkerOptions(process_jobs=1)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """Return a named pipe on which `hang` says that it runs."""
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    return pipe


async def pids_from(begun: Path) -> list[int]:
    return [int(pid) for pid in (await asyncio.to_thread(begun.read_text)).split()]


# ------------------------------------------------------------------- results


async def test_a_result_comes_back_from_a_process_that_is_used_again() -> None:
    async with bench(busywork.pid, options=ONE) as made:
        first = result_of(await made.end_of(busywork.pid))
        second = result_of(await made.end_of(busywork.pid))

        assert made.runner.counts.completed == 2
        await made.runner.stop(NO_GRACE)

    assert first == second != os.getpid()
    assert not is_running(first)


async def test_each_slot_has_a_process_of_its_own(tmp_path: Path) -> None:
    pipes = [tmp_path / "one", tmp_path / "two"]
    async with bench(busywork.hang, options=WorkerOptions(process_jobs=2)) as made:
        for pipe in pipes:
            os.mkfifo(pipe)
            made.run(busywork.hang, str(pipe))
        waiting = made.run(busywork.hang, "nowhere")
        told = await asyncio.gather(*(pids_from(pipe) for pipe in pipes))
        given_back = await made.runner.stop(NO_GRACE)

    assert told[0][0] != told[1][0]
    assert len(given_back) == 3
    assert [end.key for end in given_back if end.refund] == [waiting.key]


async def test_a_large_value_crosses_the_border() -> None:
    async with bench(busywork.large, options=ONE) as made:
        end = await made.end_of(busywork.large, 1_000_000)

    assert len(result_of(end)) == 1_000_000


async def test_a_function_that_was_wrapped_under_another_name_is_found() -> None:
    async with bench(busywork.wrapped, options=ONE) as made:
        end = await made.end_of(busywork.wrapped, 5)

    assert result_of(end) == 15


async def test_the_context_has_the_ids_but_no_resources() -> None:
    definitions = (busywork.describe_context, busywork.want_resource)
    async with bench(*definitions, options=ONE, resources=[{}]) as made:
        job = made.run(busywork.describe_context, attempt=2)
        told = result_of(await made.next_end())
        refused = await made.end_of(busywork.want_resource)

    assert told == {
        "instance_id": INSTANCE,
        "activity": "describe_context",
        "attempt": 2,
        "idempotency_key": job.key.idempotency_key,
        "scheduled_at": to_datetime(made.clock()).isoformat(),
        "is_cancelled": False,
    }
    assert last_failure(refused).type_name == "UsageError"
    assert "process of its own, where the worker's resources are not" in (
        last_failure(refused).message
    )


# ------------------------------------------------------------------ failures


async def test_an_exception_is_recorded_with_its_traceback_and_content() -> None:
    async with bench(busywork.halve, options=ONE) as made:
        end = await made.end_of(busywork.halve, 3)

    assert end.failure is not None
    assert (end.failure.type_name, end.failure.message) == ("OddError", "odd: 3")
    assert "raise OddError(value)" in end.failure.traceback_text
    assert end.failure.at_ms == made.clock()
    assert end.retry_at_ms == made.clock() + 1_000
    revived = revive_activity_error(
        "halve", ActivityFailed(schedule=1, failures=(end.failure,)), [busywork.OddError]
    )
    assert isinstance(revived, busywork.OddError)
    assert revived.number == 3


@pytest.mark.parametrize("code", [0, 3])
async def test_a_process_that_exits_is_a_failure_that_is_retried(code: int) -> None:
    async with bench(busywork.leave, busywork.pid, options=ONE) as made:
        end = await made.end_of(busywork.leave, code)
        after = await made.end_of(busywork.pid)

    assert end.failure is not None
    assert end.failure.type_name == "WorkerProcessDied"
    assert end.failure.message == f"its process ended with exit code {code}"
    assert end.retry_at_ms is not None
    assert result_of(after) > 0, "a new process took its place"


async def test_a_process_ended_by_a_signal_is_named_with_it() -> None:
    async with bench(busywork.kill_myself, options=ONE) as made:
        crash = await made.end_of(busywork.kill_myself, int(signal.SIGSEGV))
        killed = await made.end_of(busywork.kill_myself, int(signal.SIGKILL))

    assert last_failure(crash).message == "its process was ended by SIGSEGV (11)"
    assert "SIGKILL (9); perhaps the machine was out of memory" in last_failure(killed).message


@pytest.mark.parametrize(
    ("leave", "type_name"),
    [(busywork.exit_politely, "SystemExit"), (busywork.interrupt, "KeyboardInterrupt")],
)
async def test_leaving_is_a_failure_and_the_process_goes_on(
    leave: Activity[[], None], type_name: str
) -> None:
    async with bench(leave, busywork.pid, options=ONE) as made:
        before = result_of(await made.end_of(busywork.pid))
        end = await made.end_of(leave)
        after = result_of(await made.end_of(busywork.pid))

    assert last_failure(end).type_name == type_name
    assert before == after


async def test_running_out_of_memory_is_a_failure_and_the_process_is_replaced() -> None:
    async with bench(busywork.eat, busywork.pid, options=ONE) as made:
        before = result_of(await made.end_of(busywork.pid))
        end = await made.end_of(busywork.eat, 1_000)
        after = result_of(await made.end_of(busywork.pid))

    assert last_failure(end).type_name in ("MemoryError", "WorkerProcessDied")
    assert before != after


async def test_a_process_that_closes_its_connection_is_a_failure() -> None:
    async with bench(busywork.close_everything, options=ONE) as made:
        end = await made.end_of(busywork.close_everything)

    assert last_failure(end).type_name == "WorkerProcessDied"


async def test_a_process_that_died_while_idle_costs_no_attempt() -> None:
    async with bench(busywork.pid, options=ONE) as made:
        before = result_of(await made.end_of(busywork.pid))
        os.kill(before, signal.SIGKILL)
        await asyncio.to_thread(os.waitid, os.P_PID, before, os.WEXITED | os.WNOWAIT)
        after = result_of(await made.end_of(busywork.pid))

    assert before != after


async def test_a_process_that_cannot_be_started_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise OSError("no more processes")

    monkeypatch.setattr("perdure.jobs.processes._start_process", fail)
    async with bench(busywork.pid, options=ONE) as made:
        end = await made.end_of(busywork.pid)

    assert last_failure(end).message == "its process could not be started: no more processes"


async def test_a_result_that_cannot_be_stored_is_never_retried() -> None:
    async with bench(busywork.return_garbage, options=ONE) as made:
        end = await made.end_of(busywork.return_garbage)

    assert failures_of(end)[0].type_name == "PayloadError"


async def test_arguments_that_are_damaged_are_never_retried() -> None:
    async with bench(busywork.halve, options=ONE) as made:
        end = await made.end_of(busywork.halve, 0, input=b"garbage")

    assert failures_of(end)[0].type_name == "PayloadError"


async def test_arguments_that_do_not_fit_are_left_to_other_code() -> None:
    async with bench(busywork.halve, options=ONE) as made:
        end = await made.end_of(busywork.halve, 0, input=b'{"value":"text"}')

    assert (end.kind, end.refund) == (None, True)
    assert "halve(value)" in end.misfit


# ----------------------------------------------------------- being stopped


async def test_a_timeout_kills_the_process() -> None:
    async with bench(busywork.hang_briefly, busywork.pid, options=ONE) as made:
        before = result_of(await made.end_of(busywork.pid))
        end = await made.end_of(busywork.hang_briefly)
        after = result_of(await made.end_of(busywork.pid))

    assert end.failure is not None
    assert end.failure.message == "hang_briefly took longer than 0.05 s"
    assert end.retry_at_ms is not None
    assert before != after
    assert not is_running(before)
    assert made.runner.counts.abandoned == 0


@pytest.mark.parametrize("how", ["cancel", "lose"])
async def test_a_cancelled_job_takes_its_process_and_what_that_started_along(
    how: str, begun: Path
) -> None:
    async with bench(busywork.hang, busywork.pid, options=ONE) as made:
        job = made.run(busywork.hang, str(begun))
        pids = await pids_from(begun)
        if how == "cancel":
            made.runner.cancel([job.key])
        else:
            made.runner.lose([lease_of(job)])
        after = await made.end_of(busywork.pid)
        await until(lambda: not any(map(is_running, pids)))

    assert result_of(after) not in pids
    assert made.ends.empty()


async def test_a_job_cancelled_while_its_process_starts_never_runs() -> None:
    async with bench(busywork.leave, busywork.pid, options=ONE) as made:
        job = made.run(busywork.leave, 1)
        await asyncio.sleep(0)
        made.runner.cancel([job.key])
        end = await made.end_of(busywork.pid)

    assert result_of(end) > 0
    assert made.runner.counts.cancelled == 1


async def test_stop_leaves_no_process(begun: Path) -> None:
    async with bench(busywork.hang, busywork.pid, options=WorkerOptions(process_jobs=2)) as made:
        idle = result_of(await made.end_of(busywork.pid))
        job = made.run(busywork.hang, str(begun))
        other = made.run(busywork.pid)
        pids = await pids_from(begun)
        ended, _ = await made.ends.get()
        given_back = await made.runner.stop(timedelta(milliseconds=10))
        await until(lambda: not any(map(is_running, [idle, *pids])))

    assert ended is other
    assert [(end.key, end.refund) for end in given_back] == [(job.key, False)]


async def test_a_process_ends_with_its_worker_and_so_does_what_it_started(begun: Path) -> None:
    """A worker that is killed cannot tidy up."""
    program = PREAMBLE + WORKER.format(begun=str(begun))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=Path(__file__).parents[2]
    )
    pids = await pids_from(begun)

    worker.kill()
    await worker.wait()

    await until(lambda: not any(map(is_running, pids)))


PREAMBLE = """
import asyncio
from datetime import timedelta
from perdure.authoring.activity import Activity, activity
from perdure.model.options import WorkerOptions
from tests.jobs.job_harness import bench, result_of
"""

WORKER = """
from tests.jobs import busywork

async def main():
    async with bench(busywork.hang, options=WorkerOptions(process_jobs=1)) as made:
        await made.end_of(busywork.hang, {begun!r})

asyncio.run(main())
"""

SCRIPT = """
@activity(process=True)
def where() -> str:
    return __name__

async def main():
    async with bench(where, options=WorkerOptions(process_jobs=1)) as made:
        print(result_of(await made.end_of(where)))
"""

GUARDED = """
if __name__ == "__main__":
    asyncio.run(main())
"""


def run_script(path: Path, text: str) -> subprocess.CompletedProcess[str]:
    path.write_text(text)
    return subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


# -------------------------------------------------------------- definitions


def test_a_function_of_the_main_script_runs_in_a_process(tmp_path: Path) -> None:
    done = run_script(tmp_path / "script.py", PREAMBLE + SCRIPT + GUARDED)

    assert (done.stdout, done.returncode) == ("__mp_main__\n", 0), done.stderr


def test_a_main_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    done = run_script(tmp_path / "script.py", PREAMBLE + SCRIPT + "\nasyncio.run(main())\n")

    assert "put what starts one under `if __name__ ==" in done.stderr
    assert "its process ended with exit code 1" in done.stderr


async def test_a_function_inside_a_function_is_refused_when_the_worker_is_made() -> None:
    local = busywork.make_local()

    with pytest.raises(DefinitionError, match=r"local.* is defined inside a function"):
        async with bench(local):
            pass


def test_a_name_that_stands_for_something_else_is_refused() -> None:
    fn = busywork.pid.fn
    hidden = activity(process=True)(fn)

    with pytest.raises(DefinitionError, match=r"busywork\.pid is something else"):
        check_process_activity(hidden)


def test_a_function_that_its_module_does_not_have_is_refused() -> None:
    def elsewhere() -> int:
        return 1

    elsewhere.__qualname__ = "elsewhere"

    with pytest.raises(DefinitionError, match="cannot be imported"):
        check_process_activity(activity(process=True)(elsewhere))


async def test_there_is_one_slot_per_core_unless_told_otherwise() -> None:
    async with bench(busywork.pid) as made:
        assert made.runner.room()[SlotKind.PROCESS] == 2 * (os.cpu_count() or 1)
