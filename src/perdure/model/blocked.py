"""Which code does not fit an instance: one text, kept with its live row.

No text: all code may take it. `*`: parked, no code may (`NOBODY`). `a b`: blocked, the code `a` and
then `b` was tried in vain. `-a b`: it goes on with other code, and these must still not take it:
code that does not fit a history does not fit a longer one either.

Code is named by its digest and by the life of the worker that runs it (`Coverage.tried_as`), since
one digest may mean many things: flags and configuration are not in the files.
"""

from __future__ import annotations

from perdure.model.turns import NOBODY

MAX_TRIES = 100
"""How many tries in vain are remembered. Of as many, none is left to the same digest."""
_GOES_ON = "-"


def is_held(blocked_by: str | None) -> bool:
    """Return whether the instance is blocked or parked."""
    return blocked_by is not None and not blocked_by.startswith(_GOES_ON)


def held_by(blocked_by: str | None, code: str) -> str:
    """Return the text after code was tried in vain, or the instance was parked."""
    if code == NOBODY or blocked_by in (None, NOBODY):
        return code
    tried = blocked_by.removeprefix(_GOES_ON).split(" ")
    return " ".join([*(other for other in tried if other != code), code][-MAX_TRIES:])


def going_on(blocked_by: str) -> str | None:
    """Return the text after other code has gone on with the instance."""
    return None if blocked_by == NOBODY else f"{_GOES_ON}{blocked_by.removeprefix(_GOES_ON)}"
