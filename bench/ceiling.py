"""What would the store allow, if the core and the worker cost nothing?

The same rows as the other benchmarks write, made beforehand and handed straight to the store. And
below the store, what a flush of the disk takes: a chain waits for one per activity.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from bench.harness import Case, Measured, Meter, Setup, percentile, read_facts
from perdure.model.histories.events import (
    ActivityCompleted,
    ActivityScheduled,
    Body,
    Completed,
    Started,
    write_event,
)
from perdure.model.jobs import JobEnd, JobKey
from perdure.model.turns import Turn, TurnStatus
from perdure.store.base import Store
from perdure.store.opening import open_store
from tests.contract.store_values import first_turn, job, new_instance, next_turn, outcome

TOGETHER = 200
"""Turns in one call: about what one pass of the worker's loop commits under load."""
WARM_UP = 100
FAR_MS = 2**53
"""Leases of the jobs never end here."""

VALUE = msgspec.Raw(b'"Hello, Ada!"')
STARTED = write_event(
    Started(
        name="greet", version="1.0.0", behaviour=1, input=msgspec.Raw(b'["Ada"]'), code="0" * 16
    )
)
SCHEDULED = write_event(ActivityScheduled(name="say_hello", input=msgspec.Raw(b'["Ada"]')))
COMPLETED = write_event(Completed(result=VALUE))


class Chain:
    """The turns of an orchestration that calls one activity after another."""

    def __init__(self, instance_id: str, length: int) -> None:
        start = new_instance(instance_id, start_body=STARTED.body)
        first = first_turn(
            start, events=(STARTED, SCHEDULED), jobs=(job(2, leased=True),), **LEASED
        )
        self.turns: list[Turn] = [first]
        for number in range(length):
            self._go_on(is_last=number == length - 1)

    def _go_on(self, *, is_last: bool) -> None:
        before = self.turns[-1]
        [old_job] = before.jobs
        stamp = before.next_stamp
        incarnation, execution, seq = stamp.place
        done = result_body(old_job.seq)
        key = JobKey(before.instance_id, incarnation, execution, old_job.seq)
        end = JobEnd(key=key, token=before.commit_id, kind=done.kind, body=done.body)
        if is_last:
            turn = next_turn(
                before.instance_id,
                stamp,
                job_ends=(end,),
                events=(done, COMPLETED),
                outcome=outcome(),
            )
        else:
            turn = next_turn(
                before.instance_id,
                stamp,
                job_ends=(end,),
                events=(done, SCHEDULED),
                jobs=(job(seq + 1, leased=True),),
                **LEASED,
            )
        self.turns.append(turn)


LEASED = {"jobs_leased_until_ms": FAR_MS}


def result_body(schedule: int) -> Body:
    return write_event(ActivityCompleted(schedule=schedule, result=VALUE))


async def one_activity(setup: Setup) -> list[Measured]:
    """Two waves of commits: starts with first turns, then results with last turns."""
    count = setup.size(4_000, quick=300)
    async with opened(setup) as store:
        chains = [Chain(f"greet-{number:06}", 1) for number in range(count)]
        with Meter(store) as meter:
            await commit_waves(store, chains)
    return [
        meter.measured(
            "store alone: one-activity orchestrations",
            count / meter.took_s,
            "orchestrations/s",
            units=count,
            per="orchestration",
        )
    ]


async def one_chain(setup: Setup) -> list[Measured]:
    """One commit after the other."""
    length = setup.size(1_000, quick=100)
    async with opened(setup) as store:
        chains = [Chain("chain", length)]
        with Meter(store) as meter:
            await commit_waves(store, chains)
    return [
        meter.measured(
            "store alone: chain of 1,000 activities",
            length / meter.took_s,
            "activities/s",
            units=length,
            per="activity",
        )
    ]


async def many_chains(setup: Setup) -> list[Measured]:
    """A commit of a hundred turns after the other."""
    length, count = 20, setup.size(100, quick=20)
    async with opened(setup) as store:
        chains = [Chain(f"chain-{number:06}", length) for number in range(count)]
        with Meter(store) as meter:
            await commit_waves(store, chains)
    return [
        meter.measured(
            "store alone: 100 chains of 20 activities",
            length * count / meter.took_s,
            "activities/s",
            units=length * count,
            per="activity",
        )
    ]


async def fan_out(setup: Setup) -> list[Measured]:
    """Two commits: one adds all the jobs, one ends them all."""
    width = setup.size(1_000, quick=100)
    seqs = range(2, width + 2)
    jobs = tuple(job(seq, leased=True) for seq in seqs)
    start = new_instance("fan-out", start_body=STARTED.body)
    first = first_turn(start, events=(STARTED, *[SCHEDULED] * width), jobs=jobs, **LEASED)
    results = [result_body(seq) for seq in seqs]
    ends = tuple(
        JobEnd(
            key=JobKey(first.instance_id, start.incarnation, 1, seq),
            token=first.commit_id,
            kind=body.kind,
            body=body.body,
        )
        for seq, body in zip(seqs, results, strict=True)
    )
    last = next_turn(
        first.instance_id,
        first.next_stamp,
        job_ends=ends,
        events=(*results, COMPLETED),
        outcome=outcome(),
    )
    async with opened(setup) as store:
        with Meter(store) as meter:
            await accept(store, [first])
            await accept(store, [last])
    return [
        meter.measured(
            "store alone: fan-out of 1,000 and gather",
            meter.took_s,
            "s",
            units=width,
            per="activity",
        )
    ]


async def flush(setup: Setup) -> list[Measured]:
    """Append a page to a file and flush it, again and again."""
    return [await asyncio.to_thread(_flush, setup)]


def _flush(setup: Setup) -> Measured:
    page, took_us = os.urandom(4096), []
    file = os.open(setup.folder / "pages", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(setup.size(2_000, quick=100)):
            began_s = time.perf_counter()
            os.write(file, page)
            os.fdatasync(file)
            took_us.append((time.perf_counter() - began_s) * 1e6)
    finally:
        os.close(file)
    return Measured(
        row="disk alone: append 4 KiB and flush, p50", value=percentile(took_us, 0.5), unit="us"
    )


@asynccontextmanager
async def opened(setup: Setup) -> AsyncIterator[Store]:
    store = open_store(setup.url)
    await store.open()
    try:
        setup.facts.append(await read_facts(store))
        await commit_waves(store, [Chain(f"warm-up-{number}", 2) for number in range(WARM_UP)])
        yield store
    finally:
        await store.close()


async def commit_waves(store: Store, chains: Sequence[Chain]) -> None:
    """Commit the first turn of every chain, then the second of every chain, and so on."""
    for wave in zip(*(chain.turns for chain in chains), strict=True):
        calls = [wave[begin : begin + TOGETHER] for begin in range(0, len(wave), TOGETHER)]
        await asyncio.gather(*(accept(store, call) for call in calls))


async def accept(store: Store, turns: Sequence[Turn]) -> None:
    receipts = await store.commit(turns)
    assert all(receipt.status is TurnStatus.ACCEPTED for receipt in receipts), "a turn was refused"


CASES = (
    Case(name="ceiling/one_activity", run=one_activity),
    Case(name="ceiling/chain", run=one_chain),
    Case(name="ceiling/many_chains", run=many_chains),
    Case(name="ceiling/fan_out", run=fan_out),
    Case(name="ceiling/flush", run=flush),
)
