"""The same rules by name, for those who read source text and run nothing: `perdure check`.

What the guard refuses at the call (`forbidden`) is found here under the name that code writes it
by. Some more can be read and not be caught: the environment, and what differs between machines.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from perdure.core.forbidden import (
    ADVICE_OF_MODULE,
    CLOCK,
    EVENT_FAMILIES,
    IDENTITY,
    NETWORK,
    NETWORK_PACKAGES,
    OUTSIDE,
    RANDOM,
    SLEEP,
    UUID,
    rules,
)

ENVIRONMENT = "hand it in when the instance is started, or read it in an activity"
HASH = "it is another number in every process; zlib.crc32 or hashlib of the bytes is not"
THREAD = "plain asyncio code runs side by side; do what needs a thread in an activity"

KIND_OF_ADVICE = {
    CLOCK: "clock",
    RANDOM: "random",
    UUID: "uuid",
    IDENTITY: "environment",
    ENVIRONMENT: "environment",
    HASH: "hash",
    SLEEP: "sleep",
    OUTSIDE: "outside",
    NETWORK: "outside",
    THREAD: "thread",
}
"""What a finding is called whose cure is this."""


class NamedRule(NamedTuple):
    """Forbids what is written by a name."""

    name: str
    kind: str
    advice: str
    harmless_from: int | None = None
    """With how many arguments a call is harmless; None: never."""


def rule_of_name(name: str) -> NamedRule | None:
    """Return the rule for a call of, or a look at, something by its full name.

    Args:
        name: As it is imported: `datetime.datetime.now`, `builtins.open`.
    """
    exact = _EXACT.get(name)
    if exact is not None:
        return exact
    if name in _HARMLESS:
        return None
    # The longest name that has one: `urllib.request` is another thing than `urllib.parse`.
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        advice = _MODULES.get(".".join(parts[:length]))
        if advice is not None:
            return NamedRule(name, KIND_OF_ADVICE[advice], advice) if advice else None
        if ".".join(parts[:length]) in _HARMLESS:
            return None
    return None


_THREADS = ("threading", "_thread", "concurrent.futures", "multiprocessing", "queue")

_MODULES: dict[str, str] = {
    **dict.fromkeys(EVENT_FAMILIES - {"os", "pathlib", "urllib", "http"}, OUTSIDE),
    **ADVICE_OF_MODULE,
    **dict.fromkeys(NETWORK_PACKAGES, NETWORK),
    **dict.fromkeys(("http.client", "urllib.request", "socket", "ssl"), NETWORK),
    **dict.fromkeys(_THREADS, THREAD),
    "platform": ENVIRONMENT,
    "locale": ENVIRONMENT,
    "getpass": ENVIRONMENT,
    "numpy.random": RANDOM,
}
"""Modules of which everything that is called is forbidden."""

_HARMLESS = frozenset(
    {
        "uuid.UUID",
        "uuid.uuid3",
        "uuid.uuid5",
        "random.Random",
        "numpy.random.Generator",
        "sqlite3.Row",
        "platform.python_version",
    }
    | {"uuid.NAMESPACE_DNS", "uuid.NAMESPACE_URL", "uuid.NAMESPACE_OID", "uuid.NAMESPACE_X500"}
    | {"subprocess.CompletedProcess", "subprocess.CalledProcessError", "subprocess.TimeoutExpired"}
    | {"threading.get_ident", "queue.Empty", "queue.Full", "socket.timeout", "socket.error"}
    | {"requests.exceptions", "httpx.TimeoutException", "httpx.HTTPError", "redis.exceptions"}
)
"""What is harmless in these modules."""

_FILES = (
    "access chdir chmod chown fork forkpty kill link listdir lstat makedirs mkdir open pipe popen "
    "readlink remove removedirs rename renames replace rmdir scandir spawnl spawnv stat statvfs "
    "symlink system truncate unlink utime walk"
)
_OF_PATH = (
    "exists expanduser getatime getmtime getsize isdir isfile islink lexists realpath samefile"
)
_OF_PATHLIB = (
    "absolute chmod cwd exists glob home is_dir is_file iterdir mkdir open read_bytes read_text "
    "rename replace resolve rglob rmdir stat symlink_to touch unlink write_bytes write_text"
)


def _make_exact() -> dict[str, NamedRule]:
    found: dict[str, NamedRule] = {}

    def add(prefix: str, names: str, advice: str, harmless_from: int | None = None) -> None:
        for one in names.split():
            name = f"{prefix}{one}"
            found[name] = NamedRule(name, KIND_OF_ADVICE[advice], advice, harmless_from)

    for rule in rules():
        explicit = rule.is_harmless.args[0] if isinstance(rule.is_harmless, partial) else None
        add("", rule.call, rule.advice, explicit)
    add("datetime.datetime.", "now utcnow today", CLOCK)
    add("datetime.date.", "today", CLOCK)
    add("random.", "Random SystemRandom", RANDOM, harmless_from=1)
    add("random.", "SystemRandom", RANDOM)
    add("numpy.random.", "default_rng RandomState SeedSequence PCG64", RANDOM, harmless_from=1)
    add("builtins.", "open input", OUTSIDE)
    add("builtins.", "hash id", HASH)
    add("io.", "open open_code", OUTSIDE)
    add("os.", _FILES, OUTSIDE)
    add("os.path.", _OF_PATH, OUTSIDE)
    add("pathlib.Path.", _OF_PATHLIB, OUTSIDE)
    add("os.", "environ environb getenv getcwd cpu_count uname getlogin", ENVIRONMENT)
    add("sys.", "argv platform", ENVIRONMENT)
    add("socket.", "gethostname getfqdn", ENVIRONMENT)
    add("asyncio.", "to_thread", THREAD)
    add("asyncio.", "open_connection open_unix_connection start_server", NETWORK)
    add("asyncio.", "create_subprocess_exec create_subprocess_shell", OUTSIDE)
    add("threading.", "get_native_id", IDENTITY)
    return found


_EXACT = _make_exact()


def names_of(kind: str) -> frozenset[str]:
    """Return the names, each without that of its owner, by which code writes a kind of things."""
    exact = {rule.name.rpartition(".")[2] for rule in _EXACT.values() if rule.kind == kind}
    return frozenset(exact | _modules_of(kind))


def _modules_of(kind: str) -> set[str]:
    return {name for name, advice in _MODULES.items() if KIND_OF_ADVICE[advice] == kind}
