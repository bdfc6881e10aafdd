"""Mistakes with `for_each`: items, sources, options, results."""

from perdure import Page
from perdure.errors import InstanceFailedError, UsageError
from tests.mistakes.table import Ground, mistake
from tests.mistakes.untyped import Stream, activity, for_each, orchestration


@activity
async def double(number: int) -> int:
    return number * 2


@activity
async def add(number: int, other: int) -> int:
    return number + other


@activity
async def words(after: str | None) -> Page[str]:
    return Page(["a"], next=None)


@activity
async def plain_list(after: str | None) -> list[int]:
    return [1]


@activity
async def same_again(after: str | None) -> Page[int]:
    return Page([1], next="x")


@orchestration
async def double_later(number: int) -> int:
    return number * 2


async def call(ground: Ground, *args: object, **options: object) -> None:
    """Call `for_each` in an orchestration."""

    @orchestration
    async def flow() -> None:
        await for_each(*args, **options)

    await ground.result(flow, double, add, words, plain_list, same_again, double_later)


@mistake(UsageError, "for_each(...) works only inside an orchestration")
async def for_each_outside_an_orchestration(ground: Ground) -> None:
    await for_each(double, [1])


@mistake(InstanceFailedError, "add needs other beside number", "put both into one value")
async def for_each_with_an_activity_of_two_arguments(ground: Ground) -> None:
    await call(ground, add, [1])


@mistake(InstanceFailedError, "neither an activity nor an orchestration")
async def for_each_with_a_plain_function(ground: Ground) -> None:
    await call(ground, print, [1])


@mistake(InstanceFailedError, "takes a list of items, or a source, and got generator")
async def for_each_over_a_generator(ground: Ground) -> None:
    await call(ground, double, (number for number in range(3)))


@mistake(InstanceFailedError, "got str", "hand over list(...)")
async def for_each_over_a_text(ground: Ground) -> None:
    await call(ground, double, "123")


@mistake(InstanceFailedError, "double(number)", "int")
async def for_each_over_items_of_another_type(ground: Ground) -> None:
    await call(ground, double, [1, "2"])


@mistake(
    InstanceFailedError,
    "the size of all items in bytes is limited to 2,097,152",
    "hand that over: for_each(do, unpaid)",
)
async def for_each_over_a_list_that_is_too_large(ground: Ground) -> None:
    await call(ground, double, [10**300] * 8_000)


@mistake(InstanceFailedError, "the number of pages of 1 items is limited to 300", "page_size")
async def for_each_with_pages_that_are_too_small(ground: Ground) -> None:
    await call(ground, double, [1] * 301, page_size=1)


@mistake(InstanceFailedError, "words returns Page[str] and double takes int", "annotate both alike")
async def for_each_with_a_source_of_another_type(ground: Ground) -> None:
    await call(ground, double, words)


@mistake(InstanceFailedError, "a source returns Page[...]", "-> Page[int]")
async def for_each_with_a_source_that_returns_a_list(ground: Ground) -> None:
    await call(ground, double, plain_list)


@mistake(InstanceFailedError, "source 'same_again' returned a page whose next is 'x'", "for ever")
async def for_each_with_a_source_that_never_ends(ground: Ground) -> None:
    await call(ground, double, same_again)


@mistake(InstanceFailedError, "max_failures must be at least 0, got -1")
async def for_each_with_a_number_that_cannot_be(ground: Ground) -> None:
    await call(ground, double, [1], max_failures=-1)


@mistake(InstanceFailedError, "pages must be a whole number, got 2.5")
async def for_each_with_half_a_page(ground: Ground) -> None:
    await call(ground, double, [1], pages=2.5)


@mistake(InstanceFailedError, "has one id for all items: leave it out")
async def for_each_with_one_id_for_all_children(ground: Ground) -> None:
    await call(ground, double_later.with_options(instance_id="x"), [1])


@mistake(InstanceFailedError, "double returns int and stream 'words' has items of type str")
async def for_each_with_a_stream_of_another_type(ground: Ground) -> None:
    await call(ground, double, [1], results=Stream("words", str))


@mistake(InstanceFailedError, "'sent' is not a stream: results=Stream(name, type)")
async def for_each_with_the_name_of_a_stream(ground: Ground) -> None:
    await call(ground, double, [1], results="sent")
