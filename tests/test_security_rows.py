"""Security requirements that are not about one request: what is stored, called, built and said."""

from __future__ import annotations

import ast
import hashlib
import re
import sqlite3
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure.web
from perdure import Client, Engine, orchestration
from tests.named import ROOT
from tests.web.site import caller, memory_url

SRC = ROOT / "src/perdure"
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_no_statement_matches_a_pattern_of_the_caller() -> None:
    """SEC-16: a regular expression of a stranger may run for hours."""
    for file in SRC.rglob("*.sql"):
        code = re.sub(r"--.*", "", file.read_text())
        assert not re.search(r"\b(REGEXP|SIMILAR TO|GLOB|regexp_\w+)\b|\s!?~\*?\s", code), file


async def test_of_the_headers_of_a_request_only_its_key_is_stored(tmp_path: Path) -> None:
    """SEC-24."""
    path = tmp_path / "shop.db"
    canary = "canary4711"
    headers = {
        "authorization": f"Basic {canary}",
        "cookie": f"session={canary}",
        "user-agent": canary,
        "traceparent": f"00-{canary}-01",
        "baggage": canary,
        "x-forwarded-for": canary,
        "idempotency-key": "key-of-the-request",
    }
    async with Client(f"sqlite:///{path}", create=True) as client:
        app = perdure.web.app(client, insecure_no_auth=True)
        async with caller(app) as api:
            answers = [
                await api.post("/api/instances", json={"name": "x"}, headers=headers),
                await api.post(
                    "/api/instances/key-of-the-request/signals",
                    json={"name": "go"},
                    headers=headers,
                ),
                await api.post(
                    "/api/instances/key-of-the-request/cancel", json={}, headers=headers
                ),
            ]
    assert [one.status_code < 300 for one in answers] == [True] * 3

    with sqlite3.connect(path) as database:
        stored = "\n".join(database.iterdump())
    bodies = path.read_bytes()
    database.close()
    assert "key-of-the-request" in stored
    assert canary not in stored
    assert canary.encode() not in bodies


@dataclass(frozen=True)
class Sealed:
    """A value that its program has encrypted."""

    key_id: str
    box: str


@orchestration
async def passing(order: Sealed) -> Sealed:
    return order


async def test_what_a_program_has_encrypted_is_passed_on_as_it_is() -> None:
    """SEC-25 and SEC-26: there is no key here, so nothing can be decrypted for a page either."""
    box = hashlib.sha256(b"card 4111").hexdigest()
    async with Engine(memory_url(), [passing]) as engine:
        handle = await engine.start("p-1", passing, Sealed("2026-11", box))
        assert await handle.result() == Sealed("2026-11", box)
        app = perdure.web.app(engine, insecure_no_auth=True)
        async with caller(app, accept="text/html") as api:
            page = await api.get("/i/p-1?tab=payload")
            told = (await api.get("/api/instances/p-1")).json()

    assert box in page.text
    assert told["input"] == {"order": {"key_id": "2026-11", "box": box}}


CALLERS = {"client/remote/connection.py"}
"""What asks a server: the client that was given its address by the program."""


def test_nothing_here_calls_an_address_that_came_in_a_request() -> None:
    """SEC-31: there are no webhooks that go out. `perdure.web.hooks` only takes calls."""
    outgoing = (
        "httpx",
        "urllib.request",
        "http.client",
        "requests",
        "aiohttp",
        "ftplib",
        "smtplib",
    )
    found = set()
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and node.attr == "create_connection":
                names = ["http.client"]
            if any(name == one or name.startswith(f"{one}.") for name in names for one in outgoing):
                found.add(str(file.relative_to(SRC)))

    assert found == CALLERS


def test_what_is_installed_with_it_is_short_and_bounded() -> None:
    """SEC-37: eight packages, each below its next major version; no script runs at the install."""
    needed = PROJECT["project"]["dependencies"]

    assert len(needed) == 8
    assert [one for one in needed if not re.fullmatch(r"[\w-]+>=[\d.]+,<\d+", one)] == []
    assert PROJECT["build-system"]["requires"] == ["hatchling>=1.26"]
    assert "hooks" not in PROJECT["tool"]["hatch"]["build"]
    assert not [name for name in ("setup.py", "setup.cfg", "MANIFEST.in") if (ROOT / name).exists()]


def test_pages_load_nothing_from_elsewhere() -> None:
    """SEC-37: scripts and styles are ours, written in this repository."""
    files = sorted((SRC / "web/static").iterdir())
    texts = [*files, *(SRC / "web/templates").iterdir()]

    assert [file.name for file in files] == ["icon.svg", "perdure.css", "perdure.js"]
    for file in texts:
        found = re.findall(r"https?://[\w.]+", file.read_text())
        assert set(found) <= {"http://www.w3.org"}, file.name


def test_weaknesses_are_reported_in_private_and_answered_in_time() -> None:
    """SEC-38."""
    page = " ".join((ROOT / "SECURITY.md").read_text().split())

    for said in ("within three days", "within 90 days", "private report", "Supported", "trusted"):
        assert said in page
