"""Which plan belongs to which annotation.

`PlanBuilder` takes an annotation apart: aliases and generics are resolved, classes are taken field
by field, and a type that can never be stored is refused with what to use instead. pydantic and
attrs are never imported here; their classes are known by the attributes they carry.

Two facts about everything it built decide how much a codec has to check: `is_exact` (every accepted
value comes back equal, because no code of the user runs on the way) and `is_bounded` (the
annotation itself limits how deep the JSON can be).
"""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from perdure.codec.objects import (
    is_model,
    makes_no_detours,
    model_plan,
    object_plan,
    stored_fields,
    tag_of,
    typed_dict_plan,
)
from perdure.codec.plans import (
    JSON_PLAN,
    LEAVES,
    Misfit,
    Plan,
    dict_plan,
    enum_plan,
    literal_plan,
    many_plan,
    set_plan,
    tuple_plan,
)
from perdure.codec.unions import union_plan
from perdure.errors import DefinitionError

MAX_ALIASES = 100
"""Aliases in a row before an annotation counts as one that never ends."""

_WRAPPERS = (typing.Annotated, typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)
_UNIONS = (typing.Union, types.UnionType)
_ABSTRACT: dict[Any, type] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Collection: list,
    collections.abc.Iterable: list,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
}


def show(annotation: Any) -> str:
    """Return an annotation as people write it."""
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__qualname__
    return str(annotation).replace("typing.", "")


def union_members(annotation: Any, *, where: str) -> list[Any]:
    """Return the members of a union, also of unions behind aliases, each once; of anything else
    the annotation itself.

    Raises:
        DefinitionError: It is no type.
        NameError: It names something that does not exist, or not yet.
    """
    return PlanBuilder(where)._members(annotation)


