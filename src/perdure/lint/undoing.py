"""Exit stacks on which an undo is put too late: after the call that it is for.

A call that is broken off, by a cancellation or a timeout, may have been made all the same. What is
to undo it must be on the stack by then.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from perdure.lint.naming import inside

_PUSHES = frozenset({"push_async_callback", "push_async_exit", "callback", "push"})

IsDurable = Callable[[ast.Call], bool]
"""Tells whether a call is one that is awaited and recorded."""


def late_undos(
    block: ast.With | ast.AsyncWith, stacks: set[str], is_durable: IsDurable
) -> Iterator[ast.Call]:
    """Return the calls that put an undo on a stack behind the durable call that it is for.

    That is told by what both name: the call just before has an argument, or gives a value, that the
    undo is given too, and no call behind it has.

    Args:
        block: With statement of the stacks.
        stacks: What they are called in it.
        is_durable: Tells durable calls from others.
    """
    for statements in _lists_in(block):
        for place, statement in enumerate(statements):
            push = _push_in(statement, stacks)
            if push is None or place == 0:
                continue
            given = _names_in(push.args[1:]) | _names_in([one.value for one in push.keywords])
            before = _said_by(statements[place - 1], is_durable)
            behind = [_said_by(one, is_durable) for one in statements[place + 1 :]]
            if given & before and not any(given & one for one in behind):
                yield push


def _lists_in(block: ast.AST) -> Iterator[list[ast.stmt]]:
    """Return the lists of statements in a block, without those of functions inside it."""
    for node in (block, *inside(block)):
        for field in ("body", "orelse", "finalbody"):
            found = getattr(node, field, None)
            if isinstance(found, list):
                yield found


def _push_in(statement: ast.stmt, stacks: set[str]) -> ast.Call | None:
    match statement:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=stack), attr=method)) as call
        ) if stack in stacks and method in _PUSHES:
            return call
    return None


def _said_by(statement: ast.stmt, is_durable: IsDurable) -> set[str]:
    """Return what the durable calls that a statement awaits are given, and what they give."""
    found: set[str] = set()
    for node in (statement, *inside(statement)):
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Call):
            call = node.value
            if is_durable(call):
                found |= _names_in([*call.args, *(one.value for one in call.keywords)])
    match statement:
        case ast.Assign(targets=targets) if found:
            found |= _names_in(targets)
        case ast.AnnAssign(target=target) if found:
            found |= _names_in([target])
    return found


def _names_in(nodes: list[ast.expr]) -> set[str]:
    """Return names and texts of expressions, each so that equal ones are equal."""
    return {
        repr(one.value) if isinstance(one, ast.Constant) else one.id
        for node in nodes
        for one in ast.walk(node)
        if isinstance(one, ast.Name | ast.Constant)
    }
