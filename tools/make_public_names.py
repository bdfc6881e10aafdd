"""Write `docs/reference/public-names.md`: each public name, and how its docstring begins.

Run it after a change of a public name or of the beginning of its docstring:

    python tools/make_public_names.py
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import perdure
from perdure.authoring.deciders.decider_ref import DeciderRef
from perdure.client.blocking.client import BlockingHandle

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "public-names.md"

MODULES = (
    "perdure",
    "perdure.errors",
    "perdure.projection",
    "perdure.repair",
    "perdure.telemetry",
    "perdure.testing",
    "perdure.web",
)

OBJECTS = {
    perdure.Client: "client",
    perdure.Engine: "engine",
    perdure.Worker: "worker",
    perdure.Handle: "handle",
    perdure.BlockingClient: "client",
    BlockingHandle: "handle",
    perdure.Context: "ctx",
    perdure.InstanceRef: "ref",
    DeciderRef: "ref",
    perdure.ActivityContext: "ctx",
}
"""Classes of what users hold in their hands, and what it is called here."""

TWINS = {perdure.BlockingClient: perdure.Client, BlockingHandle: perdure.Handle}
"""Classes that have what another one has, and say of it what that says."""

HEAD = """# Public names

Made by `tools/make_public_names.py`; `tests/test_public_api.py` compares it with the code.

What is listed here is public: a release that takes a name away, or gives it another meaning, says
so in the changelog. Everything else may change in any release, and so may the modules in which the
classes of returned values live (`InstanceInfo`, `ListPart`, `JobInfo` and others); their fields are
public. Names that begin with an underscore are nobody's.
"""


def public_names(module: str) -> list[str]:
    """Return the public names of a module, sorted."""
    found = import_module(module)
    listed = getattr(found, "__all__", None)
    if listed is None:
        own = vars(found).items()
        listed = [name for name, one in own if getattr(one, "__module__", "") == module]
    return sorted(name for name in listed if not name.startswith("_"))


def members(kind: type) -> list[str]:
    """Return what an object of a class has, sorted."""
    annotated = (name for one in kind.__mro__ for name in vars(one).get("__annotations__", ()))
    return sorted(name for name in {*dir(kind), *annotated} if not name.startswith("_"))


def said_of_name(module: str, name: str) -> str:
    """Return what a public name of a module says of itself; nothing if it does not."""
    value = getattr(import_module(module), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return value.__doc__ or ""
    homes = [home for home, names in perdure._HOMES.items() if name in names]
    return _said_below(_source(f"perdure.{homes[0]}").body, name) if homes else ""


def said_of_member(kind: type, name: str) -> str:
    """Return what a method or attribute says of itself; nothing if it does not."""
    found: Any = getattr(kind, name, None)
    if isinstance(found, property) or callable(found):
        return inspect.getdoc(found) or ""
    for one in kind.__mro__:
        if name in vars(one).get("__annotations__", ()):
            [node] = [
                node
                for node in _source(one.__module__).body
                if isinstance(node, ast.ClassDef) and node.name == one.__name__
            ]
            return _said_below(node.body, name)
    return ""


def make() -> str:
    """Return the text of the page."""
    lines = [HEAD]
    for module in MODULES:
        said = {name: said_of_name(module, name) for name in public_names(module)}
        lines += [f"## `{module}`", "", *_table(said), ""]
    lines += ["## What objects have", ""]
    for kind, called in OBJECTS.items():
        lines += [f"### `{kind.__name__}`", "", *_members_said(kind, called), ""]
    return "\n".join(lines)


def _members_said(kind: type, called: str) -> Iterator[str]:
    names = members(kind)
    base = kind.__mro__[1]
    if kind in TWINS:
        assert names == members(TWINS[kind]), f"{kind} has what its twin has not"
        yield f"What `{TWINS[kind].__name__}` has, for callers that wait:"
        yield ", ".join(f"`{name}`" for name in names) + "."
        return
    if base in OBJECTS:
        inherited = members(base)
        yield f"What `{base.__name__}` has, and:"
        yield ""
        names = [name for name in names if name not in inherited]
    yield from _table({name: said_of_member(kind, name) for name in names}, f"{called}.")


def _table(said: dict[str, str], before: str = "") -> Iterator[str]:
    yield "| name | |"
    yield "|---|---|"
    for name, doc in said.items():
        yield f"| `{before}{name}` | {_first_sentence(doc)} |"


def _first_sentence(doc: str) -> str:
    paragraph = " ".join(inspect.cleandoc(doc).partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return (sentence + end.strip()).replace("|", "\\|")


def _source(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(import_module(module)))


def _said_below(body: list[ast.stmt], name: str) -> str:
    """Return the text that stands below an assignment or an annotation."""
    for node, following in pairwise(body):
        match node, following:
            case (
                ast.AnnAssign(target=ast.Name(id=found)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if found == name:
                return text
            case _:
                pass
    return ""


if __name__ == "__main__":
    PAGE.write_text(make())
    sys.stdout.write(f"wrote {PAGE}\n")
