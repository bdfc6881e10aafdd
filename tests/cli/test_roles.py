"""`perdure roles`: what owner, worker and reader of a schema may do, and what not (SEC-28)."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
from psycopg import sql

from perdure import Client, Engine, Orchestration, Retry, Stream, activity, orchestration, web
from perdure.clock import ManualClock
from perdure.errors import ActivityError
from perdure.model.hints import Hint
from perdure.store.opening import open_store
from perdure.web.pages.routes import PAGES
from tests.cli.commands import perdure, typed
from tests.contract.store_values import new_instance
from tests.engine.stage import OPTIONS, until
from tests.postgres import SUPERUSER, Server
from tests.web.site import caller

_numbers = itertools.count(1)


@activity
async def pack(order: str) -> str:
    return f"{order} packed"


@orchestration
async def ship(order: str) -> str:
    return await pack(order)


words = Stream("words", str)
heard = asyncio.Event()


@pytest.fixture(autouse=True)
def nothing_heard() -> None:
    global heard
    heard = asyncio.Event()


class Shop:
    """A database with roles, and people who are members of them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._number = next(_numbers)
        self.schema = f'shop "{self._number}"'
        self.database = server.create_database()
        self.printed = typed("roles", "--schema", self.schema).stdout

    def make_roles(self, *, by: str = SUPERUSER) -> None:
        """Run what the command prints, as a DBA does."""
        with psycopg.connect(self.url(by), autocommit=True) as connection:
            connection.execute(self.printed.encode())

    def add(self, person: str, role: str | None) -> None:
        """Let somebody log in, as a member of a role."""
        with psycopg.connect(self.url(SUPERUSER), autocommit=True) as connection:
            name = sql.Identifier(self.named(person))
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
            if role is None:
                return
            group = sql.Identifier(f"{self.schema}_{role}")
            connection.execute(sql.SQL("GRANT {} TO {}").format(group, name))
            if role == "owner":
                connection.execute(sql.SQL("ALTER ROLE {} SET role = {}").format(name, group))

    def named(self, person: str) -> str:
        return person if person in (SUPERUSER, "perdure") else f"{person}_{self._number}"

    def url(self, person: str) -> str:
        name = urlsplit(self.database).path.removeprefix("/")
        return self._server.url(name, role=self.named(person))

    def store(self, person: str) -> str:
        return f"{self.url(person)}?{urlencode({'schema': self.schema})}"

    def may(self, person: str, statement: LiteralString) -> bool:
        """Return whether somebody may run a statement on `{}`, the schema."""
        with psycopg.connect(self.url(person)) as connection:
            try:
                text = sql.SQL(statement).format(sql.Identifier(self.schema))
                connection.execute(text)
            except psycopg.errors.InsufficientPrivilege:
                return False
            finally:
                connection.rollback()
        return True


@pytest.fixture
def shop(postgres: Server) -> Shop:
    return Shop(postgres)


@pytest.fixture
def staffed(shop: Shop) -> Shop:
    """Roles first, then the tables by a member of the owner, then people."""
    shop.make_roles()
    shop.add("deploy", "owner")
    migrated = typed("migrate", "--store", shop.store("deploy"))
    assert migrated.exit_code == 0, migrated.stderr
    for person, role in (("app", "worker"), ("ann", "reader"), ("eve", None)):
        shop.add(person, role)
    return shop


READ: LiteralString = "SELECT * FROM {}.instances"
WRITES: list[LiteralString] = [
    "INSERT INTO {}.feed_new (part, instance_id, incarnation, execution, seq, definition_no, tag,"
    " version, cause, correlation) VALUES (0, 'x', 1, 1, 1, 1, '', 1, '', '')",
    "UPDATE {}.live SET attempts = 0",
    "DELETE FROM {}.jobs",
]
CHANGES: list[LiteralString] = [
    "CREATE TABLE {}.mine (id INT)",
    "DROP TABLE {}.live CASCADE",
    "ALTER TABLE {}.live ADD COLUMN mine INT",
    "CREATE INDEX ON {}.live (home)",
    "CREATE FUNCTION {}.mine() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
    "TRUNCATE {}.live",
    "DROP SCHEMA {} CASCADE",
]


