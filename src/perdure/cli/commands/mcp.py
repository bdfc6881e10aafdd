"""`perdure mcp`: a store for models, over the Model Context Protocol."""

from __future__ import annotations

from typing import Any

import click

from perdure.cli.mcp.acting import ACTIONS
from perdure.cli.mcp.looking import tools_that_look
from perdure.cli.mcp.serving import serve
from perdure.cli.mcp.tool import Tool
from perdure.cli.opening import ask
from perdure.cli.options import store_option
from perdure.cli.output import named
from perdure.errors import UsageError


@click.command("mcp")
@click.option(
    "--allow",
    metavar="ACTIONS",
    default="",
    help=f"What may be done, with commas between: {', '.join(ACTIONS)}.  [default: nothing]",
)
@store_option
def mcp_command(allow: str, url: str) -> None:
    """Let a model look into a store: a server of the Model Context Protocol on standard input and
    output, for a program that starts it.

    Its tools are find, explain, history, why_failed, queues and doctor. What they answer is marked
    as data, cut and escaped. With --allow signal,cancel,retry also those; each is said on standard
    error.
    """
    tools = [*tools_that_look(url), *_allowed(allow)]
    ask(url, lambda client: serve(client, tools, url=url))


def _allowed(text: str) -> list[Tool[Any]]:
    words = dict.fromkeys(word.strip() for word in text.split(",") if word.strip())
    unknown = [word for word in words if word not in ACTIONS]
    if unknown:
        raise UsageError(f"--allow: there is no {named(unknown)}; known: {named(ACTIONS)}")
    return [ACTIONS[word] for word in words]
