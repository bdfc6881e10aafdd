"""Small charts as places and sizes for SVG attributes: the pages allow no styles of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

WIDTH = 480
HEIGHT = 120
TOP = 8
"""Room above the highest."""
GAP = 0.2
"""Between two bars, of the width of one."""
LEAST = 1.5
"""How high something is drawn at least, so that one of a thousand is seen."""


def bar_chart(series: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return bars, the series on top of each other.

    Args:
        series: Numbers by what they are of; all of the same length.
    """
    steps = max((len(one) for one in series.values()), default=0)
    sums = [sum(one[place] for one in series.values()) for place in range(steps)]
    most = max(sums, default=0)
    bars = []
    for place, total in enumerate(sums):
        y = float(HEIGHT)
        for kind, numbers in series.items():
            if not numbers[place]:
                continue
            height = max(LEAST, numbers[place] / most * (HEIGHT - TOP))
            y -= height
            bars.append(
                {
                    "x": round((place + GAP / 2) * WIDTH / steps, 1),
                    "y": round(y, 1),
                    "width": round((1 - GAP) * WIDTH / steps, 1),
                    "height": round(height, 1),
                    "kind": kind,
                    "count": numbers[place],
                    "place": place,
                    "of": total,
                }
            )
    return {"width": WIDTH, "height": HEIGHT, "most": most, "bars": bars, "steps": steps}


def line_chart(series: Mapping[str, Sequence[float | None]]) -> dict[str, Any]:
    """Return lines, with a break where there is no number.

    Args:
        series: Numbers by what they are of; all of the same length.
    """
    most = max((value for one in series.values() for value in one if value is not None), default=0)
    lines = []
    for kind, values in series.items():
        places = [
            None
            if value is None
            else (
                round((place + 0.5) * WIDTH / len(values), 1),
                round(HEIGHT - (value / most if most else 0) * (HEIGHT - TOP) - 1, 1),
                value,
            )
            for place, value in enumerate(values)
        ]
        for is_gap, run in groupby(places, key=lambda one: one is None):
            if not is_gap:
                points = [one for one in run if one is not None]
                lines.append(
                    {
                        "kind": kind,
                        "points": " ".join(f"{x},{y}" for x, y, _ in points),
                        "dots": [{"x": x, "y": y, "value": value} for x, y, value in points],
                    }
                )
    return {"width": WIDTH, "height": HEIGHT, "most": most, "lines": lines}
