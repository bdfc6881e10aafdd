"""One word per thing: class names are unique, and no word that the glossary rules out is a name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import perdure
from tests.each import each

SRC = Path(perdure.__file__).parent
GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"


def classes() -> dict[str, set[str]]:
    """Return the files that define a class of each name. One file may, for several Pythons."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(str(file.relative_to(SRC)))
    return found


def ruled_out() -> set[str]:
    """Return the words that the glossary has under *not*, and nowhere as a word of its own."""
    rows = [line.split("|") for line in GLOSSARY.read_text().splitlines() if line.startswith("|")]
    words = {word.strip(" `") for row in rows[2:] for word in row[1].split(",")}
    nots = {word.partition("(")[0].strip() for row in rows[2:] for word in row[3].split(",")}
    return nots - words - {""}


def test_a_class_name_means_one_thing() -> None:
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def test_no_class_or_file_has_a_name_that_the_glossary_rules_out() -> None:
    names = {*classes(), *(file.stem for file in SRC.rglob("*.py"))}
    spoken = {" ".join(re.findall(r"[A-Z]?[a-z]+", name)).lower(): name for name in names}

    assert {spoken[word] for word in ruled_out() & spoken.keys()} == set()


def test_the_glossary_has_each_word_once() -> None:
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line[:1] == "|"]
    words = [word.strip() for row in rows[2:] for word in row.split(",")]

    assert sorted({word for word in words if words.count(word) > 1}) == []


ANYBODY = re.compile(r"\b(?:whoever|(?:any|no|some)body|(?:any|some)one)\b", re.IGNORECASE)


FROZEN = ("migrations", "schema.sql", "roles.sql")
"""Texts of SQL that stay as they are: stored in databases, or read by people with roles there."""


@each(sorted(file for file in SRC.rglob("*.sql") if not {*FROZEN} & {*file.parts}))
def test_statements_name_the_role_they_speak_of(file: Path) -> None:
    assert [line for line in file.read_text().splitlines() if ANYBODY.search(line)] == []


@each(sorted(SRC.rglob("*.py")))
def test_docstrings_and_comments_name_the_role_they_speak_of(file: Path) -> None:
    """A worker, a client, a caller, the store; not a person whom nothing else is known of."""
    text = file.read_text()
    docstrings = (
        str(node.value.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )
    comments = (line.partition("# ")[2] for line in text.splitlines())

    # `NOBODY` is the mark of a parked instance.
    found = [
        said for said in (*docstrings, *comments) if ANYBODY.search(said.replace("NOBODY", ""))
    ]

    assert found == []
