import asyncio
import cProfile
import datetime as dt
import gc
import inspect
import io
import json
import logging
import os
import pathlib
import random
import secrets
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import types
import urllib.request
import uuid
import warnings
import zoneinfo
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial, wraps
from pathlib import Path
from typing import Any

import pytest

import perdure.core.guard
from perdure.core.forbidden import CLOCK, IDENTITY, OUTSIDE, RANDOM, SLEEP, UUID
from perdure.core.guard import Guard, install, look_at
from perdure.errors import NondeterminismError

HERE = Path(__file__).name


def _enter_and_call(guard: Guard, code: Callable[[], Any]) -> Any:
    with guard:
        return code()


# Turns are run by perdure.core, and there the guard's look at the callers ends: what runs the core
# (here pytest, perhaps under coverage or a debugger) has no say in what is let through.
run_stretch: Callable[[Guard, Callable[[], Any]], Any] = types.FunctionType(
    _enter_and_call.__code__, {"__name__": "perdure.core.stand_in"}
)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """As in a turn: hypothesis, for one, reads a clock whenever the collector runs."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def watching() -> Guard:
    return Guard(watch_calls=True)


@pytest.fixture
def audit_only() -> Guard:
    return Guard(watch_calls=False)


@dataclass
class Parcel:
    parcel_id: uuid.UUID = field(default_factory=uuid.uuid4)


class OurDatetime(datetime):
    pass


class OurRandom(random.Random):
    pass


# --- What is caught at both levels

AUDITED: list[tuple[str, Callable[[], object]]] = [
    ("open", lambda: io.FileIO("perdure.txt")),
    ("open", lambda: os.open("perdure.txt", os.O_RDONLY)),
    ("pathlib.Path.read_text", lambda: Path("perdure.txt").read_text()),
    ("os.listdir", lambda: os.listdir(".")),
    ("os.scandir", lambda: os.scandir(".")),
    ("os.walk", lambda: list(os.walk("."))),
    ("os.mkdir", lambda: os.mkdir("perdure.d")),
    ("os.remove", lambda: os.remove("perdure.txt")),
    ("os.rename", lambda: os.rename("perdure.a", "perdure.b")),
    ("shutil.rmtree", lambda: shutil.rmtree("perdure.d")),
    ("shutil.copy", lambda: shutil.copy("perdure.a", "perdure.b")),
    ("tempfile.", lambda: tempfile.mkdtemp()),
    ("sqlite3.connect", lambda: sqlite3.connect(":memory:")),
    ("socket.socket", lambda: socket.socket()),
    ("socket.create_connection", lambda: socket.create_connection(("localhost", 1))),
    ("socket.getaddrinfo", lambda: socket.getaddrinfo("localhost", 80)),
    ("socket.gethostname", lambda: socket.gethostname()),
    ("urllib.request.urlopen", lambda: urllib.request.urlopen("http://localhost:1")),
    ("subprocess.run", lambda: subprocess.run(["true"])),
    ("subprocess.Popen", lambda: subprocess.Popen(["true"])),
    ("os.system", lambda: os.system("true")),
    ("os.fork", lambda: os.fork()),
    ("os.posix_spawn", lambda: os.posix_spawn("/bin/true", ["true"], {})),
    ("input", lambda: input()),
]


@pytest.mark.parametrize("watch_calls", [False, True], ids=["audit only", "watching"])
@pytest.mark.parametrize(
    ("asked", "call"), AUDITED, ids=[f"{n}-{asked}" for n, (asked, _) in enumerate(AUDITED)]
)
def test_files_sockets_and_processes_are_refused_at_both_levels(
    asked: str, call: Callable[[], object], watch_calls: bool
) -> None:
    guard = Guard(watch_calls=watch_calls)

    with pytest.raises(NondeterminismError, match="cannot be replayed") as caught:
        run_stretch(guard, call)

    assert OUTSIDE in str(caught.value)
    assert str(caught.value.asked).startswith(asked)
    assert f"at {HERE}:" in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 has no audit event for threads")
def test_a_thread_is_refused_without_the_call_monitor(audit_only: Guard) -> None:
    with pytest.raises(NondeterminismError, match=r"threading\.Thread\.start\(\)"):
        run_stretch(audit_only, threading.Thread(target=int).start)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="time.sleep is audited from 3.13")
def test_a_sleep_is_refused_without_the_call_monitor(audit_only: Guard) -> None:
    with pytest.raises(NondeterminismError, match=r"asyncio\.sleep"):
        run_stretch(audit_only, lambda: time.sleep(0))


# --- What only the call monitor catches

WATCHED: list[tuple[str, str, Callable[[], object]]] = [
    ("time.time", CLOCK, lambda: time.time()),
    ("time.time_ns", CLOCK, lambda: time.time_ns()),
    ("time.monotonic", CLOCK, lambda: time.monotonic()),
    ("time.monotonic_ns", CLOCK, lambda: time.monotonic_ns()),
    ("time.perf_counter", CLOCK, lambda: time.perf_counter()),
    ("time.perf_counter_ns", CLOCK, lambda: time.perf_counter_ns()),
    ("time.process_time", CLOCK, lambda: time.process_time()),
    ("time.localtime", CLOCK, lambda: time.localtime()),
    ("time.gmtime", CLOCK, lambda: time.gmtime()),
    ("time.ctime", CLOCK, lambda: time.ctime()),
    ("time.asctime", CLOCK, lambda: time.asctime()),
    ("time.strftime", CLOCK, lambda: time.strftime("%Y")),
    ("datetime.now", CLOCK, lambda: datetime.now(UTC)),
    ("datetime.now", CLOCK, lambda: dt.datetime.now(tz=UTC)),
    ("datetime.utcnow", CLOCK, lambda: datetime.utcnow()),
    ("datetime.today", CLOCK, lambda: datetime.today()),
    ("date.today", CLOCK, lambda: date.today()),
    ("OurDatetime.now", CLOCK, lambda: OurDatetime.now()),
    ("random.random", RANDOM, lambda: random.random()),
    ("random.randint", RANDOM, lambda: random.randint(1, 6)),
    ("random.choice", RANDOM, lambda: random.choice([1, 2])),
    ("random.choices", RANDOM, lambda: random.choices([1, 2], k=2)),
    ("random.shuffle", RANDOM, lambda: random.shuffle([1, 2])),
    ("random.uniform", RANDOM, lambda: random.uniform(0, 1)),
    ("random.gauss", RANDOM, lambda: random.gauss(0, 1)),
    ("random.randbytes", RANDOM, lambda: random.randbytes(2)),
    ("random.seed", RANDOM, lambda: random.seed()),
    ("random.seed", RANDOM, lambda: random.seed(5)),
    ("random.Random", RANDOM, lambda: random.Random()),
    ("random.Random", RANDOM, lambda: OurRandom()),
    ("random.Random", RANDOM, lambda: random.Random(None)),
    ("random.SystemRandom.random", RANDOM, lambda: random.SystemRandom().random()),
    ("random.randint", RANDOM, lambda: random.SystemRandom().randint(1, 6)),
    ("secrets.token_hex", RANDOM, lambda: secrets.token_hex()),
    ("random.choice", RANDOM, lambda: secrets.choice([1, 2])),
    ("os.urandom", RANDOM, lambda: os.urandom(4)),
    ("uuid.uuid1", UUID, lambda: uuid.uuid1()),
    ("uuid.uuid1", UUID, lambda: uuid.uuid1(node=1)),
    ("uuid.uuid4", UUID, lambda: uuid.uuid4()),
    ("uuid.uuid4", UUID, lambda: Parcel()),
    ("os.getpid", IDENTITY, lambda: os.getpid()),
    ("os.getppid", IDENTITY, lambda: os.getppid()),
    ("os.times", CLOCK, lambda: os.times()),
    ("time.sleep", SLEEP, lambda: time.sleep(0)),
    ("threading.Thread.start", OUTSIDE, lambda: threading.Thread(target=int).start()),
    ("os.stat", OUTSIDE, lambda: os.stat(".")),
    ("os.path.exists", OUTSIDE, lambda: os.path.exists(".")),
    ("pathlib.Path", OUTSIDE, lambda: Path("perdure.txt").is_file()),
]
if hasattr(os, "getrandom"):
    WATCHED.append(("os.getrandom", RANDOM, lambda: os.getrandom(4)))
if hasattr(uuid, "uuid7"):
    WATCHED.append(("uuid.uuid7", UUID, vars(uuid)["uuid7"]))


@pytest.mark.filterwarnings("ignore:.*utcnow:DeprecationWarning")
@pytest.mark.parametrize(
    ("asked", "advice", "call"),
    WATCHED,
    ids=[f"{n}-{asked}" for n, (asked, _, _) in enumerate(WATCHED)],
)
def test_clocks_randomness_and_uuids_are_refused_with_what_to_use_instead(
    asked: str, advice: str, call: Callable[[], object], watching: Guard
) -> None:
    with pytest.raises(NondeterminismError) as caught:
        run_stretch(watching, call)

    assert str(caught.value.asked).startswith(asked)
    assert str(caught.value).endswith(f"cannot be replayed: {advice}")
    assert f"at {HERE}:" in str(caught.value)


def test_clocks_pass_without_the_call_monitor(audit_only: Guard) -> None:
    assert run_stretch(audit_only, lambda: time.time()) > 0


def test_a_function_imported_by_name_is_refused_all_the_same(watching: Guard) -> None:
    from time import time as now  # The point of the test.

    with pytest.raises(NondeterminismError, match=r"time\.time\(\)"):
        run_stretch(watching, lambda: now())


# --- What is let through

ZONE = dt.timezone(timedelta(hours=2))


def _use_asyncio() -> object:
    async def put(queue: asyncio.Queue[int], ready: asyncio.Event) -> None:
        await ready.wait()
        async with asyncio.Lock():
            await queue.put(1)

    async def main() -> int:
        queue: asyncio.Queue[int] = asyncio.Queue()
        ready = asyncio.Event()
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(put(queue, ready))
            ready.set()
            await asyncio.sleep(0)
            got = await asyncio.wait_for(queue.get(), 60)
        return sum(await asyncio.gather(asyncio.sleep(0, got), asyncio.sleep(0, got)))

    return LOOP.run_until_complete(main())


LOOP: asyncio.AbstractEventLoop


@pytest.fixture(autouse=True, scope="module")
def _loop() -> Iterator[None]:
    """A loop of the standard library reads its clock itself, so it shows that asyncio may."""
    global LOOP
    LOOP = asyncio.new_event_loop()
    yield
    LOOP.close()


ALLOWED: dict[str, Callable[[], object]] = {
    "seeded random": lambda: random.Random(5).random(),
    "seeded choice": lambda: random.Random(5).choice([1, 2]),
    "seeded with zero": lambda: random.Random(0).gauss(0, 1),
    "seeded with text": lambda: random.Random("five").randint(1, 6),
    "own random class": lambda: OurRandom(5).random(),
    "fromisoformat": lambda: datetime.fromisoformat("2020-01-01T00:00:00+00:00"),
    "strptime": lambda: datetime.strptime("2020-01-01", "%Y-%m-%d"),
    "astimezone": lambda: datetime(2020, 1, 1, tzinfo=UTC).astimezone(ZONE),
    "naive astimezone": lambda: datetime(2020, 1, 1).astimezone(ZONE),
    "fromtimestamp": lambda: datetime.fromtimestamp(0, UTC),
    "datetime strftime": lambda: datetime(2020, 1, 1).strftime("%Y"),
    "explicit localtime": lambda: time.localtime(0),
    "explicit gmtime": lambda: time.gmtime(0),
    "explicit ctime": lambda: time.ctime(0),
    "explicit strftime": lambda: time.strftime("%Y", time.gmtime(0)),
    "uuid of text": lambda: uuid.UUID(int=1),
    "uuid5": lambda: uuid.uuid5(uuid.NAMESPACE_DNS, "perdure"),
    "cached function": lambda: lru_cache(lambda: 1)(),
    "text in memory": lambda: io.StringIO("a").read(),
    "output": lambda: sys.stdout.write("hello"),
    "environment": lambda: os.environ.get("HOME"),
    "pure path": lambda: pathlib.PurePosixPath("/a") / "b",
    "format traceback": lambda: traceback.format_stack(),
    "source": lambda: inspect.getsource(_use_asyncio),
    "lock": lambda: threading.RLock().acquire(),
    "id and hash": lambda: (id(1), hash("a")),
    "asyncio": _use_asyncio,
}


@pytest.mark.parametrize("call", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_replays_is_let_through(call: Callable[[], object], watching: Guard) -> None:
    run_stretch(watching, call)

    assert watching.violation is None


@pytest.mark.parametrize("watch_calls", [False, True], ids=["audit only", "watching"])
def test_logging_to_a_file_with_timestamps_is_let_through(
    tmp_path: Path, watch_calls: bool
) -> None:
    handler = logging.FileHandler(tmp_path / "out.log", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(lineno)d %(message)s"))
    logger = logging.getLogger("test_guard")
    logger.addHandler(handler)

    try:
        run_stretch(Guard(watch_calls=watch_calls), lambda: logger.warning("seen"))
    finally:
        logger.removeHandler(handler)
        handler.close()

    assert "seen" in (tmp_path / "out.log").read_text()


def test_a_warning_is_let_through(watching: Guard) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = _show_as_python_does
        run_stretch(watching, lambda: warnings.warn("careful", stacklevel=1))

    assert watching.violation is None


def _show_as_python_does(*args: Any, **options: Any) -> None:
    warnings.formatwarning(*args[:4])  # Reads the source line.


@pytest.mark.parametrize("watch_calls", [False, True], ids=["audit only", "watching"])
def test_a_first_import_is_let_through_with_whatever_the_module_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch_calls: bool
) -> None:
    name = f"imported_in_a_turn_{watch_calls}".lower()
    (tmp_path / f"{name}.py").write_text(
        "import os, time, uuid\nBORN = time.time()\nNAME = uuid.uuid4()\nNEAR = os.listdir('.')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    run_stretch(Guard(watch_calls=watch_calls), lambda: __import__(name))

    assert sys.modules.pop(name).BORN > 0


@pytest.mark.parametrize("watch_calls", [False, True], ids=["audit only", "watching"])
def test_a_time_zone_is_looked_up(watch_calls: bool) -> None:
    zoneinfo.ZoneInfo.clear_cache()

    zone = run_stretch(Guard(watch_calls=watch_calls), lambda: zoneinfo.ZoneInfo("Europe/Berlin"))

    assert datetime(2020, 7, 1, tzinfo=zone).utcoffset() == timedelta(hours=2)


def test_an_error_printed_by_the_interpreter_is_let_through(
    watching: Guard, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python's own unraisable hook opens the source file from C, with the user's frame on top."""

    class Clumsy:
        def __del__(self) -> None:
            raise ValueError("dropped")

    hook, sys.unraisablehook = sys.unraisablehook, sys.__unraisablehook__
    try:
        run_stretch(watching, lambda: str(Clumsy()))
    finally:
        sys.unraisablehook = hook

    assert "dropped" in capfd.readouterr().err
    assert watching.violation is None


