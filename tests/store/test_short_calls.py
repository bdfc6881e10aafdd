"""System calls that keep the interpreter lock do what Python's own do."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.store.sqlite import short_calls
from perdure.store.sqlite.files import OpenedFile
from perdure.store.sqlite.short_calls import flock_at_once, identity_of, read_at, write_at

pytestmark = pytest.mark.sqlite_only


@pytest.fixture(params=["the system's", "Python's own"])
def _calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "Python's own":
        monkeypatch.setattr(short_calls, "_system", lambda: None)


@pytest.fixture
def file(tmp_path: Path, _calls: None) -> Iterator[int]:
    opened = os.open(tmp_path / "numbers", os.O_RDWR | os.O_CREAT)
    yield opened
    os.close(opened)


def test_what_is_written_is_read_by_either_way(file: int) -> None:
    assert write_at(file, b"seven\0bytes", 3) == 11

    assert os.pread(file, 100, 0) == b"\0\0\0seven\0bytes"
    assert read_at(file, 100, 0) == b"\0\0\0seven\0bytes"
    assert read_at(file, 2, 4) == b"ev"
    assert read_at(file, 2, 100) == b""


def test_a_file_that_is_closed_is_an_error_with_its_number(file: int) -> None:
    closed = os.dup(file)
    os.close(closed)

    for call in (
        lambda: read_at(closed, 1, 0),
        lambda: write_at(closed, b"x", 0),
        lambda: flock_at_once(closed, fcntl.LOCK_UN),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
            call()


def test_a_lock_is_had_by_one_and_free_when_that_lets_go(file: int, tmp_path: Path) -> None:
    other = os.open(tmp_path / "numbers", os.O_RDWR)
    flock_at_once(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with pytest.raises(BlockingIOError):
        flock_at_once(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    flock_at_once(file, fcntl.LOCK_UN)
    flock_at_once(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    os.close(other)


@pytest.mark.usefixtures("_calls")
def test_a_file_is_known_by_what_it_is_and_not_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    (tmp_path / "two").touch()
    os.link(tmp_path / "one", tmp_path / "the same")
    (tmp_path / "pointer").symlink_to(tmp_path / "one")
    one = identity_of(os.fsencode(f"{tmp_path}/one"))

    assert identity_of(os.fsencode(f"{tmp_path}/two")) != one
    assert identity_of(os.fsencode(f"{tmp_path}/the same")) == one
    assert identity_of(os.fsencode(f"{tmp_path}/pointer")) == one
    assert identity_of(os.fsencode(tmp_path)) != one
    with pytest.raises(FileNotFoundError):
        identity_of(os.fsencode(f"{tmp_path}/nothing"))
    with pytest.raises(NotADirectoryError):
        identity_of(os.fsencode(f"{tmp_path}/one/below"))


@pytest.mark.usefixtures("_calls")
def test_a_file_that_was_put_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ä name.db"
    path.touch()
    opened = OpenedFile(str(path))
    assert opened.is_there

    (tmp_path / "other").touch()
    os.replace(tmp_path / "other", path)

    assert not opened.is_there
    path.unlink()
    assert not opened.is_there


def test_where_the_kernel_has_no_statx_python_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_calls, "_has_statx", lambda: False)

    found = os.stat(tmp_path)

    assert identity_of(os.fsencode(tmp_path)) == (found.st_ino, found.st_dev)
