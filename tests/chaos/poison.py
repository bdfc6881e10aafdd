"""An instance that the database refuses: the neighbours of its inputs must not suffer from it."""

from __future__ import annotations

import asyncio

from perdure import Client
from tests import rows

SQLITE = (
    """
    CREATE TRIGGER refuse BEFORE INSERT ON history WHEN NEW.instance_id = '{instance_id}'
    BEGIN SELECT RAISE(ABORT, 'it is closed'); END
    """,
)
POSTGRES = (
    """
    CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.instance_id = '{instance_id}' THEN RAISE EXCEPTION 'it is closed'; END IF;
        RETURN NEW;
    END $$
    """,
    "CREATE TRIGGER refuse BEFORE INSERT ON perdure.history"
    " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
)


async def poison(url: str, instance_id: str) -> None:
    """Make the tables of a store, and a rule of an operator's against one instance."""
    async with Client(url, create=True):
        pass
    for statement in SQLITE if url.startswith("sqlite:") else POSTGRES:
        await asyncio.to_thread(rows.run, url, statement.format(instance_id=instance_id))
