"""The tests every store passes.

Import the classes into a test module that has the fixtures `store` (open, empty) and `clock` (the
`ManualClock` the store was given):

    from perdure.testing.store_contract import *

No test sleeps, and none looks behind the contract.
"""

from __future__ import annotations

from perdure.testing.contract_admin import (
    TestInstancesInDetail,
    TestJobsInDetail,
    TestQueueDepths,
    TestTotals,
)
from perdure.testing.contract_carried import TestDefinitionsOfTurns, TestMessagesAcrossExecutions
from perdure.testing.contract_continue import TestContinuations, TestWorkOfContinuedExecutions
from perdure.testing.contract_dead_workers import TestDeadWorkers
from perdure.testing.contract_deletion import TestDeletion, TestWorkOnDeletedInstances
from perdure.testing.contract_feed import TestFeed, TestReaders
from perdure.testing.contract_fence import TestFenceByCommit
from perdure.testing.contract_jobs import TestDeadJobs, TestHeartbeats, TestLostJobs, TestMisfits
from perdure.testing.contract_kept import TestReports, TestValues
from perdure.testing.contract_leases import (
    TestJobs,
    TestRenewals,
    TestTurnClaims,
    TestWorkersAndTimes,
)
from perdure.testing.contract_lists import TestFilters, TestLists
from perdure.testing.contract_messages import TestChildren, TestDeliveries, TestHolds, TestStarts
from perdure.testing.contract_observations import TestObservations
from perdure.testing.contract_receipts import TestReceipts, TestSettledInputs
from perdure.testing.contract_repair import TestRepair
from perdure.testing.contract_retention import TestExpiry, TestPruning
from perdure.testing.contract_session_leases import TestSessionLeases
from perdure.testing.contract_sessions import (
    TestFairnessOfSessions,
    TestSessionClaims,
    TestSessionOwners,
)
from perdure.testing.contract_snapshots import TestSnapshots
from perdure.testing.contract_starts import (
    TestDetachedStarts,
    TestHurriedStarts,
    TestLateStarts,
    TestStartsWithMessages,
)
from perdure.testing.contract_stranded import TestStranded
from perdure.testing.contract_suspects import TestSuspects
from perdure.testing.contract_transactions import TestOwnTransactions
from perdure.testing.contract_turns import (
    TestEnds,
    TestFencing,
    TestFirstTurns,
    TestIdempotence,
    TestWaking,
)
from perdure.testing.contract_unique_keys import (
    TestFreedKeys,
    TestKeysInOneTransaction,
    TestUniqueKeys,
)
from perdure.testing.contract_values import TestBadValues, TestBodies, TestReading
from perdure.testing.contract_vanish import TestDeciderInstances, TestVanishing
from perdure.testing.contract_work import TestJobsOfTurns, TestTimers

__all__ = [
    "TestBadValues",
    "TestBodies",
    "TestChildren",
    "TestContinuations",
    "TestDeadJobs",
    "TestDeadWorkers",
    "TestDeciderInstances",
    "TestDefinitionsOfTurns",
    "TestDeletion",
    "TestDeliveries",
    "TestDetachedStarts",
    "TestEnds",
    "TestExpiry",
    "TestFairnessOfSessions",
    "TestFeed",
    "TestFenceByCommit",
    "TestFencing",
    "TestFilters",
    "TestFirstTurns",
    "TestFreedKeys",
    "TestHeartbeats",
    "TestHolds",
    "TestHurriedStarts",
    "TestIdempotence",
    "TestInstancesInDetail",
    "TestJobs",
    "TestJobsInDetail",
    "TestJobsOfTurns",
    "TestKeysInOneTransaction",
    "TestLateStarts",
    "TestLists",
    "TestLostJobs",
    "TestMessagesAcrossExecutions",
    "TestMisfits",
    "TestObservations",
    "TestOwnTransactions",
    "TestPruning",
    "TestQueueDepths",
    "TestReaders",
    "TestReading",
    "TestReceipts",
    "TestRenewals",
    "TestRepair",
    "TestReports",
    "TestSessionClaims",
    "TestSessionLeases",
    "TestSessionOwners",
    "TestSettledInputs",
    "TestSnapshots",
    "TestStarts",
    "TestStartsWithMessages",
    "TestStranded",
    "TestSuspects",
    "TestTimers",
    "TestTotals",
    "TestTurnClaims",
    "TestUniqueKeys",
    "TestValues",
    "TestVanishing",
    "TestWaking",
    "TestWorkOfContinuedExecutions",
    "TestWorkOnDeletedInstances",
    "TestWorkersAndTimes",
]
