"""A clock above its limit makes one alert, however often the work is retried meanwhile.

The series are those of a real run: a loop of nodes whose agents never enrol and whose BMCs do not respond, and the
figures of the fleet, counted once a minute. promtool runs the rules on the series.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.config import NodeConfig
from farrier.handlers.node.changes import NodeServices
from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.calls.identities import PostgresIdentities
from farrier.io.connections.pool import Single
from farrier.io.kinds.node import NodeRows
from farrier.io.queries.lists import PostgresQueries
from farrier.metrics import gauges
from farrier.metrics.fleet import FleetGauges
from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.model.node import sla
from farrier.model.node.limits import END_TO_END, PLACES, ClockedState, Limits
from farrier.model.views.census import Rules
from tests.support import figures, pg, promtool
from tests.support.fake_bmc import FakeBmc
from tests.support.loop import Ledger
from tests.support.nodes import NoRegions, Secrets
from tests.support.owner import MovedClock, Owner
from tests.support.promtool import Expected, Replica, firing

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOLD = promtool.BY_NAME["FarrierStuck"].hold // MINUTE
LIMITED = [place for place in PLACES if place.default is not None]
OF_STAGES = sorted({30 * SECOND, *(limit for stages in sla.STAGES.values() for limit in stages.values())})

ENROLLING = "onboarding.running.wait_for_agent_enrollment"
PENDING = "management.enroll"
STAGE = {"kind": "onboarding", "state": "running", "substate": "wait_for_agent_enrollment"}
VERIFICATION = {"kind": "management", "state": "enroll", "substate": ""}

REGISTER = "SELECT farrier.register_node($1, bmc_address => $2, bmc_credential => $3)"
ONBOARD = """
    INSERT INTO farrier.intents (node, action, params, requested_by, api_version)
    VALUES ($1, 'onboard', '{"mode": "manual"}', 'an operator', 2)
"""
NODE = """
    INSERT INTO farrier.nodes (name, status, management, status_entered_at, management_entered_at, bmc)
    VALUES ($1, $2, $3, farrier.now(), farrier.now(), jsonb_build_object('pending_at', farrier.now())) RETURNING id
"""
WORKFLOW = """
    WITH job AS (
        INSERT INTO farrier.node_{kind}s (node_id, mode, status, stage, mode_given_at)
        VALUES ($1, 'any', $2, nullif($3, ''), farrier.now()) RETURNING id)
    UPDATE farrier.nodes SET live_workflow_kind = '{kind}', live_workflow_id = job.id FROM job WHERE nodes.id = $1