def test_what_perdure_itself_calls_is_let_through(watching: Guard) -> None:
    scope: dict[str, Any] = {"__name__": "perdure.telemetry", "time": time}
    exec("def measure():\n    return time.perf_counter()", scope)

    assert run_stretch(watching, scope["measure"]) > 0


def test_a_call_for_the_user_by_a_library_perdure_calls_is_refused(watching: Guard) -> None:
    """Decoding with `default_factory=uuid4` is the user's uuid4, not ours."""
    scope: dict[str, Any] = {"__name__": "perdure.codec", "uuid": uuid}
    exec("def decode():\n    return uuid.uuid4()", scope)

    with pytest.raises(NondeterminismError, match=r"uuid\.uuid4\(\)"):
        run_stretch(watching, lambda: scope["decode"]())


# --- Where it acts


def test_nothing_is_refused_outside_turns(watching: Guard, tmp_path: Path) -> None:
    run_stretch(watching, lambda: None)

    assert time.time() > 0
    assert uuid.uuid4() != uuid.uuid4()
    assert os.listdir(tmp_path) == []
    assert sys.getprofile() is None


@pytest.mark.parametrize("watch_calls", [False, True], ids=["audit only", "watching"])
def test_other_threads_go_on_while_a_turn_runs(watch_calls: bool, tmp_path: Path) -> None:
    in_turn, done = threading.Event(), threading.Event()
    seen: list[object] = []

    def work() -> None:
        in_turn.wait()
        try:
            seen.extend([time.time(), random.random(), os.listdir(tmp_path)])
        finally:
            done.set()

    def turn() -> None:
        in_turn.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    run_stretch(Guard(watch_calls=watch_calls), turn)
    thread.join()

    assert len(seen) == 3


