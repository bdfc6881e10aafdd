"""A server for the applications that commands serve: an address to listen on, and what is served
there until the command ends.

The web itself is imported late: `perdure dev` listens before it is there.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.errors import UsageError

if TYPE_CHECKING:
    import uvicorn

    from perdure.web.access import Token

LOCAL = "127.0.0.1"
DRAIN_S = 3
"""How long requests that are under way may go on when a server stops."""
MAX_HEADER_BYTES = 16 * 1024
MAX_PORT = 65_535


class HttpAddress(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        from perdure.web.settings import LOOPBACK  # late: brings the web

        return self.host in LOOPBACK

    @property
    def shown(self) -> str:
        """The beginning of its URLs."""
        return f"http://{self.name}"

    @property
    def name(self) -> str:
        """Host and port as a URL has them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(flag: str, text: str) -> HttpAddress:
    """Return the address that `:9090`, `9090`, `0.0.0.0:9090` or `[::1]:9090` stand for.

    Raises:
        UsageError: It is none; the error names the flag.
    """
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT or (":" in host and not host.startswith("[")):
        raise UsageError(
            f"{flag} {text!r} is not an address: write :9090 for this machine alone, or "
            "0.0.0.0:9090 for others too"
        )
    return HttpAddress(host.strip("[]") if colon and host else LOCAL, int(port))


def refuse_open_bind(
    address: HttpAddress, *, flag: str, tokens_flag: str, has_tokens: bool, insecure_no_auth: bool
) -> None:
    """Refuse to let other machines in without a word on who may come (SEC-2).

    Args:
        address: Where the server is to listen.
        flag: What was said of that, for the message.
        tokens_flag: The flag that names a file of tokens.
        has_tokens: Whether one was named.
        insecure_no_auth: Whether everybody may come.

    Raises:
        UsageError: It would be open to all.
    """
    if address.is_local or has_tokens or insecure_no_auth:
        return
    raise UsageError(
        f"{flag} lets other machines in: name a file of tokens with {tokens_flag} FILE, "
        "or say --insecure-no-auth if everybody who reaches it may do everything"
    )


def read_tokens_file(flag: str, file: str | None) -> list[Token]:
    """Return the tokens of a file; none if no file is named.

    Raises:
        UsageError: It cannot be read, or a line of it makes no sense.
    """
    if file is None:
        return []
    from perdure.web.access import read_tokens  # late: brings the web

    try:
        return read_tokens(Path(file).read_text())
    except OSError as error:
        raise UsageError(f"{flag} {file}: {error.strerror}") from error


def listen(address: HttpAddress, *, flag: str) -> tuple[socket.socket, HttpAddress]:
    """Return a socket that listens, and where: port 0 is any that is free.

    Raises:
        UsageError: The address is taken, or is not one of this machine.
    """
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot serve on {host} port {port}: {error.strerror}; {flag} takes any that is free"
        ) from error
    return listening, HttpAddress(host, listening.getsockname()[1])


class TlsFiles(NamedTuple):
    """What a server shows to be reached as https."""

    certificate: str
    key: str


def read_tls(certificate: str | None, key: str | None) -> TlsFiles | None:
    """Return the files of a certificate; None if none are named.

    Raises:
        UsageError: One of the two is missing, or they cannot be used.
    """
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key belong together: name both files")
    import ssl  # late: for those who ask for it

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"--tls-cert {certificate}, --tls-key {key}: {error.strerror or error}"
        ) from error
    return TlsFiles(certificate, key)


def server_for(app: Any, tls: TlsFiles | None = None) -> uvicorn.Server:
    """Return a server of an ASGI application; it listens to SIGINT and SIGTERM while it runs."""
    import uvicorn  # late: brings the server

    config = _config(app, DRAIN_S)
    if tls is not None:
        # Python's own default: TLS 1.2 at least.
        config.ssl_certfile, config.ssl_keyfile = tls
    return uvicorn.Server(config)


@asynccontextmanager
async def served(
    app: Any, sockets: Sequence[socket.socket], *, drain_s: int = DRAIN_S
) -> AsyncIterator[None]:
    """Serve an application on the running loop while the block is open; signals are the block's.

    Args:
        app: What to serve.
        sockets: Where; they listen already, and are closed at the end.
        drain_s: How long requests that are under way may go on then. Pages keep one open.
    """
    import uvicorn  # late: brings the server

    class QuietServer(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    server = QuietServer(_config(app, drain_s))
    serving = asyncio.create_task(server.serve(sockets=list(sockets)))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


def go_second(nice: int) -> None:
    """Let other programs of this machine have the processor first: a worker beside the pages does
    not wait for those who look. Where the system has no such thing, nothing happens.

    The threads that are begun after this are like the one that calls it.
    """
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    if nice and hasattr(os, "SCHED_BATCH"):
        # Its share stays as it is, but a request that comes does not interrupt what runs.
        with suppress(OSError):  # Where that is forbidden.
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _config(app: Any, drain_s: int) -> uvicorn.Config:
    import uvicorn  # late: brings the server

    from perdure.cli.serving.http_protocol import HttpProtocol  # late: as above

    return uvicorn.Config(
        app,
        http=HttpProtocol,
        log_level="warning" if drain_s else "critical",  # of requests that are cut off
        # Addresses have the key in them, once.
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=drain_s,
    )
