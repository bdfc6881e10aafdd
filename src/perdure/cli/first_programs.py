"""What `perdure new` writes: one small program for each kind of work that perdure is for."""

from __future__ import annotations

from typing import NamedTuple


class FirstProgram(NamedTuple):
    """A program to begin with."""

    text: str
    """Its source; `{file}` is what it is called."""
    start: str
    """The command that starts something of it."""


HELLO = FirstProgram(
    '''\
"""A first program. Serve it with `perdure dev {file}`, or run it: `python {file}`."""

import asyncio

from perdure import activity, orchestration, run


@activity
async def say_hello(name: str) -> str:
    """Whatever touches the world is an activity: it is tried again until it succeeds."""
    return f"Hello, {{name}}!"


@orchestration
async def greet_all(names: list[str]) -> list[str]:
    """Plain asyncio. It goes on to its end, whatever dies in between."""
    return await asyncio.gather(*(say_hello(name) for name in names))


if __name__ == "__main__":
    print(run(greet_all, ["Ada", "Grace"]))
''',
    """perdure start greet_all '["Ada", "Grace"]' --wait""",
)

DECIDER = FirstProgram(
    '''\
"""A decider: rules in `decide`, facts in `evolve`. Serve it with `perdure dev {file}`."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from perdure import Decider, Decision, Engine


@dataclass(frozen=True)
class Withdraw:
    account: str
    amount: int


@dataclass(frozen=True)
class Withdrawn:
    amount: int


class Account(Decider[int, Withdraw, Withdrawn, str]):
    """Its state is what is left; nobody gets more than that."""

    name = "account"

    def initial(self) -> int:
        return 100

    def instance_id(self, input: Withdraw, /) -> str:
        return input.account

    def decide(
        self, state: int, input: Withdraw, now: datetime, /
    ) -> Decision[Withdraw, Withdrawn, str]:
        if input.amount > state:
            return Decision.reject(f"only {{state}} left")
        return Decision.accept(Withdrawn(input.amount))

    def evolve(self, state: int, event: Withdrawn, /) -> int:
        return state - event.amount


async def main() -> None:
    async with Engine("sqlite:///perdure.db", [Account]) as engine:
        print(await engine.execute(Account, Withdraw("ada", 80)))


if __name__ == "__main__":
    asyncio.run(main())
''',
    """perdure decider execute account:ada Withdraw '{"account": "ada", "amount": 80}'""",
)

AGENT = FirstProgram(
    '''\
"""An agent: a model chooses tools until it has an answer. Serve it with `perdure dev {file}`.

What the model and the tools returned is on record: after a crash nothing is asked again.
"""

from dataclasses import dataclass

from perdure import activity, orchestration, run

STEPS_MAX = 10


@dataclass(frozen=True)
class Step:
    tool: str
    argument: str


@activity
async def ask_model(question: str, found: list[str]) -> Step:
    """Put a call of your model here; this one answers with what it has looked up."""
    if not found:
        return Step("look_up", question)
    return Step("answer", found[-1])


@activity
async def look_up(argument: str) -> str:
    """A tool."""
    return f"what is known of {{argument!r}}"


@orchestration
async def agent(question: str) -> str:
    found: list[str] = []
    for _ in range(STEPS_MAX):
        step = await ask_model(question, found)
        if step.tool == "answer":
            return step.argument
        found.append(await look_up(step.argument))
    return "no answer"


if __name__ == "__main__":
    print(run(agent, "the order 42"))
''',
    """perdure start agent '"the order 42"' --wait""",
)

WEB = FirstProgram(
    '''\
"""A web application that starts and asks. Run it: `python {file}`; it prints where its pages are.

With FastAPI: `app = FastAPI(lifespan=perdure.web.lifespan(engine))`, and
`app.mount("/perdure", perdure.web.app(engine, key=KEY))`. Where your application knows who asks,
say so with `authorize=` in place of a key.
"""

import os

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import perdure.web
from perdure import Engine, activity, orchestration


@activity
async def pack(order: str) -> str:
    return f"{{order}} packed"


@orchestration
async def ship(order: str) -> str:
    return await pack(order)


async def create(request: Request) -> JSONResponse:
    order = request.path_params["order"]
    handle = await request.state.perdure.start(order, ship, order)  # safe to send twice
    return JSONResponse({{"id": handle.instance_id}}, status_code=202)


async def show(request: Request) -> JSONResponse:
    handle = request.state.perdure.handle(request.path_params["order"], ship)
    return JSONResponse({{"result": await handle.result()}})


KEY = os.urandom(24).hex()
engine = Engine("sqlite:///perdure.db", [ship, pack])
app = Starlette(
    routes=[
        Route("/orders/{{order}}", create, methods=["POST"]),
        Route("/orders/{{order}}", show),
        Mount("/perdure", perdure.web.app(engine, key=KEY)),
    ],
    lifespan=perdure.web.lifespan(engine),
)

if __name__ == "__main__":
    print(f"pages  http://127.0.0.1:8000/perdure/?k={{KEY}}")
    uvicorn.run(app, port=8000)
''',
    "curl -X POST http://127.0.0.1:8000/orders/order-1",
)

FIRST_PROGRAMS = {"hello": HELLO, "decider": DECIDER, "agent": AGENT, "web": WEB}
