"""Payloads by annotation, both ways: Python values in, JSON bytes out, and back.

What is accepted comes back equal and of the same type; everything else is refused where it is
handed over, with the path to it. The same value gives the same bytes in any process. Stored data
chooses among what an annotation names and nothing else: there is no pickle, no eval, no import by
name.

A codec works out once per annotation how its values are written (`types`). An annotation
that names a class defined further down is worked out at the first use.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from perdure.codec.objects import check_same
from perdure.codec.plans import LEAVES, Json, Misfit, Plan, dict_plan, many_plan
from perdure.codec.types import PlanBuilder, show
from perdure.errors import (
    DefinitionError,
    LimitExceededError,
    PayloadError,
    UsageError,
)
from perdure.limits import MAX_DEPTH as MAX_DEPTH
from perdure.limits import MAX_PAYLOAD_BYTES as MAX_PAYLOAD_BYTES

MAX_CACHED_CODECS = 1024
"""Annotations whose codecs `value_codec` keeps."""

T = TypeVar("T")

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode

_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_AWAITABLES = (collections.abc.Awaitable, collections.abc.Coroutine)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_TOO_DEEP = f"is nested deeper than {MAX_DEPTH} levels, or contains itself; flatten it"


class ValueCodec(Generic[T]):
    """Writes and reads the values of one annotation."""

    def __init__(self, annotation: Any, *, where: str) -> None:
        """Work out how values of the annotation are stored.

        Args:
            annotation: A type as it stands behind a parameter.
            where: What the annotation belongs to, for messages.

        Raises:
            DefinitionError: Values of that type can never be stored.
        """
        self._annotation = annotation
        self._where = where
        self._plan: Plan | None = None
        self._is_exact = False
        self._is_bounded = False
        try:
            self._work_out()
        except NameError:
            # A class defined further down; by the first use it is there.
            self._plan = None

    def encode(self, value: object, path: str) -> bytes:
        """Return a value as JSON.

        Raises:
            PayloadError: The value does not fit the annotation or would not come back equal.
            LimitExceededError: It is larger than `MAX_PAYLOAD_BYTES`.
        """
        plan = self._plan or self._need_plan()
        try:
            data = _to_bytes(plan.dump(value), is_bounded=self._is_bounded)
            if not self._is_exact:
                check_same(value, plan.load(_decode_json(data)))
        except Misfit as misfit:
            raise PayloadError(path + misfit.path, misfit.problem) from misfit.__cause__
        except RecursionError:
            raise PayloadError(path, _TOO_DEEP) from None
        if len(data) > MAX_PAYLOAD_BYTES:
            raise _too_large(path, data)
        return data

    def decode(self, data: bytes) -> T:
        """Return the value that was stored.

        Raises:
            PayloadError: The data does not fit the annotation.
        """
        plan = self._plan or self._need_plan()
        try:
            value = plan.load(_from_bytes(data, is_bounded=self._is_bounded))
        except Misfit as misfit:
            raise PayloadError(self._where + misfit.path, misfit.problem) from misfit.__cause__
        except RecursionError:
            raise PayloadError(self._where, _TOO_DEEP) from None
        result: T = value  # The plan was built from the annotation of T.
        return result

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Return whether two stored values are one and the same for today's annotation.

        A field with a default that came after `recorded` was written makes no difference.
        """
        if recorded == asked:
            return True
        try:
            return self.encode(self.decode(recorded), self._where) == asked
        except (PayloadError, LimitExceededError):
            return False

    @property
    def annotation(self) -> Any:
        """The type whose values it writes."""
        found = self._annotation
        return found.find() if isinstance(found, _Later) else found

    def check(self) -> None:
        """Work out now how values are stored.

        Raises:
            DefinitionError: They can never be, or the annotation cannot be resolved.
        """
        if self._plan is None:
            self._need_plan()

    def _work_out(self) -> None:
        builder = PlanBuilder(self._where)
        self._plan = builder.plan(self.annotation)
        self._is_exact = builder.is_exact
        self._is_bounded = builder.is_bounded

    def _need_plan(self) -> Plan:
        try:
            self._work_out()
        except NameError as error:
            raise _unresolved(self._where, error) from error
        assert self._plan is not None, "worked out just now"
        return self._plan


