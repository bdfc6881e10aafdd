"""Who may do what: the text of `roles.sql` for a schema."""

from __future__ import annotations

import re
from importlib import resources

from perdure.store.postgres.address import MAX_SCHEMA_BYTES, check_schema

LONGEST_ROLE = "_worker"


def read_roles(schema: str) -> str:
    """Return the statements that make the roles of a schema, for `psql`.

    Raises:
        UsageError: The name cannot be that of a schema, or the roles' names would be too long.
    """
    most = MAX_SCHEMA_BYTES - len(LONGEST_ROLE)
    check_schema(schema, f"--schema {schema!r}", most_bytes=most)
    text = (resources.files("perdure.store.postgres") / "roles.sql").read_text(encoding="utf-8")

    def named(found: re.Match[str]) -> str:
        """Return a name of ours for the schema, quoted as the text around it needs."""
        name = (schema + (found["role"] or "")).replace('"', '""')
        if found["mark"]:
            return "'\"" + name.replace("'", "''") + "\"'"
        return f'"{name}"'

    return re.sub(r"""(?P<mark>')?"perdure(?P<role>_[a-z]+)?"(?(mark)')""", named, text)
