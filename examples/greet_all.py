"""The smallest program: fan out, gather, print.

Run it with an id, kill it in the middle and start it again: it goes on where it was.

    python examples/greet_all.py            a new instance each time
    python examples/greet_all.py greet-1    one instance, finished once
"""

import asyncio
import sys

from perdure import activity, orchestration, run


@activity
async def say_hello(name: str) -> str:
    """Greet one person."""
    return f"Hello, {name}!"


@orchestration
async def greet_all(names: list[str]) -> list[str]:
    """Greet everybody at the same time."""
    return await asyncio.gather(*(say_hello(name) for name in names))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(run(sys.argv[1], greet_all, ["Ada", "Grace"]))
    else:
        print(run(greet_all, ["Ada", "Grace"]))
