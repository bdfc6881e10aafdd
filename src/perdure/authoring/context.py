"""The context of a running orchestration: who it is, what time it is, its own randomness."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, MutableMapping
from datetime import datetime
from typing import Any
from uuid import UUID

from perdure.authoring.scope import Scope, current_scope
from perdure.clock import from_datetime
from perdure.errors import UsageError
from perdure.model.events import Parent


class Context:
    """An orchestration's view of itself. Everything here is the same at every replay."""

    __slots__ = ("_log", "_random", "_scope")

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._random: random.Random | None = None
        self._log: logging.LoggerAdapter[logging.Logger] | None = None

    @property
    def instance_id(self) -> str:
        """The instance's id."""
        return self._scope.instance_id

    @property
    def execution(self) -> int:
        """Which generation of the instance this is, from 1."""
        return self._scope.execution

    @property
    def name(self) -> str:
        """The orchestration's name."""
        return self._scope.name

    @property
    def version(self) -> str:
        """The version the instance was started with."""
        return self._scope.version

    @property
    def parent(self) -> Parent | None:
        """The call that this instance answers to, if it is a child."""
        return self._scope.parent

    @property
    def is_replaying(self) -> bool:
        """Whether the code runs over what is already recorded. Do not decide anything by it."""
        return self._scope.is_replaying

    @property
    def random(self) -> random.Random:
        """Random numbers of this execution's own series."""
        if self._random is None:
            self._random = self._scope.make_random()
        return self._random

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that is silent while replaying and knows the instance."""
        if self._log is None:
            self._log = _ReplaySilentLog(self._scope)
        return self._log

    def now(self) -> datetime:
        """Return the latest recorded time, UTC. It moves when the orchestration is woken."""
        return self._scope.now()

    def uuid(self) -> UUID:
        """Return a new id, the same at every replay."""
        return self._scope.make_uuid()

    async def sleep_until(self, when: datetime) -> None:
        """Sleep until a point in time; at once if it has passed."""
        remaining_s = from_datetime(when) / 1000 - asyncio.get_running_loop().time()
        await asyncio.sleep(max(remaining_s, 0))


def context() -> Context:
    """Return the context of the orchestration that runs here."""
    scope = current_scope()
    if scope is None:
        raise UsageError("no orchestration runs here: context() works inside one")
    found: Context = scope.context
    return found


class _ReplaySilentLog(logging.LoggerAdapter[logging.Logger]):
    def __init__(self, scope: Scope) -> None:
        super().__init__(logging.getLogger("perdure.orchestration"), {})
        self._scope = scope

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's name
        return not self._scope.is_replaying and self.logger.isEnabledFor(level)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        extra: Mapping[str, Any] = kwargs.get("extra") or {}
        scope = self._scope
        kwargs["extra"] = {
            "instance_id": scope.instance_id,
            "execution": scope.execution,
            "definition": scope.name,
            "version": scope.version,
            **extra,
        }
        return msg, kwargs
