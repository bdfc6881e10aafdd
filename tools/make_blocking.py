"""Write `perdure/client/blocking*.py`: the async client and handle, for callers that wait.

Run it after a change of a public signature or docstring of `Client`, one of its parts, or `Handle`:

    python tools/make_blocking.py

Signatures, overloads and docstrings are taken from the source; each body hands the async method's
coroutine to the loop's thread. What there is no rule for is refused, not guessed at.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "src" / "perdure" / "client"

NOT_FOR_CALLERS = {
    "Administration": (
        "store",
        "noticed_work",
        "own_worker_id",
        "noticed_gone",
        "noticed_job_end",
        "live_workers",
    ),
    "Deciders": (),
    "ProjectionAdministration": ("store",),
    "Client": (
        "within_by",
        "store",
        "turns",
        "find_decider",
        "deliver",
        "begin",
        "replace",
        "code_of",
        "wait_ended",
        "wait_reported",
        "wait_kept",
        "is_here",
        "noticed_work",
        "own_worker_id",
        "noticed_end",
        "noticed_gone",
        "noticed_job_end",
        "stop_jobs",
    ),
    "Handle": (),
}
"""Public methods that only handles and subclasses use: they are left out."""

WRITTEN_HERE = ("__init__", "__aenter__", "__aexit__", "__repr__", "within")
"""Methods that no rule would make: they are in the texts below."""

WORDS = {"async with Client(": "with BlockingClient("}
"""What docstrings must say differently."""

HEADER = '''
"""The client and the handle for callers that wait instead of awaiting.

Made by `tools/make_blocking.py` from `client.py` and `handle.py`: change those, and run it again.
"""
from __future__ import annotations
from perdure.client.blocking_admin import BlockingAdministration
from perdure.client.blocking_deciders import BlockingDeciders
from perdure.client.blocking_projections import BlockingProjectionAdministration
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.loop_thread import CallersThread, LoopThread
'''

PARTS = {
    "Administration": ("admin", "Administration"),
    "Deciders": ("deciders", "Deciders"),
    "ProjectionAdministration": ("projections", "Administration of projections"),
}
"""The classes that `Client` is put together from, each with its module and what that is about."""

PART_HEADER = '''
"""{about} for callers that wait instead of awaiting.

Made by `tools/make_blocking.py` from `{module}.py`: change that, and run it again.
"""
from __future__ import annotations
from perdure.client.{module} import {name}
from perdure.client.loop_thread import LoopThread
'''

PART = '''
class Blocking{name}:
    """{doc}"""

    _{module}: {name}
    _thread: LoopThread
'''

CLIENT = '''
class BlockingClient(BlockingAdministration, BlockingDeciders, BlockingProjectionAdministration):
    """{doc}

    It may be used from any thread, and from several at once. The work is done on a private thread
    while the calling one sleeps: called inside a running event loop, it holds up everything else
    there, so use `Client` where you can await. Ctrl-C breaks off the wait and nothing more.
    """

    def __init__({parameters}) -> None:
        self._client = Client({arguments})
        self._admin = self._deciders = self._projections = self._client
        self._thread = LoopThread(type(self).__name__)

    @property
    def telemetry(self) -> Metrics:
        """What this client counted."""
        return self._client.telemetry

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def within(self, connection: object, /) -> BlockingClient:
        """{within}"""
        # Statements run on the caller's thread: a connection may belong to it.
        thread = CallersThread(self._thread)
        made = BlockingClient.__new__(BlockingClient)
        made._client = self._client.within_by(connection, thread)
        made._admin = made._deciders = made._projections = made._client
        made._thread = thread
        return made
'''

HANDLE = '''
class BlockingHandle(Generic[R_co]):
    """{doc}"""

    def __init__(self, thread: LoopThread, handle: Handle[R_co]) -> None:
        self.instance_id = handle.instance_id
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingHandle({{self.instance_id!r}})"
'''

TYPE_VARIABLES = ("TypeVar", "ParamSpec")
"""What constants are made with that the module needs for itself; others are imported."""

ASYNC_CLASSES = (*PARTS, "Client", "Handle")
"""What the headers import."""

AMBIGUOUS = {"I": "  # noqa: E741 - the contract's letter for an input"}
"""What is said beside a type variable whose name looks like another letter."""

LATE = "if TYPE_CHECKING:\n    "
"""Before a line that only type checkers need."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class UnknownConstructError(Exception):
    """The source has something that this tool has no rule for."""


