"""Errors as problem documents (RFC 9457): each class of `perdure.errors` has one code and status.

What is the caller's doing is said in full. What is the store's or our own is said in general terms:
the text of such an error may name addresses or values, and belongs into the log.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from perdure import errors
from perdure.errors import code_of
from perdure.ids import fresh_name
from perdure.web.values import dump

logger = logging.getLogger(__name__)

STATUSES: Mapping[type[errors.PerdureError], int] = {
    errors.PerdureError: 500,
    errors.UsageError: 400,
    errors.DefinitionError: 400,
    errors.OptionError: 400,
    errors.NotRegisteredError: 404,
    errors.NotServedError: 409,
    errors.PayloadError: 422,
    errors.InvalidIdError: 400,
    errors.LimitExceededError: 413,
    errors.InstanceNotFoundError: 404,
    errors.InstanceEndedError: 409,
    errors.InstanceRunningError: 409,
    errors.NotRootError: 409,
    errors.AlreadyExistsError: 409,
    errors.UniqueKeyError: 409,
    errors.VersionConflictError: 409,
    errors.EventsRemovedError: 410,
    errors.InstanceHeldError: 409,
    errors.InputIdReusedError: 409,
    errors.TooManyFailuresError: 409,
    errors.PromiseNotFoundError: 404,
    errors.PromiseRejectedError: 409,
    errors.UnexpectedCountError: 409,
    errors.PartlyDoneError: 409,
    errors.InputDroppedError: 409,
    errors.DecisionTooLongError: 422,
    errors.RecordedError: 409,
    errors.OutcomeError: 409,
    errors.ActivityError: 409,
    errors.ChildError: 409,
    errors.InstanceFailedError: 409,
    errors.InstanceCancelledError: 409,
    errors.InstanceTerminatedError: 409,
    errors.UpdateRefusedError: 409,
    errors.UpdateUnansweredError: 409,
    errors.RefusedError: 409,
    errors.ResultTimeoutError: 504,
    errors.NondeterminismError: 409,
    errors.StoreError: 503,
    errors.StoreUnavailableError: 503,
    errors.StoreFullError: 507,
    errors.StoreCorruptError: 500,
    errors.SchemaError: 503,
    errors.RowError: 422,
    errors.LeaseLostError: 503,
}
"""The HTTP status of each error; a class that is not here has that of its nearest base."""

FACTS = (
    "instance_id",
    "root_id",
    "status",
    "name",
    "known",
    "path",
    "problem",
    "limit",
    "allowed",
    "found",
    "expected",
    "key",
    "holder",
    "input_id",
    "update_id",
    "reason",
)
"""Attributes of errors that are told beside their text. Never values or tracebacks."""

RETRY_AFTER_S = 5
"""When to try again what the store could not do now."""

MEDIA_TYPE = "application/problem+json"


class RefusalError(Exception):
    """A request that is refused before the client is asked.

    Args:
        status: The HTTP status.
        code: What is wrong, as one word that never changes.
        detail: What is wrong with this request, and what to do.
        headers: Sent with the answer.
    """

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})


def status_of(error: type[errors.PerdureError]) -> int:
    """Return the HTTP status of an error."""
    return next(STATUSES[base] for base in error.__mro__ if base in STATUSES)


def document_of(error: Exception) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the problem document of an error, and headers that go with it.

    What was not foreseen is logged under a number that the document names; the caller learns
    nothing else of it (SEC-36).
    """
    if isinstance(error, RefusalError):
        return _document(error.status, error.code, error.detail), error.headers
    if isinstance(error, errors.PerdureError):
        return _of_perdure(error)
    number = fresh_name()
    # Without the exception's own text, which may hold values (SEC-23).
    frames = "".join(traceback.format_tb(error.__traceback__))
    logger.error(
        "a request failed unexpectedly",
        extra={"error_id": number, "error": type(error).__name__, "frames": frames},
    )
    text = f"something went wrong that was not foreseen; the log has it under {number}"
    return _document(500, "internal", text) | {"error_id": number}, {}


def response_of(error: Exception) -> Response:
    """Return an error as an answer."""
    return response_for(*document_of(error))


def response_for(document: dict[str, Any], headers: dict[str, str]) -> Response:
    """Return a problem document as an answer."""
    return Response(
        dump(document),
        status_code=document["status"],
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def _of_perdure(error: errors.PerdureError) -> tuple[dict[str, Any], dict[str, str]]:
    status = status_of(type(error))
    headers = {}
    detail = str(error)
    if isinstance(error, errors.StoreError):
        logger.warning("the store refused a request", extra={"error": type(error).__name__})
        detail = (type(error).__doc__ or "").split("\n")[0]
    if status in (503, 507):
        headers["Retry-After"] = str(RETRY_AFTER_S)
    facts = {name: getattr(error, name) for name in FACTS if hasattr(error, name)}
    if "status" in facts:
        facts["instance_status"] = str(facts.pop("status"))
    return _document(status, code_of(type(error)), detail) | facts, headers


def _document(status: int, code: str, detail: str) -> dict[str, Any]:
    return {
        "type": f"urn:perdure:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
    }
