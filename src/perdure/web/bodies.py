"""Bodies of requests: read with limits, as JSON that means one thing only."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NoReturn

from starlette.requests import Request

from perdure.limits import MAX_DEPTH, MAX_INT_DIGITS
from perdure.web.problems import RefusalError

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


async def read_json(request: Request, *, limit: int, within_s: float) -> Any:
    """Return the body of a request.

    Args:
        request: With a JSON body.
        limit: How many bytes at most; nothing is read beyond.
        within_s: How long the sender may take.

    Raises:
        RefusalError: It is of another type, compressed, too large, too slow, or no proper JSON.
    """
    _check_headers(request, limit)
    try:
        async with asyncio.timeout(within_s):
            body = await read_body(request, limit)
    except TimeoutError:
        raise RefusalError(
            408,
            "too_slow",
            f"the body did not arrive within {within_s:g} s",
            {"Connection": "close"},
        ) from None
    return parse_json(body)


def parse_json(body: bytes) -> Any:
    """Return what JSON says.

    Raises:
        RefusalError: It is no UTF-8 or no JSON, too deep, says a key twice, has a number that is
            too long or none at all, half a surrogate pair, or more after its end (SEC-13).
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        _refuse(f"byte {error.start} is not UTF-8")
    if text.startswith("\ufeff"):
        _refuse("it begins with a byte order mark; leave that out")
    _check_depth(text)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_number,
        )
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg} at line {error.lineno}, column {error.colno}")
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            _refuse("a text has half of a surrogate pair in it (\\ud800 to \\udfff)")
    return value


def _check_headers(request: Request, limit: int) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            415,
            "unsupported_media_type",
            f"the body is {kind or 'of no type'}; send application/json",
        )
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding != "identity":
        raise RefusalError(
            415, "unsupported_encoding", f"Content-Encoding {coding!r} is not taken; send it plain"
        )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        _refuse_size(limit)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the bytes of a body.

    Raises:
        RefusalError: It is larger than the limit; no more of it is read.
    """
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            _refuse_size(limit)
        parts.append(part)
    return b"".join(parts)


def _check_depth(text: str) -> None:
    depth = 0
    for found in _BRACKET.finditer(_STRING.sub("", text)):
        depth += 1 if found[0] in "[{" else -1
        if depth > MAX_DEPTH:
            _refuse(f"it is nested deeper than {MAX_DEPTH} levels")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        _refuse(f"the key {twice[:60]!r} is there twice in one object")
    return found


def _constant(name: str) -> NoReturn:
    _refuse(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    _check_length(digits)
    return int(digits)


def _number(digits: str) -> float:
    _check_length(digits)
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        _refuse(f"the number {digits[:40]} is too large")
    return number


def _check_length(digits: str) -> None:
    if len(digits) > MAX_INT_DIGITS:
        _refuse(f"a number has {len(digits):,} characters; allowed are {MAX_INT_DIGITS}")


def _refuse(problem: str) -> NoReturn:
    raise RefusalError(400, "invalid_json", f"the body is not JSON as it is taken here: {problem}")


def _refuse_size(limit: int) -> NoReturn:
    raise RefusalError(
        413, "too_large", f"a body may have {limit:,} bytes at most", {"Connection": "close"}
    )