class Source:
    """One async class and the module it is in."""

    def __init__(self, file: str, name: str) -> None:
        self.name = name
        self.stem = file.removesuffix(".py")
        self.module = ast.parse((FOLDER / file).read_text())
        [self.node] = [
            node
            for node in self.module.body
            if isinstance(node, ast.ClassDef) and node.name == name
        ]
        self.doc = _said_here(ast.get_docstring(self.node, clean=False) or "")

    def public(self) -> list[Function]:
        """Return the methods that callers use, overloads included, in the order of the source."""
        methods = [
            node
            for node in self.node.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        left_out = NOT_FOR_CALLERS[self.name]
        unknown = set(left_out) - {method.name for method in methods}
        if unknown:
            raise UnknownConstructError(f"{self.name} has no {unknown}: tidy up NOT_FOR_CALLERS")
        return [
            method
            for method in methods
            if method.name not in (*left_out, *WRITTEN_HERE)
            and (not method.name.startswith("_") or method.name.startswith("__"))
        ]

    def init(self) -> ast.FunctionDef:
        """Return the class's `__init__`."""
        return self._method("__init__")

    def doc_of(self, name: str) -> str:
        """Return what a method says of itself."""
        return _said_here(ast.get_docstring(self._method(name), clean=False) or "")

    def _method(self, name: str) -> ast.FunctionDef:
        [found] = [
            node
            for node in self.node.body
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        return found

    def names(self) -> Iterator[tuple[str, str]]:
        """Return every name that the module imports or assigns, with the line that does it."""
        for node in self.module.body:
            match node:
                case ast.ImportFrom(module=str(module), names=names):
                    for alias in names:
                        yield alias.name, f"from {module} import {alias.name}"
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=kind))
                ) if kind in TYPE_VARIABLES:
                    yield name, ast.unparse(node) + AMBIGUOUS.get(name, "")
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.ClassDef(name=name):
                    yield name, f"from perdure.client.{self.stem} import {name}"
                case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                    for late in body:
                        if isinstance(late, ast.ImportFrom):
                            for alias in late.names:
                                yield alias.name, f"{LATE}from {late.module} import {alias.name}"
                case _:
                    pass


def make() -> dict[Path, str]:
    """Return the texts of the blocking modules by their files."""
    client, handle = Source("client.py", "Client"), Source("handle.py", "Handle")
    init = client.init()
    head = CLIENT.format(
        doc=client.doc.rstrip(),
        parameters=ast.unparse(init.args),
        arguments=_forwarded(init),
        within=client.doc_of("within"),
    )
    body = [
        head,
        *_methods(client, through="self._client"),
        HANDLE.format(doc=handle.doc),
        *_methods(handle, through="self._handle"),
    ]
    return {FOLDER / "blocking.py": _module(HEADER, body, [handle, client]), **_parts()}


def _parts() -> dict[Path, str]:
    made = {}
    for name, (module, about) in PARTS.items():
        source = Source(f"{module}.py", name)
        header = PART_HEADER.format(about=about, module=module, name=name)
        head = PART.format(name=name, module=module, doc=source.doc)
        body = [head, *_methods(source, through=f"self._{module}")]
        made[FOLDER / f"blocking_{module}.py"] = _module(header, body, [source])
    return made


def _module(header: str, parts: list[str], sources: list[Source]) -> str:
    body = "\n".join(parts)
    known = [name for source in sources for name in source.names()]
    imports, constants = _needed(body, known)
    return _tidy("\n".join([header, *imports, *constants, body]))


