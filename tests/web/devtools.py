"""A real browser, driven over the DevTools protocol through a pair of pipes.

No package is needed for that: Chromium speaks JSON, a message at a time, on the file descriptors 3
and 4, and ends by itself when these are closed, however the tests end. A `Page` has cookies and
storage of its own, is used as a person would (keys, a mouse), and remembers what must never happen:
scripts that failed, dialogs, what the content security policy refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any, Literal, Self

from tests.engine.stage import until

ANSWER_WITHIN_S = 60.0
END_WITHIN_S = 10.0
MAX_MESSAGE_BYTES = 1 << 26
FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-sandbox",  # its own needs more than containers allow; only pages of ours are opened
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
LAUNCHER = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

SIZE = (1280, 800)
"""Of the window of a new page."""
KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Tab": (9, ""),
    "ArrowLeft": (37, ""),
    "Home": (36, ""),
}

Theme = Literal["light", "dark"]


class PageError(Exception):
    """The browser could not do what it was asked, or a script failed."""


class Browser:
    """One Chromium, as a process."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._folder = tempfile.TemporaryDirectory(
            prefix="perdure-browser-", ignore_cleanup_errors=True
        )
        self._asked = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def __aenter__(self) -> Self:
        """Start it."""
        its_in, our_out = os.pipe()
        our_in, its_out = os.pipe()
        launch = [sys.executable, "-c", LAUNCHER, str(its_in), str(its_out), self._program]
        self._process = await asyncio.create_subprocess_exec(
            *launch,
            *FLAGS,
            f"--user-data-dir={self._folder.name}",
            "about:blank",
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        self._in, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_in, "rb")
        )
        self._out, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(our_out, "wb"))
        self._reading = asyncio.ensure_future(self._read(reader))
        await self.ask("Browser.getVersion")
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        self._out.close()
        self._in.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        try:
            async with asyncio.timeout(END_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._folder.cleanup()

    async def open(self, base_url: str) -> Page:
        """Return a new page that has seen nothing yet."""
        context = (await self.ask("Target.createBrowserContext"))["browserContextId"]
        made = await self.ask("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.ask("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        page = Page(self, base_url, context, attached["sessionId"])
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.ask(f"{domain}.enable")
        await page.ask("Page.setLifecycleEventsEnabled", enabled=True)
        await page.resize(*SIZE)
        return page

    async def forget(self, page: Page) -> None:
        """Close a page, and forget its cookies."""
        self._pages.pop(page.session, None)
        await self.ask("Target.disposeBrowserContext", browserContextId=page.context)

    async def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the answer to a command.

        Raises:
            PageError: It was refused.
        """
        self._asked += 1
        number = self._asked
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        coming = self._answers[number] = asyncio.get_running_loop().create_future()
        self._out.write(json.dumps(message).encode() + b"\0")
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer = await coming
        except TimeoutError:
            raise PageError(f"{method} was not answered within {ANSWER_WITHIN_S:g} s") from None
        finally:
            del self._answers[number]
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']['message']}")
        found: dict[str, Any] = answer["result"]
        return found

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await reader.readuntil(b"\0"))[:-1])
                if "id" in message:
                    self._answered(message)
                elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                    page.hear(message["method"], message["params"])
        for one in self._answers.values():
            if not one.done():
                one.set_exception(PageError("the browser has ended"))

    def _answered(self, message: dict[str, Any]) -> None:
        waiting = self._answers.get(message["id"])
        # It may be given up: the test has waited long enough.
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


class Page:
    """One page of the browser."""

    def __init__(self, browser: Browser, base_url: str, context: str, session: str) -> None:
        self._browser = browser
        self._base_url = base_url
        self.context = context
        self.session = session
        self._loaded: set[str] = set()
        self.troubles: list[str] = []
        """Scripts that failed, dialogs that opened, what the browser refused to run."""
        self.asked_for: list[str] = []
        """Every address that was asked for, in order."""
        self.types: dict[str, str] = {}
        """What kind of resource each of them was: Document, Script, EventSource, ..."""

    async def __aenter__(self) -> Self:
        """Use it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._browser.forget(self)

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the answer to a command."""
        return await self._browser.ask(method, self.session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """Take note of an event."""
        match method:
            case "Page.lifecycleEvent" if params["name"] == "load":
                self._loaded.add(params["loaderId"])
            case "Page.javascriptDialogOpening":
                self.troubles.append(f"dialog: {params['message']}")
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                said = details.get("exception", {}).get("description", "")
                self.troubles.append(f"script: {details['text']} {said}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                entry = params["entry"]
                # An answer that is no success is on record here as well; tests look at the page.
                if entry["source"] != "network":
                    self.troubles.append(f"{entry['source']}: {entry['text']}")
            case "Network.requestWillBeSent":
                address = params["request"]["url"].removeprefix(self._base_url)
                self.asked_for.append(address)
                self.types[address] = params.get("type", "")

    # ------------------------------------------------------------------ where

    async def goto(self, path: str) -> None:
        """Open an address and wait until it is there and its script has run."""
        went = await self.ask("Page.navigate", url=self._base_url + path)
        if "errorText" in went:
            raise PageError(f"{path}: {went['errorText']}")
        if "loaderId" in went:  # Else it is another place of the same document.
            await until(lambda: went["loaderId"] in self._loaded)

    async def goes(self, start: str) -> None:
        """Wait until the page is at an address that begins so, and its script has run."""
        await until(lambda: self._is_at(start))

    async def _is_at(self, start: str) -> bool:
        with suppress(PageError):  # Between two documents there is none to ask.
            here = await self.run("document.readyState + ' ' + location.pathname + location.search")
            return bool(here.startswith(f"complete {start}"))
        return False

    async def path(self) -> str:
        """Return where the page is, with its query."""
        return str(await self.run("location.pathname + location.search"))

    # ------------------------------------------------------------------- what

    async def run(self, expression: str) -> Any:
        """Return what an expression comes to in the page."""
        answer = await self.ask(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise PageError(
                f"{expression[:200]}: {details.get('exception', {}).get('description', details)}"
            )
        return answer["result"].get("value")

    async def text(self, selector: str) -> str:
        """Return the text of an element, as it is shown."""
        found = await self.run(f"document.querySelector({json.dumps(selector)})?.innerText")
        if found is None:
            raise PageError(f"there is no {selector} on {await self.path()}")
        return str(found)

    async def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that fit."""
        found: list[str] = await self.run(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(one => one.innerText)"
        )
        return found

    async def has(self, selector: str) -> bool:
        """Return whether there is such an element that can be seen."""
        return bool(
            await self.run(
                f"[...document.querySelectorAll({json.dumps(selector)})]"
                ".some(one => one.checkVisibility())"
            )
        )

    async def until(self, expression: str) -> None:
        """Wait until an expression holds in the page."""

        async def holds() -> bool:
            with suppress(PageError):
                return bool(await self.run(f"!!({expression})"))
            return False

        try:
            await until(holds)
        except AssertionError:
            shown = await self.text("body")
            raise AssertionError(
                f"{expression} did not come to hold on {await self.path()}:\n{shown}"
            ) from None

    async def sees(self, selector: str, text: str = "") -> None:
        """Wait until an element is there with such a text in it."""
        await self.until(
            f"[...document.querySelectorAll({json.dumps(selector)})].some(one => "
            f"one.checkVisibility() && one.innerText.includes({json.dumps(text)}))"
        )

    # --------------------------------------------------------------- a person

    async def click(self, selector: str, *, text: str = "") -> None:
        """Click into the middle of an element, which must be there and not covered."""
        found = await self.run(
            f"""(() => {{
              const found = [...document.querySelectorAll({json.dumps(selector)})]
                .find(one => one.checkVisibility() && one.innerText.includes({json.dumps(text)}));
              if (!found) return "is not there";
              found.scrollIntoView({{block: "center", inline: "center", behavior: "instant"}});
              const box = found.getBoundingClientRect();
              const x = box.x + box.width / 2, y = box.y + box.height / 2;
              const top = document.elementFromPoint(x, y);
              return found.contains(top) || top?.contains(found) ? [x, y] : "is covered";
            }})()"""
        )
        if isinstance(found, str):
            raise PageError(f"{selector} {text!r} {found} on {await self.path()}")
        where = {"x": found[0], "y": found[1], "button": "left", "clickCount": 1}
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask("Input.dispatchMouseEvent", type=kind, **where)

    async def press(self, *keys: str) -> None:
        """Press keys one after the other: names, or single characters."""
        for key in keys:
            code, text = KEYS.get(key, (ord(key[0].upper()), key))
            pressed = {"key": key, "windowsVirtualKeyCode": code}
            down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
            await self.ask("Input.dispatchKeyEvent", **down, **pressed)
            await self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def write(self, text: str) -> None:
        """Write a text where the focus is."""
        await self.ask("Input.insertText", text=text)

    async def fill(self, selector: str, text: str) -> None:
        """Write a text into a field, instead of what is there."""
        await self.click(selector)
        await self.run(f"document.querySelector({json.dumps(selector)}).select()")
        await self.write(text)

    # ------------------------------------------------------------------ looks

    async def prefers(self, theme: Theme) -> None:
        """Let the browser say that its owner prefers a theme."""
        await self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": theme}],
        )

    async def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    async def picture(self) -> bytes:
        """Return what is in the window, as a PNG."""
        shot = await self.ask("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])
