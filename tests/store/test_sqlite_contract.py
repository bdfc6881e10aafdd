"""The SQLite store keeps the contract: in memory, and in a file with either driver."""

from __future__ import annotations

import pytest

from perdure.testing import store_contract
from perdure.testing.store_contract import (
    TestBadValues,
    TestBodies,
    TestChildren,
    TestContinuations,
    TestDeadJobs,
    TestDefinitionsOfTurns,
    TestDeletion,
    TestDeliveries,
    TestDetachedStarts,
    TestEnds,
    TestExpiry,
    TestFairnessOfSessions,
    TestFencing,
    TestFilters,
    TestFirstTurns,
    TestHeartbeats,
    TestHolds,
    TestHurriedStarts,
    TestIdempotence,
    TestInstancesInDetail,
    TestJobs,
    TestJobsInDetail,
    TestJobsOfTurns,
    TestLateStarts,
    TestLists,
    TestLostJobs,
    TestMessagesAcrossExecutions,
    TestPruning,
    TestQueueDepths,
    TestReading,
    TestRenewals,
    TestRepair,
    TestReports,
    TestSessionClaims,
    TestSessionLeases,
    TestSessionOwners,
    TestStarts,
    TestStartsWithMessages,
    TestTimers,
    TestTotals,
    TestTurnClaims,
    TestValues,
    TestWaking,
    TestWorkersAndTimes,
    TestWorkOfContinuedExecutions,
    TestWorkOnDeletedInstances,
)

__all__ = [
    "TestBadValues",
    "TestBodies",
    "TestChildren",
    "TestContinuations",
    "TestDeadJobs",
    "TestDefinitionsOfTurns",
    "TestDeletion",
    "TestDeliveries",
    "TestDetachedStarts",
    "TestEnds",
    "TestExpiry",
    "TestFairnessOfSessions",
    "TestFencing",
    "TestFilters",
    "TestFirstTurns",
    "TestHeartbeats",
    "TestHolds",
    "TestHurriedStarts",
    "TestIdempotence",
    "TestInstancesInDetail",
    "TestJobs",
    "TestJobsInDetail",
    "TestJobsOfTurns",
    "TestLateStarts",
    "TestLists",
    "TestLostJobs",
    "TestMessagesAcrossExecutions",
    "TestPruning",
    "TestQueueDepths",
    "TestReading",
    "TestRenewals",
    "TestRepair",
    "TestReports",
    "TestSessionClaims",
    "TestSessionLeases",
    "TestSessionOwners",
    "TestStarts",
    "TestStartsWithMessages",
    "TestTimers",
    "TestTotals",
    "TestTurnClaims",
    "TestValues",
    "TestWaking",
    "TestWorkOfContinuedExecutions",
    "TestWorkOnDeletedInstances",
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


def test_no_part_of_the_contract_is_left_out() -> None:
    assert set(__all__) == set(store_contract.__all__)
