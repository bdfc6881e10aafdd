"""What a command says of an error is said in commands: no call of Python's is left in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import perdure
from perdure.cli.advice import in_commands
from perdure.errors import AlreadyExistsError, InstanceHeldError
from perdure.model.instances import Status
from tests.each import each

SOURCE = Path(perdure.__file__).parent
WHERE = ("errors.py", "client/acting", "client/histories", "client/reading", "client/deciders")
PYTHON = re.compile(r"\b(handle|client)\.\w+\(|\.with_options\(")
NOT_OF_COMMANDS = (
    # Said where code is written: no command hands over a definition or takes such an option.
    "with_options(delay=",
    "with_options(if_exists={value",
    "as in client.execute(",
    "client.handle(...) elsewhere",
    # A sentence of `explain`, which has the command beside it.
    "handle.unpark() lets it be tried again (perdure unpark",
    "see client.dead_jobs() (",
)


def messages() -> Iterator[tuple[str, str]]:
    """Return the texts that errors are made of, with a letter where a value comes."""
    for name in WHERE:
        place = SOURCE / name
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            nodes = list(ast.walk(ast.parse(file.read_text())))
            joined = [one for one in nodes if isinstance(one, ast.JoinedStr)]
            # Parts of other texts, and docstrings.
            others = {id(part) for one in joined for part in one.values}
            others |= {id(one.value) for one in nodes if isinstance(one, ast.Expr)}
            for one in joined:
                yield f"{file.name}:{one.lineno}", "".join(map(_part, one.values))
            for text in nodes:
                if isinstance(text, ast.Constant) and id(text) not in others:
                    yield f"{file.name}:{text.lineno}", str(text.value)


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    shown = ast.unparse(node)
    return "7" if "max(" in shown else "'x-1'"


def test_every_way_out_that_is_a_command_is_said_as_one() -> None:
    left = {
        place: text
        for place, text in messages()
        if PYTHON.search(text)
        and not any(one in text for one in NOT_OF_COMMANDS)
        and PYTHON.search(in_commands(text))
    }

    assert left == {}


@each(
    [
        (
            InstanceHeldError("order-1", Status.PARKED, "it broke"),
            "perdure unpark order-1 lets it be tried again",
        ),
        (
            AlreadyExistsError("order-1", "it has another input"),
            "say --if-exists restart, or --if-exists terminate",
        ),
    ],
    name=lambda one: type(one[0]).__name__,
)
def test_an_error_names_the_command(case: tuple[Exception, str]) -> None:
    error, advice = case

    assert advice in in_commands(str(error))
