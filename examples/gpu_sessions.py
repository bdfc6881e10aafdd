"""Work that stays on one machine: sessions, and tags for machines that have what others lack.

All pictures of a book are painted where its model is loaded, since loading takes long: their calls
share a session, and a session belongs to one worker. Only workers with the tag "gpu" take them; the
rest runs without a card. The three workers here share nothing but the store, as three machines do.

    python examples/gpu_sessions.py
"""

import asyncio
from dataclasses import dataclass, field

from perdure import (
    ActivityContext,
    Context,
    Engine,
    Worker,
    WorkerOptions,
    activity,
    default_url,
    orchestration,
)

STORE = default_url()


@dataclass(frozen=True)
class Book:
    """What is to be illustrated, and by which model."""

    title: str
    scenes: list[str]
    model: str


@dataclass
class Gpu:
    """A graphics card and what its memory holds. It never leaves the machine."""

    name: str
    models: set[str] = field(default_factory=set[str])


class ModelNotLoadedError(Exception):
    """This card does not have the model."""


@activity(tag="gpu")
async def load_model(ctx: ActivityContext, model: str) -> None:
    """Load a model into the memory of this worker's card."""
    gpu = ctx.resource(Gpu)
    await asyncio.sleep(0.2)
    gpu.models.add(model)
    print(f"{gpu.name}: {model} loaded")


@activity(tag="gpu", raises=[ModelNotLoadedError])
async def paint(ctx: ActivityContext, model: str, scene: str) -> str:
    """Paint a scene with a model that is loaded here; return the name of the card."""
    gpu = ctx.resource(Gpu)
    if model not in gpu.models:
        raise ModelNotLoadedError(f"{gpu.name} does not have {model}")
    print(f"{gpu.name}: {scene} painted")
    return gpu.name


@activity
async def bind(title: str, cards: list[str]) -> str:
    """Make a book of the pictures that these cards painted. Needs no card."""
    return f"{title}: {len(cards)} pictures, painted on {' and '.join(sorted(set(cards)))}"


@orchestration
async def illustrate(ctx: Context, book: Book) -> str:
    """Paint all scenes of a book on one card."""
    load_here = load_model.with_options(session=ctx.instance_id)
    paint_here = paint.with_options(session=ctx.instance_id)
    await load_here(book.model)
    cards: list[str] = []
    for scene in book.scenes:
        try:
            cards.append(await paint_here(book.model, scene))
        except ModelNotLoadedError:  # its worker was lost: the session has moved to another one
            await load_here(book.model)
            cards.append(await paint_here(book.model, scene))
    return await bind(book.title, cards)


def gpu_worker(name: str) -> Worker:
    """Return a worker with a card. Its lasting name keeps its sessions across a restart."""
    options = WorkerOptions(name=name, tags=["gpu"], max_sessions=1)
    return Worker(STORE, [load_model, paint], options=options, resources=[Gpu(name)])


async def main() -> None:
    """Illustrate two books at the same time."""
    without_card = Engine(STORE, [illustrate, bind])
    async with without_card as engine, gpu_worker("gpu-1"), gpu_worker("gpu-2"):
        sea = Book("The Sea", ["a ship", "a storm", "an island"], model="oil-paint")
        night = Book("The Night", ["a city", "an owl", "the moon"], model="charcoal")
        for handle in [await engine.start(illustrate, book) for book in (sea, night)]:
            print(await handle.result())


if __name__ == "__main__":
    asyncio.run(main())
