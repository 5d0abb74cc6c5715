"""An outage of the database or of all daemons takes no healthy node out of service, and ends no stage that waits."""

from __future__ import annotations

from farrier.config import NodeConfig
from farrier.io.connections.pulse import PostgresPulse
from farrier.model.node.layers import Layer
from farrier.model.node.sla import stage_deadline
from farrier.model.node.stages import OnboardingStage
from tests.support.site import MINUTE, SECOND, Machine, Site

OFFLINE_AFTER = NodeConfig().offline_after
# The node as the last controller left it.
VERIFYING = """
    UPDATE farrier.nodes
       SET management = 'verifying', management_entered_at = farrier.now(), version = version + 1,
           bmc = bmc || jsonb_build_object('trying', farrier.now(), 'tries', jsonb_build_array(farrier.now()))
     WHERE id = $1
"""


async def outage(site: Site) -> None:
    """Let so much time pass without a pulse and without a heartbeat that each heartbeat is too old."""
    await site.db.advance(OFFLINE_AFTER + MINUTE, pulses=False)


async def pulse(site: Site) -> None:
    await PostgresPulse(site.pool).beat()


async def status(machine: Machine) -> str:
    await machine.site.settled()
    return (await machine.state())[0]


async def test_after_an_outage_a_node_has_the_rest_of_its_time_for_the_next_heartbeat(site: Site) -> None:
    machine = await site.active()
    await outage(site)
    await pulse(site)
    assert await status(machine) == "active"
    await site.pass_time(OFFLINE_AFTER - MINUTE)
    assert await status(machine) == "active"
    await machine.beat()
    await site.pass_time(2 * MINUTE)
    assert await status(machine) == "active"


async def test_a_node_that_stays_silent_after_an_outage_goes_offline(site: Site) -> None:
    machine = await site.active()
    await outage(site)
    await pulse(site)
    assert await status(machine) == "active"
    await site.pass_time(OFFLINE_AFTER + SECOND)
    assert await status(machine) == "offline"


async def test_repeated_outages_keep_no_silent_node_in_service(site: Site) -> None:
    machine = await site.active()
    for _ in range(3):
        await site.pass_time(OFFLINE_AFTER / 3 + SECOND)
        await site.db.advance(12 * SECOND, pulses=False)
        await pulse(site)
    assert await status(machine) == "offline"


async def test_a_run_before_the_first_pulse_after_an_outage_takes_no_node_out_of_service(site: Site) -> None:
    machine = await site.active()
    await outage(site)
    assert await status(machine) == "active"


async def test_an_outage_returns_no_silent_node_to_service(site: Site) -> None:
    machine = await site.active()
    await site.pass_time(OFFLINE_AFTER + SECOND)
    assert await status(machine) == "offline"
    await outage(site)
    assert await status(machine) == "offline"
    await pulse(site)
    assert await status(machine) == "offline"
    await machine.beat()
    assert await status(machine) == "active"


async def test_a_heartbeat_is_shown_with_its_real_time_after_an_outage(site: Site) -> None:
    machine = await site.active()
    shown = "SELECT last_heartbeat_at FROM farrier.node_inventory WHERE id = $1"
    before = await site.conn.fetchval(shown, machine.id)
    await outage(site)
    await pulse(site)
    assert await status(machine) == "active"
    assert await site.conn.fetchval(shown, machine.id) == before


async def test_a_stage_that_waits_for_an_agent_has_the_rest_of_its_time_after_an_outage(site: Site) -> None:
    limit = stage_deadline(Layer.ONBOARDING, OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT, overrides={})
    machine = await (await site.register()).asked("onboard", mode="manual")
    waits = ("enrolling", "running", "wait_for_agent_enrollment")
    for _ in range(2):  # the time between the outages counts
        await site.db.advance(2 * limit, pulses=False)
        await pulse(site)
        await site.settled()
        assert await machine.state() == waits
        await site.pass_time(limit / 2 - SECOND)
        await site.settled()
        assert await machine.state() == waits
    await site.pass_time(MINUTE)
    await site.settled()
    assert (await machine.state())[1] == "failed_retryable"


async def test_an_unfinished_read_of_a_bmc_has_the_rest_of_its_time_after_an_outage(site: Site) -> None:
    machine = await site.active()
    await machine.asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")
    async with site.conn.transaction():
        await site.conn.execute("SET LOCAL session_replication_role = replica")
        await site.conn.execute(VERIFYING, machine.id)
    await outage(site)
    await pulse(site)
    await machine.beat()
    assert [(move.target, move.cause) for move in await machine.moves("management")][-1] == (
        "manageable",
        "step: verify",
    )
