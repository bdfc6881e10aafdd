"""What is sent to a server and comes back, and what is refused."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

import msgspec

from perdure.client.reading.as_json import shown_time
from perdure.client.reading.info import Json
from perdure.client.reading.lists import InstanceQuery, check_time
from perdure.client.reading.overview import HeldCount
from perdure.codec import by_position_and_name
from perdure.errors import UsageError
from perdure.model.instances import DefinitionKey
from perdure.model.turns import SlotUse

BESIDE_THE_STORE = "use a client of the store itself"


def refuse(method: str, advice: str) -> NoReturn:
    """Refuse what cannot be done over HTTP.

    Raises:
        UsageError: Always; it says what to do instead.
    """
    raise UsageError(f"{method} cannot be done over HTTP: {advice}")


def conditions(which: InstanceQuery) -> dict[str, Any]:
    """Return conditions as a query; a condition of another name is refused by the server."""
    return {name: value for name, value in which.items() if value not in (None, False)}


def arguments_of(stored: dict[str, Json]) -> dict[str, Json] | list[Json]:
    """Return stored arguments as a request has them: by name, or by position."""
    by_position, by_name = by_position_and_name(stored)
    if by_position and by_name:
        refuse("a start by name with arguments by position and by name", "give all of them by name")
    return by_position or by_name


def key_of(served: dict[str, str]) -> DefinitionKey:
    """Return a definition that a worker takes; its behaviour number is not told."""
    return DefinitionKey(served["kind"], served["name"], served["version"] or served["tag"])


def tuples_of_worker(shown: dict[str, Any]) -> dict[str, Any]:
    """Return a worker as a server shows it, with tuples where a client has named ones."""
    return {
        **shown,
        "definitions": [key_of(one) for one in shown["definitions"]],
        "slots": [SlotUse(**one) for one in shown["slots"]],
        "leases": [HeldCount(key_of(one["definition"]), one["leased"]) for one in shown["leases"]],
    }


def body_of(data: Json) -> bytes:
    """Return what an event says, as the store has it."""
    return msgspec.json.encode(data)


def shown_or_none(what: str, at: datetime | None) -> str | None:
    """Return a point in time that a caller gave, as a request has it.

    Raises:
        UsageError: It is not an aware datetime.
    """
    return None if check_time(what, at) is None or at is None else shown_time(at)
