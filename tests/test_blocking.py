"""The blocking client: the async one, for callers that wait."""

from __future__ import annotations

import asyncio
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import BlockingClient, Engine, Signal, Status, activity, orchestration
from perdure.client.blocking.loop_thread import LoopThread
from perdure.errors import (
    AlreadyExistsError,
    InstanceEndedError,
    InstanceFailedError,
    InstanceNotFoundError,
    InstanceTerminatedError,
    InvalidIdError,
    PayloadError,
    ResultTimeoutError,
    UsageError,
)

ROOT = Path(__file__).parent.parent
SOON = timedelta(milliseconds=10)
approved = Signal("approved", bool)


@activity
async def shout(text: str) -> str:
    return text.upper()


@orchestration
async def greet(name: str, *, mark: str = "!") -> str:
    return await shout(f"hello {name}{mark}")


@orchestration
async def ask() -> str:
    return "yes" if await approved.receive() else "no"


@orchestration
async def fail() -> None:
    raise ValueError("not today")


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("BlockingClient")
    thread.open(nothing())
    yield thread
    thread.close(nothing())


async def nothing() -> None: ...


@pytest.fixture
def client(url: str) -> Iterator[BlockingClient]:
    with BlockingClient(url, create=True) as client:
        yield client


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "perdure-client"]


def test_the_blocking_client_is_what_the_tool_makes() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "make_blocking.py"))

    for file, text in tool["make"]().items():
        assert file.read_text() == text, "run: python tools/make_blocking.py"


# ----------------------------------------------------------------- without a worker


def test_a_started_instance_can_be_asked_about(client: BlockingClient) -> None:
    handle = client.start("g-1", greet, "Ada", mark="?")

    info = handle.info()

    assert repr(handle) == "BlockingHandle('g-1')"
    assert (info.instance_id, info.name, info.status) == ("g-1", "greet", Status.RUNNING)
    assert info.input == {"name": "Ada", "mark": "?"}
    assert handle.history() == []
    assert "needs greet 1.0.0" in handle.explain()


def test_what_the_client_does_is_counted(client: BlockingClient) -> None:
    client.start("g-1", greet, "Ada")

    assert client.telemetry.snapshot().value("perdure_client_starts_total") == 1


def test_an_id_is_made_when_none_is_given(client: BlockingClient) -> None:
    handle = client.start(greet, "Ada")

    assert client.handle(handle.instance_id).info().name == "greet"


def test_a_start_is_durable(client: BlockingClient, url: str) -> None:
    client.start("g-1", greet, "Ada")
    client.close()

    with BlockingClient(url, create=True) as second:
        assert second.handle("g-1", greet).info().status is Status.RUNNING


def test_a_terminated_instance_says_so(client: BlockingClient) -> None:
    handle = client.start("g-1", greet, "Ada")

    handle.terminate("enough")

    assert handle.info().status is Status.TERMINATED
    with pytest.raises(InstanceTerminatedError, match="enough"):
        handle.result()
    with pytest.raises(InstanceEndedError):
        handle.send(approved, True)


def test_a_cancelled_instance_waits_for_a_worker_to_see_it(client: BlockingClient) -> None:
    handle = client.start("g-1", greet, "Ada")

    handle.cancel("changed my mind")

    assert handle.info().status is Status.RUNNING


def test_a_wait_ends_at_its_timeout(client: BlockingClient) -> None:
    handle = client.start("g-1", greet, "Ada")

    with pytest.raises(ResultTimeoutError, match="needs greet"):
        handle.result(timeout=SOON)


def test_refusals_are_the_async_clients(client: BlockingClient) -> None:
    client.start("g-1", greet, "Ada")

    with pytest.raises(AlreadyExistsError):
        client.start("g-1", greet, "Grace")
    with pytest.raises(InstanceNotFoundError):
        client.handle("nobody").info()
    with pytest.raises(InvalidIdError):
        client.handle("")
    with pytest.raises(PayloadError):
        client.start("g-2", greet, 3)  # type: ignore[call-overload]  # that is the point


# ------------------------------------------------------------------------- lifetime


def test_a_client_that_is_not_open_says_so(url: str) -> None:
    client = BlockingClient(url, create=True)

    with pytest.raises(UsageError, match="this BlockingClient is not open: use `with`"):
        client.start("g-1", greet, "Ada")
    with pytest.raises(UsageError, match="not open"):
        client.handle("g-1").info()
    client.close()


def test_a_closed_client_says_so_and_leaves_no_thread(url: str) -> None:
    with BlockingClient(url, create=True) as client:
        handle = client.start("g-1", greet, "Ada")

    with pytest.raises(UsageError, match="not open"):
        handle.info()
    client.close()
    assert loop_threads() == []


def test_opening_twice_and_closing_twice_is_harmless(url: str) -> None:
    client = BlockingClient(url, create=True).open()

    assert client.open() is client
    assert len(loop_threads()) == 1
    client.close()
    client.close()


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    (tmp_path / "shop.db").write_bytes(b"this is no database" * 100)

    with pytest.raises(Exception, match=r"shop\.db"):
        BlockingClient(f"sqlite:///{tmp_path}/shop.db", create=True).open()

    assert loop_threads() == []


def test_closing_ends_the_waits_of_other_threads(thread: LoopThread) -> None:
    begun = threading.Event()

    async def wait_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(lambda: thread.run(wait_for_ever()))
        begun.wait()

        thread.close(nothing())

        with pytest.raises(UsageError, match="closed while the call waited"):
            waiting.result()


