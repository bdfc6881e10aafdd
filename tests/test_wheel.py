"""What is installed: a wheel has every file of the package, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.sizes import WITHIN_S

PROJECT = Path(__file__).parent.parent
SRC = PROJECT / "src"


def test_a_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    """What git ignores by a pattern is left out by the builder: a folder named `site` would be."""
    pytest.importorskip("hatchling", reason="NO WHEEL IS BUILT: install the extra `dev` anew")
    written = {
        str(file.relative_to(SRC))
        for file in (SRC / "perdure").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }

    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=PROJECT,
        check=True,
        capture_output=True,
        timeout=WITHIN_S,
    )

    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    assert sorted(written - packed) == []
    assert sorted(packed - written) == []
    assert {Path(name).suffix for name in packed} >= {
        ".py",
        ".sql",
        ".html",
        ".css",
        ".js",
        ".typed",
    }
