"""What activities and orchestrations have in common: a function, its name, its stored signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import cached_property
from typing import Any, NoReturn, TypeVar

from perdure.codec import ArgumentsCodec, UnboundArgumentsCodec, check_id
from perdure.errors import DefinitionError, UsageError
from perdure.model.builtins import RESERVED_PREFIX
from perdure.model.options import UNSET, Retry

C = TypeVar("C", bound=type)


class Definition:
    """A function as written, with everything worked out once and shared by all its variants."""

    def __init__(
        self,
        what: str,
        fn: Callable[..., Any],
        name: str,
        context_type: str,
        *,
        returns: Any = UNSET,
        takes_connection: bool = False,
    ) -> None:
        """Work it out.

        Args:
            what: "activity" or "orchestration".
            fn: The function; one that only says so, if the definition is known by name only.
            name: What it is recorded under.
            context_type: The annotation of a first parameter named `ctx`.
            returns: The result type of a definition that is known by name only.
            takes_connection: Whether its first parameter is a connection that the worker brings.
        """
        self.fn = fn
        self.is_elsewhere = returns is not UNSET
        """Whether it is known here by name only."""
        self._returns = returns
        self.name = check_id(f"{what} name", name)
        if self.name.startswith(RESERVED_PREFIX):
            raise DefinitionError(
                f"names that begin with {RESERVED_PREFIX!r} are reserved: give {what} {name!r} "
                "another one"
            )
        self.what = what
        self.takes_connection = takes_connection
        if takes_connection:
            _check_connection(fn)
        self.takes_context = not takes_connection and _takes_context(fn, context_type)
        _refuse_methods(what, fn)

    @cached_property
    def codec(self) -> ArgumentsCodec | UnboundArgumentsCodec:
        """How arguments and result are stored. Made at first use: annotations may name classes
        that are defined further down in the user's module."""
        where = f"{self.what} {self.name!r}"
        if self.is_elsewhere:
            return UnboundArgumentsCodec(self.name, self._returns, where=where)
        is_first_ours = self.takes_context or self.takes_connection
        return ArgumentsCodec(self.fn, skip_first=is_first_ours, where=where)

    def add_fresh_defaults(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        """Give a call that leaves them out defaults such as `[]` anew.

        Python makes them once for all calls: what one instance puts into such a list would be there
        for the next one, and for a replay of itself.
        """
        if not self._changeable_defaults:
            return
        given = inspect.signature(self.fn).bind_partial(*args, **kwargs).arguments
        for name, default in self._changeable_defaults.items():
            if name not in given:
                kwargs[name] = deepcopy(default)

    @cached_property
    def _changeable_defaults(self) -> dict[str, Any]:
        found = {}
        for parameter in inspect.signature(self.fn).parameters.values():
            is_named = parameter.kind is not parameter.POSITIONAL_ONLY
            if is_named and type(parameter.default) in (list, dict, set, bytearray):
                # What cannot be copied is no data, and stays one object.
                with suppress(TypeError):
                    found[parameter.name] = deepcopy(parameter.default)
        return found

    @property
    def place(self) -> str:
        """Where it is written, for messages."""
        code = getattr(self.fn, "__code__", None)
        if code is None:
            return f"{self.fn!r}"
        return f"{code.co_filename}:{code.co_firstlineno}"


class DefinedFunction:
    """A function that was given a definition: an activity or an orchestration."""

    __slots__ = ()

    definition: Definition

    def __repr__(self) -> str:
        return f"<{self.definition.what} {self.definition.name}>"

    @property
    def name(self) -> str:
        """The name it is recorded under."""
        return self.definition.name

    @property
    def fn(self) -> Callable[..., Any]:
        """The function itself."""
        return self.definition.fn

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is known here by name only."""
        return self.definition.is_elsewhere


def _refuse_await(self: DefinedFunction) -> NoReturn:
    raise UsageError(f"{self!r} is awaited without being called: write `await {self.name}(...)`")


# Set here and not as a method: a checker refuses that by itself, and would not with it.
setattr(DefinedFunction, "__await__", _refuse_await)  # noqa: B010 - as said above


def check_function(what: str, fn: object) -> None:
    """Refuse what cannot be made a definition, with a sentence for each kind.

    Args:
        what: activity, transaction or orchestration.
        fn: What the decorator was given.

    Raises:
        DefinitionError: It is no function that returns one value.
    """
    article = "an" if what[0] in "aeiou" else "a"
    name = getattr(fn, "__qualname__", repr(fn))
    if isinstance(fn, DefinedFunction):
        raise DefinitionError(
            f"{fn.name} is {fn!r} already, and cannot be {article} {what} too: write two functions"
        )
    if isinstance(fn, type):
        raise DefinitionError(
            f"{name} is a class: {article} {what} is a function. Write one that makes the object "
            "and returns plain data, or hand the object over with resources=[...]"
        )
    if isinstance(fn, classmethod):
        raise DefinitionError(_is_method(what, fn.__func__.__qualname__, "cls"))
    if not callable(fn):
        options = "retry=Retry(...)" if isinstance(fn, Retry) else "name=..."
        raise DefinitionError(
            f"{fn!r} is not a function: write @{what} above a def, or write @{what}({options})"
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise DefinitionError(
            f"{name} yields: {article} {what} returns one value, which is stored. Return a list, "
            "or put the items into a file or table and return where they are"
        )


def unchangeable(cls: C) -> C:
    """Let the objects of a frozen dataclass say what to do instead of setting an attribute.

    Set here: a frozen dataclass has a refusal of its own, which fails by itself in one with slots
    when the name is that of a property.
    """

    def refuse(self: DefinedFunction, name: str, value: object = None) -> NoReturn:
        raise UsageError(
            f"{self!r} cannot be changed ({name} was to be set): hand a test's engine another "
            f"function under the same name, @{self.definition.what}(name={self.name!r}), or call "
            f"{self.name}.with_options(...) for other options"
        )

    cls.__setattr__ = refuse  # type: ignore[assignment,method-assign]  # of its objects
    cls.__delattr__ = refuse  # type: ignore[assignment,method-assign]  # as above
    return cls


def function_name(what: str, fn: object) -> str:
    """Return the name a function is registered under when none is given."""
    name = getattr(fn, "__name__", None)
    if name is None or name == "<lambda>":
        raise DefinitionError(f"{fn!r} has no name of its own: give the {what} one with name=...")
    return str(name)


def _takes_context(fn: Callable[..., Any], context_type: str) -> bool:
    first = _first_parameter(fn)
    is_given = first is not None and first.name == "ctx"
    for parameter in list(inspect.signature(fn).parameters.values())[is_given:]:
        if _annotated_as(parameter) == context_type:
            raise DefinitionError(
                f"the parameter {parameter.name} of {fn.__qualname__} is annotated {context_type}: "
                "the context comes first and is named ctx, or is fetched with "
                f"{'context' if context_type == 'Context' else 'activity_context'}()"
            )
    if first is None or not is_given:
        return False
    annotation = first.annotation
    if annotation is inspect.Parameter.empty:
        raise DefinitionError(
            f"the first parameter of {fn.__qualname__} is named ctx: annotate it as "
            f"{context_type}, or give it another name"
        )
    if _annotated_as(first) != context_type:
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        raise DefinitionError(
            f"the first parameter of {fn.__qualname__} is named ctx and annotated {text!r}: only "
            f"the context may have that name, annotated {context_type}"
        )
    return True


def _annotated_as(parameter: inspect.Parameter) -> str:
    """Return the name of the class that a parameter is annotated with, without its module."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.rsplit(".", 1)[-1]


def _check_connection(fn: Callable[..., Any]) -> None:
    """Refuse a function that has no place for a connection."""
    parameters = list(inspect.signature(fn).parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in kinds:
        raise DefinitionError(
            f"{fn.__qualname__} is a transaction: its first parameter is the connection"
        )
    if any(parameter.name == "ctx" for parameter in parameters):
        raise DefinitionError(
            f"{fn.__qualname__} is a transaction: its first parameter is the connection, and the "
            "context is fetched with activity_context()"
        )


def _refuse_methods(what: str, fn: Callable[..., Any]) -> None:
    first = _first_parameter(fn)
    if first is not None and first.name in ("self", "cls"):
        raise DefinitionError(_is_method(what, fn.__qualname__, first.name))


def _is_method(what: str, name: str, parameter: str) -> str:
    return (
        f"{name} takes {parameter}: {'an' if what[0] in 'aeiou' else 'a'} {what} is a plain "
        "function, not a method. Move it to the module, and hand what it needs over with "
        "resources=[...]"
    )


def _first_parameter(fn: Callable[..., Any]) -> inspect.Parameter | None:
    return next(iter(inspect.signature(fn).parameters.values()), None)
