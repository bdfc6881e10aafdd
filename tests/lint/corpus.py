"""Small programs that cannot be replayed, each with the kinds of findings it must give, and small
ones that can."""

# ruff: noqa: E501 - a program is a line

from __future__ import annotations

HEAD = """
import asyncio, os, random, sys, time, uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from perdure import Context, Decider, Decision, Signal, activity, context, inline, orchestration, race

CACHE = {}
SEEN: list[str] = []
COUNT = 0
go = Signal("go", str)

@activity
async def charge(name: str) -> str:
    return name

@orchestration
async def child(name: str) -> str:
    return name
"""


def of(body: str, arguments: str = "names: list[str]") -> str:
    """Return a program whose orchestration has this body."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}\n@orchestration\nasync def bad({arguments}) -> None:\n{lines}\n"


WRONG: list[tuple[str, str]] = [
    # clocks
    ("clock", of("await charge(str(time.time()))")),
    ("clock", of("began = time.monotonic()\nawait charge(str(began))")),
    ("clock", of("return datetime.now(UTC)")),
    ("clock", of("return datetime.utcnow().isoformat()")),
    ("clock", of("return date.today()")),
    ("clock", of("return time.strftime('%Y')")),
    ("clock", of("import datetime as dt\nreturn dt.datetime.now()")),
    ("clock", of("from time import time as now\nreturn now()")),
    ("clock", of("now = time.time\nreturn now()")),
    ("clock", of("return [time.time_ns() for _ in names]")),
    ("clock", of("first = min(names, key=lambda _: time.perf_counter())")),
    ("clock", HEAD + "\ndef stamp():\n    return time.time()\n\n@orchestration\nasync def bad():\n    return stamp()\n"),
    ("clock", HEAD + "\nclass Clock:\n    def now(self):\n        return datetime.now()\n\n@orchestration\nasync def bad():\n    clock = Clock()\n    return clock.now()\n"),
    ("clock", HEAD + "\n@dataclass\nclass Order:\n    at: float = 0\n    def __post_init__(self):\n        self.at = time.time()\n\n@orchestration\nasync def bad():\n    return Order()\n"),
    ("clock", HEAD + "\n@dataclass\nclass Order:\n    @property\n    def age(self):\n        return time.time()\n\n@orchestration\nasync def bad(order: Order):\n    return order.age\n"),
    ("clock", of("async def inner():\n    return time.time()\nreturn await inner()")),
    # hashes and identities
    ("hash", of("return hash(names[0]) % 4")),
    ("hash", of("await charge(str(id(names)))")),
    # random numbers and uuids
    ("random", of("import numpy as np\nreturn np.random.rand()")),
    ("random", of("import numpy as np\nreturn np.random.default_rng()")),
    ("random", of("return random.choice(names)")),
    ("random", of("random.shuffle(names)")),
    ("random", of("return random.Random().random()")),
    ("random", of("import secrets\nreturn secrets.token_hex()")),
    ("random", of("return os.urandom(8)")),
    ("uuid", of("return str(uuid.uuid4())")),
    ("uuid", of("from uuid import uuid1\nreturn uuid1().hex")),
    # the outside
    ("outside", of("open('orders.txt').read()")),
    ("outside", of("with open('orders.txt', 'w') as file:\n    file.write('x')")),
    ("outside", of("return Path('orders.txt').read_text()")),
    ("outside", of("path = Path('orders.txt')\npath.write_text('x')")),
    ("outside", of("return os.path.exists('orders.txt')")),
    ("outside", of("return os.listdir('.')")),
    ("outside", of("import subprocess\nsubprocess.run(['ls'])")),
    ("outside", of("import requests\nreturn requests.get('https://shop.example').text")),
    ("outside", of("import httpx\nasync with httpx.AsyncClient() as client:\n    await client.get('x')")),
    ("outside", of("from urllib.request import urlopen\nreturn urlopen('https://shop.example')")),
    ("outside", of("import sqlite3\nreturn sqlite3.connect('shop.db')")),
    ("outside", of("import shutil\nshutil.rmtree('x')")),
    ("outside", of("await asyncio.open_connection('shop.example', 80)")),
    ("outside", of("return input('name? ')")),
    ("sleep", of("time.sleep(3)")),
    # threads
    ("thread", of("import threading\nthreading.Thread(target=print).start()")),
    ("thread", of("from concurrent.futures import ThreadPoolExecutor\nThreadPoolExecutor()")),
    ("thread", of("await asyncio.to_thread(print)")),
    ("thread", of("await asyncio.get_running_loop().run_in_executor(None, print)")),
    ("thread", of("import multiprocessing\nmultiprocessing.Process(target=print).start()")),
    # the environment
    ("environment", of("return os.environ['REGION']")),
    ("environment", of("return os.environ.get('REGION')")),
    ("environment", of("return os.getenv('REGION')")),
    ("environment", of("if sys.platform == 'linux':\n    await charge('x')")),
    ("environment", of("return os.getpid()")),
    ("environment", of("import socket\nreturn socket.gethostname()")),
    ("environment", of("import platform\nreturn platform.node()")),
    # state that outlives the instance
    ("global-state", of("global COUNT\nCOUNT += 1")),
    ("global-state", of("CACHE['a'] = await charge('a')")),
    ("global-state", of("SEEN.append('a')")),
    ("global-state", of("CACHE.setdefault('a', 1)")),
    ("global-state", of("del CACHE['a']")),
    ("global-state", HEAD + "\nimport itertools\nnumbers = itertools.count()\n\n@orchestration\nasync def bad():\n    return next(numbers)\n"),
    # the order of a set
    ("set-order", of("for name in {'a', 'b'}:\n    await charge(name)")),
    ("set-order", of("for name in set(names):\n    await charge(name)")),
    ("set-order", of("await asyncio.gather(*(charge(name) for name in set(names)))")),
    ("set-order", of("wanted = set(names)\nreturn [await charge(name) for name in wanted]")),
    ("set-order", of("for name in names:\n    await charge(name)", "names: set[str]")),
    ("set-order", of("await asyncio.gather(*map(charge, {*names}))")),
    ("set-order", of("left = set(names)\nawait charge(left.pop())")),
    ("set-order", of("await charge(next(iter(set(names))))")),
    ("set-order", of("for n, name in enumerate(set(names) - {'x'}):\n    await charge(name)")),
    ("set-order", of("once = list(set(names))\nfor name in once:\n    await charge(name)")),
    ("set-order", of("for name in dict.fromkeys(set(names)):\n    await charge(name)")),
    # calls that are lost
    ("never-awaited", of("charge('a')")),
    ("never-awaited", of("child('a')")),
    ("never-awaited", of("asyncio.sleep(3)")),
    ("never-awaited", of("go.receive()")),
    ("never-awaited", of("receipt = charge('a')\nreturn None")),
    ("never-awaited", of("charge.with_options(timeout=None)('a')")),
    ("never-awaited", of("ctx = context()\nctx.start(child, 'a')")),
    ("never-awaited", of("ctx.start(child, 'a')", "ctx: Context")),
    ("never-awaited", of("async def pay():\n    await charge('a')\npay()")),
    # what would be undone
    ("continue-as-new", of("async with AsyncExitStack() as undo:\n    bad.continue_as_new(names)")),
    ("late-undo", of("async with AsyncExitStack() as undo:\n    for name in names:\n        await charge(name)\n        undo.push_async_callback(charge, name)")),
    ("late-undo", of("async with AsyncExitStack() as undo:\n    paid = await charge('a')\n    undo.push_async_callback(charge, paid)")),
    ("late-undo", of("undo = AsyncExitStack()\nasync with undo:\n    await charge('a')\n    undo.push_async_callback(charge, 'a')\n    await charge('b')")),
    ("late-undo", of("async with AsyncExitStack() as undo:\n    if names:\n        await child(name='a')\n        undo.push_async_callback(charge, name='a')\n    undo.pop_all()")),
    ("continue-as-new", of("undo = AsyncExitStack()\nasync with undo:\n    if names:\n        bad.continue_as_new(names)")),
    # deciders
    ("clock", HEAD + "\nclass Bad(Decider[int, str, str, str]):\n    def decide(self, state, input, now):\n        return Decision.accept(str(time.time()))\n"),
    ("random", HEAD + "\nclass Bad(Decider[int, str, str, str]):\n    def evolve(self, state, event):\n        return self.rolled()\n    def rolled(self):\n        return random.random()\n"),
    ("global-state", HEAD + "\nclass Bad(Decider[int, str, str, str]):\n    def evolve(self, state, event):\n        SEEN.append(event)\n        return state\n"),
    ("unreadable", "@orchestration\nasync def bad(:\n"),
]  # fmt: skip

RIGHT: list[str] = [
    of("ctx = context()\nawait charge(f'{ctx.now()} {ctx.uuid()} {ctx.random.choice(names)}')"),
    of("await inline(time.time)"),
    of("await inline(lambda: open('x').read(), name='read')"),
    of("def read():\n    return Path('x').read_text()\nreturn await inline(read)"),
    of("rng = random.Random(3)\nreturn rng.choice(names)"),
    of("return uuid.uuid5(uuid.NAMESPACE_DNS, 'x'), uuid.UUID(int=3)"),
    of("return datetime.fromtimestamp(3, UTC), datetime.combine(date(2030, 1, 1), datetime.min.time())"),
    of("for name in sorted(set(names)):\n    await charge(name)"),
    of("once = list(set(names))\nonce.sort()\nfor name in once:\n    await charge(name)"),
    of("for name in dict.fromkeys(names):\n    await charge(name)"),
    of("import numpy as np\nrng = np.random.default_rng(7)\nreturn rng.random()"),
    of("import zlib\nreturn zlib.crc32(names[0].encode())"),
    of("return [id for id in names]"),
    of("total = 0\nfor name in set(names):\n    total += len(name)\nreturn total"),
    of("wanted = set(names)\nif 'a' in wanted:\n    await charge('a')"),
    of("task = asyncio.create_task(charge('a'))\nawait task"),
    of("calls = [charge(name) for name in names]\nawait asyncio.gather(*calls)"),
    of("first = charge('a')\nawait asyncio.sleep(1)\nawait first"),
    of("cache = {}\ncache['a'] = await charge('a')\nseen = []\nseen.append('a')"),
    of("return CACHE.get('a'), len(SEEN), COUNT"),
    of("async with AsyncExitStack() as undo:\n    undo.push_async_callback(charge, 'a')\nbad.continue_as_new(names)"),
    of("async with AsyncExitStack() as undo:\n    undo.pop_all()\n    bad.continue_as_new(names)"),
    of("async with AsyncExitStack() as undo:\n    for name in names:\n        undo.push_async_callback(charge, name)\n        await charge(name)\n    undo.pop_all()"),
    of("async with AsyncExitStack() as undo:\n    undo.push_async_callback(charge, 'a')\n    await charge('a')\n    undo.push_async_callback(charge, 'b')\n    await charge('b')"),
    of("async with AsyncExitStack() as undo:\n    price = await charge('a')\n    undo.push_async_callback(charge, 'a')\n    await child('a')\n    await charge(price)"),
    of("async with AsyncExitStack() as undo:\n    await charge('a')\n    undo.push_async_callback(charge, 'b')"),
    of("return os.path.join('a', 'b'), Path('a') / 'b', time.strftime('%Y', time.gmtime(0))"),
    of("return time.time()  # perdure: ignore[clock]"),
    of("return time.time()  # perdure: ignore"),
    of("time = await charge('a')\nreturn time.time()"),
    of("return await race(charge('a'), child('b'))"),
    of("return await charge.with_options(timeout=None)('a')"),
    of("await asyncio.gather(*(charge(name) for name in names))"),
    HEAD + "\n@activity\nasync def good() -> float:\n    SEEN.append('x')\n    return time.time() + random.random()\n",
    HEAD + "\ndef helper():\n    return time.time()\n\n@activity\ndef good() -> float:\n    return helper()\n",
    HEAD + "\nclass Good(Decider[int, str, str, str]):\n    def decide(self, state, input, now: datetime):\n        return Decision.accept(now.isoformat()).effect(charge, input)\n",
    "import time\n\ndef plain() -> float:\n    return time.time()\n",
]  # fmt: skip
