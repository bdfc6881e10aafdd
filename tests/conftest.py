"""For all tests. What they share is imported as `tests.…`: see `pythonpath` in pyproject.toml."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

# Before anything imports it: its assertions are those of the contract suite.
pytest.register_assert_rewrite("perdure.testing")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory with 2 MB of room."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", str(disk)]
    if subprocess.run(["mount", *options], capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)
