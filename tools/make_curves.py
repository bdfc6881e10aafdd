"""Draw the curves of `docs/explanation/fleet.md` from what the benchmarks measured.

    python -m bench across postgres/across postgres/across/many --json fleet.json
    python -m tools.make_curves fleet.json [more.json ...]

Writes `docs/images/fleet-*.svg` (orchestrations per second by how many are in flight, a line for
each number of worker processes; how long one takes by how often one comes) and the parts of the
page between its marks: each aim with what was measured, the pictures, and what an orchestration
costs. A part that the files have no numbers for stays as it is. To be run on a quiet machine: every
picture says on which commit, and how busy the machine was.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

from tools.fleet_aims import table

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images"
PAGE = DOCS / "explanation" / "fleet.md"
BEGIN, END = "<!-- curves: made by tools/make_curves.py -->", "<!-- end of curves -->"
AIMS = "<!-- aims: made by tools/make_curves.py -->", "<!-- end of aims -->"
WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 132, 44, 48
COLOURS = ("#4f46e5", "#0b7a45", "#b45309", "#b42318")
STORES = {"": "SQLite", "PostgreSQL: ": "PostgreSQL"}
_MANY = re.compile(
    r"(?P<store>PostgreSQL: )?client and worker apart(?: with (?P<workers>\d+) worker processes)?, "
    r"(?P<x>[\d,]+) in flight$"
)
_ONE = re.compile(
    r"(?P<store>PostgreSQL: )?client and worker apart, start to result (?P<gap>.+), "
    r"p(?P<share>\d+)$"
)
GAPS = ("back to back", "every 0.2 s", "every 1.5 s")


class Curve(NamedTuple):
    """One line of a picture."""

    name: str
    points: list[tuple[float, float]]


def throughput(rows: Sequence[Mapping[str, Any]], store: str) -> list[Curve]:
    """Return orchestrations per second by how many are in flight, for each number of workers."""
    found: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        said = _MANY.match(row["row"])
        if said is not None and (said["store"] or "") == store:
            x = float(said["x"].replace(",", ""))
            found.setdefault(int(said["workers"] or 1), []).append((x, float(row["median"])))
    return [
        Curve(f"{workers} worker{'s' if workers > 1 else ''}", sorted(points))
        for workers, points in sorted(found.items())
    ]


def latency(rows: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return milliseconds from start to result by how often one is started."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        said = _ONE.match(row["row"])
        if said is not None and said["gap"] in GAPS and said["share"] in ("50", "99"):
            name = f"{STORES[said['store'] or '']} p{said['share']}"
            point = (float(GAPS.index(said["gap"])), float(row["median"]))
            found.setdefault(name, []).append(point)
    return [Curve(name, sorted(points)) for name, points in sorted(found.items())]


def costs(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return the lines of a table: what one orchestration costs all processes together."""
    yield "| | transactions | statements | rows | CPU |"
    yield "|---|--:|--:|--:|--:|"
    for row in rows:
        cost = row.get("cost")
        if cost is not None and (_MANY.match(row["row"]) or _ONE.match(row["row"])):
            name = (
                row["row"].replace("client and worker apart", "").strip(" ,").removesuffix(", p50")
            )
            store = "" if name.startswith("PostgreSQL") else "SQLite: "
            name = name.replace("PostgreSQL: , ", "PostgreSQL: ").replace(":  with", ": with")
            yield (
                f"| {store}{name} | {cost['transactions']:.2f} | {cost['statements']:.1f} "
                f"| {cost['rows']:.1f} | {cost['cpu_us'] / 1000:.2f} ms |"
            )


