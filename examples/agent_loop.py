"""An agent: a model decides which tools to call, until it has an answer. Every step is on record.

Model and tools are plain functions, called with `inline`: nothing to declare, and what they return
is recorded. Kill it after three calls and start it again: those three are neither made nor paid
for a second time. The "model" here is a small local function that follows fixed rules, so that the
example needs no key and always tells the same story; put a real one in its place.

    python examples/agent_loop.py              a new conversation each time
    python examples/agent_loop.py ticket-7     one conversation, answered once
"""

import asyncio
import sys
from dataclasses import dataclass, field
from uuid import uuid4

from perdure import inline, orchestration, run


@dataclass(frozen=True)
class ToolCall:
    """What the model wants to know."""

    tool: str
    argument: str


@dataclass(frozen=True)
class Message:
    """One line of the conversation."""

    role: str
    text: str = ""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])


# ------------------------------------------------------------- the tools, and the "model"


async def find_order(order: str) -> str:
    """Look an order up."""
    print(f"tool   find_order({order})")
    await asyncio.sleep(0.2)
    return f"order {order}: a blue kettle, paid 39.90, parcel P-512"


async def track_parcel(parcel: str) -> str:
    """Ask the carrier where a parcel is."""
    print(f"tool   track_parcel({parcel})")
    await asyncio.sleep(0.2)
    return f"parcel {parcel}: lost on 3 November"


async def read_policy(topic: str) -> str:
    """Look a rule of the shop up."""
    print(f"tool   read_policy({topic})")
    await asyncio.sleep(0.2)
    return f"{topic}: paid back in full once the carrier confirms the loss"


TOOLS = {tool.__name__: tool for tool in (find_order, track_parcel, read_policy)}


async def ask_model(messages: list[Message]) -> Message:
    """Stand in for a language model: read the conversation, then ask for more or answer."""
    print(f"model  reads {len(messages)} messages")
    await asyncio.sleep(0.2)
    known = " ".join(message.text for message in messages)
    if "kettle" not in known:
        return Message("assistant", calls=[ToolCall("find_order", "1042")])
    if "lost on" not in known:
        wanted = [ToolCall("track_parcel", "P-512"), ToolCall("read_policy", "lost parcels")]
        return Message("assistant", calls=wanted)
    return Message("assistant", "Your kettle was lost on 3 November. You get 39.90 back.")


# ------------------------------------------------------------- the durable part


@orchestration
async def answer(question: str, max_rounds: int = 10) -> str:
    """Let the model call tools, several at a time if it likes, until it answers."""
    messages = [Message("user", question)]
    for _ in range(max_rounds):
        reply = await inline(ask_model, messages)
        if not reply.calls:
            return reply.text
        found = await asyncio.gather(
            *(inline(TOOLS[call.tool], call.argument) for call in reply.calls)
        )
        messages += [reply, *(Message("tool", text) for text in found)]
    return "I could not find out. A colleague will write to you."


if __name__ == "__main__":
    instance_id = sys.argv[1] if len(sys.argv) > 1 else f"ticket-{uuid4()}"
    print(f"answer {run(instance_id, answer, 'Where is my order 1042?')}")
