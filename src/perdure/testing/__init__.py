"""For tests of what users write: orchestrations and deciders in a trial, deciders by given, when,
then, activities by themselves, and recorded histories.

Each name is loaded when it is first used: a project that has the pytest plugin and does not use it
pays for nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.testing.crash_points import crash_everywhere
    from perdure.testing.fakes import CallMade, Fake
    from perdure.testing.given_when import Given, check_invariants, given, observed_transitions
    from perdure.testing.replays import replay
    from perdure.testing.running import activity_context
    from perdure.testing.trial import Trial

__all__ = [
    "CallMade",
    "Fake",
    "Given",
    "Trial",
    "activity_context",
    "check_invariants",
    "crash_everywhere",
    "given",
    "observed_transitions",
    "replay",
]

_HOMES = {
    "crash_points": ("crash_everywhere",),
    "fakes": ("CallMade", "Fake"),
    "given_when": ("Given", "check_invariants", "given", "observed_transitions"),
    "replays": ("replay",),
    "running": ("activity_context",),
    "trial": ("Trial",),
}


if not TYPE_CHECKING:  # or checkers would take every misspelled name for something

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                value = getattr(import_module(f"perdure.testing.{home}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module 'perdure.testing' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return [*globals(), *__all__]