def test_a_turn_that_is_not_watched_stays_so_beside_one_that_is(
    watching: Guard, audit_only: Guard
) -> None:
    in_turn, done = threading.Event(), threading.Event()
    seen: list[float] = []

    def work() -> None:
        in_turn.wait()
        try:
            seen.append(run_stretch(audit_only, lambda: time.time()))
        finally:
            done.set()

    def turn() -> None:
        in_turn.set()
        done.wait()
        time.time()

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(NondeterminismError):
        run_stretch(watching, turn)
    thread.join()

    assert len(seen) == 1


def test_turns_in_several_threads_are_each_watched_to_their_end() -> None:
    """Python 3.11 sets one profile function at a time and refuses the thread that comes second.

    It does so too when it unsets ours after a violation, and then raises that in its place.
    """
    seen: list[NondeterminismError | None] = []

    def work() -> None:
        for _ in range(300):
            guard = Guard(watch_calls=True)
            with suppress(NondeterminismError, RuntimeError):
                run_stretch(guard, lambda: time.time())
            seen.append(guard.violation)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert len(seen) == 1200
    assert None not in seen


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # In a threaded process: our point.
def test_the_child_of_a_fork_has_no_turn(watching: Guard) -> None:
    in_turn, done = threading.Event(), threading.Event()
    codes: list[int] = []

    def work() -> None:
        in_turn.wait()
        pid = os.fork()
        if pid == 0:
            os._exit(len(perdure.core.guard._turns))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        done.set()

    def turn() -> None:
        in_turn.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    run_stretch(watching, turn)
    thread.join()

    assert codes == [0]


