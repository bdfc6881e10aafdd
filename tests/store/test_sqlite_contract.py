"""The SQLite store keeps the contract: in memory, shared or not, and in a file."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from perdure import testing
from perdure.testing import store_contract

# All of it: what is added to the contract is added here.
from perdure.testing.store_contract import *  # noqa: F403


@pytest.fixture(
    params=["sqlite://:memory:", "sqlite://:memory:contract", "sqlite:///{path}"],
    ids=["memory", "shared memory", "file"],
)
def url(request: pytest.FixtureRequest, path: object) -> str:
    template: str = request.param
    return template.format(path=path)


def test_no_part_of_the_contract_is_left_out() -> None:
    """The star takes what is listed; so everything must be listed."""
    files = [*Path(testing.__file__).parent.glob("contract_*.py")]
    modules = [importlib.import_module(f"perdure.testing.{file.stem}") for file in files]

    written = {name for module in modules for name in vars(module) if name.startswith("Test")}
    assert written == set(store_contract.__all__)
    assert written <= set(globals())
