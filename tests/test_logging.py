"""How perdure logs: constant texts, facts beside them, and never a user's values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure

SRC = Path(perdure.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}

TELL_ALL = {
    "turns/background.py",
    "worker/leases.py",
    "worker/serving.py",
    "client/watch.py",
    "jobs/feed_watch.py",
    "store/postgres/arrivals.py",
    "store/postgres/lane.py",
    "store/sqlite/lock.py",
    "store/sqlite/writer.py",
}
"""Files that may log an exception with its text: there it is one of the store or our own, since
user code runs nowhere near. Errors of the store name ids and files and quote no values."""


def log_calls() -> Iterator[tuple[Path, ast.Call]]:
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "logger"
            ):
                yield file, node


def where(file: Path, call: ast.Call) -> str:
    return f"{file.relative_to(SRC)}:{call.lineno}"


CALLS = [pytest.param(file, call, id=where(file, call)) for file, call in log_calls()]


@pytest.mark.parametrize(("file", "call"), CALLS)
def test_a_log_line_has_a_constant_text(file: Path, call: ast.Call) -> None:
    text = call.args[0]

    assert isinstance(text, ast.Constant), f"{where(file, call)}: facts belong into extra="
    assert isinstance(text.value, str)


@pytest.mark.parametrize(("file", "call"), CALLS)
def test_the_text_of_an_exception_is_logged_only_far_from_user_code(
    file: Path, call: ast.Call
) -> None:
    """SEC-23: what user code raises may quote values."""
    assert isinstance(call.func, ast.Attribute)
    keywords = {keyword.arg for keyword in call.keywords}
    tells_all = call.func.attr == "exception" or "exc_info" in keywords

    assert not tells_all or str(file.relative_to(SRC)) in TELL_ALL, where(file, call)


@pytest.mark.parametrize("file", sorted(SRC.rglob("*.py")), ids=lambda file: str(file.name))
def test_every_module_logs_under_its_own_name(file: Path) -> None:
    text = file.read_text()
    is_program = file.is_relative_to(SRC / "cli")

    assert is_program or "logging.basicConfig" not in text, "how to log is for programs to say"
    if "\nlogger = " in text:
        assert "\nlogger = logging.getLogger(__name__)\n" in text