def test_the_next_turn_is_watched_after_a_violation(watching: Guard) -> None:
    for _ in range(3):
        with pytest.raises(NondeterminismError):
            run_stretch(watching, lambda: time.time())

    run_stretch(watching, lambda: None)
    assert watching.violation is None


def test_a_swallowed_violation_is_remembered(watching: Guard) -> None:
    def swallow() -> str:
        try:
            return str(time.time())
        except Exception:
            return "unknown"

    result = run_stretch(watching, swallow)

    assert result == "unknown"
    assert watching.violation is not None
    assert watching.violation.asked == "time.time()"


def test_the_first_violation_of_a_stretch_is_the_one_kept(audit_only: Guard) -> None:
    def stumble() -> None:
        for path in ("a", "b"):
            try:
                os.mkdir(path) if path == "a" else os.rmdir(path)
            except NondeterminismError:
                continue

    run_stretch(audit_only, stumble)

    assert audit_only.violation is not None
    assert audit_only.violation.asked == "os.mkdir()"


def test_a_stretch_within_a_stretch_leaves_the_outer_one_guarded(watching: Guard) -> None:
    inner = Guard(watch_calls=True)

    def turn() -> None:
        run_stretch(inner, lambda: None)
        run_stretch(watching, lambda: None)
        time.time()

    with pytest.raises(NondeterminismError):
        run_stretch(watching, turn)

    assert inner.violation is None
    assert watching.violation is not None
    assert time.time() > 0


