"""Inserts nodes in bulk as a fleet at rest, and changes all nodes at once.

A node at rest has the usual state of a node: it is in service, its BMC is verified, and its power reading and heartbeat
stay fresh for longer than any benchmark lasts. Each node has the stored outcome of an idle run of the real loop, so
that the first measured run is idle, too.
"""

from __future__ import annotations

from datetime import timedelta

from bench.ground import Ground
from bench.loop import running

# This is enough time to insert a million nodes.
_SECONDS = 600
_ACTIVE = """
    INSERT INTO farrier.nodes
           (name, site, model, status, management, bmc_address, bmc_credential, bmc, ever_onboarded, ever_active)
    SELECT 'gpu-' || n, 'site-' || n % 8, 'HGX-H100', 'active', 'manageable', 'https://bmc-' || n || '.example',
           'file:/etc/farrier/bmc', $3::jsonb
           || jsonb_build_object('power_at', farrier.now() + interval '1 day', 'serial', 'S' || n),
           true, true
      FROM generate_series($1::bigint, $2::bigint) n
"""
_BMC = """{"power": "on", "good_version": "1", "tried_version": "1", "system_path": "/redfish/v1/Systems/1",
           "manufacturer": "Example", "product": "HGX"}"""
# The guards are off, because they allow only transitions of the handler, but a fleet that is inserted at rest makes no
# transitions.
WITHOUT_GUARDS = "ALTER TABLE farrier.nodes DISABLE TRIGGER USER"
WITH_GUARDS = "ALTER TABLE farrier.nodes ENABLE TRIGGER USER"
_AGENTS = """
    INSERT INTO farrier.node_agents (node_id, key_hash, last_heartbeat_at, health)
    SELECT n.id, farrier.digest(n.name), farrier.now() + interval '1 day', '{"ok": true, "ssh_seed": "ok"}'
      FROM farrier.nodes n
     WHERE NOT EXISTS (SELECT FROM farrier.node_agents a WHERE a.node_id = n.id)
"""
_OUTCOMES = """
    INSERT INTO farrier.outcomes (kind, id, at, key, outcome)
    SELECT o.kind, n.id, o.at, o.key, o.outcome
      FROM farrier.nodes n, (SELECT * FROM farrier.outcomes LIMIT 1) o
        ON CONFLICT DO NOTHING
"""
_CLEAR = """
    TRUNCATE farrier.nodes, farrier.maas_regions, farrier.wakes, farrier.marks, farrier.outcomes, farrier.history
             CASCADE
"""
_IDS = "SELECT id FROM farrier.nodes"
_HEARTBEATS = "UPDATE farrier.node_agents SET last_heartbeat_at = farrier.now() + $1"
_NEWBORN = """
    INSERT INTO farrier.nodes (name, status, management)
    SELECT 'new-' || gen_random_uuid(), 'bootstrap_issued', 'unmanaged' FROM generate_series(1, $1::integer)
"""
_REQUESTS = """
    INSERT INTO farrier.intents (node, action, params)
    SELECT n.id, 'set_bmc', jsonb_build_object('address', 'https://' || n.name || '.example')
      FROM farrier.nodes n WHERE n.status = 'bootstrap_issued'
"""


async def fill(ground: Ground, nodes: int) -> None:
    """Insert nodes at rest until there are `nodes` nodes. Existing nodes are kept."""
    present = await ground.pool.fetchval("SELECT count(*) FROM farrier.nodes")
    if not present:
        await _insert(ground, 1, 1)
        async with running(ground) as work:
            await work.until_at_rest(await ids(ground))
        present = 1
    await _insert(ground, present + 1, nodes)
    await ground.pool.execute(_OUTCOMES, timeout=_SECONDS)
    await settle(ground)


async def _insert(ground: Ground, first: int, last: int) -> None:
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(WITHOUT_GUARDS)
        await conn.execute(_ACTIVE, first, last, _BMC, timeout=_SECONDS)
        await conn.execute(WITH_GUARDS)
        await conn.execute(_AGENTS, timeout=_SECONDS)


async def settle(ground: Ground) -> None:
    """Finish the work that bulk statements cause, so that the benchmark does not measure it. The checkpoint precedes
    the vacuum, because the first change of a page after a checkpoint writes the whole page to the WAL."""
    async with ground.pool.acquire() as conn:
        await conn.execute("CHECKPOINT", timeout=_SECONDS)
        await conn.execute("VACUUM ANALYZE", timeout=_SECONDS)


async def clear(ground: Ground) -> None:
    """Delete all nodes."""
    await ground.pool.execute(_CLEAR)


async def ids(ground: Ground) -> list[int]:
    """Return the ID of every node."""
    return [record["id"] for record in await ground.pool.fetch(_IDS)]


async def silence(ground: Ground) -> None:
    """Make every agent silent for an hour, so that nodes in service go offline."""
    await ground.pool.execute(_HEARTBEATS, timedelta(hours=-1))


async def resound(ground: Ground) -> None:
    """Make every agent's heartbeat fresh for the rest of the day."""
    await ground.pool.execute(_HEARTBEATS, timedelta(days=1))


async def newborn(ground: Ground, nodes: int) -> None:
    """Insert `nodes` further nodes whose agents have just enrolled. Each node is enqueued, and has a pending intent for
    its BMC."""
    async with ground.pool.acquire() as conn, conn.transaction():
        await conn.execute(_NEWBORN, nodes)
        await conn.execute(_AGENTS)
        await conn.execute(_REQUESTS)