class PlanBuilder:
    """Builds the plans of one definition, and gathers what holds for all of them."""

    def __init__(self, where: str) -> None:
        self.is_exact = True
        self.is_bounded = True
        self._where = where
        self._plans: dict[Any, Plan] = {}
        self._open: set[Any] = set()
        self._path: list[str] = []
        """The fields that lead to what is looked at, for messages."""

    def plan_of(self, name: str, annotation: Any) -> Plan:
        """Return the plan of a parameter or field.

        Raises:
            DefinitionError: Values of that type can never be stored.
            NameError: A forward reference names something that does not exist yet.
        """
        self._path.append(name)
        plan = self.plan(annotation)
        self._path.pop()
        return plan

    def plan(self, annotation: Any) -> Plan:
        """Return the plan of an annotation.

        Raises:
            DefinitionError: Values of that type can never be stored.
            NameError: A forward reference names something that does not exist yet.
        """
        annotation = self._resolve(annotation)
        if annotation in self._plans:
            return self._plans[annotation]
        if annotation in self._open:
            return self._reference(annotation)
        self._open.add(annotation)
        plan = self._build(annotation)
        self._open.discard(annotation)
        self._plans[annotation] = plan
        return plan

    def _resolve(self, annotation: Any) -> Any:
        """Follow aliases, wrappers and type variables to what they stand for."""
        for _ in range(MAX_ALIASES):
            origin = get_origin(annotation)
            if origin in _WRAPPERS:
                annotation = get_args(annotation)[0]
            elif isinstance(annotation, typing.NewType):
                annotation = annotation.__supertype__
            elif isinstance(annotation, TypeVar):
                annotation = _stand_in(annotation)
            elif hasattr(annotation, "__value__") and hasattr(annotation, "__type_params__"):
                # A `type X[T] = ...` alias; Python 3.11 knows it from typing_extensions only.
                given = zip(annotation.__type_params__, get_args(annotation), strict=False)
                annotation = _substitute(annotation.__value__, dict(given))
            else:
                return self._hashable(annotation)
        raise self._refuse(annotation, "its aliases never end")

    def _hashable(self, annotation: Any) -> Any:
        if annotation is None or annotation in (typing.NoReturn, typing.Never):
            return types.NoneType
        if isinstance(annotation, str | typing.ForwardRef):
            raise self._refuse(annotation, "it is a name without a module; hand over the type")
        try:
            hash(annotation)
        except TypeError:
            raise self._refuse(annotation, "it is no type") from None
        return annotation

    def _reference(self, annotation: Any) -> Plan:
        """Return a plan that looks itself up when used: the type contains itself."""
        self.is_bounded = False
        plans = self._plans
        cls = get_origin(annotation) or annotation
        is_class = isinstance(cls, type) and cls is not types.UnionType
        is_dict = is_class and hasattr(cls, "__required_keys__")
        return Plan(
            name=tag_of(cls) if is_class else show(annotation),
            types=((dict if is_dict else cls),) if is_class else (),
            kinds=(dict,) if is_class else (),
            dump=lambda value: plans[annotation].dump(value),
            load=lambda data: plans[annotation].load(data),
            is_object=is_class,
        )

    def _build(self, annotation: Any) -> Plan:
        if annotation is Any or annotation is object:
            self.is_bounded = False
            return JSON_PLAN
        origin = get_origin(annotation)
        if annotation in LEAVES:
            return LEAVES[annotation]
        if origin in _UNIONS:
            return self._union(annotation)
        if origin is typing.Literal:
            return self._literal(annotation, get_args(annotation))
        cls = origin or annotation
        container = _ABSTRACT.get(cls, cls)
        if container in (list, tuple, set, frozenset, dict):
            return self._container(container, get_args(annotation), annotation)
        if isinstance(cls, type):
            return self._class(cls, annotation)
        raise self._refuse(annotation, "it is no type of data")

    def _container(self, cls: type, args: tuple[Any, ...], annotation: Any) -> Plan:
        if cls is dict:
            key, item = args or (str, Any)
            key_plan = self.plan(key)
            # Under Any a key is what JSON has for keys.
            return dict_plan(LEAVES[str] if key_plan is JSON_PLAN else key_plan, self.plan(item))
        is_bare = annotation in (tuple, typing.Tuple)  # noqa: UP006 - what old code says
        if cls is tuple and not is_bare and args[1:] != (Ellipsis,):
            return tuple_plan([self.plan(arg) for arg in args])
        item_plan = self.plan(args[0] if args else Any)
        return set_plan(cls, item_plan) if cls in (set, frozenset) else many_plan(cls, item_plan)

    def _literal(self, annotation: Any, values: tuple[Any, ...]) -> Plan:
        try:
            return literal_plan([(value, self.plan(type(value))) for value in values])
        except Misfit as misfit:
            raise self._refuse(annotation, misfit.problem) from None

    def _union(self, annotation: Any) -> Plan:
        members = self._members(annotation)
        if Any in members or object in members:
            if set(members) <= {Any, object, types.NoneType}:
                return self.plan(Any)
            raise self._refuse(annotation, "Any next to other types says nothing; leave one out")
        plans = {member: self.plan(member) for member in members}
        taken = {
            kind for member, plan in plans.items() if not _is_literal(member) for kind in plan.types
        }
        values = [
            value
            for member in members
            if _is_literal(member)
            for value in get_args(member)
            if type(value) not in taken
        ]
        others = [plan for member, plan in plans.items() if not _is_literal(member)]
        if values:
            others.append(self._literal(annotation, tuple(values)))
        self._check_apart(annotation, others)
        return others[0] if len(others) == 1 else union_plan(others)

    def _members(self, annotation: Any) -> list[Any]:
        """Return the members of a union, also of unions behind aliases, each once."""
        annotation = self._resolve(annotation)
        if get_origin(annotation) not in _UNIONS:
            return [annotation]
        found = [member for arg in get_args(annotation) for member in self._members(arg)]
        return list(dict.fromkeys(found))

    def _check_apart(self, annotation: Any, plans: list[Plan]) -> None:
        types_seen = [kind for plan in plans for kind in plan.types]
        if len(types_seen) != len(set(types_seen)) or not all(plan.types for plan in plans):
            raise self._refuse(
                annotation,
                "two of its members are the same type at run time; "
                "put the union inside, as in list[int | str], or use two classes",
            )
        names = [plan.name for plan in plans]
        if len(names) != len(set(names)):
            raise self._refuse(
                annotation,
                "two of its members have the same name, which is what tells them apart "
                "when stored; rename one",
            )

    def _class(self, cls: type, annotation: Any) -> Plan:
        if issubclass(cls, Enum):
            return enum_plan(cls)
        if hasattr(cls, "__required_keys__"):
            return self._typed_dict(cls, annotation)
        if is_model(cls):
            self.is_exact = False
            # The depth of a model is pydantic's own affair.
            self.is_bounded = False
            return model_plan(cls)
        fields = stored_fields(cls)
        if fields is None:
            raise self._refuse(annotation, "it is not plain data")
        self.is_exact = self.is_exact and makes_no_detours(cls)
        hints = _field_types(annotation)
        return object_plan(
            cls, [(field, self.plan_of(field.name, hints.get(field.name, Any))) for field in fields]
        )

    def _typed_dict(self, cls: type, annotation: Any) -> Plan:
        hints = _field_types(annotation)
        required = {
            key
            for key, hint in hints.items()
            if get_origin(hint) is typing.Required
            or (key in cls.__required_keys__ and get_origin(hint) is not typing.NotRequired)  # type: ignore[attr-defined]  # a TypedDict
        }
        plans = {key: self.plan_of(key, hint) for key, hint in hints.items()}
        return typed_dict_plan(cls.__name__, plans, required)

    def _refuse(self, annotation: Any, why: str) -> DefinitionError:
        way = f" ({'.'.join(self._path)})" if len(self._path) > 1 else ""
        return DefinitionError(
            f"{self._where}: {show(annotation)}{way} cannot be stored: {why}. Use a dataclass, a "
            "pydantic model, a msgspec struct, an attrs class, a TypedDict or the JSON types, or "
            "pass an id and look the thing up where it is used"
        )


