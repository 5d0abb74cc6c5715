"""Who may claim a task: the node's own agent, by its key, and logins to which an operator granted the task's type."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.snapshot import TaskType
from tests.support import pg
from tests.support.site import FINISH, MINUTE, Lease, Machine, Site

DRAIN = TaskType.DRAIN
CLAIM = "SELECT * FROM farrier.claim_task($1, '{node.drain}', $2)"
RENEW = "SELECT farrier.renew_task($1, $2, $3, $4, '1 minute')"
CLAIM_WORK = "SELECT * FROM farrier.claim_work($1)"
FINISH_WORK = "SELECT farrier.finish_work($1, $2, true)"
RENEW_WORK = "SELECT farrier.renew_work($1, $2)"
GRANT = "SELECT farrier.grant_worker($1, $2, $3)"


async def refusal(conn: Connection, statement: str, *arguments: Any) -> str:
    """SQLSTATE and text of the refusal, without the hint."""
    with pytest.raises(pg.PostgresError) as refused:
        await conn.fetch(statement, *arguments)
    return f"{refused.value.sqlstate} {refused.value}".partition("\n")[0]


async def claimed(machine: Machine) -> Lease:
    lease = await machine.claim(DRAIN)
    assert lease is not None
    return lease


@asynccontextmanager
async def logged_in(site: Site, name: str = "scrubber") -> AsyncIterator[tuple[Connection, str]]:
    """A new login in the workers' role, and its name, which is unique because all databases of a server share roles."""
    login = f"{name}_{await site.conn.fetchval('SELECT current_database()')}"
    await site.conn.execute(f"CREATE ROLE {login} LOGIN IN ROLE farrier_worker")
    try:
        async with site.db.connect() as conn:
            await conn.execute(f"SET SESSION AUTHORIZATION {login}")
            yield conn, login
    finally:
        await site.conn.execute(f"DROP ROLE {login}")


# --- agents


async def test_an_agent_claims_only_tasks_of_its_node(site: Site) -> None:
    first, second = await site.draining(), await site.draining()
    assert await refusal(site.conn, CLAIM, first.name, second.key) == "FR403 wrong agent key for node gpu-1"
    (row,) = await site.conn.fetch(CLAIM, second.name, second.key)
    assert (row["node_id"], row["node_name"]) == (second.id, second.name)
    assert await site.conn.fetch(CLAIM, second.name, second.key) == []
    assert [task["status"] for task in await first.tasks()] == ["queued"]


async def test_another_nodes_key_can_neither_renew_nor_finish_a_task(site: Site) -> None:
    victim, thief = await site.draining(), await site.draining()
    lease = await claimed(victim)
    for node, said in ((victim.name, "FR403 wrong agent key"), (thief.name, "FR410 ")):
        assert (await refusal(site.conn, RENEW, node, lease.task, lease.token, thief.key)).startswith(said)
        assert (await refusal(site.conn, FINISH, node, lease.task, lease.token, thief.key, True, None)).startswith(said)
    await site.settled()
    assert (await victim.state())[0] == "draining"


@pytest.mark.parametrize("key", ["not the key", "", None])
async def test_a_call_without_the_agents_key_returns_nothing_about_tasks(site: Site, key: str | None) -> None:
    """The refusal is the same for nodes with and without a task, and for existing and missing tasks."""
    busy, idle = await site.draining(), await site.active()
    lease = await claimed(busy)
    for machine in (busy, idle):
        for call in (
            (CLAIM, machine.name, key),
            (RENEW, machine.name, lease.task, lease.token, key),
            (RENEW, machine.name, 999, lease.token, key),
            (FINISH, machine.name, lease.task, lease.token, key, False, None),
        ):
            assert await refusal(site.conn, *call) == f"FR403 wrong agent key for node {machine.name}"


async def test_an_agent_does_not_learn_the_status_of_another_nodes_task(site: Site) -> None:
    other, asking = await site.draining(), await site.active()
    lease = await claimed(other)
    said = set()
    for task in (lease.task, 999):
        words = await refusal(site.conn, RENEW, asking.name, task, lease.token, asking.key)
        said.add(words.replace(f"task {task} ", "task N "))
    assert said == {"FR410 this lease token is not the current one of task N (status unknown)"}


async def test_a_key_of_an_earlier_enrolment_is_refused(site: Site) -> None:
    machine = await site.draining()
    old = machine.key
    await machine.enroll()
    assert (await refusal(site.conn, CLAIM, machine.name, old)).startswith("FR403")
    assert await machine.claim(DRAIN) is not None


async def test_a_finish_may_be_repeated_by_an_agent_that_its_task_has_ended(site: Site) -> None:
    machine = await site.removing()
    lease = await machine.claim(TaskType.UNINSTALL)
    assert lease is not None
    await machine.end(lease)
    assert (await machine.state())[0] == "deleted"
    await machine.end(lease)
    assert (await refusal(site.conn, CLAIM, str(machine.id), machine.key)).startswith("FR404")


async def test_task_types_in_a_claim_are_bounded_in_number_and_length(site: Site) -> None:
    machine = await site.active()
    claim = "SELECT farrier.claim_task($1, $2, $3)"
    for types in (["x" * 65], ["x"] * 65, None):
        said = await refusal(site.conn, claim, machine.name, types, machine.key)
        assert said == "FR400 expected at most 64 task types of at most 64 characters each"


# --- workers


