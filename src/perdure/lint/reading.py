"""Read one function: what in it cannot be replayed, and which functions it reaches."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from perdure.core.forbidden import IN_DECIDERS
from perdure.core.forbidden_names import rule_of_name
from perdure.lint.definitions import DURABLE, INLINE, SIGNAL, is_durable
from perdure.lint.naming import LocalNames, inside
from perdure.lint.sources import Function, Project, SourceModule
from perdure.lint.undoing import late_undos

_LOOKS = frozenset({"os.environ", "os.environb", "sys.argv", "sys.platform"})
"""What must not even be looked at; everything else only be called."""

_CHANGES = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "add", "discard", "update", "sort"}
    | {"setdefault", "popitem", "appendleft", "popleft", "reverse", "subtract"}
)
_EXIT_STACKS = frozenset({"contextlib.ExitStack", "contextlib.AsyncExitStack"})

ReportFinding = Callable[[ast.AST, str, str], None]
"""Takes where something is, its kind, and what to say."""


class Reached(NamedTuple):
    """A function of the project that another one reaches by name."""

    module: SourceModule
    name: str
    """As in `SourceModule.functions`."""


class FunctionReader:
    """Reads a function of a module, and those that stand inside it."""

    def __init__(
        self,
        project: Project,
        module: SourceModule,
        node: Function,
        report: ReportFinding,
        *,
        owner: str | None = None,
        is_decider: bool = False,
    ) -> None:
        self._project = project
        self._module = module
        self._report = report
        self._is_decider = is_decider
        self._local = LocalNames(module, node, owner)
        self._node = node
        self._stacks = 0
        self._read: set[str] = set()
        self.reached: list[Reached] = []

    def read(self) -> list[Reached]:
        """Read it; return what it reaches."""
        self._visit_all(self._node.body)
        self._find_unused()
        return self.reached

    # -------------------------------------------------------------------- walking

    def _visit_all(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            self._visit(node)

    def _visit(self, node: ast.AST) -> None:
        look = _LOOK_AT.get(type(node))
        if look is None or not look(self, node):
            for child in ast.iter_child_nodes(node):
                self._visit(child)

    def _pass_over(self, _: ast.AST) -> bool:
        return True  # Read when something names it.

    def _visit_statement(self, node: ast.Expr) -> bool:
        if isinstance(node.value, ast.Call) and self._must_be_awaited(node.value):
            name = ast.unparse(node.value.func)
            self._report(node, "never-awaited", f"{name}(...) is never awaited: write await")
        return False

    def _visit_loop(self, node: ast.For | ast.AsyncFor) -> bool:
        self._find_set_order(node.iter, node.body)
        return False

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> bool:
        for one in node.generators:
            self._find_set_order(one.iter, [node])
        return False

    def _visit_change(self, node: ast.Assign | ast.Delete | ast.AugAssign) -> bool:
        self._find_changed([node.target] if isinstance(node, ast.AugAssign) else node.targets)
        return False

    def _visit_with(self, node: ast.With | ast.AsyncWith) -> bool:
        is_stack = any(self._is_stack(one.context_expr) for one in node.items)
        if is_stack:
            self._find_late_undos(node)
        # What was taken out of it with `pop_all` is not unwound.
        is_stack = is_stack and not any(
            isinstance(one, ast.Attribute) and one.attr == "pop_all" for one in inside(node)
        )
        for item in node.items:
            self._visit(item)
        self._stacks += is_stack
        self._visit_all(node.body)
        self._stacks -= is_stack
        return True

    def _is_stack(self, node: ast.expr) -> bool:
        made = node.func if isinstance(node, ast.Call) else node
        return self._local.resolve(made) in _EXIT_STACKS or (
            self._local.resolve(node) in _EXIT_STACKS
        )

    def _find_late_undos(self, node: ast.With | ast.AsyncWith) -> None:
        named = [
            one.optional_vars or one.context_expr
            for one in node.items
            if self._is_stack(one.context_expr)
        ]
        stacks = {one.id for one in named if isinstance(one, ast.Name)}
        for push in late_undos(node, stacks, self._must_be_awaited):
            self._report(
                push,
                "late-undo",
                "the undo is put on the stack behind the call that it is for: one that is broken "
                "off may have been made all the same; put it there before the call, and let it "
                "bear that there is nothing to undo",
            )

    # ---------------------------------------------------------------------- calls

    def _visit_call(self, node: ast.Call) -> bool:
        """Look at a call; return whether all of it has been visited."""
        name = self._local.resolve(node.func)
        if name in INLINE:
            # What it calls runs outside the turn; its arguments are made inside.
            for argument in (*node.args[1:], *(one.value for one in node.keywords)):
                self._visit(argument)
            return True
        if isinstance(node.func, ast.Attribute):
            self._find_method(node, node.func)
        if name == "builtins.next" and node.args:
            self._find_next(node)
        if name == "builtins.map" and len(node.args) == 2:
            self._find_mapped(node)
        rule = None if name is None else rule_of_name(name)
        if rule is not None and not _is_harmless(rule.harmless_from, node):
            shown = rule.name.removeprefix("builtins.")
            advice = IN_DECIDERS.get(rule.advice, rule.advice) if self._is_decider else rule.advice
            self._report(node, rule.kind, f"{shown}() cannot be replayed: {advice}")
        return False

    def _find_method(self, node: ast.Call, called: ast.Attribute) -> None:
        if called.attr == "continue_as_new" and self._stacks:
            self._report(
                node,
                "continue-as-new",
                "continue_as_new() inside an exit stack unwinds it: what is to be undone is undone "
                "now; leave the block first, or take it over with pop_all()",
            )
        if called.attr == "pop" and not node.args and self._local.is_set(called.value):
            self._say_set(node, called.value)
        if called.attr == "run_in_executor":
            self._report(
                node, "thread", "run_in_executor() cannot be replayed: do it in an activity"
            )
        if called.attr in _CHANGES:
            self._find_changed([called.value], is_whole=True)

    def _find_next(self, node: ast.Call) -> None:
        inner = node.args[0]
        if isinstance(inner, ast.Call) and self._local.goes_by_set(inner):
            self._say_set(node, inner)
        else:
            self._find_changed([inner], is_whole=True)

    def _find_mapped(self, node: ast.Call) -> None:
        function, values = node.args
        is_durable_call = self._is_to_be_awaited(self._local.resolve(function))
        if is_durable_call and self._local.goes_by_set(values):
            self._say_set(node, values)

    def _must_be_awaited(self, node: ast.Call) -> bool:
        return self._is_to_be_awaited(self._local.resolve(node.func))

    def _is_to_be_awaited(self, name: str | None) -> bool:
        """Return whether what a call of this gives has to be awaited."""
        if name is None:
            return False
        if name in DURABLE:
            return True
        if name.startswith("<local>."):
            nested = self._local.nested.get(name.removeprefix("<local>."))
            return isinstance(nested, ast.AsyncFunctionDef)
        found = self._project.find(name)
        if found is None:
            return name.endswith(".receive") and self._is_signal(name.removesuffix(".receive"))
        module, rest = found
        node = module.functions.get(rest)
        return node is not None and (
            isinstance(node, ast.AsyncFunctionDef) or is_durable(module, node)
        )

    def _is_signal(self, name: str) -> bool:
        home, _, rest = name.rpartition(".")
        module = self._project.module_named(home)
        for node in module.tree.body if module is not None else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(func=made)):
                    if found == rest and module is not None and module.resolve(made) in SIGNAL:
                        return True
        return False

    # ---------------------------------------------------------------------- names

    def _look_at(self, node: ast.Attribute | ast.Name) -> bool:
        """Look at what is named: something to be followed, or something not to be looked at."""
        name = self._local.resolve(node) if isinstance(node.ctx, ast.Load) else None
        if name is None:
            return False
        if name in _LOOKS:
            rule = rule_of_name(name)
            assert rule is not None, "each of them has a rule"
            self._report(node, rule.kind, f"{name} cannot be replayed: {rule.advice}")
        elif name.startswith("<local>."):
            self._read_nested(name.removeprefix("<local>."))
        else:
            self._follow(name)
        return False

    def _read_nested(self, name: str) -> None:
        node = self._local.nested.get(name)
        if node is None or name in self._read or is_durable(self._module, node):
            return
        self._read.add(name)
        # Its own names on top of those around it.
        around = dict(self._local.names)
        inner = LocalNames(self._module, node, None)
        self._local.names.update(inner.names)
        self._local.nested.update(inner.nested)
        self._visit_all(node.body)
        self._local.names.update(around)

    def _follow(self, name: str) -> None:
        found = self._project.find(name)
        if found is None:
            return
        module, rest = found
        if rest in module.functions and not is_durable(module, module.functions[rest]):
            self.reached.append(Reached(module, rest))
        for method in ("__init__", "__post_init__", "__new__"):
            if f"{rest}.{method}" in module.functions:
                self.reached.append(Reached(module, f"{rest}.{method}"))

    # ----------------------------------------------------------------- other kinds

    def _find_set_order(self, values: ast.expr, body: Sequence[ast.AST]) -> None:
        if not self._local.goes_by_set(values):
            return
        for statement in body:
            for node in (statement, *inside(statement)):
                if isinstance(node, ast.Await | ast.Yield) or (
                    isinstance(node, ast.Call) and self._must_be_awaited(node)
                ):
                    self._say_set(values, values)
                    return

    def _say_set(self, node: ast.AST, values: ast.expr) -> None:
        self._report(
            node,
            "set-order",
            f"the order of {ast.unparse(values)} is another one in every process, and decides what "
            "is asked for: use sorted(...)",
        )

    def _find_globals(self, node: ast.Global) -> bool:
        changed = {
            one.id
            for one in ast.walk(self._node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store | ast.Del)
        }
        for name in node.names:
            if name in changed:
                self._say_global(node, name)
        return False

    def _find_changed(self, targets: list[ast.expr], *, is_whole: bool = False) -> None:
        """Look for changes of module-level values in place: of an item, or by a method."""
        for target in targets:
            value = (
                target if is_whole else target.value if isinstance(target, ast.Subscript) else None
            )
            if not isinstance(value, ast.Name | ast.Attribute):
                continue
            name = self._local.resolve(value)
            home, _, rest = (name or "").rpartition(".")
            module = self._module if home == self._module.name else self._project.module_named(home)
            if home and module is not None and rest in module.mutable:
                self._say_global(target, rest)

    def _say_global(self, node: ast.AST, name: str) -> None:
        self._report(
            node,
            "global-state",
            f"{name} belongs to the module: a replay, or another process, finds another value "
            "there; keep it in a variable of the function, or in context().kv",
        )

    def _find_unused(self) -> None:
        """Look for calls that are kept under a name which nothing reads."""
        loaded = {
            one.id
            for one in ast.walk(self._node)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)
        }
        for node in inside(self._node):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    if name not in loaded and self._must_be_awaited(call):
                        shown = ast.unparse(call.func)
                        text = f"{shown}(...) is kept as {name!r} and never awaited: write await"
                        self._report(node, "never-awaited", text)


_LOOK_AT: dict[type[ast.AST], Callable[[FunctionReader, Any], bool]] = {
    **dict.fromkeys(
        (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), FunctionReader._pass_over
    ),
    **dict.fromkeys((ast.With, ast.AsyncWith), FunctionReader._visit_with),
    **dict.fromkeys((ast.For, ast.AsyncFor), FunctionReader._visit_loop),
    **dict.fromkeys(
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        FunctionReader._visit_comprehension,
    ),
    **dict.fromkeys((ast.Attribute, ast.Name), FunctionReader._look_at),
    **dict.fromkeys((ast.Assign, ast.Delete, ast.AugAssign), FunctionReader._visit_change),
    ast.Expr: FunctionReader._visit_statement,
    ast.Global: FunctionReader._find_globals,
    ast.Call: FunctionReader._visit_call,
}
"""What is looked at, and how. Each tells whether all of it has been visited."""


def _is_harmless(harmless_from: int | None, node: ast.Call) -> bool:
    is_unpacked = any(isinstance(one, ast.Starred) for one in node.args)
    given = len(node.args) + len(node.keywords)
    return harmless_from is not None and (given >= harmless_from or is_unpacked)