def _is_literal(annotation: Any) -> bool:
    return get_origin(annotation) is typing.Literal


def _stand_in(variable: TypeVar) -> Any:
    if variable.__constraints__:
        return typing.Union[variable.__constraints__]  # noqa: UP007 - built from a tuple
    return variable.__bound__ or Any


def _substitute(hint: Any, arguments: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return arguments.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if get_origin(hint) is None or not parameters:
        return hint
    return hint[tuple(arguments.get(parameter, parameter) for parameter in parameters)]


def _field_types(annotation: Any) -> dict[str, Any]:
    """Return the fields' annotations of a class, with its own and its bases' type variables set."""
    cls = get_origin(annotation) or annotation
    arguments = _arguments_by_class(annotation)
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        own = inspect.get_annotations(owner)
        hints = get_type_hints(owner, include_extras=True) if own else {}
        for name in own:
            found[name] = _substitute(hints[name], arguments.get(owner, {}))
    return found


def _arguments_by_class(annotation: Any) -> dict[type, dict[Any, Any]]:
    cls = get_origin(annotation) or annotation
    own = dict(zip(getattr(cls, "__parameters__", ()), get_args(annotation), strict=False))
    found = {cls: own}
    for base in cls.__dict__.get("__orig_bases__", cls.__bases__):
        # Generic and Protocol carry no fields; NamedTuple and TypedDict are functions here.
        origin = get_origin(base) or base
        if isinstance(origin, type) and origin not in (object, typing.Generic, typing.Protocol):
            for owner, arguments in _arguments_by_class(_substitute(base, own)).items():
                found.setdefault(owner, arguments)
    return found
