"""The shape of the package: who may import whom, how large a room may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import perdure

SRC = Path(perdure.__file__).parent

GROUND = {
    "errors",
    "outcome_errors",
    "backoff",
    "clock",
    "clock_watch",
    "durations",
    "forks",
    "limits",
    "ids",
    "interrupting",
    "stillness",
    "codec",
    "tallies",
}
THOUGHT = GROUND | {"telemetry", "model", "authoring", "core"}
MAY_IMPORT: dict[str, set[str]] = {
    "tallies": set(),
    "errors": {"outcome_errors", "tallies"},
    "outcome_errors": set(),
    "backoff": set(),
    "clock": set(),
    "clock_watch": {"clock"},
    "durations": {"errors"},
    "limits": set(),
    "forks": set(),
    "ids": {"forks"},
    "interrupting": set(),
    "stillness": set(),
    "telemetry": {"errors", "clock", "limits"},
    "codec": {"errors", "limits"},
    "model": {"errors", "clock", "durations", "limits"},
    "authoring": GROUND | {"model"},
    "core": THOUGHT - {"core"},
    "store": {"errors", "backoff", "clock", "clock_watch", "forks", "limits", "ids", "model"},
    "turns": THOUGHT | {"store"},
    "jobs": THOUGHT | {"store"},
    "worker": THOUGHT | {"store", "turns", "jobs", "lint"},
    "projection": THOUGHT | {"store"},
    "client": THOUGHT | {"store", "turns", "jobs", "worker", "projection"},
    "repair": {"client"},
    "checking": {"model", "store"},
    "lint": {"core"},
    "testing": THOUGHT | {"store", "turns", "jobs", "worker", "projection", "client", "cli"},
    "web": THOUGHT | {"client"},
    "__main__": {"cli"},
    "cli": THOUGHT
    | {"store", "turns", "jobs", "worker", "projection", "client", "checking", "web", "lint"},
}
APART = {"core.orchestrations", "core.deciders"}
"""Rooms within a room that do not know each other."""
ABOVE = {
    "model.histories": ("perdure.model.turns", "perdure.model.jobs", "perdure.model.instances"),
    "client.reading": ("perdure.client.acting", "perdure.client.deciders"),
    "client.histories": ("perdure.client.acting", "perdure.client.deciders"),
    "client.deciders": ("perdure.client.acting",),
}
"""What rooms within a room do not know of their neighbours, which know them."""
NOT_OF_A_CLIENT = (
    "perdure.jobs",
    "perdure.worker",
    "perdure.web",
    "starlette",
    "jinja2",
    "uvicorn",
)
"""What a process with a client, without a worker and without pages does not load."""
MAX_LINES = 500
MAX_FILES = 25
"""In one folder: a room that has grown beyond it holds several subjects, each for a folder."""
MAX_STATEMENTS = 30
"""The same for folders of statements."""
MAX_FUNCTION_LINES = 60
MAY_BE_SET = {
    "showwarning",  # as Python's documentation says
    "interrupt",  # of a job that runs: how its code is stopped at the moment
}
"""Functions that are set on objects of other classes."""


def layer_of(file: Path) -> str:
    return file.relative_to(SRC).parts[0].removesuffix(".py")


def files_of(layer: str) -> list[Path]:
    return [file for file in SRC.rglob("*.py") if layer_of(file) == layer]


def imports_of(file: Path) -> set[str]:
    """Return the modules of perdure that a file imports, `if TYPE_CHECKING` ones too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "perdure"}


def module_name(file: Path) -> str:
    parts = ["perdure", *file.relative_to(SRC).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def runtime_imports_of(file: Path) -> set[str]:
    """Return what a file imports when it is loaded: not in functions, not for type checkers."""
    found = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "perdure"}


def test_every_module_belongs_to_a_known_layer() -> None:
    layers = {layer_of(file) for file in SRC.rglob("*.py")} - {"__init__"}

    assert layers <= set(MAY_IMPORT)


@pytest.mark.parametrize("layer", MAY_IMPORT)
def test_each_layer_imports_only_what_lies_below(layer: str) -> None:
    for file in files_of(layer):
        reached = {name.split(".")[1] for name in imports_of(file) if "." in name}

        assert reached - {layer} <= MAY_IMPORT[layer], f"{file.relative_to(SRC)} reaches up"


