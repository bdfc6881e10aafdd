"""Definitions have numbers, which they keep."""

from __future__ import annotations

from typing import Any

from perdure.model.instances import DefinitionKey
from perdure.store.base import Store
from tests.contract.store_values import ORCHESTRATION, QUEUE


class TestDefinitions:
    async def test_a_definition_keeps_its_number(self, store: Store) -> None:
        first = await store.intern([ORCHESTRATION, QUEUE, ORCHESTRATION])
        second = await store.intern([QUEUE, ORCHESTRATION])

        assert first == [second[1], second[0], second[1]]
        assert await store.definition(first[1]) == QUEUE

    async def test_many_definitions_cost_as_many_statements_as_one(self, store: Store) -> None:
        """A worker may have hundreds, and numbers all of them whenever it starts."""
        sql: Any = store
        await store.intern([ORCHESTRATION])
        before = sql.counters.statements
        await store.intern([QUEUE])
        of_one = sql.counters.statements - before

        many = [DefinitionKey("activity", f"a-{number:03}", "") for number in range(300)]
        numbers = await store.intern(many)

        assert sql.counters.statements - before == 2 * of_one
        assert len({*numbers}) == 300
        assert [await store.definition(number) for number in numbers[::100]] == many[::100]
