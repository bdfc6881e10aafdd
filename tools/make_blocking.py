"""Write `perdure/client/blocking/*.py`: the async client and handle, for callers that wait.

Run it after a change of a public signature or docstring of `Client` or `Handle`:

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
SRC = ROOT / "src"
FOLDER = SRC / "perdure" / "client" / "blocking"
PACKAGE = "perdure.client"

WRITTEN_HERE = (
    "__new__",
    "__init__",
    "__aenter__",
    "__aexit__",
    "__repr__",
    "__rich__",
    "telemetry",
    "within",
)
"""Methods that no rule would make: they are in the texts below."""

WORDS = {"async with Client(": "with BlockingClient("}
"""What docstrings must say differently."""

HEADER = '''
"""The client and the handle for callers that wait instead of awaiting.

Made by `tools/make_blocking.py` from `client/client.py` and `client/handle.py`: change those, and
run it again.
"""
from __future__ import annotations
{parts}
from perdure.client.client import Client
from perdure.client.handle import Handle
from perdure.client.lifetimes import entered_without_async
from perdure.client.blocking.loop_thread import CallersThread, LoopThread
'''

PART_HEADER = '''
"""Methods of `{owner}`, which wait where those of `{module}` are awaited.

Made from `{file}` by `tools/make_blocking.py`: change that, run this.
"""
from __future__ import annotations
'''

CLIENT = '''
@entered_without_async
class BlockingClient:
    """{doc}

    It may be used from any thread, and from several at once. The work is done on a private thread
    while the calling one sleeps: called inside a running event loop, it holds up everything else
    there, so use `Client` where you can await. Ctrl-C breaks off the wait and nothing more.
    """

    def __init__({parameters}) -> None:
        self._client = Client({arguments})
        self._thread = LoopThread(type(self).__name__)

    @classmethod
    def _around(cls, client: Client, thread: LoopThread) -> Self:
        """Return a client that has another one do the work, on the loop of a thread."""
        blocking = cls.__new__(cls)
        blocking._client = client
        blocking._thread = thread
        return blocking

    @property
    def telemetry(self) -> Metrics:
        """What this client counted."""
        return self._client.telemetry

    def __enter__(self) -> Self:
        self._thread.enter()
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
        return BlockingClient._around(self._client._within(connection, thread), thread)
'''

HANDLE = '''
class BlockingHandle(Generic[R_co]):
    """{doc}"""

    instance_id: str
    """Its id, as it is stored."""

    def __init__(self, thread: LoopThread, handle: Handle[R_co]) -> None:
        self.instance_id = handle.instance_id
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingHandle({{self.instance_id!r}})"

    def _repr_html_(self) -> str:
        return self._handle._repr_html_()

    def __rich__(self) -> Any:
        return self._handle.__rich__()
'''

SCHEDULE_HANDLE = '''
class BlockingScheduleHandle:
    """{doc}"""

    def __init__(self, thread: LoopThread, handle: ScheduleHandle) -> None:
        self.name = handle.name
        self._thread = thread
        self._handle = handle

    def __repr__(self) -> str:
        return f"BlockingScheduleHandle({{self.name!r}})"
'''

PART_HANDLES = {"schedules": ("ScheduleHandle", SCHEDULE_HANDLE)}
"""Modules whose methods return a handle of their own, and how its twin begins."""

OWN_HANDLES = {name for name, _ in PART_HANDLES.values()}

TYPE_VARIABLES = ("TypeVar", "ParamSpec")
"""What constants are made with that the module needs for itself; others are imported."""

ASYNC_CLASSES = ("Client", "Handle")
"""What the headers import."""

AMBIGUOUS = {"I": "  # noqa: E741 - the contract's letter for an input"}
"""What is said beside a type variable whose name looks like another letter."""

LATE = "if TYPE_CHECKING:\n    "
"""Before a line that only type checkers need."""

BLOCKING = [
    (name, f"{LATE}from perdure.client.blocking.client import {name}")
    for name in ("BlockingClient", "BlockingHandle")
]
"""The classes of the methods that are made, for the modules that do not define them."""

SELVES = {"self: Client": "self: BlockingClient", "self: Handle[": "self: BlockingHandle["}
"""Whose methods the functions of a module are, there and here."""

READERS = ("ItemReader[", "BlockingItemReader[")
"""What is iterated over with `async for`, and with `for`."""

READER = ("BlockingItemReader", "from perdure.client.reading.item_reader import BlockingItemReader")
"""The class of the latter."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class UnknownConstructError(Exception):
    """The source has something that this tool has no rule for."""


