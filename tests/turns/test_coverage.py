"""What a worker takes: its registry seen through its options."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import WorkerOptions, activity, orchestration
from perdure.authoring.orchestration import Orchestration
from perdure.authoring.registry import (
    BEHAVIOUR,
    Registry,
    activity_key,
    inline_key,
    orchestration_key,
)
from perdure.errors import NotRegisteredError
from perdure.model.builtins import BUILTINS
from perdure.model.instances import DefinitionKey
from perdure.turns.coverage import Coverage

BUILT_IN = {"perdure.for_each", "perdure.page"}
"""Orchestrations that every worker takes."""


def checkout(version: str) -> Orchestration[[], str]:
    @orchestration(name="checkout", version=version)
    async def own() -> str:
        return version

    return own


@activity
async def charge() -> None: ...


@activity(tag="gpu")
async def train() -> None: ...


def coverage(*versions: str, **options: Any) -> Coverage:
    registry = Registry([*(checkout(version) for version in versions), charge, train])
    return Coverage(registry, WorkerOptions(**options))


def version_for(cover: Coverage, recorded: str, behaviour: int = BEHAVIOUR) -> str | None:
    key = DefinitionKey("orchestration", "checkout", recorded, behaviour)
    found = cover.code_for(key)
    return None if found is None else found.version


def activities_of(cover: Coverage) -> set[tuple[str, str]]:
    own = {key[1:3] for key in cover.queues if key.kind == "activity"}
    return own - {(name, "") for name in BUILTINS}


def test_by_default_exactly_what_is_here_is_taken() -> None:
    cover = coverage("1.0.0", "2.0.0")

    assert version_for(cover, "1.0.0") == "1.0.0"
    assert version_for(cover, "2.0.0") == "2.0.0"
    assert version_for(cover, "1.5.0") is None
    assert cover.code_for(orchestration_key("shipping", "1.0.0")) is None
    assert not cover.asks_store


def test_a_start_without_a_version_gets_the_preferred_one() -> None:
    cover = coverage("1.0.0", "2.0.0")
    assert version_for(cover, "") == "2.0.0"

    cover.registry.prefer("checkout", "1.0.0")

    assert version_for(cover, "") == cover.choose("checkout") == "1.0.0"
    assert cover.choose("shipping") is None


def test_a_wider_range_runs_unknown_versions_on_the_highest_inside_it() -> None:
    cover = coverage("1.2.0", "1.9.0", "2.0.0", versions={"checkout": ">=1,<2"})

    assert version_for(cover, "1.5.0") == "1.9.0"
    assert version_for(cover, "1.2.0") == "1.2.0"
    assert version_for(cover, "2.0.0") is None
    assert version_for(cover, "0.9.0") is None


def test_a_narrower_range_leaves_versions_alone_and_never_begins_them() -> None:
    cover = coverage("1.0.0", "2.0.0", versions={"checkout": "<2"})

    assert version_for(cover, "2.0.0") is None
    assert cover.choose("checkout") == "1.0.0"
    assert version_for(cover, "") == "1.0.0"


def test_a_range_without_any_code_in_it_takes_nothing() -> None:
    cover = coverage("2.0.0", versions={"checkout": "<2"})

    assert version_for(cover, "1.0.0") is None
    assert version_for(cover, "") is None
    assert {key.name for key in cover.orchestrations} == BUILT_IN


def test_recorded_versions_inside_the_range_are_claimed_with_their_inline_calls() -> None:
    cover = coverage("2.0.0", versions={"checkout": ">=1"})
    recorded = [orchestration_key("checkout", v) for v in ("1.4.0", "0.1.0", "", "no version")]

    assert cover.learn([*recorded, orchestration_key("shipping", "1.4.0")])

    taken = {key.variant for key in cover.orchestrations if key.name not in BUILT_IN}
    assert taken == {"2.0.0", "", "1.4.0"}
    assert inline_key("checkout", "1.4.0") in cover.queues
    assert inline_key("checkout", "0.1.0") not in cover.queues
    assert not cover.learn([*recorded, orchestration_key("shipping", "1.5.0")])


def test_only_the_behaviours_asked_for_are_taken() -> None:
    other = BEHAVIOUR + 1
    assert version_for(coverage("1.0.0"), "1.0.0", other) is None

    cover = coverage("1.0.0", behaviours=(BEHAVIOUR, other))
    key = orchestration_key("checkout", "1.0.0")._replace(behaviour=other)
    assert cover.learn([key])

    assert version_for(cover, "1.0.0", other) == version_for(cover, "1.0.0") == "1.0.0"
    assert key in cover.orchestrations
    assert inline_key("checkout", "1.0.0") in cover.queues
    assert inline_key("checkout", "1.0.0")._replace(behaviour=other) in cover.queues


def test_a_worker_for_another_behaviour_leaves_those_of_its_own_alone() -> None:
    cover = coverage("1.0.0", behaviours=(BEHAVIOUR + 1, BEHAVIOUR + 1))

    assert cover.orchestrations == {}


@pytest.mark.parametrize(
    ("tags", "taken"),
    [
        ("own", {("charge", ""), ("train", ""), ("train", "gpu")}),
        ((), set()),
        ((None,), {("charge", ""), ("train", "")}),
        (("gpu",), {("charge", "gpu"), ("train", "gpu")}),
        ((None, "big"), {("charge", ""), ("charge", "big"), ("train", ""), ("train", "big")}),
    ],
)
def test_tags_say_which_calls_are_taken(tags: Any, taken: set[tuple[str, str]]) -> None:
    assert activities_of(coverage(tags=tags)) == taken


def test_any_tag_that_the_store_has_seen_is_taken() -> None:
    cover = coverage(tags="any")

    cover.learn([activity_key("charge", "eu"), activity_key("mail", "eu")])

    assert activities_of(cover) == {
        ("charge", ""),
        ("charge", "eu"),
        ("train", ""),
        ("train", "gpu"),
    }


def test_the_built_in_activities_are_taken_whatever_the_tags() -> None:
    for tags in ("own", "any", (), ("gpu",)):
        assert {activity_key(name, None) for name in BUILTINS} <= set(coverage(tags=tags).queues)


@pytest.mark.parametrize(
    "options",
    [
        {"versions": {"shipping": ">=1"}},
        {"prefer": {"checkout": "3.0.0"}},
        {"prefer": {"shipping": "1.0.0"}},
    ],
)
def test_options_about_what_is_not_here_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(NotRegisteredError):
        coverage("1.0.0", **options)