def _methods(source: Source, *, through: str) -> Iterator[str]:
    methods = source.public()
    gives_handles = {method.name for method in methods if "Handle" in _returned(method)}
    for method in methods:
        if {ast.unparse(decorator) for decorator in method.decorator_list} - {"overload"}:
            raise UnknownConstructError(f"{source.name}.{method.name} has a decorator")
        if method.decorator_list:
            body = ["..."]
        else:
            doc = ast.get_docstring(method, clean=False)
            said = [] if doc is None else [f'"""{_said_here(doc)}"""']
            body = [*said, *_body(method, through, gives_handle=method.name in gives_handles)]
        yield _written(method, body)


def _body(method: Function, through: str, *, gives_handle: bool) -> list[str]:
    call = f"{through}.{method.name}({_forwarded(method)})"
    if isinstance(method, ast.AsyncFunctionDef):
        # Opening and closing are also the thread's beginning and end.
        verb = method.name if method.name in ("open", "close") else "run"
        call = f"self._thread.{verb}({call})"
    if gives_handle:
        return [f"return BlockingHandle(self._thread, {call})"]
    if _returned(method) == "Self":
        return [call, "return self"]
    return [call] if _returned(method) == "None" else [f"return {call}"]


def _written(method: Function, body: Iterable[str]) -> str:
    returns = _returned(method)
    if "Async" in returns or "Await" in returns:
        raise UnknownConstructError(f"{method.name} returns {returns}")
    returns = returns.replace("Handle[", "BlockingHandle[")
    decorators = [f"    @{ast.unparse(decorator)}" for decorator in method.decorator_list]
    signature = f"    def {method.name}({ast.unparse(method.args)}) -> {returns}:"
    return "\n".join([*decorators, signature, *(f"        {line}" for line in body)])


def _returned(method: Function) -> str:
    if method.returns is None:
        raise UnknownConstructError(f"{method.name} does not say what it returns")
    return ast.unparse(method.returns)


def _forwarded(method: Function) -> str:
    """Return a method's parameters as the arguments of the same call to another object."""
    parameters = method.args
    positional = [*parameters.posonlyargs, *parameters.args]
    arguments = [parameter.arg for parameter in positional if parameter.arg != "self"]
    if parameters.vararg is not None:
        arguments.append(f"*{parameters.vararg.arg}")
    arguments += [f"{keyword.arg}={keyword.arg}" for keyword in parameters.kwonlyargs]
    if parameters.kwarg is not None:
        arguments.append(f"**{parameters.kwarg.arg}")
    return ", ".join(arguments)


def _said_here(doc: str) -> str:
    for there, here in WORDS.items():
        doc = doc.replace(there, here)
    if re.search(r"\b(async|await)\b", doc):
        raise UnknownConstructError(f"say it in WORDS without async or await:\n{doc}")
    return doc


def _needed(body: str, known: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the lines that import or assign what the code uses."""
    used = {node.id for node in ast.walk(ast.parse(body)) if isinstance(node, ast.Name)}
    lines = {line for name, line in known if name in used and name not in ASYNC_CLASSES}
    # The constants are type variables; the classes they are made with are imported too.
    constants = {line for line in lines if not line.startswith(("from ", LATE))}
    kinds = {line.partition(" = ")[2].partition("(")[0] for line in constants}
    if any(line.startswith(LATE) for line in lines):
        kinds.add("TYPE_CHECKING")
    lines |= {line for name, line in known if name in kinds}
    # Those for type checkers last: they are no longer imports to whoever sorts them.
    imports = sorted(lines - constants, key=lambda line: (line.startswith(LATE), line))
    return imports, sorted(constants)


def _tidy(text: str) -> str:
    for command in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        text = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--stdin-filename",
                str(FOLDER / "blocking.py"),
                "-",
            ],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


if __name__ == "__main__":
    for target, text in make().items():
        target.write_text(text)
