"""The PostgreSQL store keeps the contract."""

from __future__ import annotations

import pytest

from perdure.testing import store_contract

# All of it: what is added to the contract is added here.
from perdure.testing.store_contract import *  # noqa: F403


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


def test_no_part_of_the_contract_is_left_out() -> None:
    assert set(store_contract.__all__) <= set(globals())