NOT_STORED = ": no such argument is stored"
"""How the error of a call ends that was stored without an argument which is needed by now."""

UNBOUND = "$args"
"""Key of the arguments by position in a call by a client that does not have the signature."""


class ArgumentsCodec:
    """Writes and reads the arguments of one function as one JSON object by parameter name."""

    returns: ValueCodec[Any]
    """The codec of what the function returns; of what it gives when awaited, if it is async."""

    def __init__(self, fn: Callable[..., Any], *, skip_first: bool = False, where: str) -> None:
        """Work out how the arguments of `fn` are stored.

        Args:
            fn: The function as written.
            skip_first: The first parameter is the context and no part of the call.
            where: What the function is, for messages.

        Raises:
            DefinitionError: A parameter or the result has a type that can never be stored.
        """
        self._name = getattr(fn, "__name__", type(fn).__name__)
        try:
            signature = inspect.signature(fn)
        except ValueError as error:
            raise DefinitionError(f"{where}: {error}; call it in a function of your own") from error
        parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
        self._fn = fn
        self._where = where
        self._signature = signature.replace(parameters=parameters)
        self._parameters = parameters
        self._names = [parameter.name for parameter in parameters]
        self._positional = [one.name for one in parameters if one.kind in _POSITIONAL]
        self._required = frozenset(
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        )
        # Without these every argument has a name of its own, and binding needs no inspect.
        self._all_named = all(parameter.kind in _NAMED for parameter in parameters)
        self._plain_count = len(self._names) if self._positional == self._names else -1
        """So many arguments by position are all there are; -1: that cannot be said."""
        self._plans: dict[str, Plan] | None = None
        self._is_exact = False
        self._is_bounded = False
        try:
            self._work_out()
        except NameError:
            self._plans = None
        self.returns = ValueCodec(_Later(self._find_result), where=f"{where} result")

    def check(self) -> None:
        """Work out everything now that may have been put off until it is needed.

        Raises:
            DefinitionError: A type can never be stored, or an annotation cannot be resolved.
        """
        if self._plans is None:
            self._need_plans()
        self.returns.check()

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Bind the arguments of a call and return them as JSON, only those given.

        Raises:
            UsageError: The arguments do not fit the signature.
            PayloadError: One does not fit its annotation or would not come back equal.
            LimitExceededError: Together they are larger than `MAX_PAYLOAD_BYTES`.
        """
        return self._write(self._bind(args, kwargs))

    def decode(self, data: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments, ready for `fn(*args, **kwargs)`.

        Raises:
            PayloadError: The data does not fit the signature.
        """
        given = self._read(data)
        if missing := self._required - given.keys():
            raise PayloadError(f"{self._name}({min(missing)})", NOT_STORED.removeprefix(": "))
        return ([], given) if self._all_named else self._arrange(given)

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Return whether two stored calls are one and the same for today's signature.

        A parameter or field with a default that came later makes no difference, given or not.
        """
        if recorded == asked:
            return True
        try:
            before, now = self._read(recorded), self._read(asked)
            for parameter in self._parameters:
                name = parameter.name
                if (name in before) != (name in now) and parameter.default is not parameter.empty:
                    before.setdefault(name, parameter.default)
                    now.setdefault(name, parameter.default)
            return self._write(self._in_order(before)) == self._write(self._in_order(now))
        except (PayloadError, LimitExceededError):
            return False

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """What a call is given, in order."""
        return self._parameters

    def annotation_of(self, name: str) -> Any:
        """Return the annotation of a parameter."""
        return _hints(self._fn, [name]).get(name, Any)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        if not kwargs and len(args) == self._plain_count:
            return dict(zip(self._positional, args, strict=True))
        if self._all_named and len(args) <= len(self._positional):
            given = dict(zip(self._positional, args, strict=False))
            if kwargs and given.keys().isdisjoint(kwargs):
                given = self._in_order(given | kwargs)
            if len(given) == len(args) + len(kwargs) and self._required <= given.keys():
                return given
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise UsageError(f"{self._name}{self._signature}: {error}") from None

    def _in_order(self, given: dict[str, Any]) -> dict[str, Any]:
        return {name: given[name] for name in self._names if name in given}

    def _write(self, given: Mapping[str, Any]) -> bytes:
        plans = self._plans if self._plans is not None else self._need_plans()
        out = {}
        name = ""
        try:
            for name, value in given.items():
                out[name] = plans[name].dump(value)
            data = _to_bytes(out, is_bounded=self._is_bounded)
            if not self._is_exact:
                stored = _decode_json(data)
                for name, value in given.items():
                    check_same(value, plans[name].load(stored[name]))
        except Misfit as misfit:
            raise self._error(name, misfit) from misfit.__cause__
        except RecursionError:
            raise PayloadError(f"{self._name}({name})", _TOO_DEEP) from None
        if len(data) > MAX_PAYLOAD_BYTES:
            raise _too_large(f"{self._name}({', '.join(given)})", data)
        return data

    def _read(self, data: bytes) -> dict[str, Any]:
        plans = self._plans if self._plans is not None else self._need_plans()
        given = {}
        name = ""
        try:
            stored = _from_bytes(data, is_bounded=self._is_bounded)
            if type(stored) is not dict:
                raise Misfit("stored arguments are no JSON object")
            if UNBOUND in stored:
                stored = self._bound(stored)
            for name, part in stored.items():
                plan = plans.get(name)
                if plan is None:
                    # Dropping it could change what the call means; the code must know it.
                    raise Misfit(f"is stored, but {self._name}{self._signature} has no such one")
                given[name] = plan.load(part)
        except Misfit as misfit:
            raise self._error(name, misfit) from misfit.__cause__
        except RecursionError:
            raise PayloadError(f"{self._name}({name})", _TOO_DEEP) from None
        return given

    def _bound(self, stored: dict[str, Any]) -> dict[str, Any]:
        """Name the arguments of a call by a client that did not have the signature."""
        by_name = dict(stored)
        by_position = by_name.pop(UNBOUND)
        if type(by_position) is not list:
            raise Misfit("stored arguments by position are no JSON list")
        kinds = {parameter.kind: parameter.name for parameter in self._parameters}
        bound = dict(zip(self._positional, by_position, strict=False))
        if surplus := by_position[len(self._positional) :]:
            bound[kinds.get(inspect.Parameter.VAR_POSITIONAL, UNBOUND)] = surplus
        more = {name: by_name.pop(name) for name in list(by_name) if name not in self._names}
        if more:
            bound[kinds.get(inspect.Parameter.VAR_KEYWORD, min(more))] = more
        return bound | by_name

    def _arrange(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Split arguments into those by position and those by name."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        last = max(
            (
                index
                for index, parameter in enumerate(self._parameters)
                if parameter.name in given
                and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL)
            ),
            default=-1,
        )
        for index, parameter in enumerate(self._parameters):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(given.get(parameter.name, ()))
            elif parameter.kind is parameter.VAR_KEYWORD:
                kwargs.update(given.get(parameter.name, {}))
            elif index <= last:
                args.append(given.get(parameter.name, parameter.default))
            elif parameter.name in given:
                kwargs[parameter.name] = given[parameter.name]
        return args, kwargs

    def _error(self, name: str, misfit: Misfit) -> PayloadError:
        return PayloadError(f"{self._name}({name}{misfit.path})", misfit.problem)

    def _work_out(self) -> None:
        builder = PlanBuilder(self._where)
        hints = _hints(self._fn, self._names)
        plans = {}
        for parameter in self._parameters:
            hint = hints.get(parameter.name, Any)
            if parameter.kind is parameter.VAR_POSITIONAL:
                plan = many_plan(tuple, builder.plan_of(parameter.name, hint))
            elif parameter.kind is not parameter.VAR_KEYWORD:
                plan = builder.plan_of(parameter.name, hint)
            elif get_origin(hint) is typing.Unpack:
                plan = builder.plan_of(parameter.name, get_args(hint)[0])
            else:
                plan = dict_plan(LEAVES[str], builder.plan_of(parameter.name, hint))
            plans[parameter.name] = plan
        self._plans = plans
        self._is_exact = builder.is_exact
        self._is_bounded = builder.is_bounded

    def _need_plans(self) -> dict[str, Plan]:
        try:
            self._work_out()
        except NameError as error:
            raise _unresolved(self._where, error) from error
        assert self._plans is not None, "worked out just now"
        return self._plans

    def _find_result(self) -> Any:
        hint = _hints(self._fn, ["return"]).get("return", Any)
        if get_origin(hint) in _AWAITABLES and not inspect.iscoroutinefunction(self._fn):
            return get_args(hint)[-1]
        return hint


def value_codec(annotation: Any) -> ValueCodec[Any]:
    """Return the codec of an annotation; the same one every time."""
    try:
        hash(annotation)
    except TypeError:
        return ValueCodec(annotation, where=show(annotation))
    return _cached_codec(annotation)


@dataclass(frozen=True, slots=True)
class _Later:
    """An annotation that is looked up when it is needed."""

    find: Callable[[], Any]


@lru_cache(maxsize=MAX_CACHED_CODECS)
def _cached_codec(annotation: Any) -> ValueCodec[Any]:
    return ValueCodec(annotation, where=show(annotation))


def _hints(fn: Callable[..., Any], names: list[str]) -> dict[str, Any]:
    """Return some annotations of a function, resolved; the others need not be resolvable.

    Raises:
        NameError: One of them names something that does not exist, or not yet.
    """
    while isinstance(fn, partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__  # an object that can be called
    inner = inspect.unwrap(fn)
    found = getattr(fn, "__annotations__", {})
    variables = {variable.__name__: variable for variable in getattr(inner, "__type_params__", ())}
    try:
        return get_type_hints(
            SimpleNamespace(__annotations__={name: found[name] for name in names if name in found}),
            globalns=getattr(inner, "__globals__", {}),
            localns=variables,
            include_extras=True,
        )
    except AttributeError as error:
        # `module.Name` while the module is still being imported.
        raise NameError(str(error)) from error
    except (SyntaxError, TypeError) as error:
        raise DefinitionError(f"{fn.__qualname__}: an annotation is no type: {error}") from error


def _to_bytes(data: Json, *, is_bounded: bool) -> bytes:
    try:
        encoded = _encode_json(data)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
        raise Misfit(f"cannot be written as JSON: {error}") from error
    if not is_bounded and _is_too_deep(encoded):
        raise Misfit(_TOO_DEEP)
    return encoded


def _from_bytes(data: bytes, *, is_bounded: bool) -> Json:
    try:
        decoded = _decode_json(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Misfit(f"stored data is no JSON: {error}") from error
    if not is_bounded and _is_too_deep(data):
        raise Misfit(_TOO_DEEP)
    return decoded


def _is_too_deep(data: bytes) -> bool:
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _TEXTS.sub(b"", data).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _too_large(path: str, data: bytes) -> LimitExceededError:
    return LimitExceededError(
        f"{path}: the size in bytes",
        allowed=MAX_PAYLOAD_BYTES,
        found=len(data),
        advice="keep the data in a file or a bucket and pass where it is",
    )


def _unresolved(where: str, error: NameError) -> DefinitionError:
    return DefinitionError(
        f"{where}: an annotation cannot be resolved ({error}); define or import the type at "
        "module level, outside `if TYPE_CHECKING`"
    )


JSON = value_codec(Any)
"""The codec of JSON values without an annotation."""
