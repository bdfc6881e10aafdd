"""Pages as HTML: templates with everything escaped, static files under names that never change
their content."""

from __future__ import annotations

import mimetypes
import re
import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from perdure.client.histories.event_texts import message_text
from perdure.client.reading.as_json import as_json
from perdure.client.reading.progress import read_portion
from perdure.durations import shown_duration
from perdure.web.access import Access
from perdure.web.gate import TWIN, access_of, csrf_token, escaped
from perdure.web.operations import Site
from perdure.web.pages.content import PageContent
from perdure.web.pages.cron_words import in_words
from perdure.web.pages.recent import MadePage
from perdure.web.problems import document_of
from perdure.web.values import dump, shown

MAX_SHOWN_BYTES = 64 * 1024
"""How much of one value a page shows; the whole of it is in the API."""

KNOWN_TAG = "if-none-match"
"""The header with which an open page says what it shows."""

NONE = "\u2013"
"""What stands where there is nothing."""

MAX_COLOURED_BYTES = 16 * 1024
"""Up to here the parts of a value are told apart by colour."""

_SAID_TIME = re.compile(r"(?:\bat )?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?(?: UTC|Z)")
_TOKEN = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*")(?=:)|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<plain>-?\d[\d.eE+-]*|\btrue\b|\bfalse\b|\bnull\b)"
)

STATUS_SIGNS = {
    "running": "◐",
    "blocked": "▲",
    "parked": "‖",
    "completed": "✓",
    "failed": "✕",
    "cancelled": "⊘",
    "terminated": "■",
}
NAVIGATION = (
    ("/", "Instances", "i"),
    ("/failures", "Failures", "f"),
    ("/queues", "Jobs and queues", "q"),
    ("/workers", "Workers", "w"),
    ("/schedules", "Schedules", "s"),
    ("/projections", "Projections", "p"),
    ("/definitions", "Definitions", "d"),
    ("/charts", "Charts", "c"),
)


