"""`perdure stream`: what was sent, now or until the end."""

from __future__ import annotations

import json
from collections.abc import Callable

from perdure import Client
from tests.cli.commands import Command, lines, typed
from tests.cli.shop import EVIL


def test_items_are_printed_one_per_line_and_as_json(shop: str) -> None:
    shown = typed("stream", "evil-1", "texts", store=shop)
    by_line = typed("stream", "evil-1", "texts", "--jsonl", store=shop).stdout.splitlines()
    found = [json.loads(line) for line in by_line]

    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "first"
    assert "\x1b" not in shown.stdout
    assert [(one["index"], one["value"]) for one in found] == [(1, "first"), (2, EVIL)]
    last = typed("stream", "evil-1", "texts", "--after", "1", "--jsonl", store=shop).stdout
    assert json.loads(last)["index"] == 2


def test_without_a_name_it_lists_the_streams(shop: str) -> None:
    [line] = lines("stream", "evil-1", store=shop)

    assert line[:3] == ["texts", "2", "2"]
    assert lines("stream", "greet-1", store=shop) == []
    assert typed("stream", "nobody", store=shop).exit_code == 3
    assert typed("stream", "nobody", "texts", store=shop).exit_code == 3


def test_what_waits_is_not_waited_for_unless_it_is_followed(shop: str) -> None:
    assert lines("stream", "wait-1", "texts", store=shop) == [["asked"]]
    never = typed("stream", "wait-1", "never", store=shop)
    assert (never.exit_code, never.stdout) == (0, "")
    assert never.stderr == "nothing was sent to stream 'never'; its streams: texts\n"


async def test_it_is_followed_to_the_end(shop: str, begin: Callable[..., Command]) -> None:
    following = begin("stream", "wait-1", "texts", "--follow", "--store", shop)
    await following.says("asked")

    async with Client(shop) as client:
        await client.handle("wait-1").terminate("enough")

    assert following.end() == 0
