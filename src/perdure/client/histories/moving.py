"""The version that an instance goes on with when it is reset or forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.authoring.orchestration import Orchestration
from perdure.errors import UsageError

if TYPE_CHECKING:
    from perdure.client.client import Client
    from perdure.client.handle import Handle


class OrchestrationVersion(NamedTuple):
    """What an instance is moved to."""

    name: str
    version: str


def moved_version(orchestration: Orchestration[..., Any]) -> OrchestrationVersion | None:
    """Return the version that a handle moves its instance to; None: none was asked for."""
    if not orchestration.options.pins_version:
        return None
    return OrchestrationVersion(orchestration.name, orchestration.version)


def check_move(instance_id: str, name: str, moves_to: OrchestrationVersion) -> None:
    """Refuse to move an instance to a version of another orchestration.

    Raises:
        UsageError: It is one of another.
    """
    if moves_to.name != name:
        raise UsageError(
            f"instance {instance_id!r} is of orchestration {name!r} and cannot be moved to version "
            f"{moves_to.version} of {moves_to.name!r}: make the handle with "
            f"{name}.with_options(version=...)"
        )


async def handle_at(client: Client, instance_id: str, version: str | None) -> Handle[Any]:
    """Return the handle of an instance that moves it to a version, if one is given.

    Raises:
        InstanceNotFoundError: There is no such instance.
        DefinitionError: That is no version.
    """
    handle = client.handle(instance_id)
    if version is None:
        return handle
    orchestration: Orchestration[..., Any] = Orchestration.named((await handle.info()).name, Any)
    return client.handle(instance_id, orchestration.with_options(version=version))
