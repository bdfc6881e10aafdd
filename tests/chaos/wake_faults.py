"""Wake-ups that are lost, late or doubled, in a process that was told so by its environment.

A store hears of what others do by listening and by comparing numbers. Both are hints: whatever
becomes of them, nothing may be lost, and nothing may stand still for longer than a poll takes.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perdure.model.hints import Hint
from perdure.store.opening import open_store

SWITCH = "PERDURE_WAKE_FAULTS"
LATE_S = (0.01, 0.4)


@dataclass
class Told:
    """What a store is told of a number."""

    true: int | None = None
    shown: int = 0


def spoil(url: str, chance: random.Random) -> None:
    """Spoil the hints of all stores like the one at a URL that this process opens from now on."""
    store: Any = type(open_store(url))
    count, listen = store.change_count, store.listen_changes
    told: dict[tuple[int, Hint], Told] = defaultdict(Told)

    def change_count(self: Any, kind: Hint) -> int:
        number, one = count(self, kind), told[id(self), kind]
        if number == one.true:
            one.shown += chance.random() < 0.02  # Told of nothing.
        elif (fate := chance.random()) < 0.6:
            one.true = number
            one.shown += fate < 0.3  # Or it is lost; else it is late.
        return one.shown

    def listen_changes(self: Any, kind: Hint, heard: Callable[[], None]) -> Callable[[], None]:
        def hear() -> None:
            match chance.randrange(4):
                case 0:
                    pass  # It is lost.
                case 1:
                    heard()
                    heard()
                case 2:
                    late = threading.Timer(chance.uniform(*LATE_S), heard)
                    late.daemon = True
                    late.start()
                case _:
                    heard()

        stop: Callable[[], None] = listen(self, kind, hear)
        return stop

    store.change_count, store.listen_changes = change_count, listen_changes
