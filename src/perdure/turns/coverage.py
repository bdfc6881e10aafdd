"""Which recorded definitions a worker takes, and with which code.

By default exactly what was handed over. `WorkerOptions.versions` and `behaviours` widen or narrow
that; versions that are not here themselves are found among the definitions that the store has seen.
Whatever is not covered is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from perdure.authoring.builtin.builtin_orchestrations import BUILTIN_ORCHESTRATIONS
from perdure.authoring.deciders.decider_definition import DeciderDefinition
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import (
    BEHAVIOUR,
    Registry,
    activity_key,
    decider_key,
    inline_key,
    orchestration_key,
)
from perdure.errors import NotRegisteredError
from perdure.ids import fresh_id
from perdure.model.builtins import BUILTINS, OF_DECIDER, RESERVED_PREFIX
from perdure.model.instances import DefinitionKey
from perdure.model.options import WorkerOptions
from perdure.model.versions import VersionRange, is_version


class Coverage:
    """What a worker serves: a registry seen through its options. Asks no store."""

    def __init__(
        self,
        registry: Registry,
        options: WorkerOptions,
        *,
        behind: Callable[[], None] = lambda: None,
    ) -> None:
        """Work out what is covered before anything is known of the store.

        Args:
            registry: The definitions.
            options: Which of them, and which versions.
            behind: Called when something is to be served that `learn` has not taken in yet.

        Raises:
            NotRegisteredError: An option is about an orchestration or version that is not here.
        """
        self.registry = registry
        self._ranges = {name: VersionRange(text) for name, text in options.versions.items()}
        self._behaviours = options.behaviours or (BEHAVIOUR, BEHAVIOUR)
        self._tags = options.tags
        for name in self._ranges:
            if not registry.versions(name):
                raise NotRegisteredError("orchestration", name, known=registry.names())
        for name, version in options.prefer.items():
            registry.prefer(name, version)
        self.asks_store = bool(
            self._ranges or options.behaviours is not None or options.tags == "any"
        )
        """Whether more is covered than what is known without the store."""
        self._behind = behind
        self._life = f"{fresh_id():016x}"
        self._noted: set[DefinitionKey] = set()
        self._recorded: set[DefinitionKey] = set()
        self.orchestrations: dict[DefinitionKey, Orchestration[..., Any]] = {}
        """The orchestrations to claim turns of, each with the code that runs it."""
        self.beginning: dict[tuple[str, str], Orchestration[..., Any]] = {}
        """Of these, those that new instances may begin with, by name and version."""
        self.deciders: dict[DefinitionKey, DeciderDefinition] = {
            decider_key(name): decider for name, decider in registry.served_deciders.items()
        }
        """The deciders to claim turns of. They have no versions."""
        self._queues: dict[DefinitionKey, None] = {}
        self.learn(())

    @property
    def queues(self) -> Collection[DefinitionKey]:
        """The queues to claim jobs of."""
        return self._queues.keys()

    def claimable(self) -> tuple[DefinitionKey, ...]:
        """Return all that the worker claims."""
        return (*self.orchestrations, *self.deciders, *self._queues)

    def learn(self, recorded: Iterable[DefinitionKey]) -> bool:
        """Take in the definitions that the store has seen; return whether anything changed."""
        self._recorded = self._noted.union(recorded)
        served = {
            key: code for key in self._candidates() if (code := self.code_for(key)) is not None
        }
        queues = dict.fromkeys((*self._inline_queues(served), *self._activity_queues()))
        is_changed = served != self.orchestrations or queues != self._queues
        self.orchestrations, self._queues = served, queues
        self.beginning = {
            (key.name, key.variant): code
            for key, code in served.items()
            if key.variant and key.behaviour == BEHAVIOUR
        }
        return is_changed

    def serves(self, key: DefinitionKey) -> bool:
        """Return whether turns or jobs of a definition are claimed here."""
        return key in self.orchestrations or key in self._queues or key in self.deciders

    def note(self, key: DefinitionKey) -> None:
        """This process records a definition: it counts as recorded, before the store is asked."""
        if not self.serves(key) and self.covers(key):
            self._noted.add(key)
            self._behind()

    def covers(self, key: DefinitionKey) -> bool:
        """Return whether turns or jobs of a definition are taken here, or will be once it is
        recorded."""
        if key.kind == "orchestration":
            return self.code_for(key) is not None
        if key.kind == "decider":
            return key in self.deciders
        is_any_tag = self._tags == "any" and key.kind == "activity"
        return key in self._queues or (is_any_tag and key.name in self.registry.activities)

    def code_for(self, key: DefinitionKey) -> Orchestration[..., Any] | None:
        """Return the code that runs a recorded orchestration, if it is taken here."""
        lowest, highest = self._behaviours
        if key.kind != "orchestration" or not lowest <= key.behaviour <= highest:
            return None
        name, version = key.name, key.variant or self.choose(key.name)
        if version is None:
            return None
        exact = self.registry.code_for(name, version)
        within = self._ranges.get(name)
        if within is None or not is_version(version):
            return exact
        if version not in within:
            return None
        return exact or self._highest(name, within)

    def digest_for(self, key: DefinitionKey) -> str:
        """Return what tells the code that runs a recorded definition from other code.

        Two versions in one module have the same source around them. So that what does not fit one
        is offered to the other, code that stands in for another version says which it is.
        """
        if key in self.deciders:
            return self.registry.code_of_decider(key.name)
        code = self.code_for(key)
        assert code is not None, "only what is covered is run"
        digest = self.registry.code_of(code.name, code.version)
        return digest if key.variant in ("", code.version) else f"{digest}@{code.version}"

    def tried_as(self, key: DefinitionKey) -> str:
        """Return what the code that runs a recorded definition here is called when it does not fit.

        No other worker's code has that name. What is chosen by flags, configuration or a factory is
        in no digest, so whether equal files fit is known of each worker by itself.
        """
        return f"{self.digest_for(key)}/{self._life}"

    def choose(self, name: str) -> str | None:
        """Return which version begins when that is left open: the preferred one, if it is taken
        here, else the highest that is."""
        preferred = self.registry.preferred(name)
        within = self._ranges.get(name)
        if within is None or preferred is None or preferred in within:
            return preferred
        found = self._highest(name, within)
        return None if found is None else found.version

    def _highest(self, name: str, within: VersionRange) -> Orchestration[..., Any] | None:
        versions = [version for version in self.registry.versions(name) if version in within]
        return self.registry.orchestrations[name, versions[-1]] if versions else None

    def _candidates(self) -> dict[DefinitionKey, None]:
        """Return what may be served, in an order that does not depend on the store."""
        keys = [orchestration_key(*named) for named in self.registry.orchestrations]
        keys += [orchestration_key(name, "") for name in self.registry.names()]
        keys += [orchestration_key(*named) for named in BUILTIN_ORCHESTRATIONS]
        keys += sorted(key for key in self._recorded if key.kind == "orchestration")
        return dict.fromkeys(keys)

    def _inline_queues(self, served: Iterable[DefinitionKey]) -> Iterable[DefinitionKey]:
        for key in served:
            # Built-in ones make no inline calls.
            if key.variant and not key.name.startswith(RESERVED_PREFIX):
                # New calls go under the behaviour of this release, whatever the instance began
                # with; those of an older release are still under that one.
                yield inline_key(key.name, key.variant)
                yield inline_key(key.name, key.variant)._replace(behaviour=key.behaviour)

    def _activity_queues(self) -> Iterable[DefinitionKey]:
        for name in BUILTINS:
            yield activity_key(name, None)
        for decider in self.registry.deciders:
            for name in OF_DECIDER:
                yield activity_key(name, decider)
        for name in self.registry.activities:
            for tag in self._tags_of(name):
                yield activity_key(name, tag)

    def _tags_of(self, name: str) -> Iterable[str | None]:
        own = self.registry.tags_of(name)
        match self._tags:
            case "own":
                return (None, *own)
            case "any":
                seen = {key.variant for key in self._recorded if key[:2] == ("activity", name)}
                return (None, *sorted({*own, *seen} - {""}))
        return self._tags
