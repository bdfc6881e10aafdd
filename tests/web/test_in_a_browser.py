"""The pages as a person uses them, in a real browser: keys, a mouse, and what is on the screen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.routing import Mount

import perdure.web
from perdure import Client, Decision, Engine, Orchestration, Update, orchestration
from tests.engine.stage import until, waits_for
from tests.web import site
from tests.web.devtools import Browser, Page
from tests.web.serving import Served
from tests.web.site import HOSTILE, KEY, Account, engine_with_all, memory_url, quick

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),  # the first test may have to install the browser
]


@pytest_asyncio.fixture(loop_scope="session")
async def engine() -> AsyncIterator[Engine]:
    async with engine_with_all() as engine:
        yield engine


double = Update("double", int, int)


@orchestration
async def doubling() -> None:
    async for request in double:
        request.answer(2 * request.value)


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, server: Served, engine: Engine) -> AsyncIterator[Page]:
    """A page that has been let in. Whatever a test does with it, no script of it may fail."""
    server.put(perdure.web.app(engine, key=KEY))
    async with await chromium.open(server.url) as page:
        await page.goto(f"/?k={KEY}")
        yield page
        assert page.troubles == []


# ------------------------------------------------------------------------- coming in


async def test_the_key_of_the_first_address_becomes_a_cookie_and_leaves_the_address(
    page: Page,
) -> None:
    assert await page.path() == "/"

    await page.goto("/workers")

    assert await page.text("h1") == "Workers"
    assert await page.run("document.cookie") == ""  # no script can read it
    assert not [one for one in page.asked_for[1:] if KEY in one]


async def test_without_the_key_there_is_a_page_that_says_what_to_do(
    chromium: Browser, server: Served, page: Page
) -> None:
    async with await chromium.open(server.url) as stranger:
        await stranger.goto("/i/done-1")

        assert "401" in await stranger.text("main")
        assert "open the address that it printed" in await stranger.text("#problem")


async def test_mounted_below_a_path_links_scripts_and_actions_stay_there(
    chromium: Browser, server: Served, engine: Engine
) -> None:
    inner = perdure.web.app(engine, authorize=lambda request: True)
    server.put(Starlette(routes=[Mount("/ops/perdure", inner)]))
    async with await chromium.open(server.url) as page:
        await page.goto("/ops/perdure/")
        await page.click("td a.id", text="order/1")
        await page.goes("/ops/perdure/i/order%2F1")
        await page.click("button", text="Cancel…")
        await page.click("#dialog-yes")
        await page.sees(".answer", "cancelled")

        outside = [one for one in page.asked_for if not one.startswith("/ops/perdure/")]
        assert outside == []
        assert page.troubles == []


# ------------------------------------------------------------------------------ lists


async def test_a_row_appears_by_itself_when_an_instance_is_started(
    page: Page, engine: Engine
) -> None:
    await page.sees("#live-dot.on")
    await page.press("j")
    marked = await page.text("tr.at a.id")

    await engine.start("just-now", site.ship, "book")

    await page.sees("td", "just-now")
    assert (await page.texts("td a.id"))[0] == "just-now"
    assert await page.text("tr.at a.id") == marked
    assert page.types["/"] == "Fetch"  # the page was not loaded anew


async def test_the_list_is_filtered_opened_and_left_by_keys_alone(page: Page) -> None:
    await page.press("/")
    await page.write("status:failed")
    await page.press("Enter")
    await page.goes("/?q=status%3Afailed")
    assert await page.texts("td a.id") == ["failed-1"]

    await page.press("j", "Enter")
    await page.goes("/i/failed-1")
    assert await page.text("h1") == "failed-1"

    await page.press("g", "w")
    await page.goes("/workers")


async def test_a_word_that_is_not_known_is_said_where_it_was_typed(page: Page) -> None:
    await page.press("/")
    await page.write("colour:red")
    await page.press("Enter")

    await page.sees("#problem", "there is no filter word 'colour:'")


async def test_a_permalink_shows_the_same_list_and_its_data(page: Page) -> None:
    await page.goto("/?q=name%3Aquick&children=true")

    assert await page.texts("td a.id") == ["toys-child", "done-1"]
    twin = await page.run("fetch(document.querySelector('#twin').href).then(one => one.json())")
    assert [one["instance_id"] for one in twin["items"]] == ["toys-child", "done-1"]


async def test_without_a_filter_nothing_is_done_to_all(page: Page, engine: Engine) -> None:
    await page.click("#all-matching")
    await page.click("[data-bulk=terminate]")

    await page.sees("#toast.on", "Filter first")
    assert not await page.has("#dialog")
    refused = await page.run(
        """fetch("/api/instances-bulk", {method: "POST", body: JSON.stringify(
            {action: "terminate", where: {}, expect: 5}), headers: {
            "Content-Type": "application/json",
            "X-Perdure-Csrf": document.documentElement.dataset.csrf}}).then(one => one.json())"""
    )
    assert refused["code"] == "empty_filter"
    assert (await engine.handle("order/1").info()).status == "running"


async def test_all_that_a_filter_lists_are_cancelled_and_no_child_besides(
    page: Page, engine: Engine
) -> None:
    await page.goto("/?q=name%3Aship+since%3A1h+status%3Arunning%2Cfailed")
    await page.click("#all-matching")
    await page.click("[data-bulk=cancel]")
    await page.sees("#dialog-title", "cancel 1 instance?")
    await page.click("#dialog-yes")

    await page.sees("#toast.on", "1 done")
    assert (await engine.handle("order/1").info()).status == "cancelled"
    await page.goto("/?q=prefix%3Atoys")  # A child, which the list leaves out.
    assert await page.run("document.querySelector('#bulk')") is None


async def test_what_was_picked_by_key_is_cancelled_with_a_reason(
    page: Page, engine: Engine
) -> None:
    await page.goto("/?q=name%3Aship")
    await page.press("j", "x")
    await page.click("[data-bulk=cancel]")
    await page.sees("#dialog-title", "cancel 1 instance?")
    await page.fill("#dialog [name=reason]", "a wrong order")
    await page.click("#dialog-yes")

    await page.sees("#toast.on", "1 done")
    await page.sees("td .status", "cancelled")
    assert (await engine.handle("order/1").info()).reason == "a wrong order"


# ------------------------------------------------------------------------ one instance


async def test_nothing_is_cancelled_before_it_was_confirmed(page: Page, engine: Engine) -> None:
    await page.goto("/i/order%2F1")
    await page.click("button", text="Cancel…")
    await page.sees("#dialog-title", "Cancel this instance?")
    await page.click("#dialog-no")
    assert not await page.has("#dialog")
    assert (await engine.handle("order/1").info()).status == "running"

    await page.click("button", text="Cancel…")
    await page.press("t", "o", "o", "Enter")

    await page.sees(".answer", "cancelled")
    assert (await engine.handle("order/1").info()).reason == "too"


async def test_an_instance_goes_back_after_its_plan_was_seen(page: Page, engine: Engine) -> None:
    await page.goto("/i/order%2F1?tab=history")
    await page.click("[aria-label='go back to event 2']")
    await page.sees("h2", "Go back")
    await page.click("[data-go-back=reset]")
    await page.sees("#dialog-text", "Runs again: pack")
    await page.click("#dialog-no")
    assert (await engine.handle("order/1").info()).execution == 1

    await page.click("[data-go-back=reset]")
    await page.sees("#dialog-title", "Reset this instance?")
    await page.press("o", "n", "c", "e", "Enter")

    await until(lambda: is_in_execution(engine, "order/1", 2))
    await page.goto("/i/order%2F1?tab=timeline")
    await page.fill("#go-back-event", "2")
    await page.fill("#go-back-version", "2.0.0")
    await page.click("[data-go-back=fork]")
    await page.sees("#dialog-title", "Start another instance from here?")
    await page.fill("#dialog [name=instance_id]", "order-1-b")
    await page.click("#dialog-yes")
    await page.goes("/i/order-1-b")
    await page.sees("h1", "order-1-b")
    assert (await engine.handle("order-1-b").info()).version == "2.0.0"


async def test_a_query_is_asked_and_its_answer_is_in_the_address(page: Page) -> None:
    await page.goto("/i/order%2F1?tab=payload")
    await page.fill("#query [name=query]", "stage")
    await page.click("#query button")
    await page.goes("/i/order%2F1?tab=payload&query=stage&at=")
    await page.sees("#query pre.value", "packed")

    await page.fill("#query [name=at]", "1")
    await page.click("#query button")
    await page.sees("#query .problem", "has not said by event 1 how to answer query 'stage'")


async def test_an_update_is_asked_and_its_answer_said(chromium: Browser, server: Served) -> None:
    async with Engine(memory_url(), [doubling]) as engine:
        handle = await engine.start("d-1", doubling)
        server.put(perdure.web.app(engine, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/?k={KEY}")
            await page.goto("/i/d-1")
            await page.click("button", text="Update…")
            await page.fill("#dialog [name=name]", "double")
            await page.fill("#dialog [name=value]", "21")
            await page.click("#dialog-yes")

            await page.sees("#toast", "It answered: 42")
        await handle.terminate()


async def is_in_execution(engine: Engine, instance_id: str, execution: int) -> bool:
    return (await engine.handle(instance_id).info()).execution == execution


async def test_a_value_that_is_no_json_is_said_in_the_dialog_which_stays_open(
    page: Page, engine: Engine
) -> None:
    await page.goto("/i/order%2F1")
    await page.click("button", text="Signal…")
    await page.fill("#dialog [name=name]", "go")
    await page.fill("#dialog [name=value]", "off")
    await page.click("#dialog-yes")
    await page.sees("#dialog-problem", "off is not JSON")

    await page.fill("#dialog [name=value]", '"off"')
    await page.click("#dialog-yes")

    await page.sees(".answer", "completed")
    assert (await engine.handle("order/1").result()).endswith("packed, off")


async def test_what_is_full_of_html_and_script_is_text_and_nothing_ran(page: Page) -> None:
    paths = [
        f"/i/{instance_id}?tab={tab}"
        for instance_id in ("failed-1", "order%2F1")
        for tab in ("timeline", "history", "payload")
    ]
    for path in (*paths, "/failures", "/queues", "/"):
        await page.goto(path)
        assert await page.run("document.querySelectorAll('main script, main img').length") == 0
        assert page.troubles == []  # no dialog has opened, nothing was refused by the policy

    await page.goto("/i/order%2F1?tab=payload")
    assert json.loads(await page.text("pre.value"))["order"] == HOSTILE


async def test_an_unknown_id_has_a_page_that_says_so_and_leads_back(page: Page) -> None:
    await page.goto("/i/nobody")
    assert "no instance 'nobody'" in await page.text("#problem")

    await page.click("main a.button")

    await page.sees("h1", "Instances")
    assert await page.path() == "/"


async def test_read_only_shows_no_action_and_refuses_those_that_are_sent(
    chromium: Browser, server: Served, engine: Engine
) -> None:
    server.put(perdure.web.app(engine, key=KEY, read_only=True))
    async with await chromium.open(server.url) as page:
        for path in (f"/?k={KEY}", "/i/order%2F1", "/failures", "/definitions", "/projections"):
            await page.goto(path)
            assert "Read-only" in await page.text(".banner")
            assert not await page.has("main [data-act], main [data-bulk], form[data-start]")
        sent = await page.run(
            """fetch("/api/instances/order%2F1/cancel", {method: "POST", body: "{}", headers: {
                "X-Perdure-Csrf": document.documentElement.dataset.csrf,
                "Content-Type": "application/json"}}).then(one => one.json())"""
        )

    assert sent["code"] == "read_only"
    assert (await engine.handle("order/1").info()).status == "running"


async def test_an_instance_that_was_parked_goes_on_once_it_is_unparked(
    chromium: Browser, server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    lucky = False

    class Brittle(Account):
        name = "brittle"

        def decide(
            self, state: site.Balance, input: site.Open | site.Deposit, now: datetime, /
        ) -> Decision[site.Open | site.Deposit, site.Opened | site.Deposited, site.TooMuch]:
            if not lucky:
                raise ZeroDivisionError("unlucky")
            return super().decide(state, input, now)

    async with Engine(memory_url(), [Brittle]) as engine:
        await engine.send(Brittle, site.Open("b", "Ada"))
        handle = engine.handle("brittle:b")

        async def is_parked() -> bool:
            return (await handle.info()).status == "parked"

        await until(is_parked)
        server.put(perdure.web.app(engine, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/i/brittle:b?k={KEY}")
            assert "unlucky" in await page.text("#answer")

            lucky = True
            await page.click("button", text="Unpark")
            await page.click("#dialog-yes")

            await page.sees(".answer", "running")
            await page.sees("a#v1", "Opened")
            assert page.troubles == []


async def test_a_history_of_20000_events_is_opened_in_parts(
    chromium: Browser, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    async with Engine(memory_url(), [site.long, site.pack]) as engine:
        await (await engine.start("long-1", site.long, 19_998)).result()
        store = engine._core.store
        original = store.read_histories

        async def read_histories(*args: Any, **kwargs: Any) -> Any:
            found = await original(*args, **kwargs)
            read.append(sum(map(len, found)))
            return found

        monkeypatch.setattr(store, "read_histories", read_histories)
        server.put(perdure.web.app(engine, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/i/long-1?tab=history&k={KEY}")
            assert await page.texts("tbody td.num a") == [str(one) for one in range(1, 101)]
            assert "20,000" in await page.text(".facts")
            await page.click(".pager a", text="newest")
            await page.goes("/i/long-1?tab=history&after=19900")
            assert (await page.texts("tbody td.num a"))[-1] == "20000"
            await page.goto("/i/long-1")
            assert "19,600" in await page.text("main .hint")

    assert max(read) <= 401
    assert sum(read) < 2_000


# --------------------------------------------------------------------------- deciders


async def test_the_state_after_any_event_is_a_click_away_with_what_changed(page: Page) -> None:
    await page.goto("/i/account%3Aa-1")
    assert json.loads(await page.text("pre.value")) == {"owner": "Ada", "amount": 42}

    await page.click("a#v2")

    await page.goes("/i/account%3Aa-1?at=2")
    assert json.loads(await page.text("pre.value")) == {"owner": "Ada", "amount": 40}
    assert await page.text(".diff del") == "0"
    assert await page.text(".diff ins") == "40"
    await page.press("j")
    await page.goes("/i/account%3Aa-1?at=3")


async def test_a_slider_moves_through_the_states_by_keyboard(page: Page) -> None:
    await page.goto("/i/account%3Aa-1")
    await page.run("document.querySelector('#scrub').focus()")

    await page.press("ArrowLeft")
    await page.goes("/i/account%3Aa-1?at=2")
    await page.sees(".columns.scrubber h2", "State after event 2")
    assert await page.run("document.activeElement.id") == "scrub"
    assert await page.text(".scrub output") == "2"

    await page.press("Home")
    await page.sees(".columns.scrubber h2", "State after event 0")
    assert json.loads(await page.text("pre.value")) == {"owner": "", "amount": 0}


async def test_a_what_if_says_that_it_would_be_refused_and_writes_nothing(
    page: Page, engine: Engine
) -> None:
    await page.goto("/i/account%3Aa-1")
    await page.click("summary", text="What if")
    await page.run("document.querySelector('#what-if [name=tag]').value = 'Deposit'")
    await page.fill("#what-if [name=value]", '{"account": "a-1", "amount": 101}')
    await page.click("#what-if button")
    await page.sees("#what-if-answer .status", "rejected")
    assert '"limit": 100' in await page.text("#what-if-answer")

    await page.fill("#what-if [name=value]", '{"account": "a-1", "amount": 7}')
    await page.click("#what-if button")

    await page.sees("#what-if-answer .status", "accepted")
    assert await engine.state(Account, "a-1") == site.Balance("Ada", 42)


# ------------------------------------------------------------------- the whole store


async def test_a_start_form_says_what_is_wrong_with_a_value_and_starts_with_a_right_one(
    page: Page, engine: Engine
) -> None:
    await page.goto("/definitions")
    await page.click("#d-count-1\\.0\\.0 summary")
    form = "form[data-name=count]"
    await page.fill(f"{form} [name=instance_id]", "from-a-form.json")
    await page.fill(f"{form} [data-arg=times]", "many")
    await page.click(f"{form} button.primary")
    await page.sees(f"{form} .problem", "many is not JSON")
    await page.fill(f"{form} [data-arg=times]", "2.5")
    await page.click(f"{form} button.primary")
    await page.sees(f"{form} .problem", "times")

    await page.fill(f"{form} [data-arg=times]", "3")
    await page.click(f"{form} button.primary")

    await page.goes("/i/from-a-form%2Ejson")
    await page.sees(".answer", "completed")
    assert await engine.handle("from-a-form.json").result() == 3


async def test_failures_are_in_one_group_that_leads_to_each(page: Page, engine: Engine) -> None:
    for name in ("ada", "grace"):
        handle = await engine.start(f"failed-{name}", site.doomed, f"no mail for {name}@a.example")
        await waits_for(handle, "failed")
    await page.goto("/failures")

    groups = await page.texts(".card-count")
    assert [one.split() for one in groups] == [["2", "instances"], ["1", "instance"]]
    await page.click(".card a.id", text="failed-grace")
    await page.goes("/i/failed-grace?tab=payload")
    assert "no mail for grace@a.example" in await page.text(".sentence.bad")


async def test_a_dead_job_is_retried_after_a_question(page: Page, engine: Engine) -> None:
    await page.goto("/queues")
    [before] = (await engine.dead_jobs()).items

    await page.click("#dead ~ .table button", text="retry")
    await page.sees("#dialog-title", "Retry this job?")
    await page.click("#dialog-yes")

    await page.sees("#toast.on", "Done")

    async def ran_again() -> bool:
        return [one.died_at for one in (await engine.dead_jobs()).items] != [before.died_at]

    await until(ran_again)


async def test_all_dead_jobs_of_an_activity_are_retried_after_a_question(
    page: Page, engine: Engine
) -> None:
    await page.goto("/failures")
    [before] = (await engine.dead_jobs()).items

    await page.click("#dead ~ .acts button", text="retry all of explode")
    await page.sees("#dialog-title", "Retry all dead jobs of explode?")
    await page.click("#dialog-yes")

    await page.sees("#toast.on", "Done")

    async def ran_again() -> bool:
        return [one.died_at for one in (await engine.dead_jobs()).items] != [before.died_at]

    await until(ran_again)


async def test_what_waited_lately_is_a_line_that_grows_while_the_page_is_open(
    chromium: Browser, server: Served
) -> None:
    line = "document.querySelector('[data-spark] polyline').getAttribute('points')"
    async with Client(memory_url()) as client:
        await client.start("o-1", Orchestration.named("orphan", str))
        server.put(perdure.web.app(client, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/queues?k={KEY}")
            await page.until(f"{line}.split(' ').length === 2")

            await client.start("o-2", Orchestration.named("orphan", str))

            # From one that waits to two: along, up, and to the edge.
            await page.until(f"{line}.split(' ').length === 4")
            await page.goto("/workers")
            await page.goto("/queues")
            await page.until(f"{line}.split(' ').length === 4")
            label = "document.querySelector('[data-spark]').getAttribute('aria-label')"
            assert "1 to 2" in await page.run(label)
            assert page.troubles == []


async def test_work_that_no_worker_takes_is_a_banner_on_the_page_of_workers(
    chromium: Browser, server: Served
) -> None:
    async with Client(memory_url()) as client:
        await client.start("o-1", Orchestration.named("orphan", str))
        server.put(perdure.web.app(client, key=KEY))
        async with await chromium.open(server.url) as page:
            await page.goto(f"/workers?k={KEY}")

            assert "Work waits that no live worker takes" in await page.text("#unserved")
            assert "orphan: needs" in await page.text("#unserved")


async def test_a_projection_is_paused_with_a_reason_and_resumed(page: Page, engine: Engine) -> None:
    await page.goto("/projections")
    await page.click("button", text="pause")
    await page.fill("#dialog [name=reason]", "month end")
    await page.click("#dialog-yes")
    await page.sees("td .status", "paused")
    await page.sees("td.sentence", "month end")

    await page.click("button", text="resume")
    await page.click("#dialog-yes")

    await page.sees("td .status", "running")
    assert [one.status for one in await engine.projections()] == ["running"]


# ------------------------------------------------------------------------------ looks


async def test_the_theme_is_the_system_s_until_one_is_chosen_which_is_kept(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    await page.prefers("light")
    light = await page.run(ground)
    await page.prefers("dark")
    dark = await page.run(ground)
    assert light != dark

    await page.press("t")
    assert await page.run(ground) == light
    await page.goto("/workers")

    assert await page.run(ground) == light


async def test_times_are_shown_as_a_person_likes_them(page: Page) -> None:
    await page.goto("/i/done-1")
    time = ".facts time"
    assert (await page.text(time)).endswith(("ago", "now"))

    await page.click("#clock")
    await page.click("#clock")

    iso = await page.run(f"document.querySelector('{time}').dateTime")
    assert await page.text("#clock") == "UTC"
    assert await page.text(time) == iso[:19].replace("T", " ")


async def test_what_a_person_types_is_not_taken_away_by_live_updates(
    page: Page, engine: Engine
) -> None:
    await page.press("/")
    await page.write("name:shi")
    await engine.start("meanwhile", site.ship, "book")
    before = page.asked_for.count("/")
    await until(lambda: page.asked_for.count("/") > before + 1)
    assert await page.run("document.querySelector('#search').value") == "name:shi"
    assert "meanwhile" not in await page.texts("td a.id")

    await page.press("Escape")

    await page.sees("td a.id", "meanwhile")


async def test_a_click_is_not_lost_because_the_page_is_loaded_anew_meanwhile(
    page: Page, engine: Engine
) -> None:
    await page.sees("#live-dot.on")
    at = await page.run(
        "(box => ({x: box.x + box.width / 2, y: box.y + box.height / 2}))"
        "(document.querySelector('td a.id').getBoundingClientRect())"
    )
    name = await page.text("td a.id")
    mouse = {**at, "button": "left", "clickCount": 1}
    await page.ask("Input.dispatchMouseEvent", type="mousePressed", **mouse)
    loads = page.asked_for.count("/")

    await engine.start("new-1", quick, "book")
    await until(lambda: page.asked_for.count("/") >= loads + 2)
    assert await page.text("td a.id") == name
    await page.ask("Input.dispatchMouseEvent", type="mouseReleased", **mouse)

    await page.goes(f"/i/{quote(name, safe='')}")


async def test_failures_and_children_are_a_key_away(page: Page) -> None:
    await page.press("c")
    await page.goes("/?q=&children=true")
    assert "toys-child" in await page.texts("td a.id")

    await page.press("f")
    await page.goes("/failures")


async def test_help_is_a_key_away_and_so_is_its_end(page: Page) -> None:
    await page.press("?")
    await page.sees("#keys", "next and previous row")

    await page.press("Escape")

    assert not await page.has("#keys")


async def test_what_a_sentence_rests_on_opens_and_closes_by_the_keyboard_and_stays_meanwhile(
    page: Page, engine: Engine
) -> None:
    await page.goto("/?q=id:order/1")
    await page.until("document.querySelector('#live-dot.on')")
    await page.run("document.querySelector('.why').focus()")

    await page.press("Enter")

    await page.sees(":popover-open .sentence", "signal 'go'")
    looks = "performance.getEntriesByType('resource').filter((one) => one.name === location.href)"
    await page.until(f"{looks}.length")
    before = await page.run(f"{looks}.length")
    await engine.handle("order/1").terminate("enough")
    await page.until(f"{looks}.length > {before}")
    assert await page.has(":popover-open")
    await page.press("Escape")
    assert not await page.has(":popover-open")
    await page.sees("td .status", "terminated")


async def test_no_page_is_wider_than_the_window(page: Page) -> None:
    wider = []
    for path in (
        *(
            "/",
            "/failures",
            "/queues",
            "/workers",
            "/projections",
            "/definitions",
            "/charts",
            "/i/nobody",
        ),
        *("/i/order%2F1", "/i/order%2F1?tab=history", "/i/failed-1?tab=payload"),
        *("/i/failed-1?tab=jobs", "/i/family-1?tab=children", "/i/account%3Aa-1"),
        *("/schedules", "/i/order%2F1?tab=streams", "/i/order%2F1?tab=check"),
    ):
        await page.goto(path)
        for width in (390, 820, 1440):
            await page.resize(width, 800)
            if await page.run("document.documentElement.scrollWidth > innerWidth"):
                wider.append((path, width))

    assert wider == []


async def test_charts_are_drawn_for_the_time_and_the_words_that_a_person_chose(page: Page) -> None:
    await page.press("g", "c")
    await page.goes("/charts")
    await page.sees("#c-starts", "6")

    await page.fill("main input[name=q]", "status:failed")
    await page.press("Enter")
    await page.goes("/charts?window=1h&q=status%3Afailed")
    await page.click("main nav a", text="24h")
    await page.goes("/charts?window=24h&q=status%3Afailed")

    await page.sees("#c-starts", "1")
    await page.sees(".chart .legend", "failed")
    assert await page.has("svg .bar-of.failed")


async def test_whether_the_code_fits_a_history_is_a_click_away(page: Page) -> None:
    await page.goto("/i/done-1?tab=check")

    await page.click("button", text="Replay it")

    await page.sees("#check-answer", "it fits")
    await page.sees("#check-answer", "events are what the code asks for now")