def test_a_worker_reads_and_writes_and_changes_no_table(staffed: Shop) -> None:
    assert [staffed.may("app", one) for one in (READ, *WRITES)] == [True] * 4
    assert [staffed.may("app", one) for one in CHANGES] == [False] * len(CHANGES)


def test_a_reader_only_reads(staffed: Shop) -> None:
    assert staffed.may("ann", READ)
    assert [staffed.may("ann", one) for one in WRITES + CHANGES] == [False] * 10


SECRET: LiteralString = "SELECT secret FROM {}.perdure_settings"


def test_a_reader_does_not_read_the_secret(staffed: Shop) -> None:
    """Roles were there before the table: the migration takes the right away."""
    assert not staffed.may("ann", SECRET)
    assert staffed.may("app", SECRET)

    staffed.make_roles()  # And they may be made again.

    assert not staffed.may("ann", SECRET)
    assert staffed.may("ann", READ)
    assert staffed.may("app", SECRET)


def test_who_is_in_no_role_gets_nothing(staffed: Shop) -> None:
    assert [staffed.may("eve", one) for one in (READ, *WRITES, *CHANGES)] == [False] * 11


def test_an_owner_changes_tables(staffed: Shop) -> None:
    assert [staffed.may("deploy", one) for one in CHANGES] == [True] * len(CHANGES)


async def test_a_worker_role_runs_the_store(staffed: Shop) -> None:
    async with Engine(staffed.store("app"), [ship, pack], options=OPTIONS) as engine:
        handle = await engine.start("ship-1", ship, "order-1")

        assert await handle.result() == "order-1 packed"


@activity(retry=Retry(max_attempts=1))
async def stammer(say: list[str]) -> None:
    for word in say:
        words.send(word)
    await words.flush()
    await heard.wait()
    raise ValueError("it was not meant so")


@orchestration
async def stammer_on() -> None:
    with suppress(ActivityError):
        await stammer(["what"])


@orchestration
async def speak() -> None:
    words.send("hear")
    with suppress(ActivityError):
        await stammer(["me", "out"])
    words.send("you")


async def test_a_reader_role_reads_a_stream_of_which_something_is_void(staffed: Shop) -> None:
    app = Engine(staffed.store("app"), [speak, stammer], options=OPTIONS)
    async with app as engine, Client(staffed.store("ann")) as client:
        live = client.handle((await engine.start("s-1", speak)).instance_id).stream(words)
        shown = [await anext(live) for _ in range(3)]
        heard.set()
        shown += [item async for item in live]
        late = [item.value async for item in client.handle("s-1").stream(words)]

    assert [item.value for item in shown] == ["hear", "me", "out", "you"]
    # Nobody who may do so has taken it back, but who has read it is told all the same.
    assert [item.discards_from for item in shown] == [None, None, None, shown[1].index]
    assert late == ["hear", "you"]


async def test_a_reader_role_is_told_at_the_end_what_is_void(staffed: Shop) -> None:
    app = Engine(staffed.store("app"), [stammer_on, stammer], options=OPTIONS)
    async with app as engine, Client(staffed.store("ann")) as client:
        live = client.handle((await engine.start("s-1", stammer_on)).instance_id).stream(words)
        first = await anext(live)
        heard.set()
        rest = [item.value async for item in live]

    assert (rest, live.discards_from) == ([], first.index)


async def test_a_worker_role_tells_others_and_hears_of_them(staffed: Shop) -> None:
    one, other = (open_store(staffed.store("app"), clock=ManualClock()) for _ in range(2))
    await one.open()
    await other.open()
    await until(lambda: other.change_count(Hint.WORK))  # It listens.

    await one.start([new_instance("i")])

    await until(lambda: other.change_count(Hint.WORK) > 1)
    assert staffed.may("app", "SELECT last_value FROM {}.told")
    await one.close()
    await other.close()