# -------------------------------------------------------------------------- threads


def test_many_threads_share_a_client(client: BlockingClient) -> None:
    def start(number: int) -> Status:
        return client.start(f"g-{number}", greet, "Ada").info().status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(start, range(50))) == {Status.RUNNING}


async def test_it_works_inside_a_running_loop(url: str) -> None:
    """It holds the loop up meanwhile, and says so in its docstring."""
    with BlockingClient(url, create=True) as client:
        assert client.start("g-1", greet, "Ada").info().name == "greet"


def test_a_call_on_its_own_thread_is_refused(thread: LoopThread) -> None:
    """It would wait for itself for ever: a validator of a payload that asks the client, say."""

    async def call_back() -> None:
        thread.run(nothing())

    with pytest.raises(UsageError, match="wait for itself"):
        thread.run(call_back())


INTERRUPTED = """
import os, signal, sys, threading
from perdure import BlockingClient, orchestration

@orchestration
async def greet() -> None: ...

def interrupt(main: int) -> None:
    while True:
        frame = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_name != "_wait":
            frame = frame.f_back
        if frame is not None:
            return os.kill(os.getpid(), signal.SIGINT)

with BlockingClient(sys.argv[1], create=True) as client:
    handle = client.start("g-1", greet)
    try:
        threading.Thread(target=interrupt, args=[threading.get_ident()]).start()
        handle.result()
    except KeyboardInterrupt:
        print("interrupted", handle.info().status)
print("closed", threading.active_count())
"""


def test_ctrl_c_breaks_off_the_wait_and_nothing_else(url: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.stdout, ended.stderr) == ("interrupted running\nclosed 1\n", "")


CLOSED_AT_EXIT = """
import atexit, sys, threading
from perdure import BlockingClient, orchestration

@orchestration
async def greet() -> None: ...

client = BlockingClient(sys.argv[1], create=True)
client.open()
atexit.register(lambda: print("closed", threading.active_count()))
atexit.register(client.close)
print(client.start("g-1", greet).info().status)
"""

ASYNC_CLOSED_AT_EXIT = """
import asyncio, atexit, sys
from perdure import Client, orchestration

@orchestration
async def greet() -> None: ...

async def main(client: Client) -> None:
    await client.open()
    print((await (await client.start("g-1", greet)).info()).status)

client = Client(sys.argv[1], create=True)
atexit.register(print, "closed", 1)
atexit.register(lambda: asyncio.run(client.close()))
asyncio.run(main(client))
"""


@pytest.mark.skipif(
    sys.version_info[:2] == (3, 12),
    reason="Python 3.12.1 starts no thread when a program exits, and closing needs some",
)
@pytest.mark.parametrize(
    "program", [CLOSED_AT_EXIT, ASYNC_CLOSED_AT_EXIT], ids=["blocking", "async"]
)
def test_a_client_can_be_closed_when_the_program_exits(url: str, program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "running\nclosed 1\n", "")


def test_an_operator_can_look_around_and_tidy_up(client: BlockingClient) -> None:
    for number in range(3):
        client.start(f"g-{number}", greet, "Ada").terminate()

    page = client.instances(status="terminated", limit=2)
    rest = client.instances(status="terminated", limit=2, after=page.next)

    assert [info.instance_id for info in (*page.items, *rest.items)] == ["g-2", "g-1", "g-0"]
    assert client.metrics().instances[Status.TERMINATED] == 3
    assert client.delete("g-0").instances == 1
    assert client.delete_all(name="greet", expect=2).instances == 2
    assert client.count() == 0


def test_a_signal_can_come_with_the_start(client: BlockingClient) -> None:
    handle = client.send_with_start(approved, True, "a-1", ask)

    assert [message.kind for message in client.inbox("a-1")] == ["started", "signal_received"]
    assert handle.kv() == {}
    assert handle.tree().info.name == "ask"


# -------------------------------------------------------------------- with a worker


@pytest.fixture
def served(url: str, client: BlockingClient) -> Iterator[BlockingClient]:
    """A client of a store that an engine works on, in another thread."""
    engine = Engine(url, [shout, greet, ask, fail])
    elsewhere = LoopThread("Engine")
    elsewhere.open(engine.open())
    yield client
    elsewhere.close(engine.close())


def test_a_result_comes_from_an_engine_elsewhere(served: BlockingClient) -> None:
    handle = served.start("g-1", greet, "Ada")

    assert handle.result() == "HELLO ADA!"
    assert handle.info().status is Status.COMPLETED
    assert handle.history()[0].kind == "started"


def test_a_signal_goes_on_to_an_engine_elsewhere(served: BlockingClient) -> None:
    handle = served.start("a-1", ask)

    handle.send(approved, True)

    assert handle.result() == "yes"


def test_a_failure_is_raised_here(served: BlockingClient) -> None:
    handle = served.start("f-1", fail)

    with pytest.raises(InstanceFailedError, match="not today"):
        handle.result()


def test_many_threads_wait_for_their_own_results(served: BlockingClient) -> None:
    def greeting(name: str) -> str:
        return served.start(f"g-{name}", greet, name).result()

    with ThreadPoolExecutor(8) as pool:
        greetings = list(pool.map(greeting, "abcdefghijklmnop"))

    assert greetings == [f"HELLO {name.upper()}!" for name in "abcdefghijklmnop"]
