"""The contract leaves nothing out. No test of it sleeps, and none looks behind the contract."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from perdure.store.base import Store
from perdure.store.observing import PARTS

ELSEWHERE = {
    "borrow": "tests/within",
    "change_count": "tests/store/test_lock.py",
    "check_transaction": "tests/engine/test_transactions.py",
    "hears_changes": "tests/store/test_file_watch.py",
    "listen_changes": "tests/engine/test_changes_elsewhere.py",
    "work_feed": "tests/store/test_tables.py",
}
"""Operations that differ by database, and where they are shown."""


def test_every_operation_of_a_store_is_asked_for() -> None:
    text = "\n".join(file.read_text() for file in Path(__file__).parent.glob("*.py"))
    promised = {
        name
        for contract in (Store, *PARTS.values())
        for name, found in inspect.getmembers(contract, inspect.isfunction)
        if not name.startswith("_")
    }

    # Those of the fixture are in every test.
    asked_for = set(re.findall(rf"\bstore\.(?:(?:{'|'.join(PARTS)})\.)?(\w+)\(", text)) | {
        "open",
        "close",
    }
    assert promised - asked_for == set(ELSEWHERE)
