"""Keep Python's cyclic collector from what the tests themselves are, a million objects: it would
look through them again and again, while they are collected and whenever a test has made many.

A worker that starts asks whether that is so already, and Python counts all those objects to tell: a
tenth of a second, in thousands of tests. So it is told without.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

count_frozen = gc.get_freeze_count
"""Python's own."""


@contextmanager
def kept_off() -> Iterator[None]:
    """Let the collector pass over all that is made here, for as long as this process lives."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        pytest.MonkeyPatch().setattr(gc, "get_freeze_count", lambda: 1)
