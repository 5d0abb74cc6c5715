"""Writes that the database refuses to every role: edges and first values that the model lacks, and forbidden pairs.

The statements run as a superuser, so no missing right refuses them. With the guards disabled, a test first puts a row
into the state from which it moves; then it enables the guards and tries the move.
"""

from __future__ import annotations

from itertools import permutations, product

import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node import edges, layers
from farrier.model.node.layers import LIVE, TERMINAL, Layer, NodeStatus, WorkflowKind, WorkflowStatus
from tests.support import pg

REFUSED = "FR409"

ROWS = {
    Layer.STATUS: ("farrier.nodes", "status"),
    Layer.MANAGEMENT: ("farrier.nodes", "management"),
    Layer.ONBOARDING: ("farrier.node_onboardings", "status"),
    Layer.DECOMMISSION: ("farrier.node_decommissions", "status"),
}

# Runs the checks of COMMIT at once.
AT_COMMIT = "SET CONSTRAINTS ALL IMMEDIATE"
# Makes the nodes name no live workflow.
UNNAMED = "UPDATE farrier.nodes SET live_workflow_kind = NULL, live_workflow_id = NULL"


async def refusal(conn: Connection, before: str, move: str) -> str | None:
    """The SQLSTATE of `move` after `before` was executed without guards; None: it succeeds. Both are rolled back."""
    transaction = conn.transaction()
    await transaction.start()
    try:
        await conn.execute(f"SET LOCAL session_replication_role = replica; {before}")
        await conn.execute(f"SET LOCAL session_replication_role = origin; {move}")
    except pg.PostgresError as error:
        return error.sqlstate
    finally:
        await transaction.rollback()
    return None


async def register(conn: Connection) -> None:
    """Insert node 1 with the live onboarding 1, and decommission 1, which has ended and which no guard checks."""
    await conn.execute("SELECT farrier.register_node('gpu-1')")
    await conn.execute(
        "SET session_replication_role = replica;"
        "INSERT INTO farrier.node_decommissions (node_id, mode, status) VALUES (1, 'soft_reset', 'cancelled');"
        "SET session_replication_role = origin"
    )


@pytest.mark.parametrize("layer", Layer)
async def test_the_database_accepts_exactly_the_edges_of_the_model(every_db: pg.Database, layer: Layer) -> None:
    table, column = ROWS[layer]
    async with every_db.connect() as conn:
        await register(conn)
        for source, target in permutations(layers.STATES[layer], 2):
            before, move = (f"UPDATE {table} SET {column} = '{value}'" for value in (source, target))
            expected = None if (source, target) in edges.ALLOWED[layer] else REFUSED
            assert await refusal(conn, before, move) == expected, (source, target)


@pytest.mark.parametrize("kind", WorkflowKind)
async def test_the_database_accepts_exactly_the_pairs_of_status_in_the_mapping(
    db: pg.Database, kind: WorkflowKind
) -> None:
    """Tested for a live workflow in the commit that begins it, and for an ended one in the commit that ends it."""
    table = f"farrier.node_{kind}s"
    others = "UPDATE farrier.node_onboardings SET status = 'cancelled'"
    named = f"UPDATE farrier.nodes SET live_workflow_kind = '{kind}', live_workflow_id = 1"
    async with db.connect() as conn:
        await register(conn)
        for status, node_status in product(WorkflowStatus, NodeStatus):
            placed = f"{others}; UPDATE farrier.nodes SET status = '{node_status}'"
            if status in LIVE:
                before = f"{placed}; {UNNAMED}; UPDATE {table} SET status = '{status}'"
                move = f"{named}; {AT_COMMIT}"
            else:
                before = f"{placed}; {named}; UPDATE {table} SET status = 'running'"
                move = f"UPDATE {table} SET status = '{status}'; {UNNAMED}; {AT_COMMIT}"
            expected = None if node_status in edges.FITTING[kind, status] else REFUSED
            assert await refusal(conn, before, move) == expected, (status, node_status)


@pytest.mark.parametrize(
    ("before", "move"),
    [
        pytest.param(
            "", "UPDATE farrier.nodes SET live_workflow_kind = NULL, live_workflow_id = NULL", id="names none"
        ),
        pytest.param("", "UPDATE farrier.nodes SET live_workflow_kind = 'decommission'", id="names another kind"),
        pytest.param("", "UPDATE farrier.nodes SET live_workflow_id = 7", id="names another id"),
        pytest.param(
            "UPDATE farrier.nodes SET status = 'quarantined'",
            "INSERT INTO farrier.node_decommissions (node_id, mode) VALUES (1, 'soft_reset')",
            id="onboarding and decommission at once",
        ),
        pytest.param("", "UPDATE farrier.node_onboardings SET status = 'cancelled'", id="ends behind the node's back"),
    ],
)
async def test_a_commit_is_refused_unless_the_node_names_its_one_live_workflow(
    every_db: pg.Database, before: str, move: str
) -> None:
    async with every_db.connect() as conn:
        await register(conn)
        assert await refusal(conn, "", AT_COMMIT) is None
        assert await refusal(conn, before, f"{move}; {AT_COMMIT}") == REFUSED