"""


class Recorder:
    """The figures of a fleet at each minute, as Prometheus would store them."""

    def __init__(self, db: pg.Database, limits: Limits) -> None:
        rules = Rules(limits=limits, offline_after=3 * MINUTE, observation_ttl=5 * MINUTE, name_at_most=0)
        self._clock = MovedClock()
        self._db = db
        self._minutes: list[Mapping[str, float]] = []
        self.gauges = FleetGauges(rules, self._clock)

    async def minute(self, owner: Owner | None = None) -> None:
        """Let a minute pass, in which `owner` does its work, and count the fleet at its end."""
        for _ in range(4):
            await self._db.advance(MINUTE / 4)
            if owner is not None:
                await owner.settled()
        self._clock.advance(2 * MINUTE)  # the last count has expired
        await self.gauges.refresh()
        families = [family for family in self.gauges.collect() if family.name == gauges.ABOVE_SLA.name]
        samples = (sample for family in families for sample in family.samples)
        self._minutes.append({promtool.labelled(each.name, **each.labels): each.value for each in samples})

    def replica(self) -> Replica:
        """The process that exposed the recorded series."""
        series = {name for minute in self._minutes for name in minute}
        last = len(self._minutes) - 1
        told = {name: " ".join(f"{minute.get(name, 0):.0f}" for minute in self._minutes) for name in series}
        return Replica("a", told, up=f"1x{last}", counted=f"0+60x{last}")

    def always(self, first: int, *labels: Mapping[str, str], alert: str = "FarrierStuck") -> list[Expected]:
        """In each minute from `first` to the last one, exactly these alerts fire."""
        answers = [{"severity": "ticket", **each} for each in labels]
        return [firing(alert, minute, *answers) for minute in range(first, len(self._minutes))]


@asynccontextmanager
async def recorder(db: pg.Database, limits: Limits) -> AsyncIterator[tuple[Recorder, Single]]:
    recorded = Recorder(db, limits)
    async with (
        db.pool(1) as pool,
        figures.counted(recorded.gauges, PostgresQueries(pool)),
        db.connect() as conn,
    ):
        yield recorded, conn


@asynccontextmanager
async def controller(db: pg.Database, limits: Limits) -> AsyncIterator[Owner]:
    """A running loop of nodes; no BMC responds, and no site has MAAS."""
    bmc = FakeBmc()
    bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route to host"))
    async with db.pool(1) as pool:
        owner = Owner(pool)
        services = NodeServices(bmc, Secrets(), NoRegions(), PostgresIdentities(pool))
        owner.add(NODE_KIND, NodeHandler(NodeConfig(), limits), NodeRows(), services=services, sink=Ledger())
        async with owner.running():
            yield owner


@pytest.mark.matrix(keep=3)
@pytest.mark.parametrize("limit", OF_STAGES, ids=str)
async def test_a_stage_that_fails_and_is_retried_makes_one_alert_from_its_limit_on(
    db: pg.Database, tmp_path: Path, limit: timedelta
) -> None:
    limits = Limits({ENROLLING: limit})
    async with recorder(db, limits) as (recorded, conn), controller(db, limits) as owner:
        await conn.fetchval(REGISTER, "gpu-1", None, None)
        await conn.execute(ONBOARD, "gpu-1")
        await owner.settled()
        fails_at = limit * sla.STAGE_DEADLINE_FACTOR // MINUTE
        for _ in range(fails_at + HOLD + 3):
            await recorded.minute(owner)
        moves = "SELECT to_value FROM farrier.history WHERE layer = 'onboarding' ORDER BY version"
        path = [row[0] for row in await conn.fetch(moves)]
    assert path[-2:] in (["running", "failed_retryable"], ["failed_retryable", "running"])
    promtool.check(tmp_path, [recorded.replica()], *recorded.always(limit // MINUTE + HOLD + 1, STAGE))


async def test_a_bmc_that_is_verified_again_and_again_makes_one_alert(db: pg.Database, tmp_path: Path) -> None:
    limits = Limits({PENDING: 5 * MINUTE})
    async with recorder(db, limits) as (recorded, conn), controller(db, limits) as owner:
        await conn.fetchval(REGISTER, "gpu-1", "https://10.0.0.1", "env:BMC")
        for _ in range(25):
            await recorded.minute(owner)
        verified = "SELECT count(*) FROM farrier.history WHERE layer = 'management' AND to_value = 'verifying'"
        assert await conn.fetchval(verified) > 3
    promtool.check(tmp_path, [recorded.replica()], *recorded.always(5 + HOLD + 1, VERIFICATION))


async def test_a_bmc_that_is_being_verified_is_as_late_as_before(db: pg.Database, tmp_path: Path) -> None:
    limits = Limits({PENDING: 5 * MINUTE})
    async with recorder(db, limits) as (recorded, conn):
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(NODE, "gpu-1", "enrolling", "enroll")
        for minute in range(20):
            state = "verifying" if minute % 4 == 3 else "enroll"
            await conn.execute("UPDATE farrier.nodes SET management = $1, management_entered_at = farrier.now()", state)
            await recorded.minute()
    promtool.check(tmp_path, [recorded.replica()], *recorded.always(5 + HOLD + 1, VERIFICATION))


async def test_a_node_that_stays_in_a_state_beyond_its_limit_makes_an_alert_for_every_limit_of_a_state(
    db: pg.Database, tmp_path: Path
) -> None:
    """No controller runs these nodes, so that they also stay in states that a controller would leave."""
    limits = Limits({place.key: 30 * SECOND for place in LIMITED})
    async with recorder(db, limits) as (recorded, conn):
        await conn.execute("SET session_replication_role = replica")
        for number, place in enumerate(LIMITED):
            await stay(conn, f"gpu-{number}", place)
        for _ in range(HOLD + 4):
            await recorded.minute()
    stuck = [
        {"kind": place.kind, "state": place.state, "substate": place.substate}
        for place in LIMITED
        if place.state != END_TO_END
    ]
    promtool.check(tmp_path, [recorded.replica()], *recorded.always(HOLD + 2, *stuck))


async def stay(conn: Single, name: str, place: ClockedState) -> None:
    """Add a node that has just entered this state, and whose other layers have no limit."""
    status = place.state if place.kind == "node" else "active"
    management = place.state if place.kind == "management" else "manageable"
    id_ = await conn.fetchval(NODE, name, status, management)
    if place.kind in {"onboarding", "decommission"}:
        await conn.execute(WORKFLOW.format(kind=place.kind), id_, place.state, place.substate)
