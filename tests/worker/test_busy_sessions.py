from __future__ import annotations

from perdure.jobs.sessions import BusySessions
from perdure.model.options import WorkerOptions


def rooms(sessions: BusySessions, claims: int) -> list[int | None]:
    return [None if terms is None else terms.more for terms in sessions.terms(claims)]


def test_claims_of_one_moment_share_the_room_for_sessions() -> None:
    sessions = BusySessions(WorkerOptions(max_sessions=10), "here")

    assert rooms(sessions, 1) == [10]
    assert sum(room or 0 for room in rooms(sessions, 3)) == 10


def test_what_cannot_be_shared_goes_to_another_claim_each_time() -> None:
    sessions = BusySessions(WorkerOptions(max_sessions=1), "here")

    assert sorted(map(tuple, (rooms(sessions, 2), rooms(sessions, 2)))) == [(0, 1), (1, 0)]


def test_a_session_with_jobs_takes_room_until_its_last_job_is_gone() -> None:
    sessions = BusySessions(WorkerOptions(max_sessions=2), "here")
    for session in ("a", "a", "b"):
        sessions.begin(session)

    [terms] = sessions.terms(1)
    assert terms is not None
    assert (terms.owner, set(terms.busy), terms.more) == ("here", {"a", "b"}, 0)
    sessions.end("a")
    assert rooms(sessions, 1) == [0]
    sessions.end("a")
    assert rooms(sessions, 1) == [1]


def test_a_worker_without_room_for_sessions_never_asks_for_their_jobs() -> None:
    sessions = BusySessions(WorkerOptions(max_sessions=0), "here")

    assert rooms(sessions, 2) == [None, None]
