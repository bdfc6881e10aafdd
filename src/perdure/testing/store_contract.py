"""The tests every store passes.

Import the classes into a test module that has the fixtures `store` (open, empty) and `clock` (the
`ManualClock` the store was given):

    from perdure.testing.store_contract import *

No test sleeps, and none looks behind the contract.
"""

from __future__ import annotations

from perdure.testing.contract_leases import (
    TestJobs,
    TestRenewals,
    TestTurnClaims,
    TestWorkersAndTimes,
)
from perdure.testing.contract_messages import TestChildren, TestDeliveries, TestHolds, TestStarts
from perdure.testing.contract_turns import (
    TestEnds,
    TestFencing,
    TestFirstTurns,
    TestIdempotence,
    TestWaking,
)
from perdure.testing.contract_values import TestBadValues, TestBodies, TestReading
from perdure.testing.contract_work import TestJobsOfTurns, TestTimers

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
