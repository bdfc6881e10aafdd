"""Errors as problem documents."""

from __future__ import annotations

import inspect

from perdure import errors
from perdure.errors import code_of
from perdure.web.problems import STATUSES, document_of

CLASSES = [
    one
    for _, one in inspect.getmembers(errors, inspect.isclass)
    if issubclass(one, errors.PerdureError)
]


def test_every_error_has_a_status_and_a_code_of_its_own() -> None:
    assert set(STATUSES) == set(CLASSES)
    assert len({code_of(one) for one in CLASSES}) == len(CLASSES)


def test_a_problem_has_the_facts_of_its_error() -> None:
    error = errors.VersionConflictError("order-1", expected=3, found=4)

    document, headers = document_of(error)

    assert document == {
        "type": "urn:perdure:problem:version_conflict",
        "title": "Conflict",
        "status": 409,
        "code": "version_conflict",
        "detail": str(error),
        "instance_id": "order-1",
        "expected": 3,
        "found": 4,
    }
    assert headers == {}


def test_what_the_store_says_stays_in_the_house() -> None:
    error = errors.StoreUnavailableError("postgresql://user:password@host is down")

    document, headers = document_of(error)

    assert "password" not in str(document)
    assert (document["status"], headers) == (503, {"Retry-After": "5"})


def test_a_full_store_is_507_with_a_word_on_when_to_try_again() -> None:
    document, headers = document_of(errors.StoreFullError("/srv/secret.db: the disk is full"))

    assert "secret" not in str(document)
    assert (document["status"], document["code"]) == (507, "store_full")
    assert headers == {"Retry-After": "5"}
