"""The pages: each is there as HTML and as its data, says the answer first, and works anywhere."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

import perdure.web
from perdure import Client, Engine, Status, activity, context, orchestration
from perdure.client.handle import Handle
from perdure.client.reading.failure_groups import fingerprint, innermost
from perdure.client.reading.info import InstanceInfo
from perdure.web.application import app_of
from perdure.web.pages.differences import differences
from perdure.web.pages.instances import worth_explaining
from perdure.web.pages.rendering import payload, sentence
from perdure.web.pages.routes import PAGES
from perdure.web.settings import WebSettings
from perdure.web.totals import MAX_AGE_S, RecentTotals, RecentValue
from tests.engine.stage import Gate, until, waits_for
from tests.web.bookshop import PAGES as SHOWN
from tests.web.site import (
    HOSTILE,
    KEY,
    Account,
    Open,
    browser,
    caller,
    engine_with_all,
    go,
    memory_url,
    quick,
)
from tools.make_images import IMAGES, MAX_BYTES

PLACES = {"/i/{instance_id}": "/i/order%2F1"}
MAX_STATIC_BYTES = 150_000
MAX_SCRIPT_BYTES = 20 * 1024


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


@pytest.fixture
async def page(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(perdure.web.app(engine, key=KEY)) as client:
        yield client


async def test_every_page_is_there_and_so_is_its_json(page: httpx.AsyncClient) -> None:
    for route in PAGES:
        path = PLACES.get(route.path, route.path)
        shown = await page.get(path)
        twin = await page.get("/index.json" if path == "/" else f"{path}.json")

        assert shown.status_code == 200, path
        assert shown.headers["content-type"].startswith("text/html")
        assert isinstance(twin.json(), dict), path
        assert f'id="twin" href="{"/index.json" if path == "/" else path + ".json"}"' in shown.text


async def test_an_id_that_ends_like_a_twin_has_a_page_and_a_twin_of_its_own(
    page: httpx.AsyncClient, engine: Engine
) -> None:
    for instance_id in ("report", "report.json", "a%2Ejson"):
        await (await engine.start(instance_id, quick, "book")).result()

    links = re.findall(r'"id" href="(/i/[^"]*)"', (await page.get("/?q=name:quick")).text)
    shown = [await page.get(link) for link in links]
    twins = [re.findall(r'id="twin" href="([^"]*)"', one.text)[0] for one in shown]

    titles = [re.findall('<h1 class="id">([^<]*)</h1>', one.text) for one in shown]
    assert titles == [["a%2Ejson"], ["report.json"], ["report"], ["done-1"]]
    found = [(await page.get(twin)).json()["info"]["instance_id"] for twin in twins]
    assert found == ["a%2Ejson", "report.json", "report", "done-1"]
    assert links[1:3] == ["/i/report%2Ejson", "/i/report"]


async def test_every_link_of_every_page_leads_somewhere(page: httpx.AsyncClient) -> None:
    wanted = {"/"}
    seen: set[str] = set()
    while wanted - seen:
        path = sorted(wanted - seen)[0]
        seen.add(path)
        answer = await page.get(path)
        assert answer.status_code == 200, path
        if answer.headers["content-type"].startswith("text/html"):
            links = re.findall(r'(?:href|src)="(/[^"#]*)', answer.text)
            wanted |= {link.replace("&amp;", "&") for link in links}

    assert len(seen) > 40


async def test_the_list_says_what_each_instance_does_now(page: httpx.AsyncClient) -> None:
    rows = {one["instance_id"]: one for one in (await page.get("/index.json")).json()["items"]}

    assert "toys-child" not in rows
    assert rows["order/1"]["now"].startswith("waits for signal 'go' since")
    assert rows["failed-1"]["now"].startswith("ActivityError: ")
    assert rows["done-1"]["now"] == "completed"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("status:failed", ["failed-1"]),
        ("name:quick", ["done-1"]),
        ("order", ["order/1"]),
        ("parent:family-1", ["toys-child"]),
        ("since:1h status:running name:ship", ["order/1"]),
    ],
)
async def test_the_list_is_searched_with_words(
    page: httpx.AsyncClient, words: str, found: list[str]
) -> None:
    shown = (await page.get("/index.json", params={"q": words})).json()

    assert [one["instance_id"] for one in shown["items"]] == found


async def test_a_word_that_is_not_known_is_said_on_the_page(page: httpx.AsyncClient) -> None:
    shown = await page.get("/", params={"q": "colour:red"})

    assert shown.status_code == 200
    assert "there is no filter word" in shown.text


async def test_the_list_has_older_pages() -> None:
    async with Client(memory_url()) as client:
        for number in range(51):
            named: Any = perdure.Orchestration.named("x", str)
            await client.start(f"x-{number:02}", named)
        app = perdure.web.app(client, insecure_no_auth=True)
        async with caller(app) as api:
            first = (await api.get("/index.json")).json()
            rest = (await api.get("/index.json", params={"after": first["next"]})).json()

    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (50, 1, None)
    assert first["items"][0]["now"].startswith("cannot move: ")


async def test_the_page_of_an_instance_has_the_answer_first(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/i/order%2F1")).text

    answer = shown.partition('<p id="answer">')[2].partition("</p>")[0]
    assert answer.startswith("waits for signal &#39;go&#39; since")
    assert shown.index('id="answer"') < shown.index("<svg")


@orchestration
async def keep_many(values: int) -> str:
    """Record an event for each value, and wait."""
    for number in range(values):
        context().kv["number"] = number
    return await go.receive()


async def test_what_waits_with_20000_events_is_opened_in_parts_and_then_from_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    url = memory_url()
    async with Engine(url, [keep_many]) as engine, Client(url) as client:
        await waits_for(await engine.start("long-1", keep_many, 19_998), "signal 'go'")
        store: Any = client._core.store
        original = store.read_histories

        async def read_histories(*args: Any, **kwargs: Any) -> Any:
            found = await original(*args, **kwargs)
            read.append(sum(map(len, found)))
            return found

        monkeypatch.setattr(store, "read_histories", read_histories)
        async with caller(perdure.web.app(client, insecure_no_auth=True)) as api:
            first = (await api.get("/i/long-1.json")).json()
            of_first, read = read, []
            again = (await api.get("/i/long-1.json")).json()
            of_again, read = read, []
            listed = (await api.get("/index.json")).json()

    assert first["explanation"].startswith("waits for signal 'go' since ")
    assert first["explanation"] == again["explanation"] == listed["items"][0]["now"]
    assert max(of_first) <= 500
    assert sum(of_first) >= 20_000
    # The newest 400 are for the timeline.
    assert max(of_again) == 400
    assert sum(of_again) + sum(read) < 410


async def test_a_timeline_has_a_row_for_each_call(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/i/order%2F1.json")).json()["timeline"]["rows"]
    failed = (await page.get("/i/failed-1.json")).json()["timeline"]["rows"]

    assert [(one["kind"], one["label"], one["state"]) for one in shown] == [
        ("activity", "pack", "done"),
        ("signal", "go", "open"),
    ]
    assert [(one["label"], one["state"]) for one in failed] == [("explode", "failed")]


async def test_each_event_of_a_history_leads_to_going_back_to_it(
    page: httpx.AsyncClient, engine: Engine
) -> None:
    history = (await page.get("/i/order%2F1?tab=history")).text
    [link] = re.findall(r'href="([^"]*)"[^>]*aria-label="go back to event 2"', history)
    shown = (await page.get(link.partition("#")[0])).text
    of_a_decider = (await page.get("/i/a-1?tab=history")).text
    async with browser(perdure.web.app(engine, key=KEY, read_only=True)) as reader:
        read_only = (await reader.get("/i/order%2F1?tab=history")).text

    assert link.endswith("#go-back")
    assert re.search(r'id="go-back-event"[^>]* value="2"', shown)
    assert "go back to event" not in of_a_decider + read_only
    assert (await page.get("/i/order%2F1?keep=0")).status_code == 400


async def test_a_history_is_shown_in_pages(page: httpx.AsyncClient) -> None:
    lines = (await page.get("/i/done-1.json", params={"tab": "history"})).json()["history"]

    assert [(one["seq"], one["what"], one["subject"]) for one in lines["lines"]] == [
        (1, "started", "quick"),
        (2, "activity scheduled", "pack"),
        (3, "activity completed", "pack"),
        (4, "completed", ""),
    ]


async def test_a_decider_shows_its_state_at_an_event_and_what_changed(
    page: httpx.AsyncClient,
) -> None:
    shown = (await page.get("/i/account:a-1.json", params={"at": 2})).json()["decider"]

    assert shown["state"] == {"owner": "Ada", "amount": 40}
    assert shown["differences"] == [
        {"place": "amount", "kind": "changed", "before": 0, "after": 40}
    ]
    assert [one["tag"] for one in shown["events"]] == ["Opened", "Deposited", "Deposited"]


async def test_a_decider_without_its_code_still_shows_its_events() -> None:
    url = memory_url()
    async with Engine(url, [Account]) as having:
        await having.execute(Account, Open("a-1", "Ada"))
        async with Client(url) as without, browser(perdure.web.app(without, key=KEY)) as page:
            shown = (await page.get("/i/account:a-1")).text

    assert "Opened" in shown
    assert 'id="no-code"' in shown


async def test_failures_are_grouped_by_what_went_wrong(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/failures.json")).json()

    assert [(one["name"], one["error"], one["count"]) for one in shown["groups"]] == [
        ("doomed", "ActivityError", 1)
    ]
    assert [one["activity"] for one in shown["dead"]] == ["explode"]


async def test_work_that_no_worker_takes_is_the_first_thing_said_of_workers() -> None:
    async with Client(memory_url()) as client:
        named: Any = perdure.Orchestration.named("orphan", str)
        await client.start("o-1", named)
        app = perdure.web.app(client, insecure_no_auth=True)
        async with caller(app, accept="text/html") as api:
            shown = (await api.get("/workers")).text

    assert 'id="unserved"' in shown
    assert "orphan" in shown.partition('id="unserved"')[2].partition("</div>")[0]


async def test_a_worker_shows_its_slots_and_what_it_holds() -> None:
    busy = Gate()

    @activity
    async def stand() -> None:
        await busy.pass_through()

    @orchestration
    async def stands() -> None:
        await stand()

    async with Engine(memory_url(), [stand, stands]) as engine:
        handle = await engine.start("s", stands)
        await busy.reached()
        await engine._serving._beat_once()
        async with browser(perdure.web.app(engine, key=KEY)) as page:
            [shown] = (await page.get("/workers.json")).json()["workers"]
            text = (await page.get("/workers")).text
        busy.opened.set()
        await handle.result()

    assert [shown["jobs"], shown["leases"][0]["definition"]["name"]] == [1, "stand"]
    assert "1 of 1,000 async" in text
    assert "0 instances, 1 job" in text
    assert ">1 &times; stand<" in text.replace("\u00d7", "&times;")


async def test_a_start_form_has_a_field_for_each_argument(page: httpx.AsyncClient) -> None:
    shown = (await page.get("/definitions")).text

    assert 'data-name="ship"' in shown
    assert 'data-arg="order"' in shown


async def test_an_unknown_instance_has_a_page_that_says_so(page: httpx.AsyncClient) -> None:
    shown = await page.get("/i/nobody")

    assert shown.status_code == 404
    assert "no instance &#39;nobody&#39;" in shown.text


async def test_a_page_that_has_not_changed_is_not_sent_again(engine: Engine) -> None:
    async with browser(perdure.web.app(engine, key=KEY)) as page:
        first = await page.get("/i/done-1")
        tag = first.headers["etag"]
        again = await page.get("/i/done-1", headers={"if-none-match": tag})

    assert (again.status_code, again.content) == (304, b"")


async def test_mounted_below_a_path_every_link_stays_there(engine: Engine) -> None:
    inner = perdure.web.app(engine, authorize=lambda request: True)
    host = Starlette(routes=[Mount("/ops/perdure", inner)])

    async with caller(host, accept="text/html") as api:
        for path in ("/", "/i/order%2F1", "/failures", "/definitions"):
            shown = await api.get(f"/ops/perdure{path}")
            assert shown.status_code == 200
            links = re.findall(r'(?:href|src|action|data-url)="(/[^"]*)', shown.text)
            assert links
            assert not [link for link in links if not link.startswith("/ops/perdure/")]
            for link in re.findall(r'src="([^"]*)"', shown.text):
                assert (await api.get(link)).status_code == 200


async def test_static_files_have_names_of_their_content(page: httpx.AsyncClient) -> None:
    links = re.findall(r'(?:href|src)="(/static/[^"]*)"', (await page.get("/")).text)
    answers = [await page.get(link) for link in set(links)]

    assert len(answers) == 3
    assert {one.headers["cache-control"] for one in answers} == {
        "public, max-age=31536000, immutable"
    }
    assert (await page.get("/static/perdure.css")).status_code == 404


async def test_a_store_is_counted_seldom_however_many_pages_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, counted = 0.0, 0
    original = Client.metrics

    async def slow(self: Client) -> Any:
        nonlocal now_s, counted
        counted += 1
        now_s += 1.0
        return await original(self)

    monkeypatch.setattr(Client, "metrics", slow)
    totals = RecentTotals(lambda: now_s)
    async with Client(memory_url()) as client:
        for _ in range(3):
            await totals.get(client)
        once = counted
        now_s += 49.9
        await totals.get(client)
        still = counted
        now_s += 0.1
        await totals.get(client)

    assert (once, still, counted) == (1, 1, 2)


async def test_what_takes_very_long_to_count_is_a_minute_old_at_most() -> None:
    now_s = 0.0

    async def count() -> float:
        nonlocal now_s
        now_s += 10
        return now_s

    value: RecentValue[float] = RecentValue(lambda: now_s)
    first = await value.get(count)
    now_s += MAX_AGE_S - 0.1
    again = await value.get(count)
    now_s += 0.1

    assert (first, again, await value.get(count)) == (10, 10, 80)


async def test_what_was_done_here_is_counted_for_who_asks_after_it() -> None:
    """Also if a count that began before is under way: those who wait for it get it."""
    gate, counts = asyncio.Event(), iter(["before", "after"])

    async def count() -> str:
        found = next(counts)
        await gate.wait()
        return found

    value: RecentValue[str] = RecentValue(lambda: 0.0)
    early = asyncio.ensure_future(value.get(count))
    await asyncio.sleep(0)
    value.forget()
    late = asyncio.ensure_future(value.get(count))
    await asyncio.sleep(0)
    gate.set()

    assert (await early, await late, await value.get(count)) == ("before", "after", "after")


async def test_a_page_that_is_given_up_asks_no_instance_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def ask_for_ever(self: Handle[Any]) -> Any:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        raise AssertionError("unreachable")

    async with engine_with_all() as engine, browser(perdure.web.app(engine, key=KEY)) as page:
        await page.get("/")
        monkeypatch.setattr(Handle, "_evidence", ask_for_ever)
        loading = asyncio.ensure_future(page.get("/?q=status:running"))
        await asked.wait()
        loading.cancel()
        await left.wait()


@dataclass
class SlowCounts:
    """Lets each count of what waits take a second, of a clock that stands still otherwise."""

    now_s: float = 0.0
    counted: int = 0

    def __call__(self) -> float:
        return self.now_s

    def slow_down(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        store: Any = client._core.store
        original = store.admin.queue_depths

        async def slow() -> Any:
            self.counted += 1
            self.now_s += 1.0
            return await original()

        monkeypatch.setattr(store.admin, "queue_depths", slow)


async def test_what_waits_is_counted_seldom_however_many_pages_and_programs_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SlowCounts()
    paths = ["/queues", "/workers", "/definitions", "/charts"]
    paths += [f"{path}.json" for path in paths] + ["/api/queues", "/api/definitions"]
    async with Client(memory_url()) as client:
        clock.slow_down(client, monkeypatch)
        settings = WebSettings(insecure_no_auth=True, monotonic=clock)
        async with caller(app_of(client, settings)) as api:
            answers = [await api.get(path) for path in paths]
            clock.now_s += 49.9
            await api.get("/queues")
            once = clock.counted
            clock.now_s += 0.1
            await api.get("/queues")

    assert {one.status_code for one in answers} == {200}
    assert (once, clock.counted) == (1, 2)


async def test_what_takes_no_time_to_count_is_counted_for_each_program() -> None:
    """It sees at once what it has done."""
    named: Any = perdure.Orchestration.named("x", str)
    settings = WebSettings(insecure_no_auth=True, monotonic=lambda: 0.0)
    seen = []
    async with (
        Client(memory_url()) as client,
        caller(app_of(client, settings)) as api,
    ):
        for number in range(2):
            await client.start(f"x-{number}", named)
            [queue] = (await api.get("/api/queues")).json()
            totals = (await api.get("/api/totals")).json()
            seen.append((queue["ready"], totals["instances"]["running"]))

    assert seen == [(1, 1), (2, 2)]


def test_of_many_that_have_just_been_started_none_is_explained() -> None:
    now = datetime.now(UTC)

    def started(number: int, ago_s: float) -> InstanceInfo:
        return InstanceInfo(
            instance_id=f"i-{number}",
            kind="orchestration",
            name="quick",
            version="",
            status=Status.RUNNING,
            execution=1,
            created_at=now - timedelta(seconds=ago_s),
            updated_at=now,
            ended_at=None,
            parent_id=None,
            input=None,
            output=None,
            reason=None,
        )

    young = [started(number, 0.1) for number in range(11)]
    old = started(11, 5.0)

    assert worth_explaining([*young, old], now) == [old]
    assert worth_explaining([*young[:10], old], now) == [*young[:10], old]


async def test_a_list_does_not_wait_for_a_store_to_be_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = asyncio.Event()
    original = Client.metrics

    async def slow(self: Client) -> Any:
        await counted.wait()
        return await original(self)

    monkeypatch.setattr(Client, "metrics", slow)
    monkeypatch.setattr("perdure.web.pages.instances.COUNT_WITHIN_S", 0.0)
    async with Client(memory_url()) as client:
        await client.start("x-1", perdure.Orchestration.named("x", str))
        async with caller(perdure.web.app(client, insecure_no_auth=True)) as api:
            early = (await api.get("/index.json")).json()
            page = (await api.get("/")).text
            counted.set()

            async def is_known() -> bool:
                return bool((await api.get("/index.json")).json()["counts"]["running"] == 1)

            await until(is_known)

    assert [one["instance_id"] for one in early["items"]] == ["x-1"]
    assert early["counts"]["running"] is None
    assert page.count('<span class="number">…</span>') == 7


def test_the_pages_stay_small() -> None:
    sizes = [
        len(file.read_bytes())
        for folder in ("static", "templates")
        for file in files("perdure.web").joinpath(folder).iterdir()
    ]

    assert sum(sizes) < MAX_STATIC_BYTES


def test_the_script_stays_small_enough_to_be_read() -> None:
    script = files("perdure.web").joinpath("static", "perdure.js").read_bytes()

    assert len(script) <= MAX_SCRIPT_BYTES


def test_the_documentation_has_a_small_picture_of_every_page_light_and_dark() -> None:
    found = {file.stem: file.stat().st_size for file in IMAGES.glob("*.png")}

    assert sorted(found) == sorted(f"{name}-{one}" for name in SHOWN for one in ("light", "dark"))
    assert max(found.values()) <= MAX_BYTES


def test_no_template_has_a_script_or_a_style_of_its_own() -> None:
    for file in files("perdure.web").joinpath("templates").iterdir():
        text = file.read_text()
        assert not re.search(r"<style|style=|\son[a-z]+=|javascript:|\|safe", text), file
        assert len(re.findall("<script", text)) == (1 if file.name == "base.html" else 0)


def test_times_in_a_sentence_are_shown_like_all_others() -> None:
    said = sentence(
        "failed at 2026-11-16 18:30:51 UTC: <b> since 2026-11-16 18:00:00 UTC.", "failed"
    )

    assert said == (
        '<time datetime="2026-11-16T18:30:51Z">2026-11-16 18:30:51</time>: &lt;b&gt; since '
        '<time datetime="2026-11-16T18:00:00Z">2026-11-16 18:00:00</time>.'
    )


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1.5, "b": [True, None, "x"], 'quo"te': {"-1": -1e-7}},
        [HOSTILE, "\\", '\\"', "1 true null", {HOSTILE: HOSTILE}],
        "</pre><script>",
        -12,
    ],
)
def test_a_value_in_colours_says_the_same_and_can_do_nothing(value: object) -> None:
    shown = payload(value)

    assert json.loads(shown.striptags()) == value
    assert set(re.findall("<[^>]*>", shown)) <= {
        '<pre class="value" tabindex="0">',
        *('<span class="j-key">', '<span class="j-text">', '<span class="j-plain">'),
        *("</span>", "</pre>"),
    }


def test_differences_name_the_place() -> None:
    before = {"a": 1, "b": [1, {"c": 2}], "gone": True}
    after = {"a": 1, "b": [1, {"c": 3}, 4], "new": None}

    assert [(one["place"], one["kind"]) for one in differences(before, after)] == [
        ("b[1].c", "changed"),
        ("b[2]", "added"),
        ("gone", "removed"),
        ("new", "added"),
    ]


def test_failures_of_the_same_trouble_have_one_fingerprint() -> None:
    traceback = 'File "/a/shop.py", line 41, in charge\nFile "/x/perdure/core/y.py", line 1, in z'
    place = innermost(traceback)

    one = fingerprint("fulfil", "ValueError", "order 17 of 'Ada' is 0x7f3a too much", place)
    same = fingerprint("fulfil", "ValueError", "order 9 of 'Bob' is 0x11 too much", place)
    other = fingerprint("fulfil", "ValueError", "order 9 is unknown", place)
    mail, bounce = (
        fingerprint("welcome", "TimeoutError", f"no answer for {who}@shop.example", place)
        for who in ("ada", "grace.hopper")
    )

    assert place == "shop.py:41 in charge"
    assert one == same != other
    assert mail == bounce


async def test_the_slider_of_a_deciders_events_is_a_form_without_a_script(
    page: httpx.AsyncClient,
) -> None:
    shown = (await page.get("/i/account:a-1?at=2")).text
    form = shown.partition('<form class="scrub"')[2].partition("</form>")[0]

    assert 'method="get"' in form
    assert 'type="range" name="at" min="0" max="3" value="2"' in form
    assert "<noscript><button>Show</button></noscript>" in form
    assert 'action="/i/account%3Aa-1"' in form
