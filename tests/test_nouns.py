"""One word per thing: names of types are unique, and none is a word that the glossary rules out."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

import perdure
from tests.each import each

SRC = Path(perdure.__file__).parent
GLOSSARY = Path(__file__).parent.parent / "docs" / "glossary.md"


def is_alias(node: ast.stmt) -> bool:
    """Return whether a statement gives a type a name: `X: TypeAlias = ...`, `X = Callable[...]`."""
    match node:
        case ast.AnnAssign(target=ast.Name(), annotation=annotation):
            return ast.unparse(annotation).endswith("TypeAlias")
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp()):
            return re.fullmatch(r"_?[A-Z]+[a-z]\w*", name) is not None
    return False


def name_of(node: ast.AST) -> str | None:
    """Return the name of a class or of an alias of a type."""
    match node:
        case ast.ClassDef(name=name):
            return name
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name if is_alias(node) else None
    return None


def types() -> dict[str, set[str]]:
    """Return the files that define a class or alias of each name; one may, for several Pythons."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if name := name_of(node):
                found[name].add(str(file.relative_to(SRC)))
    return found


def ruled_out() -> set[str]:
    """Return the words that the glossary has under *not*, and nowhere as a word of its own."""
    rows = [line.split("|") for line in GLOSSARY.read_text().splitlines() if line.startswith("|")]
    words = {word.strip(" `") for row in rows[2:] for word in row[1].split(",")}
    nots = {word.partition("(")[0].strip() for row in rows[2:] for word in row[3].split(",")}
    return nots - words - {""}


def spoken(name: str) -> str:
    """Return the words of a name as they are said."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+", name)).lower()


def singulars(words: str) -> set[str]:
    """Return what words may be the plural of, and themselves."""
    endings = (("", ""), ("s", ""), ("es", ""), ("ies", "y"))
    return {words.removesuffix(end) + one for end, one in endings if words.endswith(end)}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("_AskedTurns", "asked turn"),
        ("aggregates", "aggregate"),
        ("Mocks", "mock"),
        ("entities", "entity"),
        ("log", "log"),
    ],
)
def test_a_plural_says_the_same_word(name: str, said: str) -> None:
    assert said in singulars(spoken(name))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class Order: ...", "Order"),
        ("Order: TypeAlias = int", "Order"),
        ("Order = Callable[[int], None]", "Order"),
        ("_Order = int | None", "_Order"),
        ("ORDERS = x[1]", None),
        ("T = TypeVar('T')", None),
        ("order: int = 1", None),
    ],
)
def test_classes_and_aliases_are_names_of_types(text: str, name: str | None) -> None:
    assert name_of(ast.parse(text).body[0]) == name


def test_the_name_of_a_type_means_one_thing() -> None:
    assert {name: files for name, files in types().items() if len(files) > 1} == {}


def test_no_type_file_or_folder_has_a_name_that_the_glossary_rules_out() -> None:
    paths = [path.relative_to(SRC) for path in SRC.rglob("*.py")]
    folders = {part for path in paths for part in path.parts[:-1]}
    names = {*types(), *(path.stem for path in paths), *folders}

    assert {name for name in names if singulars(spoken(name)) & ruled_out()} == set()


def test_the_glossary_has_each_word_once() -> None:
    rows = [line.split("|")[1] for line in GLOSSARY.read_text().splitlines() if line[:1] == "|"]
    words = [word.strip() for row in rows[2:] for word in row.split(",")]

    assert sorted({word for word in words if words.count(word) > 1}) == []


ANYBODY = re.compile(r"\b(?:whoever|(?:any|no|some)body|(?:any|some)one)\b", re.IGNORECASE)


FROZEN = ("migrations", "schema.sql", "roles.sql")
"""Texts of SQL that stay as they are: stored in databases, or read by people with roles there."""


def test_the_glossary_names_the_role_it_speaks_of() -> None:
    assert [line for line in GLOSSARY.read_text().splitlines() if ANYBODY.search(line)] == []


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
