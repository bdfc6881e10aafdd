"""Hearing of a fork, where the system has such a thing."""

from __future__ import annotations

import os
from collections.abc import Callable


def after_fork(function: Callable[[], object]) -> None:
    """Have a function called in the child of every fork from now on."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:  # Windows has no fork.
        register(after_in_child=function)
