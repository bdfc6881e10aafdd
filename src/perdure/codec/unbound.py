"""Arguments of a definition that is known by name only: JSON, bound by whoever has the code."""

from __future__ import annotations

from typing import Any

from perdure.codec.codec import JSON, UNBOUND, ValueCodec


class UnboundArgumentsCodec:
    """Writes arguments without a signature; `ArgumentsCodec` of the definition's owner reads them.

    Args:
        name: The definition's name, for messages.
        returns: The type of the result.
        where: What the definition is, for messages.
    """

    def __init__(self, name: str, returns: Any, *, where: str) -> None:
        self._name = name
        self.returns: ValueCodec[Any] = ValueCodec(returns, where=f"{where} result")

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the arguments of a call as JSON."""
        return JSON.encode({UNBOUND: list(args), **kwargs}, self._name)

    def decode(self, data: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments by position and by name."""
        stored = JSON.decode(data)
        return stored.pop(UNBOUND, []), stored

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Tell whether two stored calls are one and the same."""
        return recorded == asked or bool(JSON.decode(recorded) == JSON.decode(asked))
