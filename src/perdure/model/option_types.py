"""Options of a wrong type, refused where they are given and in words.

Options are frozen dataclasses, and the annotations of their fields are the rule: a length of time
may be given as a number of seconds too, and is kept as a timedelta.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from perdure.durations import as_duration
from perdure.errors import OptionError

_PLAIN: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "True or False"),
    "str": ((str,), "a text"),
    "Mapping[str, str]": ((Mapping,), 'a dict of texts, as in {"checkout": ">=1.2,<2"}'),
}


def take_types(options: Any) -> None:
    """Refuse the options of a new frozen dataclass that are of another type than annotated.

    What is annotated as a class or a choice of words is for the dataclass itself to check.

    Raises:
        OptionError: An option is of another type.
    """
    for field in fields(options):
        value = getattr(options, field.name)
        annotation, _, optional = str(field.type).partition(" | ")
        if value is None and (optional.endswith("None") or annotation == "OptionalDurationField"):
            continue
        if annotation in ("DurationField", "OptionalDurationField"):
            object.__setattr__(options, field.name, as_duration(field.name, value))
        elif annotation in _PLAIN:
            kinds, shown = _PLAIN[annotation]
            is_bool = isinstance(value, bool) and annotation != "bool"
            if is_bool or not isinstance(value, kinds):
                none = " or None" if optional.endswith("None") else ""
                raise OptionError(f"{field.name} must be {shown}{none}, got {value!r}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of some.

    Raises:
        OptionError: It is none of them.
    """
    if value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
