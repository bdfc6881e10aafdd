"""The page of definitions: what code says of itself, how it has gone, forms filled like before."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

import perdure.web
from perdure import ActivityContext, Context, Engine, Orchestration, activity, orchestration
from perdure.authoring.registry import Registry
from perdure.client.reading.info import InstanceInfo
from perdure.model.instances import Status
from perdure.web.api.describing import described
from perdure.web.pages.records import records_of
from perdure.web.values import MASK
from tests.web import site
from tests.web.site import HOSTILE, KEY, browser, engine_with_all, memory_url


@dataclass(frozen=True)
class Card:
    number: str
    owner: str


@activity
async def charge(ctx: ActivityContext, card: Card, cents: int = 100) -> str | None:
    """Charge a card.

    Twice is once: the bank knows the key.
    """
    return None


@orchestration(version="1.0.0")
async def order(ctx: Context, title: str, copies: int, gift: bool, card: Card) -> None:
    """Take an order."""


@orchestration(version="1.1.0")
async def bare(text: str) -> None: ...


@pytest.fixture
async def page() -> AsyncIterator[httpx.AsyncClient]:
    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        yield page


# ------------------------------------------------------------------------ what code says


def test_the_signature_is_what_a_caller_gives() -> None:
    registry = Registry([charge, order, bare])

    told = described(registry, "activity", "charge", "")
    taken = described(registry, "orchestration", "order", "1.0.0")

    assert told.signature == "(card: Card, cents: int = 100) -> 'str | None'".replace("'", "")
    assert told.docs == "Charge a card.\n\nTwice is once: the bank knows the key."
    assert told.about == "Charge a card."
    assert told.place.startswith("tests/web/test_definitions_page.py:")
    assert taken.signature == "(title: str, copies: int, gift: bool, card: Card) -> None"
    assert taken.schema is not None


class Spoilt:
    def __repr__(self) -> str:
        raise RuntimeError("nothing to show")


def test_a_default_that_may_be_a_secret_is_told_only_as_being_there() -> None:
    @activity
    async def call(key: str = "hunter2", card: Card | None = None, tries: int = 3) -> None: ...

    @activity
    async def odd(it: Any = Spoilt()) -> None:  # noqa: B008 - as some write it
        ...

    registry = Registry([call, odd])

    assert described(registry, "activity", "call", "").signature == (
        "(key: str = …, card: Card | None = None, tries: int = 3) -> None"
    )
    assert described(registry, "activity", "odd", "").signature == "(it: Any = …) -> None"


def test_one_definition_that_cannot_be_described_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its annotation is not there, and the folder of the server has been removed."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    @orchestration(version="1.0.0")
    async def torn(what: "Path.Missing") -> None: ...  # type: ignore[name-defined]  # noqa: UP037

    told = described(Registry([torn]), "orchestration", "torn", "1.0.0")

    assert told.place.startswith("test_definitions_page.py:")
    assert told.schema is None


def test_a_decider_says_what_it_takes_records_and_refuses() -> None:
    told = described(Registry([site.Account]), "decider", "account", "")

    assert told.signature == "Open | Deposit -> Opened | Deposited, or TooMuch"
    assert told.place.startswith("tests/web/site.py:")


def test_of_code_that_is_elsewhere_nothing_is_said() -> None:
    elsewhere: Orchestration[..., Any] = Orchestration.named("there", Any)

    assert described(Registry(), "orchestration", "order", "1.0.0") == described(
        Registry(), "activity", "charge", ""
    )
    assert described(Registry(), "decider", "account", "").signature == ""
    assert elsewhere.is_elsewhere


async def test_every_kind_of_definition_says_what_its_code_says(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/definitions")).text
    data = (await page.get("/definitions.json")).json()

    for signature in (
        "(order: str) → str",
        "Open | Deposit → Opened | Deposited, or TooMuch",
    ):
        assert f"<code>{signature}</code>" in shown
    assert "Pack an order and wait until it may go." in shown
    assert "Has nothing to do with what it reads." in shown
    assert {one["place"].partition(":")[0] for one in data["activities"]} == {"tests/web/site.py"}


# ------------------------------------------------------------------------ how it has gone


def ended(name: str, took_s: float, status: Status = Status.COMPLETED) -> InstanceInfo:
    began = datetime(2026, 11, 16, tzinfo=UTC)
    end = began + timedelta(seconds=took_s)
    return InstanceInfo(
        instance_id="i",
        kind="orchestration",
        name=name,
        version="1.0.0",
        status=status,
        execution=1,
        created_at=began,
        updated_at=end,
        ended_at=end if status.is_terminal else None,
        parent_id=None,
        input={},
        output=None,
        reason=None,
        unclaimed=None,
    )


def test_what_ended_is_counted_by_name_with_its_failures_and_how_long_it_took() -> None:
    found = records_of(
        [
            *(ended("a", seconds) for seconds in range(1, 20)),
            ended("a", 100, Status.FAILED),
            ended("a", 5_000, Status.RUNNING),
            ended("b", 3),
        ]
    )

    assert (found["a"].ended, found["a"].failed) == (20, 1)
    assert (found["a"].p50_s, found["a"].p95_s) == (10.0, 19.0)
    assert found["b"].failed == 0


async def test_the_page_tells_how_definitions_have_gone(page: httpx.AsyncClient) -> None:
    data = (await page.get("/definitions.json")).json()
    shown = (await page.get("/definitions")).text

    assert data["lately"]["quick"]["failed"] == 0
    assert data["lately"]["doomed"] == data["lately"]["doomed"] | {"ended": 1, "failed": 1}
    assert data["lately_here"]["pack"]["ended"] == 3
    assert "100 % failed" in shown
    assert "none failed" in shown


# ------------------------------------------------------------------------ forms like before


async def test_a_form_is_filled_with_the_input_of_an_instance() -> None:
    card = Card("4111", HOSTILE)
    async with Engine(memory_url(), [order, charge, bare]) as engine:
        await engine.start("order-1", order, HOSTILE, 3, True, card)
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/definitions?like=order-1")).text
            link = (await page.get("/i/order-1")).text

    form = shown.partition('data-name="order"')[2].partition("</form>")[0]
    assert '<details class="start" open>' in shown
    assert 'data-arg="copies" data-type="json" inputmode="decimal" value="3"' in form
    assert "<option selected>true</option>" in form
    assert "{&#34;number&#34;:&#34;4111&#34;" in form
    assert "&lt;script&gt;" in form
    assert "<script>alert" not in shown
    other = shown.partition('data-name="bare"')[2].partition("</form>")[0]
    assert re.findall('value="([^"]*)"', other) == [""]
    assert 'href="/definitions?like=order-1#like"' in link


async def test_what_is_masked_stays_masked_and_is_for_the_person_to_fill_in() -> None:
    async with Engine(memory_url(), [order]) as engine:
        await engine.start("order-1", order, "Emma", 3, False, Card("4111", "Ada"))
        app = perdure.web.app(engine, key=KEY, mask=["number", "title"])
        async with browser(app) as page:
            shown = (await page.get("/definitions?like=order-1")).text
            twin = (await page.get("/definitions.json?like=order-1")).text

    for text in (shown, twin):
        assert "4111" not in text
        assert "Emma" not in text
    assert MASK not in shown
    assert 'value="3"' in shown
    assert "without what is masked" in shown


async def test_what_is_stored_by_position_is_masked_by_its_name() -> None:
    async with Engine(memory_url(), [order]) as engine:
        there: Orchestration[..., Any] = Orchestration.named("order", Any)
        await engine.start("order-1", there, "Emma", 3, False, {"number": "4111", "owner": "Ada"})
        app = perdure.web.app(engine, key=KEY, mask=["title"])
        async with browser(app) as page:
            shown = (await page.get("/definitions?like=order-1")).text

    assert "Emma" not in shown
    assert 'value="3"' in shown
    assert "without what is masked" in shown


async def test_a_form_like_nothing_or_like_a_decider_is_refused_in_words(
    page: httpx.AsyncClient,
) -> None:
    unknown = await page.get("/definitions?like=nobody")
    decider = await page.get("/definitions?like=account%3Aa-1")

    assert unknown.status_code == 404
    assert decider.status_code == 400
    assert "send it an input" in decider.text


async def test_what_no_worker_has_is_said_instead_of_a_form() -> None:
    async with Engine(memory_url(), [order]) as engine:
        named: Orchestration[..., Any] = Orchestration.named("orphan", Any)
        await engine.start("o-1", named, 1)
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            shown = (await page.get("/definitions?like=o-1")).text

    assert "No live worker has orphan" in shown
