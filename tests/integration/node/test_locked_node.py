"""A node whose rows another session has locked: `node why` names this session, and the node goes on without it."""

from __future__ import annotations

from tests.integration.cli.conftest import Prompt
from tests.support.process import until
from tests.support.site import Site

ERROR = "SELECT outcome ->> 'error' FROM farrier.outcomes WHERE kind = 'node' AND id = $1"
STATUS = "SELECT status FROM farrier.nodes WHERE id = $1"


async def test_why_names_the_session_that_has_locked_the_node_with_its_application_and_since_when(site: Site) -> None:
    machine = await site.active()
    farrier = Prompt(FARRIER_DATABASE_DSN=site.db.dsn)

    async def is_reported() -> bool:
        return bool(await site.conn.fetchval(ERROR, machine.id) == "locked")

    async def is_drained() -> bool:
        return bool(await site.conn.fetchval(STATUS, machine.id) == "draining")

    async with site.db.connect() as somebody:
        await somebody.execute("SET application_name = 'a forgotten psql'")
        locking = somebody.transaction()
        await locking.start()
        await somebody.execute("UPDATE farrier.nodes SET created_at = created_at WHERE id = $1", machine.id)
        pid = await somebody.fetchval("SELECT pg_backend_pid()")
        began = await somebody.fetchval("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')")
        await machine.tell("drain")
        site.wake()
        await until(is_reported)
        site.ledger.errors.clear()  # the lock is an error of the loop
        said = " ".join((await farrier("node", "why", machine.name)).out.split())
        assert f"session {pid}, application a forgotten psql, in a transaction since {began} UTC" in said
        listed = (await farrier("node", "list", "--json")).json
        assert [each["name"] for each in listed] == [machine.name], "a list does not wait for the lock"
        await locking.rollback()
    await until(is_drained)
    await site.settled()
    site.ledger.errors.clear()