async def test_a_truncate_of_workflows_is_refused_while_a_node_has_a_live_one(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await register(conn)
        assert await refusal(conn, "", "TRUNCATE farrier.node_onboardings CASCADE") == REFUSED
        assert await refusal(conn, "", "TRUNCATE farrier.node_decommissions CASCADE") is None, "none is live"
        assert await refusal(conn, "", "TRUNCATE farrier.nodes CASCADE") is None, "no node is left"


async def test_without_a_live_workflow_the_database_accepts_exactly_the_mapped_statuses(every_db: pg.Database) -> None:
    """A node enters `draining` or `removing` only in the commit that begins the decommission that owns the status."""
    ended = "UPDATE farrier.node_onboardings SET status = 'cancelled'"
    async with every_db.connect() as conn:
        await register(conn)
        for source, target in edges.ALLOWED[Layer.STATUS]:
            before = f"{ended}; {UNNAMED}, status = '{source}'"
            move = f"UPDATE farrier.nodes SET status = '{target}'; {AT_COMMIT}"
            expected = None if target in edges.WITHOUT_WORKFLOW else REFUSED
            assert await refusal(conn, before, move) == expected, (source, target)


@pytest.mark.matrix(strength=1)
@pytest.mark.parametrize("status", [NodeStatus.DRAINING, NodeStatus.REMOVING])
@pytest.mark.parametrize(
    "end",
    [
        *(f"UPDATE farrier.node_decommissions SET status = '{end}'" for end in sorted(TERMINAL)),
        "DELETE FROM farrier.node_decommissions",
    ],
)
async def test_the_decommission_of_a_node_does_not_end_without_the_node_leaving_its_state(
    every_db: pg.Database, status: NodeStatus, end: str
) -> None:
    before = (
        "UPDATE farrier.node_onboardings SET status = 'cancelled';"
        "UPDATE farrier.node_decommissions SET status = 'running';"
        f"UPDATE farrier.nodes SET live_workflow_kind = 'decommission', live_workflow_id = 1, status = '{status}'"
    )
    async with every_db.connect() as conn:
        await register(conn)
        assert await refusal(conn, before, AT_COMMIT) is None
        for move in (end, f"{end}; {UNNAMED}"):
            assert await refusal(conn, before, f"{move}; {AT_COMMIT}") == REFUSED, move


@pytest.mark.parametrize("kind", WorkflowKind)
async def test_a_node_has_at_most_one_live_workflow_of_a_kind(db: pg.Database, kind: WorkflowKind) -> None:
    one = f"INSERT INTO farrier.node_{kind}s (node_id, mode) VALUES (1, 'soft_reset')"
    async with db.connect() as conn:
        await register(conn)
        before = f"DELETE FROM farrier.node_{kind}s; {one}"
        assert await refusal(conn, before, one) == "23505"


@pytest.mark.parametrize("layer", Layer)
async def test_a_layer_begins_only_where_the_model_begins_it(every_db: pg.Database, layer: Layer) -> None:
    async with every_db.connect() as conn:
        await register(conn)
        await conn.execute("UPDATE farrier.nodes SET name = 'gpu-0'")
        for value in layers.STATES[layer]:
            made = {
                Layer.STATUS: f"nodes (name, status, management) VALUES ('gpu-1', '{value}', 'unmanaged')",
                Layer.MANAGEMENT: f"nodes (name, status, management) VALUES ('gpu-1', 'enrolling', '{value}')",
                Layer.ONBOARDING: f"node_onboardings (node_id, status) VALUES (1, '{value}')",
                Layer.DECOMMISSION: f"node_decommissions (node_id, mode, status) VALUES (1, 'reimage', '{value}')",
            }[layer]
            expected = None if value in edges.INITIAL[layer] else REFUSED
            sqlstate = await refusal(conn, "DELETE FROM farrier.node_onboardings", f"INSERT INTO farrier.{made}")
            assert sqlstate == expected, value


def test_every_end_of_a_workflow_is_an_edge_from_running() -> None:
    """The test of the pairs in the mapping relies on this."""
    for kind in WorkflowKind:
        assert all((WorkflowStatus.RUNNING, end) in edges.ALLOWED[Layer(kind)] for end in TERMINAL)