def test_installing_twice_adds_one_hook() -> None:
    added: list[str] = []
    on = [True]

    def count(event: str, args: tuple[object, ...]) -> None:
        if on and event == "sys.addaudithook":
            added.append(event)

    install()
    sys.addaudithook(count)
    install()
    Guard(watch_calls=True)
    on.clear()  # A hook stays for ever; this one at least stops counting.

    assert added == []


# --- Which place is named


def test_the_place_is_the_line_of_the_users_code(watching: Guard) -> None:
    def fulfil() -> None:
        uuid.uuid4()

    with pytest.raises(NondeterminismError) as caught:
        run_stretch(watching, fulfil)

    line = fulfil.__code__.co_firstlineno + 1
    assert caught.value.place == f"{HERE}:{line} in fulfil"
    assert str(caught.value) == (
        f"uuid.uuid4() at {HERE}:{line} in fulfil cannot be replayed: use context().uuid()"
    )


def test_the_place_in_a_coroutine_is_the_line_it_stands_at(watching: Guard) -> None:
    async def fulfil() -> None:
        await asyncio.sleep(0)
        time.time()

    with pytest.raises(NondeterminismError) as caught:
        run_stretch(watching, lambda: LOOP.run_until_complete(fulfil()))

    line = fulfil.__code__.co_firstlineno + 2
    assert caught.value.place == f"{HERE}:{line} in fulfil"


def test_the_place_skips_installed_packages_and_generated_methods(watching: Guard) -> None:
    scope: dict[str, Any] = {"__name__": "somewhere", "time": time}
    exec(compile("def now():\n    return time.time()", "/x/site-packages/some.py", "exec"), scope)

    def fulfil() -> None:
        scope["now"]()

    def pack() -> Parcel:
        return Parcel()

    with pytest.raises(NondeterminismError) as through_package:
        run_stretch(watching, fulfil)
    with pytest.raises(NondeterminismError) as through_dataclass:
        run_stretch(watching, pack)

    assert str(through_package.value.place).endswith("in fulfil")
    assert str(through_dataclass.value.place).endswith("in pack")


