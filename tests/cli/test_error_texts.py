"""`perdure explain ERROR`: what an error means, and what to do."""

from __future__ import annotations

import json
import re

from perdure import errors
from perdure.cli.error_texts import WHAT_TO_DO, find_error
from perdure.cli.main import COMMANDS
from perdure.errors import PerdureError, code_of
from tests.cli.commands import typed

KINDS = {
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, PerdureError)
}


def test_every_error_is_explained() -> None:
    assert WHAT_TO_DO.keys() == KINDS
    for kind in KINDS:
        assert find_error(kind.__name__) is find_error(code_of(kind)) is kind
        for command in re.findall(r"perdure ([a-z]+)", WHAT_TO_DO[kind]):
            assert command in COMMANDS or kind is PerdureError, WHAT_TO_DO[kind]


def test_an_error_is_explained_without_a_store() -> None:
    done = typed("explain", "InstanceHeldError", store="sqlite:///nowhere.db")
    coded = typed("explain", "instance_held", "--json", store="sqlite:///nowhere.db")

    assert done.exit_code == 0
    assert done.stdout.startswith("The instance is parked or blocked")
    assert "perdure unpark ID" in done.stdout
    assert json.loads(coded.stdout)["error"] == "InstanceHeldError"


def test_what_is_no_error_is_an_instance(shop: str) -> None:
    assert typed("explain", "NoSuchError", store=shop).exit_code == 3
