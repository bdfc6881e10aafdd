"""Jobs whose arguments the code of a worker does not take: they wait for one whose code does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Never

import pytest

from perdure import Activity, ActivityContext, Decision, activity, orchestration
from perdure.authoring.deciders.decider import DeadEffect
from perdure.model.options import WorkerOptions
from tests.engine.stage import Stage, options, until
from tests.engine.test_effects import Asked, Do, Doer, Done, Ended

UNFIT = r"the arguments of activity 'mail' do not fit the code here"
SOON = timedelta(milliseconds=20)


def quick() -> WorkerOptions:
    """Return options of a worker that offers what it cannot run again at once."""
    return options(unserved_retry=SOON, unserved_retry_max=SOON, poll_max=SOON)


class Mails:
    """An activity before and after a change of its signature, and who ran it."""

    def __init__(self, *, is_async: bool) -> None:
        self.ran: list[tuple[str, str, int]] = []

        def mail_before(ctx: ActivityContext, id: str) -> None:
            self.ran.append((id, "en", ctx.attempt))

        def mail_after(ctx: ActivityContext, id: str, lang: str = "en") -> None:
            self.ran.append((id, lang, ctx.attempt))

        async def mail_before_async(ctx: ActivityContext, id: str) -> None:
            mail_before(ctx, id)

        async def mail_after_async(ctx: ActivityContext, id: str, lang: str = "en") -> None:
            mail_after(ctx, id, lang)

        named = activity(name="mail")
        self.before: Activity[..., Any] = named(mail_before_async if is_async else mail_before)
        self.after: Activity[..., Any] = named(mail_after_async if is_async else mail_after)


def mailing(mail: Activity[..., Any]) -> type[Doer]:
    """Return a decider that has a mail sent, with an argument that is new."""

    class Mailing(Doer):
        name = "mailing"

        def ask(self, input: Do) -> Decision[Do | Done, Asked | Ended, Never]:
            return Decision.accept(Asked("x")).effect(mail, input.id, lang="de")

        def on_dead(self, effect: DeadEffect, /) -> Do | Done | None:
            return None

    return Mailing


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "threaded"])
async def test_an_effect_is_left_to_a_worker_whose_code_fits(stage: Stage, is_async: bool) -> None:
    """A rolling deploy: the new program has asked for it, and an old worker takes it first."""
    mails = Mails(is_async=is_async)
    decider = mailing(mails.after)
    stage.expect_log(UNFIT)
    stage.allow_log("no live worker serves")
    client = await stage.client()
    await stage.engine([mails.before], options=quick())
    await client.execute(decider, Do("a"))
    await until(lambda: stage.logged(UNFIT))
    handle = client.handle("a", decider)

    async def is_given_back() -> bool:
        return all(job.misfit for job in await handle.jobs())

    await until(is_given_back)
    [job] = await handle.jobs()
    await stage.engine([decider, mails.after], options=quick())
    await until(lambda: mails.ran)

    assert "(lang): is stored, but" in job.misfit
    assert job.attempt == 1
    assert mails.ran == [("a", "de", 1)]
    assert len(stage.logged(UNFIT)) == 1
    assert await client.count_dead_jobs() == 0


async def test_explain_names_what_does_not_fit(stage: Stage) -> None:
    mails = Mails(is_async=True)
    decider = mailing(mails.after)
    stage.expect_log(UNFIT)
    engine = await stage.engine([decider, mails.before], options=quick())
    handle = engine.handle("a", decider)
    await engine.execute(decider, Do("a"))

    async def is_told() -> bool:
        return "(waits for a worker whose code fits: mail" in await handle.explain()

    await until(is_told)


async def test_a_call_of_an_orchestration_is_left_to_a_worker_whose_code_fits(
    stage: Stage,
) -> None:
    mails = Mails(is_async=True)

    @orchestration
    async def mailing_once() -> str:
        await mails.after("a", lang="de")
        return "sent"

    stage.expect_log(UNFIT)
    engine = await stage.engine([mailing_once, mails.before], options=quick())
    handle = await engine.start("m", mailing_once)
    await until(lambda: stage.logged(UNFIT))
    await stage.engine([mails.after], options=quick())

    assert await handle.result() == "sent"
    assert mails.ran == [("a", "de", 1)]


async def test_a_job_of_before_the_change_is_left_to_a_worker_of_before(stage: Stage) -> None:
    """The other direction: a parameter was renamed while effects were queued."""
    mails = Mails(is_async=True)

    @activity(name="mail")
    async def renamed(recipient: str, lang: str) -> None:
        raise AssertionError("it has no such arguments")

    decider = mailing(mails.after)
    stage.expect_log(UNFIT)
    engine = await stage.engine([decider, renamed], options=quick())
    await engine.execute(decider, Do("a"))
    await until(lambda: stage.logged(UNFIT))
    await stage.engine([mails.after], options=quick())

    await until(lambda: mails.ran)
    assert mails.ran == [("a", "de", 1)]
