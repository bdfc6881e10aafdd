"""Lasting numbers for definitions, remembered in memory.

A number is made of what it stands for. So it means the same in every process and for ever, also
after a database has lost the commit that gave it: another definition never gets it. Stores of
earlier releases have counted theirs, and those stay. Numbers given inside a transaction are
remembered only after it was committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from perdure.model.instances import DefinitionKey
from perdure.store.epoch import Epoch
from perdure.store.sql.commits.row_types import DefinitionValues
from perdure.store.sql.connection import Connection
from perdure.store.sql.packing import pack, unpack


class Definitions:
    """The numbers a store knows, in one life of its database."""

    def __init__(self, epoch: Epoch | None = None) -> None:
        self._epoch = epoch or Epoch()
        self._epoch_no = self._epoch.number
        self._numbers: dict[DefinitionKey, int] = {}
        self._keys: dict[int, DefinitionKey] = {}
        self._fresh: dict[DefinitionKey, int] = {}

    def number(self, connection: Connection, key: DefinitionKey) -> int:
        """Return the number of a definition, giving it one inside the open transaction."""
        if self._epoch_no != self._epoch.number:
            self._look_at_epoch()
        number = self._numbers.get(key) or self._fresh.get(key)
        if number is None:
            [number] = self._give(connection, [key])
        return number

    def number_all(self, connection: Connection, keys: Iterable[DefinitionKey]) -> None:
        """Give those of many definitions that are new their numbers, in two statements: a worker
        that starts has dozens."""
        self._look_at_epoch()
        new = [key for key in keys if key not in self._numbers and key not in self._fresh]
        if new:
            self._give(connection, new)

    def kind(self, connection: Connection, definition_no: int) -> str:
        """Return what kind of definition is behind a stored number."""
        if self._epoch_no != self._epoch.number:
            self._look_at_epoch()
        key = self._keys.get(definition_no)
        if key is None:
            fresh = [one for one, number in self._fresh.items() if number == definition_no]
            if fresh:
                return fresh[0].kind
            [row] = connection.run("read_definition", definition_no=definition_no)
            key = DefinitionKey(*row)
            self.learn(definition_no, key)
        return key.kind

    def known(self, definition_no: int) -> DefinitionKey | None:
        """Return a definition that was seen before."""
        self._look_at_epoch()
        return self._keys.get(definition_no)

    def known_number(self, key: DefinitionKey) -> int | None:
        """Return the number of a definition that was seen before."""
        self._look_at_epoch()
        return self._numbers.get(key)

    def learn(self, definition_no: int, key: DefinitionKey) -> None:
        """Remember a committed number."""
        self._numbers[key] = definition_no
        self._keys[definition_no] = key

    def keep_fresh(self) -> None:
        """Remember the numbers given in the transaction that was just committed."""
        if self._fresh:
            for key, number in self._fresh.items():
                self.learn(number, key)
            self._fresh = {}

    def forget(self) -> None:
        """Remember nothing: the database may have lost what was committed."""
        self._numbers.clear()
        self._keys.clear()
        self._fresh = {}

    def _give(self, connection: Connection, keys: Sequence[DefinitionKey]) -> list[int]:
        rows = [DefinitionValues(number_of(key), *key) for key in keys]
        connection.run("intern", rows=pack(rows))
        [(text,)] = connection.run("read_definition_nos", keys=pack(keys))
        numbers: list[int] = [number for _, number in sorted(unpack(text))]
        self._fresh |= zip(keys, numbers, strict=True)
        return numbers

    def _look_at_epoch(self) -> None:
        if self._epoch_no != self._epoch.number:
            self._epoch_no = self._epoch.number
            self.forget()

    def forget_fresh(self) -> None:
        """Forget the numbers given in the transaction that was rolled back."""
        self._fresh = {}


def number_of(key: DefinitionKey) -> int:
    """Return the number of a definition that has none yet: 63 bits, never 0."""
    digest = blake2b(json.dumps(key).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 1 | 1
