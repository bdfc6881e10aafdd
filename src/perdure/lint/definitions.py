"""Which functions and classes of a module are orchestrations, activities and deciders."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from perdure.lint.sources import Function, Project, SourceModule

ORCHESTRATION = frozenset(
    {"perdure.orchestration", "perdure.authoring.orchestration.orchestration"}
)
ACTIVITY = frozenset(
    {"perdure.activity", "perdure.authoring.activity.activity"}
    | {"perdure.transaction", "perdure.authoring.transaction.transaction"}
)
DECIDER = frozenset({"perdure.Decider", "perdure.authoring.deciders.decider.Decider"})
INLINE = frozenset({"perdure.inline", "perdure.authoring.inline.inline"})
SIGNAL = frozenset({"perdure.Signal", "perdure.authoring.signal.Signal"})
CONTEXT = "perdure.Context"
GIVES_CONTEXT = frozenset({"perdure.context", "perdure.authoring.context.context"})
IS_CONTEXT = frozenset({CONTEXT, "perdure.authoring.context.Context"})

DURABLE = frozenset(
    {f"{CONTEXT}.{name}" for name in ("start", "execute", "send", "read_kv")}
    | {"asyncio.sleep", "asyncio.wait", "asyncio.wait_for", "perdure.race", *INLINE}
)
"""What has to be awaited, beside activities, orchestrations and async functions."""


def orchestrations_in(module: SourceModule) -> Iterator[Function]:
    """Return the orchestrations of a module, those inside functions too."""
    for node in module.async_functions:
        if is_decorated(module, node, ORCHESTRATION):
            yield node


def deciders_in(project: Project, module: SourceModule) -> Iterator[ast.ClassDef]:
    """Return the deciders of a module, those inside functions too."""
    for node in module.all_classes:
        if is_decider(project, module, node):
            yield node


def is_decorated(module: SourceModule, node: Function, by: frozenset[str]) -> bool:
    """Return whether a function is made something by one of these decorators."""
    return any(
        module.resolve(one.func if isinstance(one, ast.Call) else one) in by
        for one in node.decorator_list
    )


def is_durable(module: SourceModule, node: Function) -> bool:
    """Return whether a function is an activity or an orchestration."""
    return is_decorated(module, node, ACTIVITY | ORCHESTRATION)


def is_decider(project: Project, module: SourceModule, node: ast.ClassDef, depth: int = 10) -> bool:
    """Return whether a class is a decider, itself or by classes of the project."""
    for base in node.bases:
        name = module.resolve(base)
        if name in DECIDER:
            return True
        found = project.find(name) if depth else None
        if found is not None and found[1] in found[0].classes:
            above, rest = found
            if above.classes[rest] is not node and is_decider(
                project, above, above.classes[rest], depth - 1
            ):
                return True
    return False