def test_what_runs_the_core_is_not_asked(watching: Guard) -> None:
    """An engine started by a module that is being imported must not be exempt as an import."""
    scope: dict[str, Any] = {"__name__": "importlib.pretended", "run": run_stretch}
    exec("def load(guard, code):\n    run(guard, code)", scope)

    with pytest.raises(NondeterminismError):
        scope["load"](watching, lambda: time.time())


def test_user_code_wrapped_by_an_observer_is_watched_but_not_the_observer(watching: Guard) -> None:
    scope: dict[str, Any] = {"__name__": "sentry_sdk.tracing", "time": time}
    exec("def trace(code):\n    time.time()\n    return code()", scope)

    run_stretch(watching, lambda: scope["trace"](lambda: 1))

    with pytest.raises(NondeterminismError):
        run_stretch(watching, lambda: scope["trace"](lambda: time.time()))


def test_a_network_package_is_named_as_such_and_not_for_the_clock_it_reads(watching: Guard) -> None:
    scope: dict[str, Any] = {"__name__": "httpx._client", "time": time}
    source = "class Client:\n    def get(self):\n        return time.perf_counter()"
    exec(compile(source, "/x/site-packages/httpx/_client.py", "exec"), scope)

    def fulfil() -> None:
        scope["Client"]().get()

    with pytest.raises(NondeterminismError) as caught:
        run_stretch(watching, fulfil)

    assert caught.value.asked == "httpx.Client.get()"
    assert "it talks to the network: do it in an activity" in str(caught.value)
    assert str(caught.value.place).endswith("in fulfil")


# --- Known code, watched in every turn


needs_monitoring = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12"
)


@pytest.fixture
def in_known_code() -> Guard:
    return Guard(watch_calls=True, known_code_only=True)


def read_clock() -> float:
    return time.time()


def roll_dice() -> int:
    return random.randint(1, 6)


def price(number: int) -> int:
    return max(number, 1)


def by_name() -> float:
    return read_clock()


def by_alias() -> float:
    clock = datetime
    return clock.now().timestamp()


def by_own_import() -> float:
    from time import monotonic

    return monotonic()


def by_method() -> uuid.UUID:
    return Parcel().parcel_id


def by_lambda() -> list[float]:
    return sorted([2, 1], key=lambda _: random.random())


def by_key() -> list[int]:
    return sorted([2, 1], key=_by_dice)


def _by_dice(_: int) -> int:
    return roll_dice()


def by_module() -> str:
    return secrets.token_hex()


class Label:
    @property
    def text(self) -> str:
        return time.ctime()


def by_property(label: Label) -> str:
    return label.text


