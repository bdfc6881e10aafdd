"""Write `docs/reference/http.md`: each route of the HTTP API, what it takes and what it needs.

Run it after a change of the table of routes:

    python tools/make_http_reference.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from perdure.errors import code_of
from perdure.web.openapi import API, TAKES_KEY
from perdure.web.operations import ApiRoute
from perdure.web.problems import STATUSES
from perdure.web.table import OPERATIONS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "http.md"

HEAD = """# HTTP API

Made by `tools/make_http_reference.py` from the table of routes; a test compares the two. How to
serve, mount and secure it is in [web.md](../web.md). The same as OpenAPI 3.1 is at
`/api/openapi.json`.

Values are what the methods of `Client` return: fields under their own names, points in time as ISO
8601 in UTC, lengths of time in seconds. An id with a slash in it is written `%2F`. A list gives
`next`, which is handed back as `after`; it is signed, and `null` on the last page. A page may be
shorter than asked for and yet not be the last. `Idempotency-Key` is the id under which a request
may be sent again. Routes that stream do so for callers that accept `text/event-stream`. A star
marks what is needed.
"""


def page() -> str:
    """Return the whole page."""
    lines = [HEAD, "## Routes", "", "| route | scope | does | query or body |", "|---|---|---|---|"]
    lines += [_row(one) for one in OPERATIONS]
    lines += ["", "## Problems", "", PROBLEMS, "", "| code | status |", "|---|--:|"]
    lines += [f"| `{code_of(kind)}` | {status} |" for kind, status in STATUSES.items()]
    return "\n".join(lines) + "\n"


PROBLEMS = """Whatever is refused is answered with `application/problem+json` (RFC 9457): `type`,
`title`, `status`, `code`, `detail` and the facts of the error. Each class of `perdure.errors` has a
code of its own:"""


def _row(one: ApiRoute) -> str:
    does = " ".join(one.says.partition("\n\n")[0].split())
    if one.name in TAKES_KEY and "Idempotency-Key" not in does:
        does += " Takes `Idempotency-Key`."
    if one.streams:
        does += f" Streams {one.streams}."
    kind = one.body or one.query
    fields = ", ".join(
        f"`{field.name}`" + ("*" if field.required else "")
        for field in msgspec.structs.fields(kind)
    )
    return f"| `{one.method} {API}{one.path}` | {one.scope} | {does} | {fields} |"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"wrote {PAGE.name}\n")
