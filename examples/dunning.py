"""Something for each of very many items: remind everybody who has not paid, page by page.

The history of `dunning` has two events of all that, however many invoices there are: a page of them
is a child, which any worker takes. An invoice whose address is wrong is counted and told. Kill it
in the middle and start it again: what was recorded is not done again, and nobody is left out.

    python examples/dunning.py              a new instance each time
    python examples/dunning.py november     one instance, finished once
"""

import asyncio
import sys
from dataclasses import dataclass
from uuid import uuid4

from perdure import Page, Tally, activity, for_each, orchestration, run

INVOICES = 1_000
"""How many are not paid. Of a million the program is the same."""


@dataclass(frozen=True)
class Invoice:
    """Somebody has not paid."""

    number: int
    customer: str


@activity
async def unpaid(after: str | None) -> Page[Invoice]:
    """Return the next invoices; a real one would ask a database for those behind a number."""
    first = int(after or "0")
    last = min(first + 250, INVOICES)
    found = [Invoice(number, f"customer {number % 97}") for number in range(first, last)]
    return Page(found, next=str(last) if last < INVOICES else None)


@activity
async def remind(invoice: Invoice) -> None:
    """Send a reminder. At least once: a real one would hand the mail an idempotency key."""
    await asyncio.sleep(0.3)
    if invoice.number % 400 == 13:
        raise ValueError(f"{invoice.customer} has no address")
    if invoice.number % 100 == 0:
        print(f"reminded of invoice {invoice.number}")


@orchestration
async def dunning() -> Tally:
    """Remind everybody."""
    return await for_each(remind, unpaid, pages=2, page_size=125, max_failures=10)


if __name__ == "__main__":
    instance_id = sys.argv[1] if len(sys.argv) > 1 else f"dunning-{uuid4()}"
    tally = run(instance_id, dunning)
    print(f"{tally.done} reminded, {tally.failed} not:")
    for failure in sorted(tally.failures):
        print(f"  {failure}")