def traced(code: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(code)
    def call(*args: Any, **kwargs: Any) -> Any:
        return code(*args, **kwargs)

    return call


@traced
def say_nothing() -> int:
    return 0


@traced
def tell_time() -> float:
    return time.time()


def by_a_decorator_of_others_too() -> float:
    return float(say_nothing() + tell_time())


def by_default_seed() -> float:
    return random.Random().random()


NAMED: list[Callable[[], object]] = [
    read_clock,
    roll_dice,
    by_name,
    by_alias,
    by_own_import,
    by_method,
    by_lambda,
    by_key,
    by_module,
    by_a_decorator_of_others_too,
    by_default_seed,
]


@needs_monitoring
@pytest.mark.parametrize("code", NAMED)
def test_known_code_is_watched_without_a_close_look(
    code: Callable[[], object], in_known_code: Guard
) -> None:
    fresh = _again(code)
    assert look_at(fresh) is False

    for _ in range(3):
        with pytest.raises(NondeterminismError, match="cannot be replayed"):
            run_stretch(in_known_code, fresh)


@needs_monitoring
def test_a_property_of_an_annotated_class_is_known_code(in_known_code: Guard) -> None:
    look_at(by_property)

    with pytest.raises(NondeterminismError, match=r"time\.ctime\(\)"):
        run_stretch(in_known_code, lambda: by_property(Label()))


def _again(code: Any) -> Any:
    """Return the function with code of its own, which no other test has made known."""
    return types.FunctionType(code.__code__.replace(), code.__globals__, code.__name__)


@needs_monitoring
def test_what_known_code_calls_becomes_known_however_it_came_there(in_known_code: Guard) -> None:
    """As an argument, from a module that the definition never names."""
    scope: dict[str, Any] = {"__name__": "elsewhere", "time": time}
    exec("class Clock:\n    def read(self):\n        return time.time()", scope)

    def fulfil(clock: Any) -> float:
        return float(clock.read())

    look_at(fulfil)

    with pytest.raises(NondeterminismError, match=r"time\.time\(\)"):
        run_stretch(in_known_code, lambda: fulfil(scope["Clock"]()))


@needs_monitoring
def test_what_a_close_look_saw_is_known_code(watching: Guard, in_known_code: Guard) -> None:
    scope: dict[str, Any] = {"__name__": "elsewhere", "time": time}
    exec("def read(late):\n    return time.time() if late else str(late)", scope)
    run_stretch(watching, lambda: scope["read"](False))

    with pytest.raises(NondeterminismError, match=r"time\.time\(\)"):
        run_stretch(in_known_code, lambda: scope["read"](True))


@needs_monitoring
def test_functions_that_one_decorator_has_made_are_known_each_by_itself(
    in_known_code: Guard,
) -> None:
    def fulfil(code: Callable[[], object]) -> object:
        return code()

    look_at(fulfil)
    run_stretch(in_known_code, lambda: fulfil(traced(lambda: 0)))

    with pytest.raises(NondeterminismError, match=r"time\.time\(\)"):
        run_stretch(in_known_code, lambda: fulfil(traced(lambda: time.time())))


class Service:
    def __init__(self, rng: Callable[[], object]) -> None:
        self.rng = rng

    def draw(self) -> object:
        return self.rng()


def serve(service: Service, callback: Callable[[], object]) -> list[object]:
    return [service.draw(), callback()]


@needs_monitoring
@pytest.mark.parametrize(
    "late",
    [time.time, random.random, random.randint, partial(time.time), datetime.now, uuid.uuid4],
    ids=["clock", "random", "randint", "partial", "method", "function"],
)
def test_a_call_whose_callee_varies_is_never_switched_off(late: Any, in_known_code: Guard) -> None:
    look_at(serve)
    for _ in range(3):
        run_stretch(in_known_code, lambda: serve(Service(int), int))

    with pytest.raises(NondeterminismError):
        run_stretch(in_known_code, lambda: serve(Service(late), int))
    with pytest.raises(NondeterminismError):
        run_stretch(in_known_code, lambda: serve(Service(int), late))


@needs_monitoring
def test_a_clock_handed_to_map_is_refused(in_known_code: Guard) -> None:
    def fulfil(read: Any) -> list[object]:
        return list(map(read, [1]))

    look_at(fulfil)
    for _ in range(3):
        run_stretch(in_known_code, lambda: fulfil(str))

    with pytest.raises(NondeterminismError, match=r"time\.time\(\)"):
        run_stretch(in_known_code, lambda: fulfil(time.time))


@needs_monitoring
def test_a_call_seen_outside_turns_is_still_watched_in_them(in_known_code: Guard) -> None:
    def fulfil() -> float:
        return max(read_clock(), time.monotonic())

    look_at(fulfil)
    for _ in range(3):
        assert fulfil() > 0

    with pytest.raises(NondeterminismError):
        run_stretch(in_known_code, fulfil)


@needs_monitoring
def test_harmless_calls_of_one_and_the_same_function_are_switched_off(in_known_code: Guard) -> None:
    monitoring: Any = vars(sys)["monitoring"]
    seen: list[str] = []

    def spy(code: types.CodeType, offset: int, function: Any, first: object) -> object:
        if code is fulfil.__code__:
            seen.append(function.__name__)
        return on_call(code, offset, function, first)

    def fulfil(parcel: type, callback: Callable[[int], int]) -> tuple[object, ...]:
        name = parcel.__name__.upper()
        return (
            max(len(name), price(3)),
            datetime.fromisoformat("2020-01-01"),
            dt.date(1, 1, callback(1)),
        )

    def see() -> list[str]:
        seen.clear()
        run_stretch(in_known_code, lambda: fulfil(Parcel, price))
        return list(seen)

    look_at(fulfil)
    what = vars(perdure.core.guard._monitor())["_tool"], monitoring.events.CALL
    on_call = monitoring.register_callback(*what, spy)
    try:
        first, again = see(), see()
    finally:
        monitoring.register_callback(*what, on_call)

    assert first == ["upper", "len", "price", "max", "fromisoformat", "price", "date"]
    assert again == ["price"]  # The callback.


@needs_monitoring
def test_a_close_look_in_between_leaves_known_code_as_it_was(
    watching: Guard, in_known_code: Guard
) -> None:
    def fulfil(is_late: bool) -> object:
        return time.time() if is_late else price(3)

    look_at(fulfil)
    for guard in (in_known_code, watching, in_known_code, watching):
        run_stretch(guard, lambda: fulfil(False))

    with pytest.raises(NondeterminismError):
        run_stretch(in_known_code, lambda: fulfil(True))


@needs_monitoring
def test_code_that_is_gone_is_forgotten(in_known_code: Guard) -> None:
    def fulfil() -> None:
        scope: dict[str, Any] = {"__name__": "elsewhere"}
        exec("def once():\n    return len([])", scope)
        scope["once"]()

    known: dict[int, object] = vars(perdure.core.guard._monitor())["_known"]
    look_at(fulfil)
    run_stretch(in_known_code, fulfil)
    gc.collect()
    before = len(known)
    for _ in range(10):
        run_stretch(in_known_code, fulfil)
        gc.collect()

    assert len(known) == before


def test_a_turn_that_is_not_to_be_watched_is_not_in_known_code_either(audit_only: Guard) -> None:
    look_at(read_clock)

    assert run_stretch(audit_only, read_clock) > 0


# --- Without sys.monitoring: definitions that name what is forbidden are watched closely for ever

needs_profile = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="sys.monitoring sees all known code"
)


