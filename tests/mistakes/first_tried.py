"""The 66 mistakes that were planted first, by their numbers, and which rows of the table they are.

Some have become several rows. What came later is in the table alone.
"""

from __future__ import annotations

FIRST_TRIED: dict[int, tuple[str, ...]] = {
    1: (
        "a call is not awaited and its value used",
        "a call is not awaited and decides an if",
    ),
    2: ("a call is not awaited and dropped",),
    3: ("a call is not awaited and returned",),
    4: ("a lock as an argument",),
    5: ("an argument of a wrong type",),
    6: (
        "the clock is read",
        "run what cannot be replayed",
    ),
    7: (
        "the date is read",
        "a random number is drawn",
        "time is slept away",
        "a file is opened",
        "a page is fetched",
    ),
    8: ("a page is fetched with httpx",),
    9: ("work is given to a thread",),
    10: (
        "the environment decides",
        "the order of a set decides",
        "a global counter decides",
    ),
    11: ("a loop computes for long",),
    12: ("an async activity blocks",),
    13: ("an orchestration is called like a function",),
    14: ("an activity is called like a function",),
    15: (
        "an activity that the engine does not have",
        "run what calls an activity that no name leads to",
    ),
    16: ("an orchestration that the engine does not have",),
    17: ("the same start twice",),
    18: ("an id that is taken",),
    19: (
        "an activity fails",
        "an activity fails and explain is asked",
    ),
    20: ("catching the class that an activity raised",),
    21: ("a lambda as an activity",),
    22: ("a method as an activity",),
    23: ("a class as an activity",),
    24: (
        "a partial as an activity",
        "an object that can be called as an activity",
    ),
    25: ("two activities of one name",),
    26: (
        "a generator as an activity",
        "an async generator as an activity",
    ),
    27: (
        "a plain def as an orchestration",
        "an async generator as an orchestration",
    ),
    28: ("values of many types",),
    29: ("a dataclass for a parameter without annotation",),
    30: ("a dict with numbers as keys",),
    31: (
        "a parameter that cannot be stored",
        "a result that cannot be stored",
    ),
    32: ("a number of a library",),
    33: ("a value that is too large",),
    34: (
        "a path instead of a url",
        "a slash too few",
        "the url of sqlalchemy",
        "a path of pathlib instead of a url",
    ),
    35: (
        "a folder that there is not",
        "a folder as a store",
        "a file that is no database",
        "an option that the store does not have",
    ),
    36: (
        "a server that is not there",
        "a database or a role that the server does not have",
    ),
    37: (
        "a path that is misspelled",
        "a path that is misspelled without async",
    ),
    38: ("an id that another orchestration has",),
    39: ("an SQLite that is old, and two programs that write",),
    40: ("a package that is not installed",),
    41: ("Ctrl-C in run",),
    42: ("an exception that cannot be stored",),
    43: ("several calls fail together",),
    44: ("a function that calls itself without end",),
    45: ("children that start each other without end",),
    46: ("sys.exit in an activity",),
    47: (
        "an activity that returns another type",
        "an orchestration that returns another type",
    ),
    48: (
        "a start without an argument",
        "a start with an argument too many",
        "a start with an argument of a wrong type",
    ),
    49: (
        "a start by the name of the orchestration",
        "a start of a plain function",
        "a start of an activity",
    ),
    50: ("a number as an id",),
    51: (
        "an id with a line break",
        "an empty id",
    ),
    52: (
        "a signal with a value of a wrong type",
        "a signal by its name",
    ),
    53: (
        "a signal that is misspelled",
        "a signal to an instance that there is not",
    ),
    54: ("the result of an instance that there is not",),
    55: ("a handle with another orchestration",),
    56: (
        "the context is asked for elsewhere",
        "a signal received elsewhere",
        "going on as new elsewhere",
    ),
    57: (
        "a client that is not opened",
        "an engine that is used after its block",
    ),
    58: (
        "an engine entered with with",
        "a worker entered with with",
    ),
    59: (
        "an engine that is opened twice",
        "an engine in two blocks",
        "a blocking client in two blocks",
    ),
    60: (
        "a number as retry",
        "a text as a timeout",
        "a number of seconds to wait",
    ),
    61: ("one definition, or a module, instead of a list",),
    62: ("a plain function handed to an engine",),
    63: ("a target of perdure worker that is not there, is broken or empty",),
    64: ("a blocking client after a fork",),
    65: ("an option that does not exist",),
    66: ("monkeypatching the function of an activity",),
}
