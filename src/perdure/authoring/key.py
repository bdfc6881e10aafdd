"""Keys: typed names of values that instances keep. `ctx.kv`, with a type on both sides."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from perdure.authoring.kv import put_encoded, read_entry, remove_entry
from perdure.authoring.scope import Scope, current_scope
from perdure.codec import ValueCodec, check_id, value_codec
from perdure.errors import UsageError

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D = TypeVar("D")


class ReadKey(Generic[T_co]):
    """A key as its readers see it: its value may be taken for something wider."""

    name: str
    type: Any

    @cached_property
    def codec(self) -> ValueCodec[T_co]:
        """How its values are stored."""
        return ValueCodec(self.type, where=f"key {self.name!r}")


class Key(ReadKey[T], Generic[T]):
    """A name and a type, shared by the orchestration that sets the value and by its readers.

    The value lasts as long as the instance, over continue-as-new as well. `handle.kv(key)` reads it
    from outside, without a worker, also after the end.
    """

    # Invariant in T on purpose, as Signal is.

    @overload
    def __init__(self, name: str, type: type[T], /) -> None: ...
    @overload
    def __init__(self, name: str, type: TypeForm[T], /) -> None: ...
    def __init__(self, name: str, type: Any, /) -> None:
        self.name = check_id("key", name)
        self.type = type

    @overload
    def get(self, /) -> T | None: ...
    @overload
    def get(self, default: D, /) -> T | D: ...
    def get(self, default: Any = None, /) -> Any:
        """Return the value that this instance keeps, inside its orchestration.

        Args:
            default: What to return if there is none.

        Raises:
            PayloadError: What is kept there is not of the type.
        """
        entry = read_entry(self._scope(), self.name)
        return default if entry is None else self.codec.decode(bytes(entry.value))

    def set(self, value: T, /) -> None:
        """Keep a value from now on, inside an orchestration; others see it with the commit.

        Raises:
            PayloadError: The value is not of the type.
            LimitExceededError: It is too large, or there are too many keys.
        """
        scope = self._scope()
        put_encoded(scope, self.name, self.codec.encode(value, f"key {self.name!r}"))

    def delete(self) -> None:
        """Keep nothing under this key any more; nothing happens if there is nothing."""
        remove_entry(self._scope(), self.name)

    def __repr__(self) -> str:
        return f"Key({self.name!r}, {self.type!r})"

    def _scope(self) -> Scope:
        scope = current_scope()
        if scope is None:
            raise UsageError(
                f"key {self.name!r} can be used so only inside an orchestration; to read it from "
                "outside use handle.kv(key)"
            )
        return scope


def key_name(key: ReadKey[Any] | str) -> str:
    """Return the name of a key that a caller gave."""
    return key.name if isinstance(key, Key) else check_id("key", key)


def key_codec(key: ReadKey[Any] | str, type: Any) -> ValueCodec[Any]:
    """Return how the value of a key is stored: by its own type, or by one that was given."""
    codec: ValueCodec[Any] = key.codec if isinstance(key, Key) else value_codec(type)
    return codec
