"""Small lasting numbers for definitions, remembered in memory.

A number is never changed or removed, so what was committed once can be trusted for ever. Numbers
given inside a transaction are remembered only after it was committed.
"""

from __future__ import annotations

from perdure.model.instances import DefinitionKey
from perdure.store.sql.connection import Connection


class Definitions:
    """The numbers a store knows."""

    def __init__(self) -> None:
        self._numbers: dict[DefinitionKey, int] = {}
        self._keys: dict[int, DefinitionKey] = {}
        self._fresh: dict[DefinitionKey, int] = {}

    def number(self, connection: Connection, key: DefinitionKey) -> int:
        """Return the number of a definition, giving it one inside the open transaction."""
        number = self._numbers.get(key) or self._fresh.get(key)
        if number is None:
            params = {"kind": key.kind, "name": key.name, "variant": key.variant}
            connection.run("intern", behaviour=key.behaviour, **params)
            [(number,)] = connection.run("read_definition_no", behaviour=key.behaviour, **params)
            self._fresh[key] = number
        return number

    def kind(self, connection: Connection, definition_no: int) -> str:
        """Return what kind of definition is behind a stored number."""
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
        return self._keys.get(definition_no)

    def known_number(self, key: DefinitionKey) -> int | None:
        """Return the number of a definition that was seen before."""
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

    def forget_fresh(self) -> None:
        """Forget the numbers given in the transaction that was rolled back."""
        self._fresh = {}
