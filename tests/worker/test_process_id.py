"""Which process is meant, and when it is gone for certain: on suspicion never."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.worker.process_id import ProcessStat, is_gone, own_process, parse_stat, read_stat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells enough")

STAT = "4711 ({name}) {state} 1 " + "0 " * 15 + "{threads} 0 {born} 0 0\n"


def stat(name: str = "python", state: str = "S", threads: int = 1, born: int = 88) -> bytes:
    return STAT.format(name=name, state=state, threads=threads, born=born).encode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (stat(), ProcessStat("S", 1, 88)),
        (stat("a) Z 1 (b"), ProcessStat("S", 1, 88)),
        (stat("two\nlines"), ProcessStat("S", 1, 88)),
        (stat(state="Z", threads=7), ProcessStat("Z", 7, 88)),
        (b"", None),
        (b"4711 (python) S 1", None),
        (stat().replace(b"88", b"soon"), None),
    ],
    ids=["plain", "parentheses", "newline", "zombie", "empty", "short", "no number"],
)
def test_the_line_of_a_process_is_read(text: bytes, found: ProcessStat | None) -> None:
    assert parse_stat(text) == found


@pytest.mark.parametrize(
    ("state", "threads", "is_dead"),
    [
        ("R", 1, False),
        ("S", 1, False),
        ("D", 1, False),
        ("T", 1, False),
        ("t", 1, False),
        ("Z", 1, True),
        ("X", 1, True),
        ("Z", 2, False),
    ],
    ids=[
        *("runs", "waits", "waits for a disk", "was stopped", "is debugged"),
        *("zombie", "dead", "other threads live on"),
    ],
)
def test_only_what_runs_nothing_is_dead(state: str, threads: int, is_dead: bool) -> None:
    assert ProcessStat(state, threads, born=1).is_dead is is_dead


# --------------------------------------------------------------- real processes


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def born(process: subprocess.Popen[bytes]) -> int:
    found = read_stat(process.pid)
    assert found is not None
    return found.born


def test_a_process_that_lives_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    assert not is_gone(child.pid, born(child))


def test_a_process_that_was_stopped_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    found = read_stat(child.pid)
    assert found is not None
    assert found.state == "T"

    assert not is_gone(child.pid, found.born)


def test_a_zombie_is_gone(child: subprocess.Popen[bytes]) -> None:
    began = born(child)
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    found = read_stat(child.pid)
    assert found is not None
    assert found.state == "Z"

    assert is_gone(child.pid, began)


def test_a_process_that_was_buried_is_gone(child: subprocess.Popen[bytes]) -> None:
    began = born(child)
    child.kill()
    child.wait()

    assert is_gone(child.pid, began)


def test_a_process_whose_pid_another_one_has_now_is_gone(child: subprocess.Popen[bytes]) -> None:
    assert is_gone(child.pid, born(child) - 1)


def test_a_process_of_which_nothing_can_be_seen_is_not_gone(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """As with `hidepid`: then a start that differs cannot be seen either."""
    assert not is_gone(child.pid, born(child) - 1, proc=tmp_path)


def test_a_process_whose_line_cannot_be_understood_is_not_gone(
    child: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / str(child.pid)).mkdir()
    (tmp_path / str(child.pid) / "stat").write_text("something new\n")

    assert not is_gone(child.pid, born(child), proc=tmp_path)


# --------------------------------------------------------------------- the place


def test_processes_of_one_host_share_the_place_and_nothing_else() -> None:
    program = "from perdure.worker.process_id import own_process; print(*own_process(), sep='\\n')"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    place, pid, born = said.stdout.splitlines()
    own = own_process()

    assert place == own.place
    assert (int(pid), int(born)) != (own.pid, own.born)
    assert own.pid == os.getpid()
    assert not is_gone(own.pid, own.born)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """What the kernel would tell this process."""
    pid = str(os.getpid())
    (tmp_path / pid / "ns").mkdir(parents=True)
    (tmp_path / "self").symlink_to(pid)
    (tmp_path / pid / "stat").write_bytes(stat())
    for kind in ("pid", "time"):
        (tmp_path / pid / "ns" / kind).touch()
    boot_id = tmp_path / "sys/kernel/random/boot_id"
    boot_id.parent.mkdir(parents=True)
    boot_id.write_text("one-boot\n")
    return tmp_path


def replaced(file: Path) -> None:
    """Make another file of the same name, while the first one is still there."""
    file.rename(file.with_name("before"))
    file.touch()


def test_another_boot_is_another_place(proc: Path) -> None:
    before = own_process(proc)
    (proc / "sys/kernel/random/boot_id").write_text("another-boot\n")

    assert before.place
    assert own_process(proc).place not in ("", before.place)


@pytest.mark.parametrize("kind", ["pid", "time"])
def test_another_namespace_is_another_place(proc: Path, kind: str) -> None:
    """Containers may have equal host names, and always have the boot of their host."""
    before = own_process(proc)
    replaced(proc / str(os.getpid()) / "ns" / kind)

    assert before.place
    assert own_process(proc).place not in ("", before.place)


def test_another_host_name_is_another_place(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines that were copied while they ran have one boot."""
    before = own_process(proc)
    monkeypatch.setattr(socket, "gethostname", lambda: "copy")

    assert own_process(proc).place not in ("", before.place)


def test_a_kernel_without_time_namespaces_has_a_place(proc: Path) -> None:
    (proc / str(os.getpid()) / "ns" / "time").unlink()

    assert own_process(proc).place


@pytest.mark.parametrize("missing", ["boot", "empty boot", "stat", "pid namespace", "self"])
def test_what_cannot_be_told_for_certain_is_no_place(proc: Path, missing: str) -> None:
    match missing:
        case "boot":
            (proc / "sys/kernel/random/boot_id").unlink()
        case "empty boot":
            (proc / "sys/kernel/random/boot_id").write_text("\n")
        case "stat":
            (proc / str(os.getpid()) / "stat").write_text("something new\n")
        case "pid namespace":
            (proc / str(os.getpid()) / "ns" / "pid").unlink()
        case "self":
            # The processes of another namespace are shown there.
            (proc / "self").unlink()
            (proc / "self").symlink_to("1")

    assert own_process(proc) == ("", os.getpid(), 0)
