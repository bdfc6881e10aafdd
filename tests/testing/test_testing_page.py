"""The programs of the page on tests are a project whose tests pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"


def test_the_programs_of_the_page_are_tests_that_pass(tmp_path: Path) -> None:
    shop, *tests = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "shop.py").write_text(shop)
    for number, text in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(text)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )

    assert "11 passed" in done.stdout, done.stdout
    assert (tmp_path / "deposit.jsonl").exists()
