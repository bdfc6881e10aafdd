"""`perdure ui`: serves this machine, lets nobody else in by mistake."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from perdure.cli.serving.ui import UiSettings, check_bind
from perdure.errors import UsageError
from tests.cli.commands import Command, perdure


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path, "ui", "--store", "sqlite:///shop.db", "--port", "0")
    yield command
    command.kill()


async def test_the_address_it_prints_opens_the_pages(ui: Command) -> None:
    """SEC-1: it listens on the loopback address alone."""
    found = await ui.says(r"UI  (http://127\.0\.0\.1:\d+)(/\?k=\w+)\n")

    async with httpx.AsyncClient(base_url=found[1], follow_redirects=True) as browser:
        stranger = await browser.get("/")
        page = await browser.get(found[2])
        again = await browser.get("/workers")
        mark = page.text.partition('data-csrf="')[2].partition('"')[0]
        started = await browser.post(
            "/api/instances",
            json={"name": "x", "instance_id": "x-1"},
            headers={"x-perdure-csrf": mark, "origin": found[1]},
        )

    assert (stranger.status_code, page.status_code, again.status_code) == (401, 200, 200)
    assert "shop.db" in page.text
    assert found[2][4:] not in page.text
    assert started.status_code == 201
    row = await ui.says(r'({"at": .*"start_instance".*"outcome": "done".*})\n')
    assert json.loads(row[1])["who"] == "browser"
    ui.send(signal.SIGINT)
    assert ui.end() == 0
    assert "Traceback" not in ui.said()


def test_other_machines_are_not_let_in_without_a_word_on_who_may_come(tmp_path: Path) -> None:
    """SEC-2."""
    refused = perdure("ui", "--host", "0.0.0.0", "--port", "0", cwd=tmp_path)

    assert refused.returncode == 2
    assert "--insecure-no-auth" in refused.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [{"tokens_file": "t"}, {"insecure_no_auth": True}])
def test_other_machines_are_let_in_where_it_was_said(more: dict[str, object]) -> None:
    """SEC-2."""
    check_bind(UiSettings(url="sqlite://", host="0.0.0.0", **more))  # type: ignore[arg-type]


def test_an_address_of_this_machine_needs_no_more() -> None:
    check_bind(UiSettings(url="sqlite://", host="::1"))
    with pytest.raises(UsageError, match="--tokens FILE"):
        check_bind(UiSettings(url="sqlite://", host="192.0.2.1"))


def test_a_record_of_actions_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    refused = perdure("ui", "--port", "0", "--audit", "nowhere/audit.jsonl", cwd=tmp_path)

    assert refused.returncode == 2
    assert "audit rows cannot be written to nowhere/audit.jsonl" in refused.stderr