@needs_profile
@pytest.mark.parametrize("code", [*NAMED, by_property])
def test_code_that_names_what_is_forbidden_has_to_be_watched_closely(code: object) -> None:
    assert look_at(code)


def harmless(number: int) -> str:
    when = datetime(2020, 1, number, tzinfo=UTC) + timedelta(days=1)
    logging.getLogger(__name__).info("%s", price(number))
    return json.dumps({"when": when.isoformat(), "id": str(uuid.UUID(int=1))})


async def harmless_waiting() -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(asyncio.sleep(1))
    await asyncio.gather(asyncio.sleep(1))


@needs_profile
@pytest.mark.parametrize("code", [harmless, harmless_waiting, price])
def test_other_code_is_watched_closely_at_first_only(code: object) -> None:
    assert not look_at(code)


def test_reading_code_asks_no_object_of_the_users() -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("there is no request")

    proxy: Any = Proxy()

    def fulfil() -> None:
        proxy.name.upper()
        proxy()

    look_at(fulfil)


# --- Other tools


def test_a_profile_function_is_put_back(watching: Guard) -> None:
    events: list[str] = []

    def profile(frame: types.FrameType, event: str, arg: object) -> None:
        events.append(event)

    sys.setprofile(profile)
    try:
        with pytest.raises(NondeterminismError):
            run_stretch(watching, lambda: time.time())
        run_stretch(watching, lambda: None)
        after = sys.getprofile()
    finally:
        sys.setprofile(None)

    assert after is profile
    assert events


def test_a_c_profiler_is_left_running(watching: Guard) -> None:
    profiler = cProfile.Profile()

    profiler.enable()
    try:
        run_stretch(watching, lambda: None)
        sum([1, 2])
    finally:
        profiler.disable()

    calls = [str(entry.code) for entry in profiler.getstats()]
    assert any("sum" in call for call in calls)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_another_monitoring_tool_keeps_its_events(watching: Guard) -> None:
    monitoring: Any = vars(sys)["monitoring"]
    seen: list[str] = []
    tool = monitoring.COVERAGE_ID
    if monitoring.get_tool(tool) is not None:
        pytest.skip("the tests themselves are measured")
    monitoring.use_tool_id(tool, "test")
    try:
        start = monitoring.events.PY_START
        monitoring.register_callback(tool, start, lambda code, _: seen.append(code.co_name))
        monitoring.set_events(tool, start)

        def fulfil() -> None:
            time.time()

        with pytest.raises(NondeterminismError):
            run_stretch(watching, fulfil)
        after = monitoring.get_events(tool)
        monitoring.set_events(tool, 0)
    finally:
        monitoring.free_tool_id(tool)

    assert after == start
    assert "fulfil" in seen
