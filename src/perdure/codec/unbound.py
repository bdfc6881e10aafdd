"""Arguments of a definition that is known by name only: JSON, bound where the code is."""

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

    def check(self) -> None:
        """Work out now how the result is stored.

        Raises:
            DefinitionError: It can never be.
        """
        self.returns.check()

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the arguments of a call as JSON."""
        return JSON.encode({UNBOUND: list(args), **kwargs}, self._name)

    def decode(self, data: bytes) -> tuple[list[Any], dict[str, Any]]:
        """Return stored arguments by position and by name."""
        return by_position_and_name(JSON.decode(data))

    def same(self, recorded: bytes, asked: bytes) -> bool:
        """Return whether two stored calls are one and the same, as far as that shows without the
        signature: of two that were both made without it, 5 by position may be n=5 or not."""
        if recorded == asked:
            return True
        before, now = JSON.decode(recorded), JSON.decode(asked)
        return bool(before == now or _named(before, now) == now or _named(now, before) == before)


def by_position_and_name(stored: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a stored call that its caller gave by position, and the others."""
    by_name = dict(stored)
    return by_name.pop(UNBOUND, []), by_name


def _named(unbound: dict[str, Any], named: dict[str, Any]) -> dict[str, Any]:
    """Return arguments under the names of a call by a client that had the signature, which are in
    the order of the parameters; as they are if these cannot be their names."""
    by_position, by_name = by_position_and_name(unbound)
    if UNBOUND in named or len(by_position) > len(named):
        return unbound
    return dict(zip(named, by_position, strict=False)) | by_name
