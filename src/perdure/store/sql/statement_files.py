"""The statements of a database: one file each, in folders by subject, found by their names.

`sql/<subject>/<name>.sql` in the package of the database. A name is there once, whatever the
folder, so that the code that runs a statement need not know it; both databases have it in the same.
"""

from __future__ import annotations

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
    """Return the text of `sql/<subject>/<name>.sql` as it is in the file."""
    return files_of(package)[name].read_text(encoding="utf-8")
