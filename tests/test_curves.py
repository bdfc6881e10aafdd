"""The curves of the page on fleets: drawn from what the benchmarks measured."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from bench.across import FLEETS, GAPS_S, IN_FLIGHT
from tools.fleet_aims import AIMS, OPEN, table
from tools.make_curves import (
    BEGIN,
    END,
    GAPS,
    IMAGES,
    PAGE,
    costs,
    latency,
    pictures,
    throughput,
    written,
)

COST = {"transactions": 0.2, "statements": 1.3, "rows": 14.0, "cpu_us": 500.0}
MACHINE = {"cores": 2, "load": "0.1 0.2 0.3", "commit": "abc1234"}


def measured() -> dict[str, Any]:
    """What a run of all cases of `bench/across.py` writes, in the parts that are drawn."""
    rows: list[dict[str, Any]] = []
    for store in ("", "PostgreSQL: "):
        head = f"{store}client and worker apart"
        for workers in FLEETS:
            some = "" if workers == 1 else f" with {workers} worker processes"
            rows += [
                {"row": f"{head}{some}, {limit:,} in flight", "median": limit * 2, "cost": COST}
                for limit in IN_FLIGHT
            ]
        rows += [
            {"row": f"{head}, start to result {gap}, p{share}", "median": share / 10, "cost": None}
            for gap in GAPS_S
            for share in (50, 95, 99)
        ]
    rows.append({"row": "idle: CPU", "median": 0.3, "cost": COST})
    return {"rows": rows, "machine": MACHINE}


def test_each_number_of_workers_is_a_line() -> None:
    curves = throughput(measured()["rows"], "PostgreSQL: ")

    assert [one.name for one in curves] == ["1 worker", "2 workers", "4 workers"]
    assert curves[0].points == [(20, 40), (100, 200), (1_000, 2_000)]


def test_how_long_one_takes_is_drawn_for_each_store_and_every_gap() -> None:
    curves = latency(measured()["rows"])

    assert set(GAPS) == set(GAPS_S)
    assert [one.name for one in curves] == [
        "PostgreSQL p50",
        "PostgreSQL p99",
        "SQLite p50",
        "SQLite p99",
    ]
    assert [y for _, y in curves[3].points] == [9.9, 9.9, 9.9]


def test_pictures_are_sound_and_say_where_they_were_measured() -> None:
    found = pictures(measured())

    assert sorted(found) == ["fleet-latency.svg", "fleet-postgresql.svg", "fleet-sqlite.svg"]
    for text in found.values():
        drawn = ElementTree.fromstring(text)
        places = [
            [float(number) for number in point.split(",")]
            for line in drawn.iter("{http://www.w3.org/2000/svg}polyline")
            for point in line.attrib["points"].split()
        ]
        assert all(0 <= x <= 640 and 0 <= y <= 300 for x, y in places)
        assert "commit abc1234" in text


def test_the_page_shows_the_pictures_that_are_there_and_no_others() -> None:
    shown = set(re.findall(r"images/(fleet-\S+\.svg)", PAGE.read_text()))

    assert {file.name for file in IMAGES.glob("fleet-*.svg")} == shown
    assert shown <= set(pictures(measured()))


def test_only_what_is_between_the_marks_of_the_page_is_written_anew() -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    made = written(page, ["fleet-sqlite.svg"], ["| a |", "|---|"])

    assert made.startswith(f"{before}{BEGIN}\n\n![fleet-sqlite](../images/fleet-sqlite.svg)")
    assert made.endswith(f"| a |\n|---|\n\n{END}{rest.partition(END)[2]}")
    assert written(made, ["fleet-sqlite.svg"], ["| a |", "|---|"]) == made


def test_a_cost_is_told_for_each_row_that_has_one() -> None:
    lines = list(costs(measured()["rows"]))

    assert len(lines) == 2 + 2 * len(FLEETS) * len(IN_FLIGHT)
    assert lines[2] == "| SQLite: 20 in flight | 0.20 | 1.3 | 14.0 | 0.50 ms |"
    assert "| PostgreSQL: with 2 worker processes, 100 in flight |" in "\n".join(lines)


def test_an_aim_that_is_missed_stands_out_and_what_was_not_measured_is_open() -> None:
    rows = [
        {"row": "client and worker apart, 20 in flight", "median": 2_100.4},
        {"row": "PostgreSQL: client and worker apart, 20 in flight", "median": 831},
        {"row": "client and worker apart, start to result back to back, p50", "median": 5.25},
        {"row": "PostgreSQL: client and worker apart, 1,000 in flight", "median": 2_000},
        {
            "row": "PostgreSQL: client and worker apart with 2 worker processes, 1,000 in flight",
            "median": 3_300,
        },
    ]

    lines = list(table(rows))

    assert "| 20 in flight | at least 2,000 per s | 2,100 | **831** |" in lines
    assert f"| start to result back to back, p50 | at most 5 / 6 ms | **5.25** | {OPEN} |" in lines
    told = f"two worker processes by one, 1,000 in flight | at least 1.6 times | {OPEN} | 1.65 |"
    assert f"| {told}" in lines
    assert len(lines) == 2 + len(AIMS)


def test_aims_are_of_rows_that_are_measured() -> None:
    names = {row["row"] for row in measured()["rows"]}

    of_across = [one for aim in AIMS for one in (aim.row, aim.by) if one and "apart" in one]
    assert len(of_across) > 10
    assert set(of_across) <= names
