"""Findings as SARIF, version 2.1.0, which code hosts show beside the lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.lint.findings import KINDS, LintFinding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(findings: Sequence[LintFinding], *, version: str) -> dict[str, Any]:
    """Return findings as one run of a tool.

    Args:
        findings: What was found.
        version: Of perdure.
    """
    rules = [{"id": kind, "shortDescription": {"text": text}} for kind, text in KINDS.items()]
    driver = {"name": "perdure check", "version": version, "rules": rules}
    results = [_result(one, list(KINDS)) for one in findings]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(finding: LintFinding, kinds: list[str]) -> dict[str, Any]:
    place = {
        "artifactLocation": {"uri": Path(finding.path).as_posix()},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.kind,
        "ruleIndex": kinds.index(finding.kind),
        "level": "error",
        "message": {"text": f"{finding.message} ({finding.definition})"},
        "locations": [{"physicalLocation": place}],
    }
