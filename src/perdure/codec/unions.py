"""The plan of a union: its members told apart by JSON type, and by a tag where that is not enough.

The tag is a class's name, or the tag of a msgspec struct. It selects among the members of the
annotation and nothing else: stored data never names what is imported or called.
"""

from __future__ import annotations

from collections import Counter
from types import NoneType

from perdure.codec.plans import LEAVES, Convert, Json, Misfit, Plan, wrong_data, wrong_type

TAG = "$type"
"""Key that tells the members of a union apart where JSON alone does not."""

VALUE = "value"
"""Key of the value next to a tag, for members that are no objects."""


def union_plan(members: list[Plan]) -> Plan:
    """Return the plan of a union: told apart by JSON type, and by a tag where that is not enough.

    A member that JSON has itself (`str`, `int`, `list`, ...) and a member alone with its JSON type
    are written bare, so that `Order | None` is written like `Order`. Objects get the tag as one
    more key, other members are wrapped in an object with the tag.
    """
    tagged = _tagged(members)
    writers: dict[type, Convert] = {}
    bare: dict[type, Plan] = {}
    for plan in members:
        write = _tagging(plan) if plan in tagged else plan.dump
        writers.update(dict.fromkeys(plan.types, write))
        bare.update({} if plan in tagged else dict.fromkeys(plan.kinds, plan))
    if float in writers:
        writers.setdefault(int, writers[float])
        bare.setdefault(int, LEAVES[float])
    by_tag = {plan.name: plan for plan in tagged}
    name = " | ".join(plan.name for plan in members)

    def dump(value: object) -> Json:
        write = writers.get(type(value))
        if write is None:
            raise wrong_type(value, name)
        return write(value)

    def load(data: Json) -> object:
        if type(data) is dict and by_tag:
            tag = data.get(TAG)
            if type(tag) is str and tag in by_tag:
                return _load_tagged(by_tag[tag], data)
        elif (untagged := bare.get(type(data))) is not None:
            return untagged.load(data)
        return _load_only_fit(tagged, data, name)

    return Plan(
        name=name,
        types=tuple(writers),
        kinds=tuple({*bare, dict} if tagged else bare),
        dump=dump,
        load=load,
    )


_BARE = frozenset((NoneType, bool, int, float, str, list))


def _tagged(members: list[Plan]) -> list[Plan]:
    uses = Counter(kind for plan in members for kind in plan.kinds)
    tagged = [
        plan
        for plan in members
        if not (len(plan.types) == 1 and plan.types[0] in _BARE and plan.name != "Literal")
        and any(uses[kind] > 1 for kind in plan.kinds)
    ]
    # A tag makes an object, so that no other object may go without.
    return [plan for plan in members if plan in tagged or (tagged and dict in plan.kinds)]


def _tagging(plan: Plan) -> Convert:
    def dump_object(value: object) -> Json:
        data = plan.dump(value)
        if TAG in data:
            raise Misfit(f"has a field {TAG!r}, which tells the members of a union apart")
        return {TAG: plan.name, **data}

    def dump_other(value: object) -> Json:
        return {TAG: plan.name, VALUE: plan.dump(value)}

    return dump_object if plan.is_object else dump_other


def _load_tagged(plan: Plan, data: dict[str, Json]) -> object:
    if plan.is_object:
        return plan.load({key: part for key, part in data.items() if key != TAG})
    if VALUE not in data:
        raise Misfit(f"stored is tagged {plan.name} but has no value")
    return plan.load(data[VALUE])


def _load_only_fit(plans: list[Plan], data: Json, name: str) -> object:
    """Read what was written when the annotation was not yet a union, if only one member fits."""
    fits = []
    for plan in plans:
        if type(data) in plan.kinds:
            try:
                fits.append(plan.load(data))
            except Misfit:
                continue
    if len(fits) != 1:
        raise wrong_data(data, name)
    return fits[0]