@pytest.mark.parametrize("room", sorted(APART))
def test_rooms_that_lie_apart_do_not_know_each_other(room: str) -> None:
    others = tuple(f"perdure.{other}" for other in APART - {room})
    for file in (SRC / room.replace(".", "/")).rglob("*.py"):
        reached = [name for name in imports_of(file) if name.startswith(others)]

        assert reached == [], f"{file.relative_to(SRC)} knows its neighbour"


@pytest.mark.parametrize("room", sorted(ABOVE))
def test_rooms_within_a_room_import_only_what_lies_below(room: str) -> None:
    for file in (SRC / room.replace(".", "/")).rglob("*.py"):
        reached = [name for name in imports_of(file) if name.startswith(ABOVE[room])]

        assert reached == [], f"{file.relative_to(SRC)} reaches up"


def test_a_client_loads_neither_jobs_nor_the_worker_nor_the_web() -> None:
    program = (
        "import sys; from perdure import Client; Client('sqlite://:memory:'); print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    rooms = [name for name in loaded.stdout.decode().split() if name.startswith(NOT_OF_A_CLIENT)]
    assert rooms == []


def test_modules_form_no_import_cycle() -> None:
    graph = {module_name(file): runtime_imports_of(file) for file in SRC.rglob("*.py")}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module not in done:
            for imported in graph.get(module, ()):
                visit(imported, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_no_file_is_longer_than_the_limit() -> None:
    lines = {file: len(file.read_text().splitlines()) for file in SRC.rglob("*.py")}

    assert {file.name: n for file, n in lines.items() if n > MAX_LINES} == {}


def test_no_function_is_longer_than_the_limit() -> None:
    lines = {
        f"{file.relative_to(SRC)} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert {name: n for name, n in lines.items() if n > MAX_FUNCTION_LINES} == {}


@pytest.mark.parametrize(("ending", "limit"), [("py", MAX_FILES), ("sql", MAX_STATEMENTS)])
def test_no_room_has_more_files_than_the_limit(ending: str, limit: int) -> None:
    files = Counter(file.parent.relative_to(SRC).as_posix() for file in SRC.rglob(f"*.{ending}"))

    assert {room: n for room, n in files.items() if n > limit} == {}


def test_no_database_driver_is_named_outside_the_store() -> None:
    for file in SRC.rglob("*.py"):
        if layer_of(file) != "store":
            text = file.read_text()
            assert "import sqlite3" not in text, file


def test_stored_data_is_never_unpickled_or_evaluated() -> None:
    """SEC-21: JSON on disk, classes only from annotations."""
    forbidden = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
    for file in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name for alias in node.names} & forbidden, file
            elif isinstance(node, ast.ImportFrom):
                assert node.module not in forbidden, file
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, file


def attributes_in(tree: ast.AST) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield the attributes that a file sets, each with what it is annotated as."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        annotation = ""
        if isinstance(node, ast.AnnAssign):
            targets, annotation = [node.target], ast.unparse(node.annotation)
        for target in targets:
            if isinstance(target, ast.Attribute):
                yield target, annotation


def is_own(attribute: ast.Attribute) -> bool:
    return isinstance(attribute.value, ast.Name) and attribute.value.id in {"self", "cls"}


def test_no_method_is_replaced_on_an_object_of_another_class() -> None:
    """Nor is a function that it keeps: what an object calls, it is given when it is made."""
    trees = {file: ast.parse(file.read_text()) for file in SRC.rglob("*.py")}
    data, functions = set(MAY_BE_SET), set[str]()
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                        (data if one.decorator_list else functions).add(one.name)
                    elif isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        data.add(one.target.id)
        for attribute, annotation in attributes_in(tree):
            if is_own(attribute):
                (functions if "Callable[" in annotation else data).add(attribute.attr)

    found = [
        f"{file.relative_to(SRC)}:{attribute.lineno} {attribute.attr}"
        for file, tree in trees.items()
        for attribute, _ in attributes_in(tree)
        if not is_own(attribute) and attribute.attr in functions - data
    ]
    assert found == []


def test_no_function_is_made_to_be_set_on_an_object_of_another_class() -> None:
    made = ("lambda", "partial(")
    found = [
        f"{file.relative_to(SRC)}:{node.lineno} {target.attr}"
        for file in SRC.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(made)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        if not is_own(target) and target.attr not in MAY_BE_SET
    ]
    assert found == []
