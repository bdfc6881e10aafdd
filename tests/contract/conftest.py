"""The contract runs on every store: in memory, in a file, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

KINDS = ("memory", "file", "postgres")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on each kind of store."""
    if "kind" in metafunc.fixturenames:
        is_one = metafunc.config.getoption("--one-store")
        metafunc.parametrize("kind", KINDS[:1] if is_one else KINDS)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match kind:
        case "memory":
            return "sqlite://:memory:"
        case "file":
            return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("postgres_url")
    return url