class Source:
    """A module with methods: those of a class, or functions that a class lists as its own."""

    def __init__(self, path: str, class_name: str = "") -> None:
        self.path = path
        self.name = class_name or path
        self.file = SRC / f"{path.replace('.', '/')}.py"
        self.module = ast.parse(self.file.read_text())
        found = [
            node
            for node in self.module.body
            if isinstance(node, ast.ClassDef) and node.name == class_name
        ]
        self.node = found[0] if found else None
        self.body = found[0].body if found else self.module.body

    @property
    def doc(self) -> str:
        """What the class says of itself."""
        assert self.node is not None
        return _said_here(ast.get_docstring(self.node, clean=False) or "")

    def public(self) -> list[Function]:
        """Return the methods that callers use, overloads included, in the order of the source."""
        return [
            node
            for node in self.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name not in WRITTEN_HERE
            and not re.match("_(?!_)", node.name)
        ]

    def listed(self) -> Iterator[tuple[str, str, str]]:
        """Return which names the class takes from which modules, with what they are called there:
        the lines `execute = deciders.execute`."""
        for node in self.body:
            match node:
                case ast.Assign(
                    targets=[ast.Name(id=name)],
                    value=ast.Attribute(value=ast.Name(id=alias), attr=there),
                ):
                    yield name, self._modules()[alias], there

    def _modules(self) -> dict[str, str]:
        """Return where the modules lie that are imported as such, by what they are called."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in self.module.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE)
            for alias in node.names
        }

    def init(self) -> ast.FunctionDef:
        """Return the class's `__init__`."""
        return self._method("__init__")

    def doc_of(self, name: str) -> str:
        """Return what a method says of itself."""
        return _said_here(ast.get_docstring(self._method(name), clean=False) or "")

    def _method(self, name: str) -> ast.FunctionDef:
        [found] = [
            node for node in self.body if isinstance(node, ast.FunctionDef) and node.name == name
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
                    yield name, f"from {self.path} import {name}"
                case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body):
                    for late in body:
                        if isinstance(late, ast.ImportFrom):
                            for alias in late.names:
                                yield alias.name, f"{LATE}from {late.module} import {alias.name}"
                case _:
                    pass


def make() -> dict[Path, str]:
    """Return the texts of the blocking modules by their files."""
    client = Source(f"{PACKAGE}.client", "Client")
    handle = Source(f"{PACKAGE}.handle", "Handle")
    init = client.init()
    head = CLIENT.format(
        doc=client.doc.rstrip(),
        parameters=ast.unparse(init.args),
        arguments=_forwarded(init),
        within=client.doc_of("within"),
    )
    parts = {
        **{path: "self._handle" for _, path, _ in handle.listed()},
        **{path: "self._client" for _, path, _ in client.listed()},
    }
    body = [
        head,
        *_methods(client, through="self._client"),
        *_taken(client),
        HANDLE.format(doc=handle.doc),
        *_methods(handle, through="self._handle"),
        *_taken(handle),
    ]
    imports = "\n".join(
        f"from {PACKAGE}.blocking import {_stem(path)} as {_alias(path)}" for path in sorted(parts)
    )
    header = HEADER.format(parts=imports)
    made = {FOLDER / f"{_stem(path)}.py": _part(path, through) for path, through in parts.items()}
    return {FOLDER / "client.py": _module(header, body, [handle, client]), **made}


def _stem(path: str) -> str:
    return path.rpartition(".")[2]


def _alias(path: str) -> str:
    """Return what the twin of a module is called: a method may have the name of the module."""
    return f"blocking_{_stem(path)}"


def _taken(source: Source) -> Iterator[str]:
    return (f"    {name} = {_alias(path)}.{there}" for name, path, there in source.listed())


def _part(path: str, through: str) -> str:
    source = Source(path)
    owner = "BlockingHandle" if through == "self._handle" else "BlockingClient"
    body = list(_methods(source, through=through, indent=""))
    file = source.file.relative_to(SRC / "perdure")
    header = PART_HEADER.format(module=_stem(path), file=file, owner=owner)
    if _stem(path) in PART_HANDLES:
        name, text = PART_HANDLES[_stem(path)]
        handle = Source(path, name)
        body = [
            text.format(doc=handle.doc),
            *_methods(handle, through="self._handle"),
            *body,
        ]
        header += "from perdure.client.blocking.loop_thread import LoopThread\n"
    return _module(header, body, [source])


def _module(header: str, parts: list[str], sources: list[Source]) -> str:
    body = "\n".join(parts)
    known = [*BLOCKING, READER, *(name for source in sources for name in source.names())]
    imports, constants = _needed(body, known)
    return _tidy("\n".join([header, *imports, *constants, body]))


def _methods(source: Source, *, through: str, indent: str = "    ") -> Iterator[str]:
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
        yield _written(method, body, indent)


def _body(method: Function, through: str, *, gives_handle: bool) -> list[str]:
    call = f"{through}.{method.name}({_forwarded(method)})"
    if isinstance(method, ast.AsyncFunctionDef):
        # Opening and closing are also the thread's beginning and end.
        verb = method.name if method.name in ("open", "close") else "run"
        call = f"self._thread.{verb}({call})"
    if READERS[0] in _returned(method):
        return [f"return BlockingItemReader(self._thread, {call})"]
    if gives_handle:
        returned = _returned(method)
        kind = _blocking(returned) if returned in OWN_HANDLES else "BlockingHandle"
        return [f"return {kind}(self._thread, {call})"]
    if _returned(method) == "Self":
        return [call, "return self"]
    return [call] if _returned(method) == "None" else [f"return {call}"]


def _written(method: Function, body: Iterable[str], indent: str) -> str:
    returns = _returned(method)
    if "Async" in returns or "Await" in returns:
        raise UnknownConstructError(f"{method.name} returns {returns}")
    returns = _blocking(returns).replace(*READERS)
    decorators = [f"{indent}@{ast.unparse(decorator)}" for decorator in method.decorator_list]
    parameters = ast.unparse(method.args)
    for there, here in SELVES.items():
        parameters = parameters.replace(there, here)
    signature = f"{indent}def {method.name}({parameters}) -> {returns}:"
    return "\n".join([*decorators, signature, *(f"{indent}    {line}" for line in body)])


def _blocking(returns: str) -> str:
    """Return a type with the twins of the handles in it."""
    if returns in OWN_HANDLES:
        return f"Blocking{returns}"
    return returns.replace("Handle[", "BlockingHandle[")


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
    tree = ast.parse(body)
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    used = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    lines = {line for name, line in known if name in used - defined - {*ASYNC_CLASSES}}
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
                str(FOLDER / "client.py"),
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
