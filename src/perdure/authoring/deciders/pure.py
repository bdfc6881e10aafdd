"""Where `decide` and `evolve` run: a place without an event loop, that knows its decider.

It stands where the running loop stands. So whatever asks for a loop, a durable call first of all,
is refused with what to write instead, and a decision that is being made can check what it is given
at the line that gives it. Nothing else in the process is touched.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from perdure.authoring.scope import RunsCode, running_in
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.authoring.deciders.decider_definition import DeciderDefinition


class PurePlace:
    """Entered around the code of one decider. May be entered again inside itself."""

    def __init__(self, definition: DeciderDefinition) -> None:
        self.perdure_decider = definition
        self._outside: list[tuple[Any, RunsCode | None, bool]] = []

    def __enter__(self) -> None:
        # Collection waits, as in an orchestration: a finalizer must not be taken for user code.
        thread = get_ident()
        outer = asyncio._get_running_loop(), running_in.get(thread), gc.isenabled()
        self._outside.append(outer)
        gc.disable()
        running_in[thread] = self
        asyncio._set_running_loop(self)  # type: ignore[arg-type]  # code that uses it is told

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        loop, place, was_collected = self._outside.pop()
        asyncio._set_running_loop(loop)
        if place is None:
            del running_in[get_ident()]
        else:
            running_in[get_ident()] = place
        if was_collected:
            gc.enable()

    @property
    def perdure_scope(self) -> NoReturn:
        """Refuse a durable call: `current_scope` asks for this."""
        called = sys._getframe(2).f_locals.get("self")
        name, what = getattr(called, "name", None), getattr(called, "definition", None)
        here = f"decider {self.perdure_decider.name!r}"
        match getattr(what, "what", None):
            case "activity":
                advice = f"return Decision.accept(...).effect({name}, ...)"
            case "orchestration":
                advice = f"return Decision.accept(...).start({name}, ...)"
            case _:
                name, advice = "a durable call", "hand values in with the input, or as `now`"
        raise UsageError(f"{name} was called inside {here}, which only decides: {advice}")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UsageError(
            f"asyncio was used inside decider {self.perdure_decider.name!r} (loop.{name}): decide "
            "and evolve are plain functions; do it in an activity, as "
            "Decision.accept(...).effect(activity, ...)"
        )


def current_decider() -> DeciderDefinition | None:
    """Return the decider whose code runs here; None outside of one."""
    place = running_in.get(get_ident())
    return place.perdure_decider if isinstance(place, PurePlace) else None
