"""What a page shows: plain data, and the template that lays it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """One page, before it is rendered."""

    template: str
    title: str
    data: Mapping[str, Any]
    """What it shows: the page's `.json` twin is exactly this."""
    drawing: Mapping[str, Any] = field(default_factory=dict)
    """What only the template needs: places and sizes."""
    status: int = 200
