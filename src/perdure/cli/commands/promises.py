"""`perdure promise`: keep or reject a promise by its token."""

from __future__ import annotations

import sys
from typing import Any

import click

from perdure.authoring.promise import Promise
from perdure.cli.json_values import parse_value
from perdure.cli.opening import ask
from perdure.cli.options import store_option
from perdure.cli.output import say
from perdure.client.acting.keeping import find_promise
from perdure.client.client import Client
from perdure.client.remote.client import RemoteClient
from perdure.client.remote.promises import resolve_json


@click.group("promise")
def promise_command() -> None:
    """Keep or reject a promise by its token.

    `-` in place of the token reads it from standard input, so that it stays out of the shell's
    memory.
    """


@promise_command.command("resolve")
@click.argument("token")
@click.argument("value", default="null")
@store_option
def resolve_promise(token: str, value: str, url: str) -> None:
    """Keep a promise with VALUE, as JSON (null if left out): its instance goes on."""
    parsed = parse_value(value, what="value of the promise")

    async def work(client: Client) -> bool:
        given = _read(token)
        if isinstance(client, RemoteClient):
            return await resolve_json(client, given, parsed)
        found = await find_promise(client._core, given)
        promise: Promise[Any] = Promise(found.name, Any)
        return await client.resolve(promise, given, parsed)

    _say(ask(url, work), "resolved")


@promise_command.command("reject")
@click.argument("token")
@click.option("--reason", default="", help="Why; the instance gets it as an error.")
@store_option
def reject_promise(token: str, reason: str, url: str) -> None:
    """Reject a promise: the instance that made it gets PromiseRejectedError."""

    async def work(client: Client) -> bool:
        return await client.reject(_read(token), reason)

    _say(ask(url, work), "rejected")


def _read(token: str) -> str:
    return sys.stdin.readline().strip() if token == "-" else token


def _say(is_first: bool, how: str) -> None:
    say(how if is_first else "it was resolved or rejected before; nothing has changed")