async def test_a_worker_needs_no_agent_key_and_takes_what_its_login_was_granted_oldest_first(site: Site) -> None:
    first, second = await site.draining(), await site.draining()
    async with logged_in(site) as (worker, login):
        assert (await refusal(worker, CLAIM_WORK, None)).startswith(f"FR403 login {login} has no grant")
        await site.conn.execute(GRANT, login, ["node.drain"], None)
        rows = [await worker.fetchrow(CLAIM_WORK, None) for _ in range(3)]
        assert [row and row["node_id"] for row in rows] == [first.id, second.id, None]
        assert (await refusal(worker, CLAIM_WORK, ["node.uninstall"])).startswith("FR403")
        assert rows[0] is not None
        given = rows[0]["task"], rows[0]["lease_token"]
        await worker.execute(RENEW_WORK, *given)
        await worker.execute(FINISH_WORK, *given)
        await worker.execute(FINISH_WORK, *given)
        await site.settled()
        assert (await first.state())[0] == "retired"
        assert [task["claimed_by"] for task in await first.tasks()] == [f"worker {login}"]


async def test_a_workers_finish_that_waited_for_the_same_call_succeeds(site: Site) -> None:
    machine = await site.draining()
    async with logged_in(site) as (worker, login), site.db.connect() as again, anyio.create_task_group() as group:
        await again.execute(f"SET SESSION AUTHORIZATION {login}")
        await site.conn.execute(GRANT, login, ["node.drain"], None)
        row = await worker.fetchrow(CLAIM_WORK, None)
        assert row is not None
        given = row["task"], row["lease_token"]
        async with worker.transaction():
            await worker.execute(FINISH_WORK, *given)
            group.start_soon(again.execute, FINISH_WORK, *given)
            await site.db.until_blocked()
    assert [task["status"] for task in await machine.tasks()] == ["succeeded"]


async def test_history_names_the_agent_or_worker_of_a_task(site: Site) -> None:
    by_agent, by_worker = await site.draining(), await site.draining()
    await by_agent.finish(DRAIN)
    reasons = "SELECT reason FROM farrier.history WHERE id = $1 AND layer = 'status' AND to_value = 'retired'"
    async with logged_in(site) as (worker, login):
        await site.conn.execute(GRANT, login, ["node.drain"], None)
        row = await worker.fetchrow(CLAIM_WORK, None)
        assert row is not None
        await worker.execute(FINISH_WORK, row["task"], row["lease_token"])
        await site.settled()
        assert f"worker {login}" in await site.conn.fetchval(reasons, by_worker.id)
    assert f"agent of {by_agent.name}" in await site.conn.fetchval(reasons, by_agent.id)


async def test_a_grant_may_be_for_one_site(site: Site) -> None:
    await site.draining()
    async with logged_in(site) as (worker, login):
        await site.conn.execute(GRANT, login, ["node.drain"], "ams1")
        assert await worker.fetchrow(CLAIM_WORK, None) is None
        await site.conn.execute("UPDATE farrier.nodes SET site = 'ams1'")
        assert await worker.fetchrow(CLAIM_WORK, None) is not None


async def test_a_worker_can_neither_renew_nor_finish_another_workers_task(site: Site) -> None:
    machine, other = await site.draining(), await site.draining()
    lease = await claimed(machine)
    async with logged_in(site) as (one, login), logged_in(site, "other") as (two, other_login):
        for name in (login, other_login):
            await site.conn.execute(GRANT, name, ["node.drain"], None)
        row = await one.fetchrow(CLAIM_WORK, None)
        assert row is not None and row["node_id"] == other.id
        for given in ((lease.task, lease.token), (row["task"], row["lease_token"])):
            for call in (RENEW_WORK, FINISH_WORK):
                assert "(status unknown)" in await refusal(two, call, *given)
    await site.settled()
    assert {(await node.state())[0] for node in (machine, other)} == {"draining"}


async def test_a_revoked_grant_ends_at_once_and_the_task_is_issued_again(site: Site) -> None:
    machine = await site.draining()
    async with logged_in(site) as (worker, login):
        await site.conn.execute(GRANT, login, ["node.drain"], None)
        row = await worker.fetchrow(CLAIM_WORK, None)
        assert row is not None
        await site.conn.execute("SELECT farrier.revoke_worker($1)", login)
        for call in (RENEW_WORK, FINISH_WORK):
            assert (await refusal(worker, call, row["task"], row["lease_token"])).startswith("FR403")
        await site.wait(2 * MINUTE)
        assert [task["status"] for task in await machine.tasks()] == ["expired", "queued"]
        assert (await refusal(site.conn, "SELECT farrier.revoke_worker($1)", login)).startswith("FR404")


async def test_a_worker_is_known_by_the_login_and_not_by_a_role_that_it_sets(site: Site) -> None:
    async with logged_in(site) as (granted, login), logged_in(site, "other") as (other, other_login):
        await site.conn.execute(GRANT, login, ["node.drain"], None)
        await site.conn.execute(f"GRANT {login} TO {other_login}")
        await other.execute(f"SET ROLE {login}")
        assert (await refusal(other, CLAIM_WORK, None)).startswith("FR403")
        await granted.fetch(CLAIM_WORK, None)


async def test_a_grant_for_an_unknown_login_or_task_type_is_refused(site: Site) -> None:
    assert (await refusal(site.conn, GRANT, "nobody-by-this-name", ["node.drain"], None)).startswith("FR404")
    for types in (["node.drian"], [], None):
        assert (await refusal(site.conn, GRANT, "farrier_worker", types, None)).startswith("FR400")


async def test_every_task_type_of_the_model_may_be_granted(site: Site) -> None:
    await site.conn.execute(GRANT, "farrier_worker", list(TaskType), None)
    assert await site.conn.fetchval("SELECT types FROM farrier.workers") == list(TaskType)


async def test_a_task_type_that_the_model_gains_may_be_granted(site: Site) -> None:
    await site.conn.execute("INSERT INTO farrier.task_types VALUES ('node.polish')")
    await site.conn.execute(GRANT, "farrier_worker", ["node.polish"], None)
