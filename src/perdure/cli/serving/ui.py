"""`perdure ui`: serve the pages of a store to a browser, on this machine unless told otherwise."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from os import urandom

from perdure.cli.output import say
from perdure.cli.serving.http_server import (
    HttpAddress,
    go_second,
    listen,
    read_tls,
    read_tokens_file,
    refuse_open_bind,
    server_for,
)
from perdure.client.client import Client
from perdure.store.urls import shown_url
from perdure.web.application import app
from perdure.web.audit import audit_file, audit_to_stderr
from perdure.web.settings import LOOPBACK

DEFAULT_PORT = 8321
DEFAULT_NICE = 5
ANY_PORT = "--port 0"


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
    audit_path: str | None = None
    """Where rows of actions go; None: to the standard error."""
    nice: int = DEFAULT_NICE
    """How much others have the processor first."""
    tls_cert: str | None = None
    tls_key: str | None = None


def check_bind(settings: UiSettings) -> None:
    """Refuse to let other machines in without a word on who may come (SEC-2).

    Raises:
        UsageError: It would be open to all.
    """
    refuse_open_bind(
        HttpAddress(settings.host, settings.port),
        flag=f"--host {settings.host}",
        tokens_flag="--tokens",
        has_tokens=settings.tokens_file is not None,
        insecure_no_auth=settings.insecure_no_auth,
    )


def run_ui(settings: UiSettings) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code.

    Raises:
        UsageError: The address is taken, or it would be open to all.
    """
    check_bind(settings)
    tls = read_tls(settings.tls_cert, settings.tls_key)
    go_second(settings.nice)
    key = None if settings.insecure_no_auth else urandom(24).hex()
    pages = app(
        Client(settings.url, create=True),
        read_only=settings.read_only,
        tokens=read_tokens_file("--tokens", settings.tokens_file),
        key=key,
        insecure_no_auth=settings.insecure_no_auth,
        hosts=(*LOOPBACK, settings.host, *settings.allow_hosts),
        audit=audit_to_stderr if settings.audit_path is None else audit_file(settings.audit_path),
        title=shown_url(settings.url),
    )
    listening, address = listen(HttpAddress(settings.host, settings.port), flag=ANY_PORT)
    if settings.insecure_no_auth:
        say("INSECURE: nobody has to say who they are; everybody who reaches it may do everything")
    say(f"store {shown_url(settings.url)}{'   read-only' if settings.read_only else ''}")
    scheme = "http" if tls is None else "https"
    say(f"UI  {scheme}://{address.name}/{'' if key is None else f'?k={key}'}")
    with suppress(KeyboardInterrupt):  # uvicorn ends by the signal that it was stopped with
        server_for(pages, tls).run(sockets=[listening])
    return 0
