"""The text of a statement, piece by piece: words, signs, strings, comments.

No parser: it only knows where what looks like SQL is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple

_PIECE = re.compile(
    r"""
      (?P<space> \s+ | --[^\n]* )
    | (?P<comment> /\* )
    | (?P<string> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' )
    | (?P<dollars> (?P<tag>\$(?:[^\W\d]\w*)?\$) .*? (?P=tag) )
    | "(?:[^"]|"")*"
    | [^\W\d][\w$]*
    | [$?]?\d+
    | \?\?
    | ::
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


class Sort(Enum):
    """What a piece is."""

    SPACE = auto()
    """Space or a comment."""
    STRING = auto()
    CODE = auto()
    """A word, a quoted name, a number, or a sign."""


class SqlPiece(NamedTuple):
    """A part of a text. All of them in a row are the text."""

    sort: Sort
    text: str


def pieces_of(text: str) -> Iterator[SqlPiece]:
    """Return the pieces of a text."""
    at = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        assert found is not None, "the last alternative takes any character"
        end = _end_of_comment(text, found.end()) if found["comment"] else found.end()
        if found["comment"] or found["space"]:
            sort = Sort.SPACE
        elif found["string"] or found["dollars"]:
            sort = Sort.STRING
        else:
            sort = Sort.CODE
        yield SqlPiece(sort, text[at:end])
        at = end


def _end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends, which may have others in it."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return len(text)
