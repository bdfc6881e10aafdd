"""Pages that were made a moment ago, for others who look at the same.

An open page asks for itself whenever something may have changed. Where many are open, most of them
show the same: one is made, and answers all who ask for it at about that time. How long it does
grows with the number of open pages; the only one that is open is always made anew. A page that a
person opens or reloads is made anew too, and so is every page after an action of this server: the
effect of what was done here is seen at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

KEPT_S = 1.0
"""How old a page may be that is sent again, at most."""
MAX_KEPT = 64


class MadePage(NamedTuple):
    """A page as it is sent."""

    html: bytes
    tag: str
    status: int


class _Making(NamedTuple):
    began_s: float
    page: asyncio.Future[MadePage]


class RecentPages:
    """The pages of the last moment, by all that they depend on."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kept: OrderedDict[Hashable, _Making] = OrderedDict()

    async def get(
        self, key: Hashable, make: Callable[[], Awaitable[MadePage]], *, kept_s: float
    ) -> MadePage:
        """Return a page.

        Args:
            key: All that it depends on, but for the store: what is asked for, and by whom.
            make: Makes it.
            kept_s: How old it may be; 0: it is made anew, and is there for others.
        """
        found = self._kept.get(key)
        if found is not None and self._monotonic() - found.began_s < min(kept_s, KEPT_S):
            # Its maker may be broken off, and then another one makes it.
            done, _ = await asyncio.wait([found.page])
            if all(not one.cancelled() and one.exception() is None for one in done):
                return found.page.result()
        return await self._make(key, make)

    def clear(self) -> None:
        """Forget all, also what is being made: something was done that pages may show."""
        self._kept.clear()

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[MadePage]]) -> MadePage:
        making = _Making(self._monotonic(), asyncio.get_running_loop().create_future())
        self._kept[key] = making
        self._kept.move_to_end(key)
        while len(self._kept) > MAX_KEPT or self._is_old(next(iter(self._kept.values()))):
            self._kept.popitem(last=False)
        try:
            page = await make()
        except BaseException:
            making.page.cancel()
            if self._kept.get(key) is making:
                del self._kept[key]
            raise
        making.page.set_result(page)
        return page

    def _is_old(self, making: _Making) -> bool:
        return self._monotonic() - making.began_s > KEPT_S