class Renderer:
    """Makes pages of views."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.static: dict[str, tuple[bytes, str]] = {}
        """Static files by the name they are served under."""
        self._names: dict[str, str] = {}
        for file in files("perdure.web").joinpath("static").iterdir():
            content = file.read_bytes()
            stem, _, ending = file.name.rpartition(".")
            name = f"{stem}.{sha256(content).hexdigest()[:12]}.{ending}"
            self.static[name] = (content, mimetypes.types_map.get(f".{ending}", "text/plain"))
            self._names[file.name] = name

    def page(self, request: Request, view: PageContent) -> MadePage:
        """Return a page."""
        html = self._html(request, view, access_of(request))
        return MadePage(html, f'"{sha256(html).hexdigest()[:32]}"', view.status)

    def error_page(self, request: Request, error: Exception) -> Response:
        """Return what went wrong as a page."""
        problem, headers = document_of(error)
        view = PageContent(
            template="error.html",
            title=problem["title"],
            data={"problem": problem},
            status=problem["status"],
        )
        access = Access(who="", scopes=frozenset({"read"}))
        html = self._html(request, view, access)
        return Response(html, status_code=view.status, headers=headers, media_type="text/html")

    def _html(self, request: Request, view: PageContent, access: Access) -> bytes:
        base = request.scope.get("root_path", "")
        settings = self._site.settings
        template = _templates().get_template(view.template)
        text = template.render(
            **shown(view.data, settings.mask),
            **view.drawing,
            base=base,
            page_title=view.title,
            here=_here(request, base),
            store_title=settings.title,
            insecure=settings.insecure_no_auth,
            read_only=settings.read_only,
            strip=settings.strip,
            scopes=access.scopes,
            csrf=csrf_token(settings, access),
            static=lambda name: f"{base}/static/{self._names[name]}",
            url=lambda *parts, **query: url(base, *parts, **query),
            twin=_twin(request),
        )
        return text.encode("utf-8", "replace")


@cache
def _templates() -> Environment:
    """Return the templates, which are compiled once for all applications of a process."""
    environment = Environment(
        loader=PackageLoader("perdure.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        time=time_tag,
        took=took,
        seconds=seconds,
        sentence=sentence,
        payload=payload,
        compact=compact,
        mail=mail,
        number=number,
        portion=read_portion,
        failing=failing,
        started_by=started_by,
        in_words=in_words,
    )
    environment.globals.update(signs=STATUS_SIGNS, navigation=NAVIGATION)
    return environment


def response_for_page(request: Request, made: MadePage) -> Response:
    """Return the answer with a page, or with nothing if the browser has it as it is."""
    headers = {"ETag": made.tag, "Cache-Control": "no-cache, private", "Vary": "Cookie"}
    if request.headers.get(KNOWN_TAG) == made.tag and made.status == 200:
        return Response(status_code=304, headers=headers)
    return Response(made.html, status_code=made.status, headers=headers, media_type="text/html")


def url(base: str, *parts: str, **query: object) -> str:
    """Return the address of a page; each part is escaped, and so is the query."""
    path = "/".join(escaped(str(part)) for part in parts)
    wanted = {name: str(value) for name, value in query.items() if value not in (None, "", False)}
    return f"{base}/{path}" + (f"?{urlencode(wanted)}" if wanted else "")


def time_tag(value: str | datetime | None) -> Markup:
    """Return a point in time for people; a script shows it as they like it."""
    if value is None:
        return Markup(NONE)
    iso = value if isinstance(value, str) else str(as_json(value))
    text = f"{iso[:10]} {iso[11:19]}"
    return Markup('<time datetime="{}">{}</time>').format(iso, text)


def took(start: str, end: str | None) -> str:
    """Return how long something took."""
    if end is None:
        return NONE
    return shown_duration(datetime.fromisoformat(end) - datetime.fromisoformat(start))


def seconds(value: float) -> str:
    """Return a length of time that is sent in seconds."""
    return shown_duration(timedelta(seconds=value)) if value else NONE


def sentence(text: str, status: str = "", chars: int = 2000) -> Markup:
    """Return what is said of an instance, without the status that stands beside it, and with its
    times as all others."""
    for head in (f"is {status}: ", f"{status}: ", f"{status} "):
        text = text.removeprefix(head) if status else text
    text = compact(text, chars)
    found = Markup()
    end = 0
    for one in _SAID_TIME.finditer(text):
        found += text[end : one.start()] + time_tag(f"{one[1]}T{one[2]}Z")
        end = one.end()
    return found + text[end:]


def started_by(schedule: str) -> str:
    """Return the filter words for what a schedule has started."""
    return shlex.quote(f"prefix:{schedule}@")


def payload(value: object) -> Markup:
    """Return a value as text that can do nothing, cut where it is long (SEC-18)."""
    whole = dump(value, indent=2)
    if len(whole) <= MAX_COLOURED_BYTES:
        return Markup('<pre class="value" tabindex="0">{}</pre>').format(_coloured(whole.decode()))
    if len(whole) <= MAX_SHOWN_BYTES:
        return Markup('<pre class="value" tabindex="0">{}</pre>').format(whole.decode())
    cut = whole[:MAX_SHOWN_BYTES].decode("utf-8", "ignore")
    return Markup(
        '<pre class="value" tabindex="0">{}</pre><p class="hint">{} of {} bytes are shown; the '
        "JSON of this page has all.</p>"
    ).format(cut, f"{MAX_SHOWN_BYTES:,}", f"{len(whole):,}")


def _coloured(text: str) -> Markup:
    """Return JSON with its keys, texts and plain values marked."""
    found = Markup()
    end = 0
    for one in _TOKEN.finditer(text):
        mark = Markup('<span class="j-{}">{}</span>').format(one.lastgroup, one[0])
        found += text[end : one.start()] + mark
        end = one.end()
    return found + text[end:]


def compact(value: object, chars: int = 120) -> str:
    """Return a value on one line, cut where it is long."""
    text = value if isinstance(value, str) else dump(value).decode()
    text = " ".join(text.split())
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def mail(message: Mapping[str, object]) -> str:
    """Return what a message in an inbox is."""
    return message_text(str(message["kind"]), message["data"])


def failing(record: Mapping[str, int]) -> str:
    """Return which part of what ended failed."""
    failed, ended = record["failed"], record["ended"]
    if not failed:
        return "none failed"
    share = 100 * failed / ended
    return f"{share:.0f} % failed" if share >= 1 else "less than 1 % failed"


def number(value: float) -> str:
    """Return a number for people."""
    return f"{value:,}"


def _here(request: Request, base: str) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(base) or "/"


def _twin(request: Request) -> str:
    """Return the address of the page's JSON."""
    path = quote(request.scope["path"], safe="/%:@")
    path = f"{path}index{TWIN}" if path.endswith("/") else f"{path}{TWIN}"
    query: Mapping[str, str] = dict(request.query_params)
    return path + (f"?{urlencode(query)}" if query else "")
