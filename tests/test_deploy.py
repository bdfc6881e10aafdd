"""The files in `deploy/` parse, and name only flags, paths, metrics and columns that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import yaml  # type: ignore[import-untyped, unused-ignore]  # has no stubs

from perdure.cli.main import cli
from perdure.telemetry import Metrics
from perdure.web.worker_health import worker_app
from tests.each import each

DEPLOY = Path(__file__).parent.parent / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DASHBOARD = json.loads((DEPLOY / "grafana/perdure.json").read_text())

FAMILIES = {family.name: family for family in Metrics().snapshot().families}


def check_command(words: list[str]) -> None:
    """Fail if a command line has a command or a flag that does not exist, or a value of another
    type."""
    context = click.Context(cli)
    command = cli.get_command(context, words[0])
    assert command is not None, words
    # Parses and converts, and runs nothing.
    command.make_context(words[0], list(words[1:]), parent=context)


def served_paths() -> set[str]:
    return {route.path for route in worker_app(Any, Any).routes}  # type: ignore[arg-type, attr-defined]


def containers() -> list[dict[str, Any]]:
    return [
        container
        for document in documents("worker.yaml")
        if document["kind"] == "Deployment"
        for container in document["spec"]["template"]["spec"]["containers"]
    ]


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def test_every_file_is_in_the_list() -> None:
    listed = re.findall(r"^\| `([^`]+)` \|", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    there = [str(file.relative_to(DEPLOY)) for file in DEPLOY.rglob("*") if file.is_file()]

    assert sorted([*listed, "README.md"]) == sorted(there)


@each([file.name for file in UNITS])
def test_a_unit_starts_a_command_that_exists(name: str) -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / name)

    assert set(unit) - {"DEFAULT"} == {"Unit", "Service", "Install"}
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/perdure")
    check_command(words)
    if words[0] == "worker":
        grace = words[words.index("--stop-grace") + 1]
        assert int(unit["Service"]["TimeoutStopSec"]) > int(grace) + 30, "killed before it stops"


def test_the_image_starts_a_command_that_exists() -> None:
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line and line[0] not in "#"]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "ENV", "EXPOSE", "HEALTHCHECK"}
    found = dict(steps)

    assert {name for name, _ in steps} <= known | {"STOPSIGNAL", "ENTRYPOINT", "CMD"}
    assert found["USER"] != "root"
    assert json.loads(found["ENTRYPOINT"]) == ["perdure"]
    check_command(json.loads(found["CMD"]))
    probed = re.findall(r"http://127\.0\.0\.1:(\d+)(/\w+)", found["HEALTHCHECK"])
    assert probed == [(found["EXPOSE"], "/healthz")]


@each([file.name for file in MANIFESTS])
def test_a_manifest_parses_and_names_what_it_is(name: str) -> None:
    for document in documents(name):
        assert {"apiVersion", "kind", "metadata", "spec"} <= document.keys()
        assert document["metadata"]["name"]


def test_a_pod_starts_a_command_that_exists_and_is_probed_where_it_answers() -> None:
    [container] = containers()
    args = container["args"]

    check_command(args)
    port = int(args[args.index("--http") + 1].rpartition(":")[2])
    assert {one["name"]: one["containerPort"] for one in container["ports"]} == {"http": port}
    for probe in ("livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in served_paths()
    [pod] = [
        one["spec"]["template"]["spec"]
        for one in documents("worker.yaml")
        if "template" in one["spec"]
    ]
    assert pod["terminationGracePeriodSeconds"] > int(args[args.index("--stop-grace") + 1])


def test_autoscalers_ask_for_what_there_is() -> None:
    deployment, service = documents("worker.yaml")
    names = {deployment["metadata"]["name"], service["metadata"]["name"]}
    triggers = {}
    for file in MANIFESTS:
        for one in documents(file.name):
            if one["kind"] in ("ScaledObject", "HorizontalPodAutoscaler"):
                assert {one["spec"]["scaleTargetRef"]["name"]} == names
                triggers[file.stem] = one["spec"].get("triggers") or one["spec"]["metrics"]
    [http], [sql], [hpa] = (triggers[f"autoscale-{one}"] for one in ("http", "sql", "hpa"))

    assert http["metadata"]["url"].removeprefix("http://shop-worker:9090") in served_paths()
    assert sql["metadata"]["query"] == "SELECT coalesce(sum(demand), 0) FROM perdure.demand"
    metric = hpa["external"]["metric"]
    assert set(metric["selector"]["matchLabels"]) <= set(FAMILIES[metric["name"]].labels)


def test_the_dashboard_asks_for_metrics_that_workers_count() -> None:
    asked = 0
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"perdure_\w+", target["expr"]))
            assert names, target
            for name in names:
                family = FAMILIES.get(name) or FAMILIES.get(name.removesuffix("_bucket"))
                assert family is not None, f"{panel['title']}: {name}"
                assert name.endswith("_bucket") == (family.kind == "histogram"), name
                labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                assert labels <= set(family.labels), (panel["title"], labels)
            asked += 1
    assert asked >= len(DASHBOARD["panels"])
    places = [tuple(sorted(panel["gridPos"].items())) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
