"""The search for a node's machine in MAAS: conflicts, contradictions and malformed responses cause no change."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from farrier.handlers.node.changes import with_fields
from farrier.handlers.node.onboarding.discovery import FoundMachine, clues, contradiction
from farrier.model.maas.reading import Machine as Reading
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.snapshot import Bmc
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import Fault
from farrier.sim.maas.records import Machine
from tests.support.found_machines import REDFISH, changes, fails, has, is_done, shown
from tests.support.stages import MAC, Stand

OTHER_MAC = "52:54:00:00:00:09"
HTML = b"<!DOCTYPE html><html><body>It works!</body></html>"
TOO_LARGE = b"[" + b" " * (10 << 20) + b"]"


@pytest.fixture
def stand(stand: Stand) -> Stand:
    stand.onboards(O.CREATE_OR_FIND_IN_MAAS)
    return stand


async def is_assigned(stand: Stand, machine: Machine) -> None:
    is_done(await stand.settle())
    assert stand.node.maas_id == machine.system_id


# --- conflicts


async def test_two_machines_found_by_two_clues_are_a_conflict_and_not_changed(stand: Stand) -> None:
    one = has(stand, hostname="eager-whale", power_parameters={})
    other = has(stand, macs=(OTHER_MAC,), power_parameters={})
    fails(
        await stand.settle(),
        F.DISCOVERY_CONFLICT,
        f"{one.system_id} (eager-whale) by MAC address {MAC}",
        f"{other.system_id} (gpu-1) by host name gpu-1",
    )
    assert changes(stand) == [] and stand.node.maas_id is None


async def test_two_machines_at_one_bmc_are_distinguished_by_their_systems(stand: Stand) -> None:
    stand.node = with_fields(stand.node, bmc_address="https://10.0.0.1/redfish/v1/Systems/node-2")
    first = has(stand, hostname="a", macs=(), power_parameters=REDFISH | {"node_id": "node-1"})
    second = has(stand, hostname="b", macs=(), power_parameters=REDFISH | {"node_id": "node-2"})
    await is_assigned(stand, second)
    assert first.hostname == "a" and changes(stand) == []


async def test_two_machines_at_one_bmc_without_known_systems_are_a_conflict(stand: Stand) -> None:
    has(stand, hostname="a", macs=())
    has(stand, hostname="b", macs=())
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, "BMC address 10.0.0.1")


async def test_the_recorded_machine_and_another_by_its_mac_address_are_a_conflict(stand: Stand) -> None:
    recorded = has(stand, hostname="old", macs=(OTHER_MAC,), power_parameters={})
    other = has(stand, hostname="new", power_parameters={})
    stand.node = with_fields(stand.node, maas_id=recorded.system_id)
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, "its recorded ID", other.system_id)
    assert changes(stand) == []


async def test_the_recorded_machine_and_another_with_the_host_name_of_the_node_are_a_conflict(stand: Stand) -> None:
    recorded = has(stand, hostname="old")
    has(stand, macs=(OTHER_MAC,), power_parameters={})
    stand.node = with_fields(stand.node, maas_id=recorded.system_id)
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, "host name gpu-1")


async def test_a_machine_with_the_name_of_the_node_and_other_mac_addresses_is_a_conflict(stand: Stand) -> None:
    machine = has(stand, macs=(OTHER_MAC,), power_parameters={})
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, machine.system_id, MAC, OTHER_MAC)
    assert changes(stand) == []


async def test_a_machine_with_the_name_of_the_node_and_another_bmc_is_a_conflict(stand: Stand) -> None:
    has(stand, macs=(), power_parameters=REDFISH | {"power_address": "10.0.0.77"})
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, "10.0.0.77")
    assert changes(stand) == []


@pytest.mark.parametrize(
    ("node_bmc", "address"),
    [
        ("https://10.0.0.1", "another-bmc.example"),
        ("https://bmc-1.example", "10.0.0.77"),
        ("https://10.0.0.1", ""),
    ],
    ids=["its BMC has a name", "the node's BMC has a name", "it has no BMC"],
)
async def test_a_machine_that_matches_only_by_name_is_a_conflict(stand: Stand, node_bmc: str, address: str) -> None:
    stand.node = with_fields(stand.node, bmc_address=node_bmc)
    machine = has(stand, macs=(), power_parameters=REDFISH | {"power_address": address} if address else {})
    fails(await stand.settle(), F.DISCOVERY_CONFLICT, machine.system_id, "matches only by name")
    assert changes(stand) == [] and stand.node.maas_id is None


UUID = "4c4c4544-0031-3210-8052-b4c04f4d4e32"


async def test_a_machine_that_matches_by_name_and_serial_is_assigned(stand: Stand) -> None:
    stand.node = with_fields(stand.node, bmc=Bmc(serial="SN-1"))
    machine = has(stand, macs=(), power_type="", power_parameters={}, hardware_info={"system_serial": "SN-1"})
    await is_assigned(stand, machine)


@pytest.mark.parametrize(("uuid", "proves"), [(UUID.upper(), True), ("", False), (None, False)])
async def test_a_machine_that_matches_by_name_and_uuid_is_no_contradiction(
    stand: Stand, uuid: str | None, proves: bool
) -> None:
    known = clues(with_fields(stand.node, bmc=Bmc(uuid=UUID)))
    machine = Reading(system_id="abc123", status=4, hostname="gpu-1", hardware_uuid=uuid)
    assert (
        contradiction(known, FoundMachine(machine=machine, by=("host name gpu-1",), only_by_name=True)) is None
    ) is proves


# --- serials


async def test_a_machine_whose_serial_differs_from_the_bmcs_is_an_identity_mismatch(stand: Stand) -> None:
    stand.node = with_fields(stand.node, bmc=Bmc(serial="SN-1"))
    has(stand, hardware_info={"system_serial": "SN-9"})
    fails(await stand.settle(), F.IDENTITY_MISMATCH, "SN-9", "SN-1")
    assert changes(stand) == [] and stand.node.maas_id is None


@pytest.mark.parametrize(
    "info",
    [
        {"system_serial": "sn-1 "},
        {},
        {"system_serial": "To Be Filled By O.E.M."},
        {"system_serial": "TAG77", "mainboard_serial": "/TAG77/SN-1/"},
        {"mainboard_serial": "SN-9"},
    ],
    ids=["the same", "unknown", "a filler", "the board's", "only the board's is known"],
)
async def test_serials_contradict_only_if_both_are_known_of_the_same_part(stand: Stand, info: dict[str, str]) -> None:
    stand.node = with_fields(stand.node, bmc=Bmc(serial="SN-1"))
    await is_assigned(stand, has(stand, hardware_info=info))


# --- bad input


async def test_a_machine_that_is_listed_twice_is_one_machine(stand: Stand) -> None:
    machine = has(stand)
    twice = msgspec.json.encode(shown(stand) * 2)
    for _ in range(2):
        stand.region.faults.add(Fault(path="*machines/", body=twice, content_type="application/json"))
    await is_assigned(stand, machine)


async def test_a_machine_that_is_listed_twice_with_different_fields_is_refused(stand: Stand) -> None:
    has(stand)
    (one,) = shown(stand)
    lying = msgspec.json.encode([one, one | {"hostname": "another"}])
    stand.region.faults.add(Fault(path="*machines/", body=lying, content_type="application/json"))
    fails(await stand.once(), F.UPSTREAM_ERROR, "twice")
    assert changes(stand) == [] and stand.node.maas_id is None


async def test_a_region_that_ignores_the_filter_proposes_no_other_machine(stand: Stand) -> None:
    mine = has(stand)
    theirs = [
        has(stand, hostname=f"other-{n}", macs=(f"52:54:00:00:01:{n:02x}",), power_parameters={}) for n in range(9)
    ]
    everything = msgspec.json.encode(shown(stand))
    for _ in range(2):
        stand.region.faults.add(Fault(path="*machines/", body=everything, content_type="application/json"))
    await is_assigned(stand, mine)
    assert changes(stand) == [] and all(one.owner is None for one in theirs)


@pytest.mark.parametrize("body", [HTML, TOO_LARGE, b'[{"system_id": "x'], ids=["a page", "10 MB", "cut off"])
@pytest.mark.parametrize("request_", range(3), ids=["by MAC", "by name", "BMCs"])
async def test_no_machine_is_made_if_a_response_cannot_be_read(stand: Stand, body: bytes, request_: int) -> None:
    """Tested for each of the three requests: a request that failed does not show that the machine is absent."""
    if request_ == 2:
        stand.region.faults.add(Fault(op="power_parameters", body=body, content_type="application/json"))
    else:
        stand.region.faults.add(Fault(op=None, path="*machines/", times=request_, latency=timedelta(0)))
        stand.region.faults.add(Fault(op=None, path="*machines/", body=body, content_type="application/json"))
    fails(await stand.once(), F.UPSTREAM_ERROR)
    assert changes(stand) == [] and stand.region.machines == {}
