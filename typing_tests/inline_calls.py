"""`inline` in its three forms: a callable and its arguments, a named closure, a told result type."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, assert_type

from perdure import inline
from typing_tests.shop import No, Order, Receipt, Yes


def fetch(url: str, tries: int = 3) -> bytes:
    return url.encode() * tries


async def fetch_slowly(url: str, tries: int) -> bytes:
    return url.encode() * tries


def load() -> dict[str, int]:
    return {}


def keyword_only(url: str, *, tries: int = 1) -> bytes:
    return url.encode() * tries


def inline_is_a_coroutine() -> Coroutine[object, None, bytes]:
    return assert_type(inline(fetch, "u", 3), Coroutine[object, None, bytes])


async def a_callable_and_its_arguments() -> None:
    assert_type(await inline(fetch, "u", 3), bytes)
    assert_type(await inline(fetch, "u"), bytes)
    assert_type(await inline(fetch_slowly, "u", 3), bytes)
    assert_type(await inline(load), dict[str, int])
    assert_type(await inline(fetch, "u", 3, name="fetch it"), bytes)
    assert_type(await inline(keyword_only, "u"), bytes)
    assert_type(await inline(Receipt, "o-1"), Receipt)
    assert_type(await inline("a".upper), str)


async def a_closure_with_a_name(url: str) -> None:
    assert_type(await inline(lambda: fetch(url), name="fetch"), bytes)
    assert_type(await inline(lambda: fetch_slowly(url, 3), name="fetch"), bytes)
    assert_type(await inline(lambda tries: fetch(url, tries), 3, name="fetch"), bytes)

    async def closure() -> int:
        return len(url)

    assert_type(await inline(closure), int)


async def a_result_type_that_is_told(text: str) -> None:
    assert_type(await inline(json.loads, text, returns=Order), Order)
    assert_type(await inline(json.loads, text, returns=list[int]), list[int])
    assert_type(await inline(json.loads, text, returns=Yes | No), Yes | No)
    assert_type(
        await inline(lambda: json.loads(text), name="x", returns=Order | None), Order | None
    )
    assert_type(await inline(json.loads, text), Any)


# --- misuses


async def wrong_arguments(text: str) -> None:
    await inline(fetch, 3)
    await inline(fetch)
    await inline(fetch, "u", "3")
    await inline(fetch, "u", 3, 4)
    await inline(fetch_slowly, "u")
    await inline(load, 1)
    await inline(fetch, url="u")
    await inline(keyword_only, "u", 3)
    await inline(fetch("u"))
    await inline("fetch")
    await inline()
    await inline(fetch, "u", name=3)
    await inline(fetch, "u", retry=None)
    await inline(json.loads, text, returns=Order("o", 1))
    await inline(fn=load)


async def wrong_results(text: str) -> None:
    a: str = await inline(fetch, "u")
    b: str = await inline(fetch_slowly, "u", 3)
    c: bytes = inline(fetch, "u")
    d: Receipt = await inline(json.loads, text, returns=Order)
    print(a, b, c, d)


async def nobody_awaits() -> None:
    inline(fetch, "u")
    inline(fetch_slowly, "u", 3)
