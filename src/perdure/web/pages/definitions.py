"""The page of definitions: what there is, how it has gone lately, and forms to start it.

How long orchestrations took is told of the newest instances of a day, a bounded number of them; of
activities what this process has run. All pages of about the same time share it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from perdure.client.client import Client
from perdure.client.reading.info import Json
from perdure.errors import UsageError
from perdure.web.access import now_utc
from perdure.web.api import overview as api
from perdure.web.operations import CheckedRequest
from perdure.web.pages.charts import newest
from perdure.web.pages.content import PageContent
from perdure.web.pages.instances import COUNT_WITHIN_S
from perdure.web.pages.records import Record, records_of, records_of_activities
from perdure.web.values import MASK, dump, masked, shown

LATELY = timedelta(days=1)


class DefinitionsPageQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the forms are filled with."""

    like: str | None = None
    """The id of an instance, whose input is in the form of its definition."""


async def show(ask: CheckedRequest[DefinitionsPageQuery, None]) -> PageContent:
    """Return the page."""
    found = await api.definitions_seen(ask)
    # Every worker also takes starts that leave the version open: of interest if some wait.
    orchestrations = [
        one
        for one in found
        if one.kind == "orchestration" and (one.version or one.ready or one.later or one.leased)
    ]
    lately = await ask.site.lately.get(lambda: _read(ask.client), within_s=COUNT_WITHIN_S)
    return PageContent(
        template="definitions.html",
        title="Definitions",
        data={
            "orchestrations": orchestrations,
            "deciders": [one for one in found if one.kind == "decider"],
            "activities": [one for one in found if one.kind == "activity"],
            "readers": [one for one in found if one.kind == "projection"],
            "lately": lately or {},
            "lately_here": records_of_activities(ask.client),
            "like": await _like(ask, orchestrations),
        },
    )


async def _read(client: Client) -> Mapping[str, Record]:
    found, _ = await newest(client, {}, now_utc() - LATELY)
    return records_of(found)


async def _like(
    ask: CheckedRequest[DefinitionsPageQuery, None], here: Iterable[api.DefinitionShown]
) -> dict[str, Any] | None:
    """Return what the form of one definition is filled with, and of which."""
    if ask.query.like is None:
        return None
    info = await ask.client.handle(ask.query.like).info()
    if info.kind != "orchestration":
        raise UsageError(
            f"instance {info.instance_id!r} is a decider's: send it an input instead of starting "
            "another one"
        )
    served = [one for one in here if one.name == info.name and one.version]
    same = [one for one in served if one.version == info.version]
    into = next(reversed(same or served), None)
    schema = None if into is None else into.schema
    mask = {name.lower() for name in ask.site.settings.mask}
    whole = _by_name(shown(info.input, mask), schema, mask)
    return {
        "instance_id": info.instance_id,
        "name": info.name,
        "version": None if into is None else into.version,
        "fields": _fields(whole, schema),
        "input": "" if _is_masked(whole) else dump(whole, indent=2).decode(),
        "is_masked": _is_masked(whole),
    }


def _fields(whole: Any, schema: Json) -> dict[str, str]:
    """Return an input as the fields of a form show it, without what is masked in it: that is for
    the caller to fill in."""
    if not isinstance(schema, dict) or not isinstance(whole, dict):
        return {}
    properties: Any = schema["properties"]
    found = {}
    for name, field in properties.items():
        value = whole.get(name)
        if value is None or _is_masked(value):
            continue
        is_text = field.get("type") == "string" and isinstance(value, str)
        found[name] = value if is_text else dump(value).decode()
    return found


def _by_name(whole: Any, schema: Json, mask: Collection[str]) -> Any:
    """Return an input with the names of its arguments: what was started without its code is stored
    by position, and by name something in it may have to be masked."""
    if not isinstance(schema, dict) or not isinstance(whole, dict):
        return whole
    properties: Any = schema["properties"]
    names = {str(place): name for place, name in enumerate(properties)}
    found = {key if key in properties else names.get(key, key): one for key, one in whole.items()}
    return masked(found, mask)


def _is_masked(value: Any) -> bool:
    return MASK in dump(value).decode()
