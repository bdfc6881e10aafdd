"""`perdure worker --http`: what those who look after the process ask it."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from perdure.cli.serving.http_server import HttpAddress, parse_address
from perdure.cli.serving.worker_http import numbered_address
from perdure.errors import UsageError
from perdure.web.access import make_token
from tests.cli.commands import Command, typed

HELLO = """
from perdure import orchestration

@orchestration
async def hello() -> str:
    return "hello"
"""
ANSWERS = r"answers on (http://\S+): /healthz"


@pytest.fixture
def target(folder: Path) -> str:
    (folder / "hello.py").write_text(HELLO)
    return "hello.py"


async def test_a_worker_tells_of_itself_until_it_stops(
    begin: Callable[..., Command], target: str
) -> None:
    worker = begin("worker", target, "--http", ":0")
    said = await worker.says(ANSWERS)
    await worker.says(r"worker \S+\n")
    async with httpx.AsyncClient(base_url=said[1]) as probe:
        answers = {
            path: await probe.get(path) for path in ("/healthz", "/readyz", "/metrics", "/demand")
        }
        foreign = await probe.get("/demand", headers={"Host": "evil.example"})

    assert said[1].startswith("http://127.0.0.1:")
    assert {path: one.status_code for path, one in answers.items()} == dict.fromkeys(answers, 200)
    assert "perdure_claims_total" in answers["/metrics"].text
    assert answers["/demand"].json() == {"total": 0, "queues": []}
    assert foreign.status_code == 421
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


async def test_numbers_need_a_token_where_there_are_some_and_probes_do_not(
    begin: Callable[..., Command], target: str, folder: Path
) -> None:
    text, token = make_token("prometheus")
    _, other = make_token("deploy", scopes=["write"])
    (folder / "tokens").write_text(f"{token.line()}\n{other.line()}\n")
    worker = begin("worker", target, "--http", "0.0.0.0:0", "--http-tokens", "tokens")
    said = await worker.says(ANSWERS)
    await worker.says(r"worker \S+\n")
    async with httpx.AsyncClient(base_url=said[1]) as probe:
        bare = {path: (await probe.get(path)).status_code for path in ("/readyz", "/metrics")}
        shown = await probe.get("/metrics", headers={"Authorization": f"Bearer {text}"})

    assert bare == {"/readyz": 200, "/metrics": 401}
    assert shown.status_code == 200


async def test_each_of_several_processes_has_its_own_port(
    begin: Callable[..., Command], target: str
) -> None:
    worker = begin("worker", target, "--http", ":0", "--processes", "2")
    await worker.says(r"workers \S+ \S+\n")

    found = re.findall(ANSWERS, worker.said())
    assert len(set(found)) == 2
    async with httpx.AsyncClient() as probe:
        for address in found:
            assert (await probe.get(f"{address}/healthz")).status_code == 200
    worker.send(signal.SIGTERM)
    assert worker.end() == 0


def test_other_machines_are_not_let_in_without_a_word_on_who_may_come(target: str) -> None:
    for more in ([], ["--processes", "2"]):
        done = typed("worker", target, "--http", "0.0.0.0:0", *more, store="sqlite:///x.db")

        assert done.exit_code == 2
        assert "--http-tokens FILE" in done.stderr
        assert "--insecure-no-auth" in done.stderr


def test_flags_that_are_about_http_need_it(target: str) -> None:
    done = typed("worker", target, "--insecure-no-auth", store="sqlite:///x.db")

    assert (done.exit_code, "--http" in done.stderr) == (2, True)


def test_addresses_are_read() -> None:
    assert parse_address("--http", ":9090") == HttpAddress("127.0.0.1", 9090)
    assert parse_address("--http", "9090") == HttpAddress("127.0.0.1", 9090)
    assert parse_address("--http", "0.0.0.0:80") == HttpAddress("0.0.0.0", 80)
    assert parse_address("--http", "[::1]:80") == HttpAddress("::1", 80)
    assert parse_address("--http", numbered_address("[::1]:80", 3)) == HttpAddress("::1", 82)
    for wrong in ("", "host", ":x", ":70000", "::1:80"):
        with pytest.raises(UsageError, match="--http"):
            parse_address("--http", wrong)
