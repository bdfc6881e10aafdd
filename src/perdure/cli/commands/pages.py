"""`perdure ui` and `perdure mcp`: serve a store, to browsers and to models.

What serves is loaded when it is needed: neither needs what the other has.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from perdure.cli.options import database_option
from perdure.cli.output import named
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.cli.mcp.tool import Tool


@click.command("ui")
@database_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="0: any that is free.",
)
@click.option("--read-only", is_flag=True, help="Show, and change nothing.")
@click.option(
    "--tokens", "tokens_file", metavar="FILE", help="Tokens that programs may show, as hashes."
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    metavar="NAME",
    help="A name under which it may be asked for, besides its address.",
)
@click.option(
    "--insecure-no-auth", is_flag=True, help="Let everybody who reaches it do everything."
)
@click.option(
    "--audit",
    "audit_path",
    metavar="FILE",
    help="Append a line of JSON for each action: who, when, what, and what it came to. "
    "Not given: on the standard error.",
)
@click.option("--tls-cert", metavar="FILE", help="A certificate: it is served as https.")
@click.option("--tls-key", metavar="FILE", help="The key of the certificate.")
@click.option(
    "--nice",
    type=click.IntRange(0, 19),
    default=5,
    show_default=True,
    help="How much other programs of this machine have the processor first: workers, before "
    "those who look.",
)
def ui_command(
    url: str,
    host: str,
    port: int,
    read_only: bool,
    tokens_file: str | None,
    allow_hosts: tuple[str, ...],
    insecure_no_auth: bool,
    audit_path: str | None,
    nice: int,
    tls_cert: str | None,
    tls_key: str | None,
) -> None:
    """Serve the web pages and the HTTP API of a store, to this machine unless told otherwise.

    It prints an address with a key in it; the first visit turns the key into a cookie.
    """
    from perdure.cli.serving.ui import UiSettings, run_ui  # late: brings the web

    settings = UiSettings(
        url=url,
        host=host,
        port=port,
        read_only=read_only,
        tokens_file=tokens_file,
        allow_hosts=allow_hosts,
        insecure_no_auth=insecure_no_auth,
        audit_path=audit_path,
        nice=nice,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    sys.exit(run_ui(settings))


@click.command("mcp")
@click.option(
    "--allow",
    metavar="ACTIONS",
    default="",
    help="What may be done, with commas between: signal, cancel, retry.  [default: nothing]",
)
@database_option
def mcp_command(allow: str, url: str) -> None:
    """Let a model look into a store: a server of the Model Context Protocol on standard input and
    output, for a program that starts it.

    Its tools are find, explain, history, why_failed, queues and doctor. What they answer is marked
    as data, cut and escaped. With --allow signal,cancel,retry also those; each is said on standard
    error.
    """
    from perdure.cli.mcp.looking import tools_that_look
    from perdure.cli.mcp.serving import serve
    from perdure.cli.opening import ask

    tools = [*tools_that_look(url), *_allowed(allow)]
    ask(url, lambda client: serve(client, tools, url=url))


def _allowed(text: str) -> list[Tool[Any]]:
    from perdure.cli.mcp.acting import ACTIONS

    words = dict.fromkeys(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in words if word not in ACTIONS]
    if unknown:
        raise UsageError(f"--allow: there is no {named(unknown)}; known: {named(ACTIONS)}")
    return [ACTIONS[word] for word in words]
