"""How commands serve: one write for each answer, others first, TLS, and tokens for programs."""

from __future__ import annotations

import asyncio
import os
import ssl
import stat
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from uvicorn.server import ServerState

from perdure.cli.serving.http_protocol import TOO_SLOW, HttpProtocol, JoinedWrites
from perdure.web.access import find_token, read_tokens
from tests.cli.commands import Command, perdure
from tests.each import each
from tests.engine.stage import until


class Recorder(asyncio.Transport):
    """A transport that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:  # type: ignore[override, unused-ignore]
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


async def test_head_and_body_of_an_answer_are_written_together() -> None:
    sent = Recorder()
    joined = JoinedWrites(sent)

    joined.write(b"head ")
    joined.write(b"body")
    await asyncio.sleep(0)
    joined.write(b"next")
    await asyncio.sleep(0)

    assert sent.written == [b"head body", b"next"]


async def test_what_was_written_is_sent_before_the_connection_is_closed() -> None:
    sent = Recorder()
    joined = JoinedWrites(sent)

    joined.write(b"last words")
    joined.close()
    await asyncio.sleep(0)

    assert (sent.written, sent.is_closed) == ([b"last words"], True)


@pytest.mark.skipif(not hasattr(os, "nice"), reason=f"{sys.platform} has no such thing")
@pytest.mark.parametrize(("flags", "lower"), [((), 5), (("--nice", "0"), 0)])
async def test_the_server_of_pages_lets_workers_go_first(
    tmp_path: Path, flags: tuple[str, ...], lower: int
) -> None:
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    command = Command(tmp_path, "ui", "--store", "sqlite:///shop.db", "--port", "0", *flags)
    try:
        await command.says(r"UI  http")
        assert os.getpriority(os.PRIO_PROCESS, command.process.pid) == min(19, mine + lower)
        if hasattr(os, "SCHED_BATCH"):
            kind = os.SCHED_BATCH if lower else os.sched_getscheduler(0)
            assert os.sched_getscheduler(command.process.pid) == kind
    finally:
        command.kill()


# ------------------------------------------------------------------------------- TLS

TLS = Path(__file__).parent / "tls"


async def test_pages_are_served_as_https_with_a_certificate(tmp_path: Path) -> None:
    """SEC-27: TLS 1.2 at least, and a cookie that is for https alone."""
    flags = ("--tls-cert", str(TLS / "cert.pem"), "--tls-key", str(TLS / "key.pem"))
    command = Command(tmp_path, "ui", "--store", "sqlite:///shop.db", "--port", "0", *flags)
    try:
        found = await command.says(r"UI  (https://127\.0\.0\.1:(\d+))(/\?k=\w+)\n")
        trusted = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
        async with httpx.AsyncClient(base_url=found[1], verify=trusted) as browser:
            first = await browser.get(found[3])
        old = ssl.create_default_context(cafile=str(TLS / "cert.pem"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, OSError)):
            await asyncio.open_connection("127.0.0.1", int(found[2]), ssl=old)
    finally:
        command.kill()

    assert first.status_code == 303
    assert "; secure" in first.headers["set-cookie"].lower()


@each(
    [
        (("--tls-cert", "a.pem"), "--tls-cert and --tls-key belong together"),
        (("--tls-cert", "no.pem", "--tls-key", "no.pem"), "No such file"),
        (("--tls-cert", "text", "--tls-key", "text"), "--tls-cert text, --tls-key text"),
    ],
    name=lambda one: one[1],
)
def test_a_certificate_that_cannot_be_used_is_refused(
    case: tuple[tuple[str, ...], str], tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("no certificate")
    flags, problem = case

    done = perdure("ui", *flags, cwd=tmp_path)

    assert done.returncode == 2
    assert problem in done.stderr


# -------------------------------------------------------------------------- slow ones


class Impatient(HttpProtocol):
    """Waits for no time at all."""

    headers_within_s = 0.0


WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@each([(), (b"GET / HTTP/1.1\r\nHost",), (WHOLE, b"GET")], name=repr)
async def test_headers_that_do_not_come_are_not_waited_for(sent: tuple[bytes, ...]) -> None:
    """SEC-11: also those of a request behind another one."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(answer, http=Impatient, lifespan="off", log_level="critical")
    config.load()
    told = Recorder()
    connection = Impatient(config=config, server_state=ServerState(), app_state={})
    connection.connection_made(told)
    for number, part in enumerate(sent):
        connection.data_received(part)
        if part == WHOLE:
            await until(lambda: any(b"204" in one for one in told.written))
            assert not told.is_closed, number

    await until(lambda: told.is_closed)

    assert told.written[-1] == TOO_SLOW
    assert len(told.written) == sent.count(WHOLE) + 1
    connection.connection_lost(None)


def test_what_is_said_to_slow_ones_is_whole() -> None:
    head, _, body = TOO_SLOW.partition(b"\r\n\r\n")

    assert b"content-length: %d\r\n" % len(body) in head


# ------------------------------------------------------------------------------ tokens


def test_a_token_is_printed_once_and_its_hash_is_kept(tmp_path: Path) -> None:
    """SEC-30."""
    file = tmp_path / "tokens"
    args = ("--scope", "read", "--scope", "write", "--until", "2099-01-01", "--file", str(file))

    done = perdure("token", "reports", *args, cwd=tmp_path)

    text = done.stdout.strip()
    [kept] = read_tokens(file.read_text())
    assert (done.returncode, kept.name, sorted(kept.scopes)) == (0, "reports", ["read", "write"])
    assert kept.expires_at == datetime(2099, 1, 1, tzinfo=UTC)
    assert find_token([kept], text, datetime.now(UTC)) is kept
    assert text not in file.read_text() + done.stderr
    assert os.name == "nt" or stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_a_file_the_line_is_beside_the_token(tmp_path: Path) -> None:
    done = perdure("token", "reports", cwd=tmp_path)

    [kept] = read_tokens(done.stderr.partition(": ")[2])
    assert find_token([kept], done.stdout.strip(), datetime.now(UTC)) is kept
    assert kept.scopes == {"read"}


@each(
    [
        (("two words",), "write one word"),
        (("#1",), "write one word"),
        (("x", "--until", "2001-01-01"), "is over already"),
        (("x", "--until", "soon"), "is no point in time"),
        (("x", "--file", "none/tokens"), "--file none/tokens: No such file"),
        (("x", "--scope", "all"), "'all' is not one of"),
    ],
    name=lambda one: " ".join(one[0]),
)
def test_a_token_that_makes_no_sense_is_refused(
    case: tuple[tuple[str, ...], str], tmp_path: Path
) -> None:
    args, problem = case

    done = perdure("token", *args, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
