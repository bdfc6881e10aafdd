"""`perdure ui`: serve the pages of a store to a browser, on this machine unless told otherwise."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from os import urandom
from pathlib import Path

from perdure.cli.output import say
from perdure.client.client import Client
from perdure.errors import UsageError
from perdure.store.urls import shown_url
from perdure.web.access import Token, read_tokens
from perdure.web.application import app
from perdure.web.settings import LOOPBACK

DEFAULT_PORT = 8321
MAX_HEADER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """What the command line says."""

    url: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    read_only: bool = False
    tokens_file: str | None = None
    allow_hosts: tuple[str, ...] = ()
    insecure_no_auth: bool = False


def check_bind(settings: UiSettings) -> None:
    """Refuse to let other machines in without a word on who may come (SEC-2).

    Raises:
        UsageError: It would be open to all.
    """
    is_local = settings.host in LOOPBACK
    if is_local or settings.tokens_file is not None or settings.insecure_no_auth:
        return
    raise UsageError(
        f"--host {settings.host} lets other machines in: name a file of tokens with --tokens FILE, "
        "or say --insecure-no-auth if everybody who reaches it may do everything"
    )


def run_ui(settings: UiSettings) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code.

    Raises:
        UsageError: The address is taken, or it would be open to all.
    """
    import uvicorn  # late: brings the server

    check_bind(settings)
    key = None if settings.insecure_no_auth else urandom(24).hex()
    served = app(
        Client(settings.url, create=True),
        read_only=settings.read_only,
        tokens=_tokens(settings),
        key=key,
        insecure_no_auth=settings.insecure_no_auth,
        hosts=(*LOOPBACK, settings.host, *settings.allow_hosts),
        title=shown_url(settings.url),
    )
    listening = _listen(settings.host, settings.port)
    port = listening.getsockname()[1]
    name = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.insecure_no_auth:
        say("INSECURE: nobody has to say who they are; everybody who reaches it may do everything")
    say(f"store {shown_url(settings.url)}{'   read-only' if settings.read_only else ''}")
    say(f"UI  http://{name}:{port}/{'' if key is None else f'?k={key}'}")
    config = uvicorn.Config(
        served,
        log_level="warning",
        # Addresses have the key in them, once.
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=3,
    )
    with suppress(KeyboardInterrupt):  # uvicorn ends by the signal that it was stopped with
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def _tokens(settings: UiSettings) -> list[Token]:
    if settings.tokens_file is None:
        return []
    try:
        return read_tokens(Path(settings.tokens_file).read_text())
    except OSError as error:
        raise UsageError(f"--tokens {settings.tokens_file}: {error.strerror}") from error


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot serve on {host} port {port}: {error.strerror}; --port 0 takes any that is free"
        ) from error