def picture(
    title: str, curves: Sequence[Curve], ticks: Mapping[float, str], *, unit: str, note: str
) -> str:
    """Return curves as an SVG that is read on light and on dark ground.

    Args:
        title: What is shown.
        curves: The lines.
        ticks: What is written below, by place; more than three: places are drawn by their powers.
        unit: Of what is measured.
        note: Where it was measured.
    """
    most = _round_up(max(y for curve in curves for _, y in curve.points))
    low, high = min(ticks), max(ticks)
    is_log = low >= 1 and high / low >= 10

    def place_x(x: float) -> float:
        share = log10(x / low) / log10(high / low) if is_log else (x - low) / (high - low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def place_y(y: float) -> float:
        return HEIGHT - BOTTOM - y / most * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        "<style>text{font:12px system-ui,sans-serif;fill:#666}.t{font-weight:600;font-size:14px}"
        ".g{stroke:#8884}.c{fill:none;stroke-width:2}</style>",
        f'<text class="t" x="{LEFT}" y="20">{escape(title)}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">{escape(note)}</text>',
    ]
    for step in range(5):
        y, value = place_y(most * step / 4), most * step / 4
        parts.append(
            f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
    parts.append(f'<text x="{LEFT - 8}" y="{TOP - 10}" text-anchor="end">{escape(unit)}</text>')
    for x, word in ticks.items():
        here = f'x="{place_x(x):.1f}" y="{HEIGHT - BOTTOM + 18}"'
        parts.append(f'<text {here} text-anchor="middle">{escape(word)}</text>')
    for curve, colour in zip(curves, COLOURS, strict=False):
        points = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in curve.points)
        parts.append(f'<polyline class="c" stroke="{colour}" points="{points}"/>')
        parts += [
            f'<circle r="3" fill="{colour}" cx="{place_x(x):.1f}" cy="{place_y(y):.1f}">'
            f"<title>{escape(curve.name)}: {y:,.4g} {escape(unit)}</title></circle>"
            for x, y in curve.points
        ]
    ends = sorted(((place_y(one.points[-1][1]), one.name, n) for n, one in enumerate(curves)))
    below = TOP - 15.0
    for y, name, number in ends:
        below = max(y, below + 15)  # Names never lie on each other.
        where = f'x="{WIDTH - RIGHT + 10}" y="{below + 4:.1f}"'
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<text {where} style="fill:{colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _round_up(value: float) -> float:
    """Return a round number that is not lower."""
    power = 10.0 ** int(log10(value)) if value >= 1 else 1.0
    return next(
        step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 20) if step * power >= value
    )


def pictures(measured: Mapping[str, Any]) -> dict[str, str]:
    """Return every picture that the rows have numbers for, by its file's name."""
    rows, machine = measured["rows"], measured["machine"]
    note = (
        f"{machine['cores']} cores, load {machine['load'].split()[0]}, commit {machine['commit']}"
    )
    found = {}
    for prefix, store in STORES.items():
        if curves := throughput(rows, prefix):
            ticks = {x: f"{x:,.0f}" for curve in curves for x, _ in curve.points}
            found[f"fleet-{store.lower()}.svg"] = picture(
                f"{store}: orchestrations of one activity, by how many are in flight",
                curves,
                ticks,
                unit="per s",
                note=note,
            )
    if curves := latency(rows):
        found["fleet-latency.svg"] = picture(
            "From start to result across two processes, by how often one comes",
            curves,
            {float(place): gap for place, gap in enumerate(GAPS)},
            unit="ms",
            note=note,
        )
    return found


def written(page: str, images: Sequence[str], lines: Sequence[str]) -> str:
    """Return the page with another part between its marks."""
    shown = [f"![{name.removesuffix('.svg')}](../images/{name})" for name in images]
    return _between(page, (BEGIN, END), "\n\n".join([*shown, "\n".join(lines)]))


def _between(page: str, marks: tuple[str, str], middle: str) -> str:
    begin, end = marks
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n\n{middle}\n\n{end}{rest.partition(end)[2]}"


def main(files: Sequence[str]) -> None:
    """Write the pictures and the page."""
    measured: dict[str, Any] = {}
    for file in files:
        one = json.loads(Path(file).read_text())
        measured = {**one, "rows": [*measured.get("rows", []), *one["rows"]]}
    made = pictures(measured)
    for name, text in made.items():
        (IMAGES / name).write_text(text)
    page = _between(PAGE.read_text(), AIMS, "\n".join(table(measured["rows"])))
    PAGE.write_text(written(page, sorted(made), list(costs(measured["rows"]))) if made else page)


if __name__ == "__main__":
    main(sys.argv[1:])
