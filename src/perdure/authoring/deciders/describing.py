"""Say what a decider takes, records and sets going, and draw its states.

Inputs, events and rejections are known from its types. Effects, timers and the like are found in
its source where they are named there; what is put together at run time is not seen. A diagram comes
from the states that the class declares, from transitions that were observed, or from both.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from perdure.authoring.deciders.decider import Decider
from perdure.authoring.deciders.decider_definition import DeciderDefinition, definition_of
from perdure.authoring.deciders.members import Members
from perdure.codec import show
from perdure.errors import DefinitionError

Transition: TypeAlias = tuple[str, str, str]
"""A state, the tag of an input, and the state it leads to."""


@dataclass(frozen=True, slots=True)
class MemberInfo:
    """An input, event or rejection."""

    tag: str
    type: str
    fields: dict[str, str]
    """The types of its fields by name, where it has fields."""
    text: str
    """The first line of its docstring, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What is known of a decider without running it."""

    name: str
    text: str
    state: str
    inputs: tuple[MemberInfo, ...]
    events: tuple[MemberInfo, ...]
    rejections: tuple[MemberInfo, ...]
    effects: tuple[str, ...]
    """Names of activities that its source asks for."""
    timers: tuple[str, ...]
    """Keys of timers that its source sets."""
    sends: tuple[str, ...]
    """Names of deciders that its source sends to."""
    starts: tuple[str, ...]
    """Names of orchestrations that its source starts."""
    declared: tuple[Transition, ...]
    """As the class attribute `states` says."""
    observed: tuple[Transition, ...]

    @property
    def transitions(self) -> tuple[Transition, ...]:
        """Both, each once, the declared ones first."""
        return tuple(dict.fromkeys((*self.declared, *self.observed)))

    @property
    def undeclared(self) -> tuple[Transition, ...]:
        """Observed transitions that the class does not declare."""
        return tuple(each for each in self.observed if each not in self.declared)

    def mermaid(self) -> str:
        """Return a state diagram in the language of Mermaid."""
        names = {name: f"s{number}" for number, name in enumerate(self._states())}
        lines = ["stateDiagram-v2"]
        lines += [f"    state {_quoted(name)} as {alias}" for name, alias in names.items()]
        if names:
            lines.append(f"    [*] --> {next(iter(names.values()))}")
        for (source, target), tags in self._edges().items():
            lines.append(f"    {names[source]} --> {names[target]} : {', '.join(tags)}")
        lines += [f"    {names[name]} --> [*]" for name in self._ends()]
        return "\n".join(lines) + "\n"

    def dot(self) -> str:
        """Return a state diagram in the language of Graphviz."""
        ends = self._ends()
        lines = [f"digraph {_quoted(self.name)} {{", "    rankdir=LR;"]
        for name in self._states():
            shape = "doublecircle" if name in ends else "ellipse"
            lines.append(f"    {_quoted(name)} [shape={shape}];")
        for (source, target), tags in self._edges().items():
            label = _quoted(", ".join(tags))
            lines.append(f"    {_quoted(source)} -> {_quoted(target)} [label={label}];")
        return "\n".join([*lines, "}"]) + "\n"

    def _states(self) -> list[str]:
        """Return all states, the one that it begins in first."""
        found = [name for source, _, target in self.transitions for name in (source, target)]
        return list(dict.fromkeys(found))

    def _edges(self) -> dict[tuple[str, str], list[str]]:
        edges: dict[tuple[str, str], list[str]] = {}
        for source, tag, target in self.transitions:
            edges.setdefault((source, target), []).append(tag)
        return edges

    def _ends(self) -> list[str]:
        sources = {source for source, _, _ in self.transitions}
        return [name for name in self._states() if name not in sources]


def describe(
    decider: type[Decider[Any, Any, Any, Any]], *, observed: Iterable[Transition] = ()
) -> Description:
    """Return what is known of a decider.

    Args:
        decider: Its class.
        observed: Transitions that were seen, as `client.transitions` gives them.

    Raises:
        DefinitionError: The class cannot work as written, or declares states with inputs that it
            does not have.
    """
    definition = definition_of(decider)
    asked = _Asked(definition)
    return Description(
        name=definition.name,
        text=_first_line(decider),
        state=show(definition.state.annotation),
        inputs=_infos(definition.inputs),
        events=_infos(definition.events),
        rejections=_infos(definition.rejections),
        effects=asked.names("effect"),
        timers=asked.names("timer"),
        sends=asked.names("send"),
        starts=asked.names("start"),
        declared=tuple(_declared(definition)),
        observed=tuple(dict.fromkeys(observed)),
    )


def _declared(definition: DeciderDefinition) -> Iterator[Transition]:
    for source, moves in definition.cls.states.items():
        for tag, target in moves:
            if tag not in definition.inputs.by_tag:
                raise DefinitionError(
                    f"decider {definition.name!r}: states says that {tag!r} leads from {source!r} "
                    f"to {target!r}, and that is none of its inputs "
                    f"({', '.join(definition.inputs.tags)})"
                )
            yield source, tag, target


def _infos(members: Members) -> tuple[MemberInfo, ...]:
    return tuple(
        MemberInfo(
            tag=member.tag,
            type=show(member.annotation),
            fields={
                name: hint if isinstance(hint, str) else show(hint)
                for name, hint in getattr(member.annotation, "__annotations__", {}).items()
                if not str(hint).removeprefix("typing.").startswith("ClassVar")
            },
            text=_first_line(member.annotation),
        )
        for member in members.by_tag.values()
    )


def _first_line(thing: Any) -> str:
    text = thing.__doc__ if isinstance(thing, type) else None
    # What dataclasses write where there is none is only the signature.
    if not text or text.startswith(f"{getattr(thing, '__name__', '')}("):
        return ""
    return str(text).strip().partition("\n")[0]


class _Asked(ast.NodeVisitor):
    """What the source of a decider asks for: calls of .effect, .timer, .send and .start."""

    def __init__(self, definition: DeciderDefinition) -> None:
        self._found: dict[str, dict[str, None]] = {}
        self._names: dict[str, Any] = {}
        for cls in reversed(definition.cls.__mro__):
            if issubclass(cls, Decider) and cls is not Decider:
                self._read(cls)

    def names(self, what: str) -> tuple[str, ...]:
        """Return what was found, in the order of the source."""
        return tuple(self._found.get(what, ()))

    def visit_Call(self, node: ast.Call) -> None:
        """Look at a call, and first at what it is called on."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.args:
            name = self._name_of(node.func.attr, node.args)
            if name is not None:
                self._found.setdefault(node.func.attr, {})[name] = None

    def _read(self, cls: type) -> None:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):
            return  # Written where there is no file: nothing is known, and that is what it says.
        for function in vars(cls).values():
            if inspect.isfunction(function):
                self._names.update(function.__globals__)
                self._names.update(inspect.getclosurevars(function).nonlocals)
        self.visit(tree)

    def _name_of(self, what: str, args: list[ast.expr]) -> str | None:
        if what == "timer":
            key = args[0].value if isinstance(args[0], ast.Constant) else None
            return key if isinstance(key, str) else None
        if what in ("effect", "send"):
            return self._known(args[0])
        if what == "start":
            return next((name for arg in args[:2] if (name := self._known(arg))), None)
        return None

    def _known(self, node: ast.expr) -> str | None:
        """Return the recorded name of the definition that an expression stands for."""
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value  # charge.with_options(...)
        found = self._names.get(node.id) if isinstance(node, ast.Name) else None
        name = getattr(found, "name", None)
        return name if isinstance(name, str) else None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
