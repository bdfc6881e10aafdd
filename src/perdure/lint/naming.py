"""What the names inside one function stand for: parameters, assignments, what is a set."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perdure.lint.definitions import CONTEXT, GIVES_CONTEXT, IS_CONTEXT
from perdure.lint.sources import Function, SourceModule

_SETS = frozenset({"builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet"})
_SETS |= {"typing.AbstractSet", "collections.abc.Set", "collections.abc.MutableSet"}
_OF_SETS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_AS_ORDERED = frozenset(
    f"builtins.{name}" for name in ("enumerate", "list", "tuple", "iter", "zip", "dict.fromkeys")
)


class LocalNames:
    """The names of a function."""

    def __init__(self, module: SourceModule, node: Function, owner: str | None) -> None:
        """Read the function.

        Args:
            module: Where it stands.
            node: The function.
            owner: The full name of its class, if it is a method.
        """
        self._module = module
        self.names: dict[str, str | None] = {}
        self.sets: set[str] = set()
        """Those of sets, and of what was made of one and has its order."""
        self.nested: dict[str, Function] = {}
        self._owner = owner
        self._take_parameters(node)
        if owner is not None and node.args.args:
            self.names[node.args.args[0].arg] = owner
        for one in inside(node):
            self._take(one)

    def resolve(self, node: ast.expr) -> str | None:
        """Return the full name of what an expression names."""
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="with_options")):
                return self.resolve(value)  # `charge.with_options(...)` is still `charge`.
        if isinstance(node, ast.Call) and self.resolve(node.func) in GIVES_CONTEXT:
            return CONTEXT
        if isinstance(node, ast.Attribute):
            owner = self.resolve(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return self._module.resolve(node, self.names)

    def is_set(self, node: ast.expr) -> bool:
        """Return whether an expression is a set, as far as that can be read."""
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name(id=name):
                return name in self.sets
            case ast.BinOp(left=left, right=right, op=ast.BitOr() | ast.BitAnd() | ast.Sub()):
                return self.is_set(left) and (
                    self.is_set(right) or not isinstance(node.op, ast.BitOr)
                )
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _OF_SETS:
                return self.is_set(value)
            case ast.Call(func=called):
                return self.resolve(called) in _SETS
        return False

    def goes_by_set(self, node: ast.expr) -> bool:
        """Return whether iterating an expression goes by the order of a set."""
        if isinstance(node, ast.Call) and self.resolve(node.func) in _AS_ORDERED:
            return any(self.goes_by_set(one) for one in node.args)
        return self.is_set(node)

    # ---------------------------------------------------------------------- reading

    def _take_parameters(self, node: Function) -> None:
        arguments = node.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for one in (*parameters, arguments.vararg, arguments.kwarg):
            if one is not None:
                self._annotate(one.arg, one.annotation)

    def _annotate(self, name: str, annotation: ast.expr | None) -> None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                annotation = None
        found = None if annotation is None else self._module.resolve(annotation)
        if found in IS_CONTEXT:
            found = CONTEXT
        self.names[name] = found
        if found in _SETS:
            self.sets.add(name)
        else:
            self.sets.discard(name)

    def _take(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.nested[name] = node
                self.names[name] = f"<local>.{name}"
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                self._annotate(name, annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                is_set = self.goes_by_set(value)
                self.names[name] = self.resolve(value)
                (self.sets.add if is_set else self.sets.discard)(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="sort")):
                self.sets.discard(name)  # A list of what was in a set.
            case ast.Name(id=name, ctx=ast.Store()):
                self.names.setdefault(name, None)
            case ast.ExceptHandler(name=str(name)):
                self.names.setdefault(name, None)


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Return what stands inside a function in the order of the text, not inside others in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            yield from inside(child)
