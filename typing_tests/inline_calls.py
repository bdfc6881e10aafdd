"""`inline`: a callable and its arguments, a closure with a name, a result type that is told."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any, assert_type

from perdure import inline
from typing_tests.shop import No, Order, Receipt, Yes, use


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
    assert_type(await inline("abc".count, "a"), int)


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


# ----------------------------------------------- misuses: every marked line is refused


async def wrong_arguments(text: str) -> None:
    await inline(fetch, 3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch, "u", "3")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch, "u", 3, 4)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch_slowly, "u")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(load, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch, url="u")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await inline(keyword_only, "u", 3)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch("u"))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline("fetch")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await inline(fetch, "u", name=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await inline(fetch, "u", retry=None)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await inline(json.loads, text, returns=Order("o", 1))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    await inline(fn=load)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


async def wrong_results(text: str) -> None:
    a: str = await inline(fetch, "u")  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    b: str = await inline(fetch_slowly, "u", 3)  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportAssignmentType]
    c: bytes = inline(fetch, "u")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    d: Receipt = await inline(json.loads, text, returns=Order)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    use(a, b, c, d)


async def nobody_awaits() -> None:
    inline(fetch, "u")  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
    inline(fetch_slowly, "u", 3)  # type: ignore[unused-coroutine]  # pyright: ignore[reportUnusedCoroutine]
