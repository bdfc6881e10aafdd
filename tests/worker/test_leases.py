from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from perdure.errors import StoreUnavailableError
from perdure.model.jobs import JobKey
from perdure.model.options import WorkerOptions
from perdure.store.base import JobLease, Store
from perdure.worker.leases import LeaseKeeper
from tests.sizes import WITHIN_S

LEASE = JobLease(JobKey("i", 1, 1, 2), 7)


class Moody:
    """Stands in for a store that cannot be reached the first time."""

    def __init__(self) -> None:
        self.asked = 0
        self.asked_again = threading.Event()

    def clock(self) -> int:
        return 1_000

    async def renew(
        self, turns: Sequence[Any], jobs: Sequence[Any], *, lease_ms: int
    ) -> tuple[list[Any], list[Any]]:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailableError("locked")
        self.asked_again.set()
        return [], []


def keeper(store: Moody, lost: list[Any], lease_for: timedelta) -> LeaseKeeper:
    return LeaseKeeper(
        cast(Store, store),
        WorkerOptions(lease_for=lease_for, poll_max=lease_for / 2, poll_min=lease_for / 4),
        turns=list,
        jobs=lambda: [LEASE],
        renewed=lambda leases, until_ms: None,
        lost=lambda turns, jobs: lost.append((turns, jobs)),
    )


def test_a_renewal_that_fails_once_loses_nothing_and_is_made_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, lost = Moody(), list[Any]()
    leases = keeper(store, lost, timedelta(milliseconds=100))

    leases.start()
    assert store.asked_again.wait(WITHIN_S)
    leases.stop()

    assert lost == []
    assert [record.message for record in caplog.records] == [
        "leases could not be renewed this time"
    ]


@pytest.mark.parametrize("lease_ms", [100, 1_000, 30_000])
def test_a_lease_of_any_length_is_renewed_twice_before_it_ends(lease_ms: int) -> None:
    leases = keeper(Moody(), [], timedelta(milliseconds=lease_ms))

    assert 2 * leases._every_s * 1000 < lease_ms
