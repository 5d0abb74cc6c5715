"""Stage `create_or_find_in_maas` of an adoption: reads the recorded machine, and changes or makes none."""

from __future__ import annotations

from typing import Any

from farrier.handlers.node.changes import with_fields
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR
from farrier.sim.maas import Status as S
from tests.support.found_machines import REDFISH, changes, fails, has, is_done, is_held
from tests.support.stages import Stand

STAGE = O.CREATE_OR_FIND_IN_MAAS
OTHER_MAC = "52:54:00:00:00:09"


def adopts(stand: Stand, **fields: Any) -> None:
    stand.onboards(STAGE, mode=OnboardingMode.ADOPT)
    stand.node = with_fields(stand.node, **fields)


async def test_an_adoption_of_a_node_outside_of_maas_skips_the_stage_without_a_request(stand: Stand) -> None:
    adopts(stand)
    has(stand)
    assert is_done(await stand.once()).skipped == "the node has no MAAS id"
    assert stand.world.observed.operations == []


async def test_an_adoption_finds_the_recorded_machine_and_changes_nothing(stand: Stand) -> None:
    machine = has(stand, S.DEPLOYED, hostname="rack3-u7", power_parameters=REDFISH | {"power_address": "10.0.0.77"})
    is_held(machine)
    adopts(stand, maas_id=machine.system_id)
    is_done(await stand.settle())
    assert changes(stand) == [] and stand.node.maas_id == machine.system_id


async def test_an_adoption_of_a_machine_that_was_deleted_fails(stand: Stand) -> None:
    adopts(stand, maas_id="abc123")
    fails(await stand.settle(), F.MACHINE_DELETED_UPSTREAM, "abc123")
    assert stand.region.machines == {}


async def test_a_machine_that_is_ready_for_other_users_is_not_adopted(stand: Stand) -> None:
    machine = has(stand, S.READY)
    adopts(stand, maas_id=machine.system_id)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, "Ready")


async def test_a_machine_of_another_user_or_with_other_mac_addresses_is_not_adopted(stand: Stand) -> None:
    machine = has(stand, S.DEPLOYED, owner=OPERATOR.username)
    adopts(stand, maas_id=machine.system_id)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, "'op'")
    is_held(machine)
    adopts(stand, macs=(OTHER_MAC,))
    fails(await stand.settle(), F.DISCOVERY_CONFLICT)
