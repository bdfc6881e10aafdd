"""`perdure worker --http`: what those who look after a worker's process ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from perdure.cli.output import say
from perdure.cli.serving.http_server import (
    listen,
    parse_address,
    read_tokens_file,
    refuse_open_bind,
    served,
)
from perdure.cli.serving.worker import WorkerSettings
from perdure.client.worker import Worker
from perdure.errors import UsageError
from perdure.web.worker_health import worker_app

HTTP, TOKENS = "--http", "--http-tokens"


def check_http(settings: WorkerSettings) -> None:
    """Refuse an address that makes no sense, or that would be open to all.

    Raises:
        UsageError: It is such a one, or the file of tokens cannot be read.
    """
    assert settings.http is not None
    refuse_open_bind(
        parse_address(HTTP, settings.http),
        flag=f"{HTTP} {settings.http}",
        tokens_flag=TOKENS,
        has_tokens=settings.http_tokens is not None,
        insecure_no_auth=settings.insecure_no_auth,
    )
    if settings.http_tokens is not None and not read_tokens_file(TOKENS, settings.http_tokens):
        raise UsageError(f"{TOKENS} {settings.http_tokens} has no token in it")


def numbered_address(text: str, number: int) -> str:
    """Return the address of one of several processes: each has the next port."""
    host, port = parse_address(HTTP, text)
    return f"[{host}]:{port + number - 1 if port else 0}"


@asynccontextmanager
async def answering(settings: WorkerSettings, worker: Worker) -> AsyncIterator[None]:
    """Answer `/healthz`, `/readyz`, `/metrics` and `/demand` while the block is open.

    It is the worker's own loop that answers: one that is stuck does not.
    """
    assert settings.http is not None
    tokens = read_tokens_file(TOKENS, settings.http_tokens)
    app = worker_app(
        worker, worker.client, tokens=tokens, insecure_no_auth=settings.insecure_no_auth
    )
    listening, address = listen(parse_address(HTTP, settings.http), flag=f"{HTTP} :0")
    if settings.insecure_no_auth and not address.is_local:
        say("INSECURE: everybody who reaches this worker may ask for its numbers")
    say(f"answers on {address.shown}: /healthz /readyz /metrics /demand")
    async with served(app, [listening]):
        yield
