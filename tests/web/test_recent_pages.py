"""Many open pages that show the same: one is made for all, and never an old one after an action."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.requests import Request

from perdure import Engine
from perdure.web import Access
from perdure.web.access import AccessScope
from perdure.web.application import app_of_site
from perdure.web.changes import PagePace
from perdure.web.cursors import CursorSecret
from perdure.web.operations import Site
from perdure.web.pages.recent import KEPT_S, MAX_KEPT, MadePage, RecentPages
from perdure.web.rates import Openings
from perdure.web.settings import WebSettings
from perdure.web.totals import RecentByKey, RecentQueues, RecentTotals, RecentValue
from tests.web.site import caller, engine_with_all, quick


class Clock:
    """A time that is set."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Maker:
    """Makes pages, numbered; each when it may."""

    def __init__(self) -> None:
        self.made = 0
        self.may = asyncio.Event()
        self.may.set()

    async def __call__(self) -> MadePage:
        self.made += 1
        number = self.made
        await self.may.wait()
        return MadePage(b"page %d" % number, f'"{number}"', 200)


async def test_those_who_look_at_the_same_get_the_same_page() -> None:
    recent, make = RecentPages(Clock()), Maker()
    make.may.clear()
    asked = [asyncio.ensure_future(recent.get("/", make, kept_s=1.0)) for _ in range(50)]
    await asyncio.sleep(0)

    make.may.set()

    assert {page.html for page in await asyncio.gather(*asked)} == {b"page 1"}


async def test_a_page_is_made_anew_once_it_is_too_old() -> None:
    clock, make = Clock(), Maker()
    recent = RecentPages(clock)
    await recent.get("/", make, kept_s=0.5)

    clock.now_s = 0.4
    soon = await recent.get("/", make, kept_s=0.5)
    clock.now_s = 0.5
    later = await recent.get("/", make, kept_s=0.5)

    assert (soon.html, later.html) == (b"page 1", b"page 2")


async def test_no_page_is_older_than_the_limit_however_many_are_open() -> None:
    clock, make = Clock(), Maker()
    recent = RecentPages(clock)
    await recent.get("/", make, kept_s=60.0)

    clock.now_s = KEPT_S

    assert (await recent.get("/", make, kept_s=60.0)).html == b"page 2"


async def test_who_opens_a_page_gets_a_new_one() -> None:
    recent, make = RecentPages(Clock()), Maker()
    await recent.get("/", make, kept_s=1.0)

    assert (await recent.get("/", make, kept_s=0.0)).html == b"page 2"


async def test_after_an_action_no_page_is_sent_that_was_begun_before() -> None:
    recent, make = RecentPages(Clock()), Maker()
    make.may.clear()
    before = asyncio.ensure_future(recent.get("/", make, kept_s=1.0))
    await asyncio.sleep(0)

    recent.clear()
    make.may.set()
    after = await recent.get("/", make, kept_s=1.0)

    assert ((await before).html, after.html) == (b"page 1", b"page 2")


async def test_a_page_whose_maker_hung_up_is_made_by_another() -> None:
    recent, make = RecentPages(Clock()), Maker()
    make.may.clear()
    first, second = (asyncio.ensure_future(recent.get("/", make, kept_s=1.0)) for _ in range(2))
    await asyncio.sleep(0)

    first.cancel()
    make.may.set()

    assert (await second).html == b"page 2"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_page_that_fails_is_not_kept() -> None:
    recent, make = RecentPages(Clock()), Maker()

    async def fail() -> MadePage:
        raise ValueError("no such page")

    with pytest.raises(ValueError, match="no such page"):
        await recent.get("/", fail, kept_s=1.0)

    assert (await recent.get("/", make, kept_s=1.0)).html == b"page 1"


async def test_only_so_many_pages_are_kept() -> None:
    recent, make = RecentPages(Clock()), Maker()
    for number in range(MAX_KEPT + 1):
        await recent.get(number, make, kept_s=1.0)

    again = await recent.get(0, make, kept_s=1.0)
    last = await recent.get(MAX_KEPT, make, kept_s=1.0)

    assert again.html == b"page %d" % (MAX_KEPT + 2)
    assert last.html == b"page %d" % (MAX_KEPT + 1)


# ------------------------------------------------------------------- through the application


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def pages(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """An application that many have open, for callers who say by a header who they are."""

    def who(request: Request) -> Access:
        name = request.headers["x-user"]
        return Access(who=name, scopes=ALL if name == "ada" else frozenset({"read"}))

    clock = Clock()  # It stands still: no page grows old.
    settings = WebSettings(authorize=who, secret=b"-" * 32, monotonic=clock)
    streams = Openings(200)
    streams.open = 100
    site = Site(
        client=engine,
        settings=settings,
        streams=streams,
        totals=RecentTotals(clock),
        queues=RecentQueues(clock),
        pace=PagePace(),
        recent=RecentPages(clock),
        starts=RecentByKey(clock),
        cursors=CursorSecret(settings.secret),
        lately=RecentValue(clock),
    )
    async with caller(app_of_site(site)) as client:
        yield client


ALL: frozenset[AccessScope] = frozenset({"read", "write"})


LOOK = {"accept": "text/html", "if-none-match": '"old"'}


async def test_an_open_page_shows_what_was_done_here_at_once(
    pages: httpx.AsyncClient, engine: Engine
) -> None:
    ada = {"x-user": "ada"}
    before = await pages.get("/", headers=LOOK | ada)
    body = {"name": quick.name, "instance_id": "new-1", "input": ["x"]}
    started = await pages.post("/api/instances", json=body, headers=ada)

    after = await pages.get("/", headers=LOOK | ada)

    assert started.status_code == 201
    assert ("new-1" in before.text, "new-1" in after.text) == (False, True)


async def test_a_page_that_was_made_for_one_caller_is_not_sent_to_another(
    pages: httpx.AsyncClient,
) -> None:
    ada = await pages.get("/definitions", headers=LOOK | {"x-user": "ada"})
    ben = await pages.get("/definitions", headers=LOOK | {"x-user": "ben"})

    assert ("data-start" in ada.text, "data-start" in ben.text) == (True, False)


async def test_many_who_look_at_the_same_are_sent_what_one_was_sent(
    pages: httpx.AsyncClient, engine: Engine
) -> None:
    ada = {"x-user": "ada"}
    first = await pages.get("/", headers=LOOK | ada)
    await engine.start("elsewhere-1", quick, "x")

    look = await pages.get("/", headers=LOOK | ada)
    known = await pages.get("/", headers={"if-none-match": first.headers["etag"]} | ada)
    opened = await pages.get("/", headers={"accept": "text/html"} | ada)

    assert look.text == first.text
    assert known.status_code == 304
    assert "elsewhere-1" in opened.text
