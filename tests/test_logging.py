"""How perdure logs: constant texts, facts beside them, and never a user's values."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import perdure
from tests.each import each

SRC = Path(perdure.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}

TELL_ALL = {
    "turns/background.py",
    "worker/leases.py",
    "worker/serving.py",
    "client/reading/watch.py",
    "jobs/feed_watch.py",
    "store/postgres/within/arrivals.py",
    "store/postgres/lane.py",
    "store/sqlite/file_lock.py",
    "store/sqlite/writer.py",
}
"""Files that may log an exception with its text: there it is one of the store or our own, since
user code runs nowhere near. Errors of the store name ids and files and quote no values."""


class LogCall(NamedTuple):
    file: str
    call: ast.Call

    def __str__(self) -> str:
        return f"{self.file}:{self.call.lineno}"


@functools.cache
def log_calls() -> list[LogCall]:
    return list(_log_calls())


def _log_calls() -> Iterator[LogCall]:
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "logger"
            ):
                yield LogCall(str(file.relative_to(SRC)), node)


@each(log_calls)
def test_a_log_line_has_a_constant_text(log: LogCall) -> None:
    text = log.call.args[0]

    assert isinstance(text, ast.Constant), "facts belong into extra="
    assert isinstance(text.value, str)


@each(log_calls)
def test_the_text_of_an_exception_is_logged_only_far_from_user_code(log: LogCall) -> None:
    """SEC-23: what user code raises may quote values."""
    assert isinstance(log.call.func, ast.Attribute)
    keywords = {keyword.arg for keyword in log.call.keywords}
    tells_all = log.call.func.attr == "exception" or "exc_info" in keywords

    assert not tells_all or log.file in TELL_ALL


@each(sorted(SRC.rglob("*.py")))
def test_every_module_logs_under_its_own_name(file: Path) -> None:
    text = file.read_text()
    is_program = file.is_relative_to(SRC / "cli")

    assert is_program or "logging.basicConfig" not in text, "how to log is for programs to say"
    if "\nlogger = " in text:
        assert "\nlogger = logging.getLogger(__name__)\n" in text
