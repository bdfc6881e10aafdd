"""The examples do what they say: each is run as a newcomer would, and what it prints is read.

Some are killed in the middle and run again with the same store.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.engine.stage import complaints

EXAMPLES = Path(__file__).parent.parent / "examples"
TIMEOUT_S = 60


def command(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-u", str(EXAMPLES / f"{name}.py"), *arguments]


def environment() -> dict[str, str]:
    """An example finds its store by itself, in the folder it is run in."""
    return {key: value for key, value in os.environ.items() if key != "PERDURE_STORE"}


def run_example(folder: Path, name: str, *arguments: str, store: str | None = None) -> list[str]:
    """Return the lines that an example prints; it must succeed and complain about nothing."""
    done = subprocess.run(
        command(name, *arguments),
        cwd=folder,
        env=environment() | ({} if store is None else {"PERDURE_STORE": store}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    assert complaints(done.stderr) == []
    return done.stdout.splitlines()


def kill_example_after(folder: Path, beginning: str, name: str, *arguments: str) -> list[str]:
    """Run an example and kill it as soon as it prints such a line; return what it has printed."""
    process = subprocess.Popen(
        command(name, *arguments), cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    )
    seen: list[str] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            seen.append(line.rstrip("\n"))
            if line.startswith(beginning):
                break
        process.send_signal(signal.SIGKILL)
        seen += process.stdout.read().splitlines()
    assert process.returncode == -signal.SIGKILL, f"it ended before {beginning!r}: {seen}"
    return seen


# --------------------------------------------------------------------- what each one shows


def test_fan_out_fan_in_adds_up_all_shops_that_answer(tmp_path: Path) -> None:
    *asked, total, missing = run_example(tmp_path, "fan_out_fan_in")

    assert sorted(asked) == [
        "Berlin sold 1,200.50",
        "Lyon is busy",
        "Lyon sold 985.00",
        "Oslo is closed",
        "Porto sold 777.25",
        "Riga sold 1,310.00",
        "Turku sold 549.00",
    ]
    assert total == "Sold 4,821.75 in all, most of it in Riga."
    assert missing == "Without an answer: Oslo."


PAID = [
    "chair: 12900 of 12900 cents paid, receipt r-1",
    "table: not paid, card declined",
]


def test_a_deposit_is_paid_once(tmp_path: Path) -> None:
    assert run_example(tmp_path, "deposit") == [
        "waiting for the provider",
        "the first call counts: True; the second one: False",
        *PAID,
    ]


def test_a_token_is_good_after_its_program_was_killed(tmp_path: Path) -> None:
    kill_example_after(tmp_path, "waiting for the provider", "deposit")

    printed = run_example(tmp_path, "deposit")

    # On a machine that was busy it may have been kept before the program was killed.
    assert printed[1] in (
        "the first call counts: True; the second one: False",
        "the first call counts: False; the second one: False",
    )
    assert printed[2:] == PAID


def test_saga_undoes_in_reverse_after_a_failure_and_after_a_cancel(tmp_path: Path) -> None:
    assert run_example(tmp_path, "saga") == [
        "Ada goes to Lisbon",
        "  flight booked",
        "  hotel booked",
        "  car booked",
        "  settled: flight, hotel, car",
        "Grace goes to Oslo",
        "  flight booked",
        "  hotel booked",
        "  no car left",
        "  hotel given up",
        "  flight given up",
        "  failed: no car left in Oslo",
        "Joan goes to Rome, then thinks it over",
        "  flight booked",
        "  hotel booked",
        "  car booked",
        "  car given up",
        "  hotel given up",
        "  flight given up",
        "  cancelled: Joan stays at home",
    ]


def test_human_approval_pays_what_is_approved_and_declines_what_nobody_answers(
    tmp_path: Path,
) -> None:
    lines = run_example(tmp_path, "human_approval")

    assert "mail to the approver: reminder 1, train of Ada" in lines
    assert "train: approved by Barbara, transfer-ada-4250" in lines
    assert "mail to the approver: reminder 2, lunch of Grace" in lines
    assert "bank: 42.50 to Ada" in lines
    assert not any(line.startswith("bank:") and "Grace" in line for line in lines)
    assert lines[-1] == "lunch: declined: nobody answered"


def test_polling_monitor_reports_until_the_export_is_ready(tmp_path: Path) -> None:
    first, *progress, last = run_example(tmp_path, "polling_monitor")

    assert first == "asked for the export of 2025"
    percents = [int(line.split()[0].rstrip("%")) for line in progress]
    assert len(percents) >= 2
    assert percents == sorted(percents)
    assert last == "fetched export-2025.csv"


def test_eternal_counts_every_purchase_across_its_executions(tmp_path: Path) -> None:
    mail, account, executions = run_example(tmp_path, "eternal")

    assert mail == "mail to Ada: you have 105 points"
    assert account == "Ada made 10 purchases: 275 points"
    assert re.fullmatch(r"3 executions, \d+ events in the last one", executions)


def test_rolling_upgrade_finishes_old_instances_on_old_code(tmp_path: Path) -> None:
    lines = run_example(tmp_path, "rolling_upgrade")

    tuesday = lines.index("Tuesday: a worker with 1.0.0, repaired, and 2.0.0")
    month_over = lines.index("The month is over")
    assert lines[:tuesday] == [
        "Monday: a worker with 1.0.0",
        "  Ada is charged for month 1, by 1.0.0",
    ]
    assert lines[tuesday + 1 : tuesday + 3] == [
        "  Joan is charged for month 1, by 1.0.0",
        "  Joan is thanked",
    ]
    assert sorted(lines[tuesday + 3 : month_over]) == [
        "  Grace gets an invoice",
        "  Grace is charged for month 1, by 2.0.0",
    ]
    assert sorted(lines[month_over + 1 :]) == sorted(
        line
        for customer in ("Ada", "Joan", "Grace")
        for line in (
            f"  {customer} gets an invoice",
            f"  {customer} is charged for month 2, by 2.0.0",
            f"  {customer} leaves after 2 months",
        )
    )


def test_gpu_sessions_paints_each_book_on_one_card_with_the_model_loaded_once(
    tmp_path: Path,
) -> None:
    lines = run_example(tmp_path, "gpu_sessions")

    bound = [re.fullmatch(r"The (\w+): 3 pictures, painted on (gpu-[12])", line) for line in lines]
    cards = {match[1]: match[2] for match in bound if match is not None}
    loaded = [line for line in lines if line.endswith("loaded")]
    assert sorted(loaded) == sorted(
        [f"{cards['Sea']}: oil-paint loaded", f"{cards['Night']}: charcoal loaded"]
    )


def test_agent_loop_calls_tools_until_it_can_answer(tmp_path: Path) -> None:
    *calls, answer = run_example(tmp_path, "agent_loop")

    assert sorted(calls[3:5]) == ["tool   read_policy(lost parcels)", "tool   track_parcel(P-512)"]
    assert [*calls[:3], *calls[5:]] == [
        "model  reads 1 messages",
        "tool   find_order(1042)",
        "model  reads 3 messages",
        "model  reads 6 messages",
    ]
    assert answer == "answer Your kettle was lost on 3 November. You get 39.90 back."


def test_streaming_answer_is_shown_once_though_its_writer_fails_and_its_process_dies(
    tmp_path: Path,
) -> None:
    answer = "Q: What are streams for? Streams keep what was said and take back what never counted"
    killed = kill_example_after(tmp_path, "said", "streaming_answer")
    assert killed[:2] == ["Q: What are streams for?", "Streams"]

    *_, shown, late = run_example(tmp_path, "streaming_answer")

    assert shown == f"shown: {answer} . (done)"
    assert late == f"late:  {answer} . (done)"
    *_, again, _ = run_example(tmp_path, "streaming_answer")
    assert again == shown


def slots_of(lines: list[str]) -> list[tuple[int, datetime]]:
    found = [re.fullmatch(r"backup (\d+) for (.*)", line) for line in lines]
    return [(int(m[1]), datetime.strptime(m[2], "%H:%M:%S.%f")) for m in found if m is not None]


def test_periodic_job_keeps_its_slots_however_long_a_run_takes(tmp_path: Path) -> None:
    *runs, last = run_example(tmp_path, "periodic_job")

    slots = slots_of(runs)
    assert [number for number, _ in slots] == list(range(1, 9))
    distances = {later - sooner for (_, sooner), (_, later) in pairwise(slots)}
    assert all(distance % timedelta(milliseconds=200) == timedelta(0) for distance in distances)
    assert last == "8 backups in 3 executions."


def test_order_decider_pays_one_order_lets_one_expire_and_lists_both(
    tmp_path: Path, store_url: str
) -> None:
    *lines, lamp, pen = run_example(tmp_path, "order_decider", store=store_url)

    receipt = next(line for line in lines if line.startswith("  receipt"))
    lines.remove(receipt)  # comes when the mail server gets to it
    run = lamp.split("-")[0]
    assert receipt == f"  receipt for {run}-lamp: 42.50"
    assert lines == [
        "4000: 4250 are due, not 4000",
        "4250: (Paid(cents=4250),)",
        "4250: nothing is due any more",
    ]
    assert (lamp, pen) == (f"{run}-lamp Paid", f"{run}-pen Expired")


def test_checkout_with_deciders_sells_what_there_is_to_who_can_pay(tmp_path: Path) -> None:
    assert run_example(tmp_path, "checkout_with_deciders") == [
        "Ada: sold for 3900",
        "Grace: the bank declines 9900",
        "Joan: sold for 3900",
        "Mary: sold out",
        "0 left",
    ]


def test_bank_transfers_move_money_and_keep_the_sum(tmp_path: Path) -> None:
    *transfers, ada, grace = run_example(tmp_path, "bank_transfers")

    assert len(transfers) == 10
    assert (ada, grace) == ("Ada has 95.00", "Grace has 105.00")


PARCELS = [
    "  order-1 in paper, with a receipt for order-1",
    "  order-2 in a plain box, with a receipt for order-2",
    "  order-3 in ribbon, with a receipt for order-3",
    "  order-4 in a plain box, with a receipt for order-4",
]


def test_reset_after_fix_packs_what_had_failed_and_charges_nobody_again(tmp_path: Path) -> None:
    lines = run_example(tmp_path, "reset_after_fix")

    tuesday = lines.index("Tuesday")
    assert sum("is charged" in line for line in lines[:tuesday]) == 4
    assert sum("failed" in line for line in lines[:tuesday]) == 2
    assert sorted(lines[tuesday + 1 : tuesday + 3]) == [
        "  order-2 would run again: pack",
        "  order-4 would run again: pack",
    ]
    assert lines[tuesday + 3] == "  2 go on"
    assert [line for line in lines[tuesday + 4 :] if "is being packed" not in line] == PARCELS


# ------------------------------------------------------------- killed, and run again


def test_a_reset_that_is_killed_goes_on_and_charges_nobody_again(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "  order-4 is being packed", "reset_after_fix", "600")
    after = run_example(tmp_path, "reset_after_fix")

    assert sum("is charged" in line for line in before) == 4
    assert not any("is charged" in line for line in after)
    assert [line for line in after[-6:] if "is being packed" not in line] == PARCELS


def test_cart_has_each_thing_once(tmp_path: Path) -> None:
    *added, refused, seen, paid = run_example(tmp_path, "cart")

    assert len(added) == 60
    assert refused == "refused: a price is not negative"
    assert seen.startswith("in the cart: 6630 cents, dearest Item(name=")
    assert paid == "Ada pays 66.30 for 60 things with a card, each once"


def test_a_killed_cart_is_asked_again_and_does_nothing_twice(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "bob-7 ", "cart")

    *added, _, _, paid = run_example(tmp_path, "cart")

    assert set(before) <= set(added)
    assert paid == "Ada pays 66.30 for 60 things with a card, each once"


def test_killed_bank_transfers_go_on_and_make_none_twice(tmp_path: Path) -> None:
    kill_example_after(tmp_path, "Grace pays Ada 5.00", "bank_transfers", "monday")

    assert run_example(tmp_path, "bank_transfers", "monday")[-2:] == [
        "Ada has 95.00",
        "Grace has 105.00",
    ]


def test_a_killed_fan_out_asks_no_shop_twice_that_has_answered(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "Riga sold", "fan_out_fan_in", "november")
    after = run_example(tmp_path, "fan_out_fan_in", "november")

    # Berlin's answer let Riga be asked at all, so it was on record when Riga answered.
    assert "Berlin sold 1,200.50" in before
    assert "Berlin sold 1,200.50" not in after
    assert after[-2] == "Sold 4,821.75 in all, most of it in Riga."


def test_a_killed_dunning_goes_on_and_reminds_of_every_invoice(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "reminded of", "dunning", "november")
    *after, count, first, second, third = run_example(tmp_path, "dunning", "november")

    expected = {f"reminded of invoice {number}" for number in range(0, 1_000, 100)}
    assert {*before, *after} == expected
    assert count == "997 reminded, 3 not:"
    assert [line.split(",")[0] for line in (first, second, third)] == [
        "  item 13",
        "  item 413",
        "  item 813",
    ]


def test_a_killed_agent_makes_no_recorded_call_again(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "tool   track_parcel", "agent_loop", "ticket-7")
    after = run_example(tmp_path, "agent_loop", "ticket-7")

    assert before[:3] == [
        "model  reads 1 messages",
        "tool   find_order(1042)",
        "model  reads 3 messages",
    ]
    assert not set(before[:3]) & set(after)
    assert after[-1] == "answer Your kettle was lost on 3 November. You get 39.90 back."


def test_a_killed_periodic_job_goes_on_in_the_execution_it_had_reached(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "backup 5", "periodic_job", "backup-1")
    after = run_example(tmp_path, "periodic_job", "backup-1")

    done_before = [number for number, _ in slots_of(before)]
    done_after = [number for number, _ in slots_of(after)]
    assert done_before == [1, 2, 3, 4, 5]
    assert done_after in ([5, 6, 7, 8], [6, 7, 8])
    assert after[-1] == "8 backups in 3 executions."


def test_a_shop_that_is_killed_while_it_closes_goes_on_with_what_is_left(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "10 drafts stopped", "closing_day", "600")
    *after, completed, terminated, cancelled = run_example(tmp_path, "closing_day")

    assert not any("gives back" in line for line in before)
    assert "0 drafts stopped" in after
    gave_back = [line.split()[0] for line in after if "gives back" in line]
    orders = {f"order-{number}" for number in range(60) if number % 6 != 5 and number % 3 != 0}
    assert set(gave_back) == orders
    assert len(gave_back) == len(orders) == 30
    assert (completed, terminated, cancelled) == ("20 completed", "10 terminated", "30 cancelled")


def test_a_fork_whose_program_is_killed_goes_on_and_the_original_stays(tmp_path: Path) -> None:
    before = kill_example_after(tmp_path, "calculating with 1500", "what_if", "600")
    after = run_example(tmp_path, "what_if")

    assert before == [
        "asking for 500 kg of steel",
        "calculating with 2000",
        "500 kg cost 3000",
        "would run again: calculate",
        "calculating with 1500",
    ]
    assert sorted(after) == sorted(
        [
            "500 kg cost 3000",
            "would run again: calculate",
            "calculating with 1500",
            "with cheaper steel: 500 kg cost 2500",
            "the original stays: 500 kg cost 3000",
        ]
    )


def test_a_meter_whose_program_is_killed_counts_no_reading_twice(tmp_path: Path) -> None:
    kill_example_after(tmp_path, "reading 4", "meters", "0.5")

    assert run_example(tmp_path, "meters")[-3:] == [
        "in all 820 liters",
        "event 39: {'liters': 39}",
        "event 40: {'liters': 40}",
    ]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_says_what_it_shows_and_how_to_run_it(example: Path) -> None:
    text = example.read_text()

    assert text.startswith('"""')
    assert f"    python examples/{example.name}" in text.split('"""')[1]
    assert len(text.splitlines()) <= 140


def test_a_slot_is_reported_once_though_the_program_is_killed(tmp_path: Path) -> None:
    seen = kill_example_after(tmp_path, "20", "nightly", "6")

    again = run_example(tmp_path, "nightly", "6")

    assert again[-1].endswith("slots, each once")
    slots = [line.partition(": ")[0] for line in again[:-1]]
    assert len(set(slots)) == len(slots) >= 6
    assert {line.partition(": ")[0] for line in seen} <= set(slots)
