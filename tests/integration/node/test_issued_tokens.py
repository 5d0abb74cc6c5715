"""Bootstrap tokens that a workflow issues: derived and not stored, valid once, and for the time that the site sets."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.handlers.node.maas import cloud_init
from farrier.io.kinds.node import NodeRows
from farrier.model.loop.runs import Due, Finished
from farrier.model.node.snapshot import Node
from farrier.model.node.writes import IssueBootstrap, RevokeBootstrap, Write
from tests.support import pg
from tests.support.site import HOUR, SECOND, Machine, Site
from tests.support.tokens import named

TTL = 6 * HOUR

_ENROLL = "SELECT agent_key FROM farrier.enroll_agent($1)"
_VERSION = "SELECT version FROM farrier.nodes WHERE id = $1 FOR NO KEY UPDATE"
_WRITE = f"SELECT run FROM farrier.write_nodes({', '.join(f'${place}' for place in range(1, 11))})"
_TOKENS = """
    SELECT encode(hash, 'hex') AS digest, used_at IS NOT NULL AS used, revoked_at IS NOT NULL AS revoked
      FROM farrier.bootstrap_tokens WHERE node_id = $1 ORDER BY issued_at, hash
"""


async def written(site: Site, machine: Machine, *writes: Write) -> None:
    """Commit writes of a run of the node. The transaction locks the row, because the loop may run the node as well."""
    async with site.conn.transaction():
        version = await site.conn.fetchval(_VERSION, machine.id)
        run: Finished[Node, Write] = Finished(
            id=machine.id, epoch=1, version=version, due=Due.PERIODIC, outcome="wait", writes=writes
        )
        changes, *columns = NodeRows().written([run])
        assert await site.conn.fetch(_WRITE, changes, [], *columns) == []


async def issued(site: Site, machine: Machine, token: str, ttl: timedelta = TTL) -> None:
    await written(site, machine, IssueBootstrap(cloud_init.digest(named(token)), ttl))


async def refusal(site: Site, token: str) -> str:
    with pytest.raises(pg.PostgresError) as refused:
        await site.conn.fetchval(_ENROLL, named(token))
    assert refused.value.sqlstate == "FR403"
    return str(refused.value)


async def test_python_and_the_database_compute_the_same_digest_of_a_token(site: Site) -> None:
    made = await site.conn.fetchval("SELECT encode(farrier.digest($1), 'hex')", "tökén")
    assert made == cloud_init.digest("tökén")


async def test_an_issued_token_enrols_once(site: Site) -> None:
    machine = await site.register()
    await issued(site, machine, "token")
    assert await site.conn.fetchval(_ENROLL, named("token"))
    assert "was used at" in await refusal(site, "token")


async def test_an_issued_token_lives_as_long_as_it_was_given(site: Site) -> None:
    machine = await site.register()
    await issued(site, machine, "token")
    await site.wait(TTL)
    assert "expired at" in await refusal(site, "token")


async def test_another_token_revokes_the_earlier_unused_one(site: Site) -> None:
    machine, other = await site.register(), await site.register()
    await issued(site, machine, "first")
    await issued(site, other, "of another node")
    await issued(site, machine, "second")
    assert "was revoked at" in await refusal(site, "first")
    assert await site.conn.fetchval(_ENROLL, named("second"))
    assert await site.conn.fetchval(_ENROLL, named("of another node"))


async def test_issuing_the_same_token_again_restarts_its_lifetime(site: Site) -> None:
    machine = await site.register()
    await issued(site, machine, "token")
    await site.wait(TTL - SECOND)
    await issued(site, machine, "token")
    await site.wait(TTL - SECOND)
    assert len(await site.conn.fetch(_TOKENS, machine.id)) == 1
    assert await site.conn.fetchval(_ENROLL, named("token"))


@pytest.mark.parametrize("revoked", [False, True])
async def test_a_token_that_ended_unused_is_good_once_it_is_issued_again(site: Site, revoked: bool) -> None:
    machine = await site.register()
    await issued(site, machine, "token")
    if revoked:
        await written(site, machine, RevokeBootstrap())
    else:
        await site.wait(TTL)
    await issued(site, machine, "token")
    assert await site.conn.fetchval(_ENROLL, named("token"))


async def test_a_used_token_stays_used_regardless_of_later_writes(site: Site) -> None:
    machine = await site.register()
    await issued(site, machine, "token")
    await site.conn.fetchval(_ENROLL, named("token"))
    await issued(site, machine, "token")
    assert "was used at" in await refusal(site, "token")
    (row,) = await site.conn.fetch(_TOKENS, machine.id)
    assert (row["used"], row["revoked"]) == (True, False)


async def test_a_token_of_one_node_is_not_given_to_another(site: Site) -> None:
    machine, other = await site.register(), await site.register()
    await issued(site, machine, "token")
    await issued(site, other, "token")
    enrolled = await site.conn.fetchval("SELECT node FROM farrier.enroll_agent($1)", named("token"))
    assert enrolled == machine.id


async def test_a_token_itself_is_nowhere_in_the_database(site: Site) -> None:
    machine = await site.register()
    await issued(site, machine, "open-sesame")
    rows = await site.conn.fetch("SELECT t::text AS row FROM farrier.bootstrap_tokens t")
    assert len(rows) == 1 and named("open-sesame")[4:68] not in rows[0]["row"]
