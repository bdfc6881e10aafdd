"""The SQLite store keeps the contract: in memory, and in a file with either driver."""

from __future__ import annotations

import pytest

from perdure.testing.store_contract import (
    TestBadValues,
    TestBodies,
    TestChildren,
    TestDeliveries,
    TestEnds,
    TestFencing,
    TestFirstTurns,
    TestHolds,
    TestIdempotence,
    TestJobs,
    TestJobsOfTurns,
    TestReading,
    TestRenewals,
    TestStarts,
    TestTimers,
    TestTurnClaims,
    TestWaking,
    TestWorkersAndTimes,
)

__all__ = [
    "TestBadValues",
    "TestBodies",
    "TestChildren",
    "TestDeliveries",
    "TestEnds",
    "TestFencing",
    "TestFirstTurns",
    "TestHolds",
    "TestIdempotence",
    "TestJobs",
    "TestJobsOfTurns",
    "TestReading",
    "TestRenewals",
    "TestStarts",
    "TestTimers",
    "TestTurnClaims",
    "TestWaking",
    "TestWorkersAndTimes",
]


@pytest.fixture(
    params=[
        "sqlite://:memory:?driver=sqlite3",
        "sqlite://:memory:?driver=apsw",
        "sqlite:///{path}?driver=sqlite3",
        "sqlite:///{path}?driver=apsw",
    ],
    ids=["memory-sqlite3", "memory-apsw", "file-sqlite3", "file-apsw"],
)
def url(request: pytest.FixtureRequest, path: object) -> str:
    template: str = request.param
    return template.format(path=path)
