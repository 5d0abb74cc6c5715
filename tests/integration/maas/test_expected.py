"""A node out of service whose machine in MAAS differs from what its status expects: reported, and not moved."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from farrier.io.queries.lists import PostgresQueries
from farrier.model.advice.explanation import Why, explain
from farrier.model.machine.expected import BY_RESCUE
from farrier.model.node.limits import Limits
from farrier.model.node.snapshot import TaskType
from farrier.sim.maas import OPERATOR, Status
from farrier.sim.maas.records import Machine as Record
from tests.support.onboarded import active, record
from tests.support.site import MINUTE, Machine, Site

# The period within which every machine is read, also without an event.
SWEEP = timedelta(minutes=35)
Human = Callable[[Site, Record], None]


def is_taken(site: Site, machine: Record) -> None:
    """Another user releases the machine and deploys it."""
    machine.owner = OPERATOR.username
    site.maas.region.move(machine, Status.DEPLOYED)


def is_broken(site: Site, machine: Record) -> None:
    site.maas.region.move(machine, Status.BROKEN)


def is_forgotten(site: Site, machine: Record) -> None:
    site.maas.region.forget(machine)


async def drained(site: Site) -> Machine:
    return await (await (await active(site)).asked("drain")).finish(TaskType.DRAIN)


async def draining(site: Site) -> Machine:
    return await (await active(site)).asked("drain")


async def removing(site: Site) -> Machine:
    return await (await drained(site)).asked("remove")


async def quarantined(site: Site) -> Machine:
    return await (await active(site)).asked("quarantine", reason="looked at")


async def why(node: Machine) -> Why:
    page = await PostgresQueries(node.site.pool).node(node.name)
    return explain(page.rows[0], page.now, Limits())


async def later(node: Machine) -> tuple[str, str]:
    """The node's status and the reported difference, after its machine was read again."""
    for _ in range(SWEEP // (5 * MINUTE)):
        await node.site.wait(5 * MINUTE)
    said = await why(node)
    return said.status, "; ".join(error for error in said.errors if "MAAS" in error)


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize(
    ("human", "says"),
    [
        (is_taken, f"as owned by '{OPERATOR.username}', not by farrier"),
        (is_broken, "as broken (Broken)"),
        (is_forgotten, "no longer exists in MAAS"),
    ],
)
async def test_a_retired_node_reports_a_changed_machine_and_is_not_reactivated(
    site: Site, human: Human, says: str
) -> None:
    node = await drained(site)
    assert await later(node) == ("retired", "")
    human(site, await record(node))
    status, errors = await later(node)
    assert status == "retired", "a report does not move the node"
    assert says in errors
    assert re.search("expected while retired: ready, deployed, switched off; read [^;]* ago$", errors)
    assert "reactivate" not in (await why(node)).advice
    answer = await node.ask("reactivate")
    assert answer.status == "rejected" and (human is is_broken or says in str(answer.reason))
    assert (await node.state())[0] == "retired"


async def test_a_user_to_whom_rescue_mode_gave_the_machine_is_explained_until_the_owner_changes(site: Site) -> None:
    node = await drained(site)
    machine = await record(node)
    machine.owner = OPERATOR.username
    site.maas.region.move(machine, Status.RESCUE_MODE)
    assert BY_RESCUE in (await later(node))[1]
    site.maas.region.move(machine, Status.DEPLOYED)
    assert BY_RESCUE in (await later(node))[1], "MAAS itself reports nothing any more than the owner"
    machine.owner = "another"
    site.maas.region.move(machine, Status.DEPLOYED)
    errors = (await later(node))[1]
    assert "as owned by 'another'" in errors and BY_RESCUE not in errors


async def test_a_retired_node_whose_machine_is_as_expected_is_reactivated(site: Site) -> None:
    node = await drained(site)
    await later(node)
    await node.asked("reactivate")


@pytest.mark.matrix(keep=1)
@pytest.mark.parametrize("way", [draining, removing, quarantined])
async def test_other_statuses_out_of_service_are_compared_too(
    site: Site, way: Callable[[Site], Awaitable[Machine]]
) -> None:
    node = await way(site)
    before = await node.state()
    is_taken(site, await record(node))
    status, errors = await later(node)
    assert f"as owned by '{OPERATOR.username}', not by farrier" in errors
    assert f"expected while {before[0]}" in errors
    assert (status, (await node.state())[0]) == (before[0], before[0])
