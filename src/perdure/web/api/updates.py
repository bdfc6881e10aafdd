"""Routes that ask instances: updates, which their code answers, and queries, which are computed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from perdure.authoring.query import Query
from perdure.authoring.update import Update
from perdure.client.reading.info import Json
from perdure.errors import ResultTimeoutError
from perdure.ids import fresh_name
from perdure.model.options import IfExists
from perdure.web.api.actions import named_start
from perdure.web.api.instances import handle_of, wait_limit
from perdure.web.operations import CheckedRequest, Nothing


class UpdateAskedBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to ask."""

    name: str
    """The update's name."""
    value: Json = None
    update_id: str | None = None
    """Given again with the same id, it gets the same outcome; made if not given."""
    wait: Annotated[float, msgspec.Meta(ge=0)] = 30
    """How long to wait for the answer, in seconds."""


class AskWithStartBody(UpdateAskedBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to ask, and what to start for it."""

    orchestration: str
    """The orchestration's name."""
    version: str | None = None
    input: dict[str, Json] | list[Json] = []
    """Its arguments: by name as an object, by position as an array."""
    if_exists: IfExists = "join"
    """What becomes of an instance that has ended: `restart` and `terminate` replace it."""


class UpdateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the code answered."""

    update_id: str
    """Ask again with this id for an answer that has not come yet."""
    is_answered: bool
    answer: Json = None


class AtQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As of which event; as of now if not given."""

    at: Annotated[int, msgspec.Meta(ge=1)] | None = None


class ViewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the code's view computed."""

    answer: Json


async def ask_update(ask: CheckedRequest[Nothing, UpdateAskedBody]) -> UpdateAnswer:
    """Ask an instance and wait for the answer of its code. `Idempotency-Key` is taken as the id.

    The request stays, whether or not the answer comes in time.
    """
    body = ask.body
    update: Update[Any, Any] = Update(body.name, Any, Any)
    update_id = ask.repeat_key(body.update_id, "update_id") or fresh_name()
    limit = wait_limit(ask, body.wait)
    try:
        answer = await handle_of(ask).update(update, body.value, update_id=update_id, timeout=limit)
    except ResultTimeoutError:
        return UpdateAnswer(update_id=update_id, is_answered=False)
    return UpdateAnswer(update_id=update_id, is_answered=True, answer=answer)


async def ask_with_start(ask: CheckedRequest[Nothing, AskWithStartBody]) -> UpdateAnswer:
    """Ask an instance, and start it first if it does not exist, in one commit.

    Waits for the answer. An instance that is live is only asked, whatever its input.
    `Idempotency-Key` is taken as the update's id.
    """
    body = ask.body
    update_id = ask.repeat_key(body.update_id, "update_id") or fresh_name()
    update: Update[Any, Any] = Update(body.name, Any, Any)
    named, args, kwargs = named_start(
        ask.client, body.orchestration, body.version, body.input, body.if_exists
    )
    asked = update.with_options(update_id=update_id, timeout=wait_limit(ask, body.wait))
    try:
        answer = await ask.client.update_with_start(
            asked, body.value, ask.path["instance_id"], named, *args, **kwargs
        )
    except ResultTimeoutError:
        return UpdateAnswer(update_id=update_id, is_answered=False)
    return UpdateAnswer(update_id=update_id, is_answered=True, answer=answer)


async def ask_query(ask: CheckedRequest[AtQuery, None]) -> ViewAnswer:
    """Compute a view of an orchestration's variables by replaying it here, where its code must be.

    Nothing is written.
    """
    query: Query[Any] = Query(ask.path["query"], Any)
    return ViewAnswer(answer=await handle_of(ask).ask(query, at=ask.query.at))
