"""What a tool is: its name, what it says of itself, its arguments, and what it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from perdure.client.client import Client
from perdure.codec import Json
from perdure.errors import UsageError

A = TypeVar("A", bound=msgspec.Struct)

ToolAnswer: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[A]):
    """Something that a model may ask for."""

    name: str
    title: str
    about: str
    """For the model: what it answers, and when to ask."""
    arguments: type[A]
    run: Callable[[Client, A], Awaitable[ToolAnswer]]
    acts: bool = False
    """Whether it changes anything."""
    destroys: bool = False
    """Whether it ends what cannot be begun again as it was."""

    def shown(self) -> dict[str, Json]:
        """Return it as `tools/list` lists it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": self._schema(),
            "annotations": {
                "readOnlyHint": not self.acts,
                "destructiveHint": self.destroys,
                "idempotentHint": not self.acts,
                "openWorldHint": False,
            },
        }

    async def call(self, client: Client, arguments: Json) -> ToolAnswer:
        """Check arguments and do it.

        Raises:
            UsageError: The arguments are not those of this tool.
            PerdureError: What the client says.
        """
        try:
            checked = msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            raise UsageError(f"arguments of {self.name}: {error}") from None
        return await self.run(client, checked)

    def _schema(self) -> dict[str, Json]:
        _, components = msgspec.json.schema_components([self.arguments])
        found = dict(components[self.arguments.__name__])
        found.pop("title", None)
        return found
