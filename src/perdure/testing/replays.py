"""Replay histories that were exported, with the code of today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath

from perdure.authoring.registry import GivenDefinitions, Registry
from perdure.client.histories.recorded import read_mappings
from perdure.client.histories.recorded import replay as replay_recorded
from perdure.codec import Json
from perdure.errors import UsageError


def replay(history: Iterable[Mapping[str, Json]], definitions: GivenDefinitions, /) -> None:
    """Replay an exported history. Nothing is written, and no activity runs.

    Args:
        history: As `handle.export()` returns it, and as the lines of `perdure export` are once they
            are read as JSON; several may follow one another.
        definitions: Where the code is.

    Raises:
        NondeterminismError: The code does not fit; the text shows what was recorded beside what
            the code asks for.
        NotRegisteredError: The code is not there, or not in the version on record.
        UsageError: It is no such history, or not a whole one.
    """
    if isinstance(history, str | bytes | PurePath):
        raise UsageError(
            f"replay takes the lines of a history as objects, got {history!r}: of a file say "
            "[json.loads(line) for line in Path('...').open()], or run pytest --replay-histories"
        )
    registry = Registry(definitions)
    for one in read_mappings(history, source="the history"):
        replay_recorded(registry, one)
