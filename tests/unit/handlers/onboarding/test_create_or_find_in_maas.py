"""Stage `create_or_find_in_maas`: finds or makes the machine of this node, and changes no other machine."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farrier.handlers.node.changes import with_fields, with_workflow
from farrier.handlers.node.onboarding.create_or_find_in_maas import corrections
from farrier.handlers.node.onboarding.discovery import Clues, FoundMachine
from farrier.model.maas import reading as seen_in_maas
from farrier.model.maas.changes import PowerAccess
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.snapshot import Bmc
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR, Broken, Fault, Status
from farrier.sim.maas.records import Machine, ScriptStatus
from tests.support.found_machines import (
    HOST,
    REDFISH,
    changes,
    enlisted,
    fails,
    has,
    is_done,
    is_held,
    memo,
    round_of_scripts,
    steps,
    waits,
)
from tests.support.nodes import MARK
from tests.support.stages import MAC, Stand

STAGE = O.CREATE_OR_FIND_IN_MAAS
S = Status
RECORDED = Path(__file__).parents[3] / "data" / "maas"
OURS = f"farrier onboarding 11 {MARK}: create"


@pytest.fixture
def stand(stand: Stand) -> Stand:
    stand.onboards(STAGE)
    return stand


def tries_again(stand: Stand) -> None:
    """Begin the next attempt."""
    assert stand.node.workflow is not None
    stand.pass_time(timedelta(minutes=1))
    stand.node = with_workflow(stand.node, attempt=2, status_entered_at=stand.now)


async def is_assigned(stand: Stand, machine: Machine, *, made: bool = False) -> None:
    assert machine.system_id in is_done(await stand.settle()).reason
    assert (stand.node.maas_id, stand.node.maas_created) == (machine.system_id, made)
    assert (memo(stand).candidate, memo(stand).asked_at) == (None, None)


def the_only(stand: Stand) -> Machine:
    (machine,) = stand.region.machines.values()
    return machine


# --- creating


async def test_a_node_without_a_machine_gets_one_that_is_recorded_as_made_by_farrier(stand: Stand) -> None:
    is_done(await stand.settle())
    machine = the_only(stand)
    assert (stand.node.maas_id, stand.node.maas_created) == (machine.system_id, True)
    assert changes(stand) == ["create"]
    assert (machine.hostname, machine.description, machine.status) == ("gpu-1", OURS, S.NEW)
    assert [interface.mac_address for interface in machine.interfaces] == [MAC]
    assert machine.power_type == "redfish"
    assert machine.power_parameters == REDFISH


async def test_the_search_sends_one_request_for_each_clue(stand: Stand) -> None:
    await stand.once()
    assert stand.world.observed.operations == ["machines", "machines", "power_addresses", "create"]


@pytest.mark.parametrize(
    ("address", "host", "system"),
    [
        ("https://10.0.0.1:8443", "10.0.0.1", ""),
        ("10.0.0.1", "10.0.0.1", ""),
        ("https://[fd00::1]/", "fd00::1", ""),
        ("https://BMC-17.example.:443/redfish/v1/Systems/node-4", "bmc-17.example", "node-4"),
    ],
)
async def test_maas_gets_the_bare_host_of_the_bmc_and_the_id_of_the_system(
    stand: Stand, address: str, host: str, system: str
) -> None:
    stand.node = with_fields(stand.node, bmc_address=address)
    await stand.settle()
    power = the_only(stand).power_parameters
    assert (power["power_address"], power.get("node_id", "")) == (host, system)


async def test_maas_gets_the_system_id_that_the_bmc_reported(stand: Stand) -> None:
    stand.node = with_fields(stand.node, bmc=Bmc(system_path="/redfish/v1/Systems/System.Embedded.1"))
    await stand.settle()
    assert the_only(stand).power_parameters["node_id"] == "System.Embedded.1"


async def test_the_host_name_is_the_first_label_of_a_dotted_name(stand: Stand) -> None:
    stand.node = with_fields(stand.node, name="GPU-1.north.example")
    await stand.settle()
    assert the_only(stand).hostname == "gpu-1"


async def test_a_node_without_a_mac_address_gets_no_machine_and_the_failure_names_the_mac(stand: Stand) -> None:
    stand.node = with_fields(stand.node, macs=())
    fails(await stand.settle(), F.INVALID_CONFIG, "MAC address of its boot interface")
    assert changes(stand) == []


async def test_the_machine_is_made_in_the_zone_pool_and_domain_of_the_site(stand: Stand) -> None:
    stand.region.site.zones.append("row-3")
    stand.region.site.pools.append("gpu")
    assert stand.site.maas is not None
    stand.use(maas=msgspec.structs.replace(stand.site.maas, zone="row-3", pool="gpu", domain="cluster"))
    await stand.settle()
    machine = the_only(stand)
    assert (machine.zone, machine.pool, machine.domain) == ("row-3", "gpu", "cluster")


async def test_a_zone_that_does_not_exist_is_refused(stand: Stand) -> None:
    assert stand.site.maas is not None
    stand.use(maas=msgspec.structs.replace(stand.site.maas, zone="row-9"))
    fails(await stand.settle(), F.UPSTREAM_REFUSED, "zone")
    assert stand.region.machines == {}


async def test_a_creation_whose_response_was_lost_is_recognised_as_made_by_farrier(stand: Stand) -> None:
    stand.region.faults.add(Fault(method="POST", broken=Broken.DROP))
    waits(await stand.once())
    await is_assigned(stand, the_only(stand), made=True)
    assert changes(stand) == ["create"]


@pytest.mark.parametrize("broken", [Broken.GARBLE, Broken.TRUNCATE])
async def test_a_creation_whose_response_is_unreadable_is_recognised_as_made_by_farrier(
    stand: Stand, broken: Broken
) -> None:
    stand.region.faults.add(Fault(method="POST", broken=broken))
    fails(await stand.once(), F.UPSTREAM_ERROR)
    tries_again(stand)
    await is_assigned(stand, the_only(stand), made=True)
    assert changes(stand) == ["create"]


async def test_a_machine_that_appears_after_the_search_is_found_by_the_next_attempt(stand: Stand) -> None:
    refusal = b'{"hostname": ["Node with this Hostname already exists."]}'
    stand.region.faults.add(Fault(method="POST", status=400, body=refusal, content_type="application/json"))
    fails(await stand.once(), F.UPSTREAM_ERROR, "Hostname already exists")
    machine = has(stand, S.NEW)
    tries_again(stand)
    await is_assigned(stand, machine)


async def test_a_response_about_another_machine_is_refused(stand: Stand) -> None:
    other = b'{"system_id": "zzzzzz", "status": 6, "hostname": "another", "description": "theirs"}'
    stand.region.faults.add(Fault(method="POST", body=other, content_type="application/json"))
    fails(await stand.once(), F.UPSTREAM_ERROR, "zzzzzz")
    tries_again(stand)
    await is_assigned(stand, the_only(stand), made=True)
    assert changes(stand) == ["create"]


# --- finding


@pytest.mark.parametrize(
    "fields",
    [
        {"hostname": "eager-whale"},
        {"hostname": "eager-whale", "macs": ()},
    ],
    ids=["by its MAC address", "by its BMC"],
)
async def test_a_machine_is_found_by_its_mac_address_or_its_bmc(stand: Stand, fields: dict[str, Any]) -> None:
    machine = has(stand, **fields)
    await is_assigned(stand, machine)
    assert "create" not in changes(stand)


async def test_mac_addresses_that_the_bmc_reported_match_in_any_notation(stand: Stand) -> None:
    stand.node = with_fields(
        stand.node, macs=(), bmc=Bmc(macs=("52-54-00-00-00-01".upper(), "0000000000000000fe80", "00:" * 6))
    )
    machine = has(stand, hostname="eager-whale", power_parameters={})
    await is_assigned(stand, machine)


async def test_an_address_that_is_not_an_ethernet_address_contradicts_no_machine(stand: Stand) -> None:
    stand.node = with_fields(stand.node, macs=(), bmc=Bmc(macs=("0000000000000000fe80",)))
    machine = has(stand, hostname="eager-whale")
    await is_assigned(stand, machine)


async def test_a_machine_without_a_difference_is_assigned_without_a_change(stand: Stand) -> None:
    machine = has(stand)
    await is_assigned(stand, machine)
    assert changes(stand) == []
    is_done(await stand.settle())
    assert changes(stand) == [], "nor in the second run"


async def test_a_machine_is_assigned_in_two_runs_with_a_snapshot_between_them(stand: Stand) -> None:
    machine = has(stand)
    assert steps(await stand.once()).to.workflow is not None
    assert memo(stand).candidate == machine.system_id and stand.node.maas_id is None
    is_done(await stand.once())
    assert stand.node.maas_id == machine.system_id


async def test_a_machine_of_another_node_is_a_conflict_and_not_changed(stand: Stand) -> None:
    machine = has(stand)
    await stand.once()
    stand.node = with_fields(stand.node, candidate_of="gpu-2")
    fails(await stand.once(), F.DISCOVERY_CONFLICT, machine.system_id, "gpu-2")
    assert stand.node.maas_id is None and changes(stand) == []


async def test_the_next_attempt_searches_again_if_the_noted_machine_is_gone(stand: Stand) -> None:
    first = has(stand)
    await stand.once()
    stand.region.forget(first)
    second = has(stand)
    tries_again(stand)
    await is_assigned(stand, second)


async def test_a_candidate_of_an_earlier_attempt_is_ignored(stand: Stand) -> None:
    noted = has(stand)
    await stand.once()
    tries_again(stand)
    noted.hostname, noted.interfaces, noted.power_parameters = "other", [], {}  # now it is another machine
    stand.node = with_fields(stand.node, candidate_of="gpu-2")
    mine = has(stand)
    assert steps(await stand.once()).to.workflow is not None
    stand.node = with_fields(stand.node, candidate_of=None)
    await is_assigned(stand, mine)


async def test_a_machine_that_disappears_between_the_two_runs_is_searched_again(stand: Stand) -> None:
    machine = has(stand)
    await stand.once()
    stand.region.forget(machine)
    await is_assigned(stand, has(stand))


async def test_a_machine_whose_owner_changes_between_the_two_runs_is_not_changed(stand: Stand) -> None:
    machine = has(stand)
    await stand.once()
    machine.owner = OPERATOR.username
    fails(await stand.once(), F.STATE_DISAGREEMENT, "'op'")
    assert stand.node.maas_id is None and changes(stand) == []


# --- machines that MAAS discovered by itself


async def test_a_discovered_machine_gets_the_bmc_and_the_name_of_the_node(stand: Stand) -> None:
    machine = enlisted(stand, power_type="", power_parameters={})
    await is_assigned(stand, machine)
    assert changes(stand) == ["update"]
    assert (machine.hostname, machine.power_type, machine.power_parameters) == ("gpu-1", "redfish", REDFISH)


@pytest.mark.parametrize("power_type", ["ipmi", "redfish"])
async def test_a_discovered_machine_whose_bmc_maas_set_up_gets_the_account_of_the_node(
    stand: Stand, power_type: str
) -> None:
    own = {"power_address": "10.0.0.1", "power_user": "maas", "power_pass": "x"}
    machine = enlisted(stand, power_type=power_type, power_parameters=own)
    await is_assigned(stand, machine)
    assert machine.power_type == "redfish" and machine.power_parameters["power_user"] == "admin"


async def test_an_update_whose_response_was_lost_is_recognised(stand: Stand) -> None:
    machine = enlisted(stand, power_type="", power_parameters={})
    await stand.once()
    stand.region.faults.add(Fault(method="PUT", broken=Broken.DROP))
    waits(await stand.once())
    await is_assigned(stand, machine)
    assert changes(stand) == ["update"]


@pytest.mark.parametrize(
    ("hostname", "scripts"),
    [("eager-whale", []), ("rack3-u7", [ScriptStatus.PASSED]), ("gpu-rack", [ScriptStatus.FAILED])],
)
async def test_a_new_machine_that_a_person_created_keeps_its_name_and_its_account(
    stand: Stand, hostname: str, scripts: list[ScriptStatus]
) -> None:
    theirs = REDFISH | {"power_user": "maas-only"}
    machine = has(stand, S.NEW, hostname=hostname, power_parameters=theirs)
    machine.script_sets += [round_of_scripts(stand, status) for status in scripts]
    await is_assigned(stand, machine)
    assert (machine.hostname, machine.power_parameters) == (hostname, theirs)


@pytest.mark.parametrize(("answer", "named"), [("enlisted", "gpu-1"), ("created", None), ("tested", None)])
def test_of_the_machines_that_a_region_showed_as_new_only_the_enlisted_one_is_renamed(
    answer: str, named: str | None
) -> None:
    machine = msgspec.json.decode((RECORDED / f"machine-{answer}.json").read_bytes(), type=seen_in_maas.Machine)
    known = Clues(maas_id=None, hostname="gpu-1", macs=(), host=HOST, system="1", named=False, serial=None)
    found = FoundMachine(machine=machine, by=("MAC",))
    power = PowerAccess(address=HOST, username="admin", password="secret")
    update = corrections(known, found, power, made=False)
    assert update is not None and (update.hostname, update.power) == (named, power), "no power type is redfish yet"


async def test_a_machine_that_another_user_set_up_keeps_its_name_and_its_account(stand: Stand) -> None:
    theirs = REDFISH | {"power_user": "maas-only"}
    machine = has(stand, hostname="rack3-u7", power_parameters=theirs)
    await is_assigned(stand, machine)
    assert (machine.hostname, machine.power_parameters) == ("rack3-u7", theirs)


async def test_a_machine_that_another_user_set_up_gets_the_bmc_address_of_the_node(stand: Stand) -> None:
    machine = has(stand, hostname="rack3-u7", power_parameters=REDFISH | {"power_address": "10.0.0.77"})
    await is_assigned(stand, machine)
    assert (machine.hostname, machine.power_parameters["power_address"]) == ("rack3-u7", "10.0.0.1")


async def test_maas_gets_the_system_that_the_bmc_address_names(stand: Stand) -> None:
    stand.node = with_fields(stand.node, bmc_address="https://10.0.0.1/redfish/v1/Systems/node-2")
    machine = has(stand)
    await is_assigned(stand, machine)
    assert machine.power_parameters["node_id"] == "node-2"


# --- a machine that is recorded


async def test_the_recorded_machine_is_kept(stand: Stand) -> None:
    machine = has(stand)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    await is_assigned(stand, machine, made=False)
    assert changes(stand) == []


async def test_a_recorded_machine_that_farrier_made_gets_the_current_account(stand: Stand) -> None:
    """The password may have changed since, at the BMC and in the store, and MAAS would have the old one."""
    machine = has(stand)
    machine.power_parameters = REDFISH | {"power_pass": "of last year"}
    stand.node = with_fields(stand.node, maas_id=machine.system_id, maas_created=True)
    await is_assigned(stand, machine, made=True)
    assert changes(stand) == ["update"]
    assert machine.power_parameters == REDFISH


async def test_a_recorded_machine_that_is_gone_is_not_made_again(stand: Stand) -> None:
    stand.node = with_fields(stand.node, maas_id="abc123")
    fails(await stand.settle(), F.MACHINE_DELETED_UPSTREAM, "abc123")
    assert changes(stand) == []


async def test_a_machine_that_this_onboarding_deployed_is_not_searched_again(stand: Stand) -> None:
    machine = has(stand, S.DEPLOYED)
    is_held(machine)
    stand.node = with_fields(stand.node, maas_id=machine.system_id)
    stand.onboards(STAGE, memo=msgspec.structs.replace(memo(stand), deploys=1))
    is_done(await stand.settle())
    assert stand.world.observed.operations == ["machine", "whoami"]


# --- machines of other users


async def test_a_machine_that_another_user_holds_is_not_changed(stand: Stand) -> None:
    machine = has(stand, S.ALLOCATED, owner=OPERATOR.username, power_parameters={})
    fails(await stand.settle(), F.STATE_DISAGREEMENT, machine.system_id, "'op'")
    assert changes(stand) == [] and stand.node.maas_id is None


@pytest.mark.parametrize(
    "status",
    [S.DEPLOYED, S.DEPLOYING, S.ALLOCATED, S.RESCUE_MODE, S.RELEASING, S.MISSING, S.RETIRED, S.FAILED_DEPLOYMENT],
)
async def test_a_machine_in_use_is_not_assigned_although_farriers_user_holds_it(stand: Stand, status: Status) -> None:
    machine = has(stand, status, power_parameters={})
    is_held(machine)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, machine.system_id)
    assert changes(stand) == [] and stand.node.maas_id is None


@pytest.mark.parametrize(
    "status", [S.NEW, S.COMMISSIONING, S.TESTING, S.FAILED_COMMISSIONING, S.FAILED_TESTING, S.BROKEN]
)
async def test_a_machine_that_is_not_in_use_is_assigned(stand: Stand, status: Status) -> None:
    await is_assigned(stand, has(stand, status))


# --- the secret


async def test_a_missing_password_fails_the_stage_before_any_request(stand: Stand) -> None:
    stand.secrets.current = None
    fails(await stand.once(), F.NO_CREDENTIALS)
    assert stand.world.observed.operations == []


async def test_no_failure_contains_the_password(stand: Stand) -> None:
    stand.region.faults.add(Fault(method="POST", status=500, body=b"cannot use secret", content_type="text/plain"))
    failed = fails(await stand.once(), F.UPSTREAM_ERROR)
    assert "secret" not in failed.detail
