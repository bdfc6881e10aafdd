"""The statements of a database: one file each, in folders by subject, found by their names.

What several statements have in common is in `shared/<name>.sql`, once; `@<name>` stands for it.

`sql/<subject>/<name>.sql` in the package of the database. A name is there once, whatever the
folder, so that the code that runs a statement need not know it; both databases have it in the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

PARTS: Mapping[str, str] = {
    "begin_part": "SAVEPOINT part",
    "undo_part": "ROLLBACK TO SAVEPOINT part",
    "end_part": "RELEASE SAVEPOINT part",
}
"""Commands for a part of a transaction that can be undone by itself, also after an error; when it
was undone, it is still to be ended. They are run by name as statements are, without a file."""


_SHARED = re.compile(r"^(?P<indent> *)(?P<word>AND|WHERE) @(?P<name>\w+)", re.MULTILINE)


@cache
def files_of(package: str) -> Mapping[str, Traversable]:
    """Return the files of a database's statements by their names."""
    found: dict[str, Traversable] = {}
    for folder in (resources.files(package) / "sql").iterdir():
        for file in folder.iterdir():
            name = file.name.removesuffix(".sql")
            assert name not in found, f"{package} has two statements {name}"
            found[name] = file
    return found


def text_of(package: str, name: str) -> str:
    """Return the text of `sql/<subject>/<name>.sql`, with what it shares with others put in."""
    text = files_of(package)[name].read_text(encoding="utf-8")
    return _SHARED.sub(lambda found: _shared(package, found), text)


def _shared(package: str, found: re.Match[str]) -> str:
    """Return a shared text in place of its name, its lines as far to the right as that is."""
    file = resources.files(package) / "shared" / f"{found['name']}.sql"
    lines = file.read_text(encoding="utf-8").splitlines()
    code = [line for line in lines if not line.startswith("--")]
    # Below WHERE, an AND stands two places further to the right.
    indent = found["indent"] + ("  " if found["word"] == "WHERE" else "")
    return f"\n{indent}".join([f"{found['indent']}{found['word']} {code[0]}", *code[1:]])