LISTS = ("dead-jobs", "definitions", "projections", "queues", "schedules", "totals", "workers")


async def test_a_reader_role_is_enough_for_pages_and_lists(staffed: Shop) -> None:
    """Places in lists are signed by the secret of the store, which it may not read."""
    async with Client(staffed.store("app")) as client:
        for number in range(3):
            await client.start(f"x-{number}", Orchestration.named("x", str))
    async with Client(staffed.store("ann")) as client:
        site = web.app(client, insecure_no_auth=True, read_only=True)
        async with caller(site) as reader:
            paths = [page.path for page in PAGES if "{" not in page.path]
            paths += ["/i/x-1", "/i/x-1?tab=jobs"]
            paths += [f"/api/{name}" for name in LISTS]
            statuses = {path: (await reader.get(path)).status_code for path in paths}
            first = (await reader.get("/api/instances", params={"limit": 2})).json()
            after = {"after": first["next"]}
            rest = (await reader.get("/api/instances", params=after)).json()
            page = (await reader.get("/index.json", params=after)).json()

    assert {path for path, status in statuses.items() if status != 200} == set()
    assert [one["instance_id"] for one in first["items"]] == ["x-2", "x-1"]
    assert [one["instance_id"] for one in rest["items"]] == ["x-0"]
    assert [one["instance_id"] for one in page["items"]] == ["x-0"]


def test_a_reader_role_is_enough_for_the_doctor(staffed: Shop) -> None:
    done = typed("doctor", "--store", staffed.store("ann"))

    assert "ok\tinvariants\tall hold" in done.stdout, done.stderr
    assert "warn\told transactions\tnone of this role; others' cannot be seen" in done.stdout


def test_tables_that_are_missing_are_a_clear_error_for_a_worker_role(
    shop: Shop, folder: Path
) -> None:
    shop.make_roles()
    shop.add("app", "worker")
    (folder / "shop.py").write_text(
        "from perdure import activity\n@activity\nasync def pack(): pass"
    )

    done = perdure("worker", "shop.py", "--store", shop.store("app"), cwd=folder)

    assert done.returncode == 7
    assert done.stderr.startswith("Error: ")
    assert "perdure" in done.stderr
    assert done.stderr.count("\n") == 1


def test_roles_can_be_made_again_and_after_the_tables(shop: Shop) -> None:
    migrated = typed("migrate", "--store", shop.store("perdure"))
    assert migrated.exit_code == 0, migrated.stderr

    shop.make_roles()
    shop.make_roles()
    shop.add("deploy", "owner")
    shop.add("app", "worker")

    assert shop.may("deploy", "ALTER TABLE {}.live ADD COLUMN mine INT")
    assert shop.may("deploy", "ALTER SEQUENCE {}.told CYCLE")
    assert shop.may("app", READ)
    assert not shop.may("app", "DROP TABLE {}.live")


def test_who_may_create_roles_needs_not_be_a_superuser(shop: Shop) -> None:
    shop.add("dba", None)
    with psycopg.connect(shop.url(SUPERUSER), autocommit=True) as connection:
        dba = sql.Identifier(shop.named("dba"))
        database = sql.Identifier(urlsplit(shop.database).path.removeprefix("/"))
        connection.execute(sql.SQL("ALTER ROLE {} CREATEROLE").format(dba))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, dba))

    shop.make_roles(by="dba")
    shop.add("deploy", "owner")

    assert typed("migrate", "--store", shop.store("deploy")).exit_code == 0


@pytest.mark.parametrize("schema", ["", "pg_mine", "x" * 57, "a\nb", "$roles$"])
def test_a_name_that_cannot_be_a_schemas_is_refused(schema: str) -> None:
    done = typed("roles", "--schema", schema)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: --schema ")
