"""The contract of the MaasClient, tested against the simulated region and a live one.

The machines of these tests have no hardware, so a live region needs nothing but its API. Tests that need hardware are
skipped there, with the reason, unless the environment names a machine: see `tests.support.maas_site`.
"""

from __future__ import annotations

import re
from datetime import timedelta

import msgspec
import pytest

from farrier.model.maas import changes
from farrier.model.maas.changes import Change, LookUp, PowerAccess
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus, Machine
from tests.support.maas import DEPLOY, NEW, POWER, RELEASE
from tests.support.maas_region import signed
from tests.support.maas_site import Site


async def refusal(site: Site, machine: Machine, change: Change) -> MaasError:
    with pytest.raises(MaasError) as caught:
        await site.client.do(machine, change)
    return caught.value


async def linked(site: Site, machine: Machine, address: str | None = None) -> changes.LinkSubnet:
    """A link of the machine's boot interface to the first subnet."""
    assert machine.boot_interface is not None
    subnet, mode = (
        (await site.client.subnets())[0],
        changes.LinkMode.AUTO if address is None else changes.LinkMode.STATIC,
    )
    return changes.LinkSubnet(interface=machine.boot_interface.id, mode=mode, subnet=subnet.id, ip_address=address)


# --- reads


async def test_the_region_returns_its_version_and_farriers_user(site: Site) -> None:
    assert re.match(r"3\.\d+\.\d+", await site.client.version())
    assert (await site.client.whoami()).is_superuser


async def test_a_machine_is_found_by_each_of_its_names(site: Site) -> None:
    machine = await site.new()
    assert machine.boot_interface is not None and machine.boot_interface.mac_address is not None
    for by, value, unknown in (
        (LookUp.ID, machine.system_id, "none"),
        (LookUp.HOSTNAME, machine.hostname, "none"),
        (LookUp.MAC_ADDRESS, machine.boot_interface.mac_address, "02:00:5e:00:53:ff"),
    ):
        assert [one.system_id for one in await site.client.machines(by, [value])] == [machine.system_id]
        assert await site.client.machines(by, [unknown]) == ()
    assert await site.client.machines(LookUp.ID, []) == ()
    where = (await site.client.power_addresses([machine.system_id]))[machine.system_id]
    assert (where.power_address, where.power_user) == (POWER.address, POWER.username)


async def test_a_filter_by_a_malformed_mac_address_is_refused(site: Site) -> None:
    with pytest.raises(MaasError, match="not a valid MAC address") as refused:
        await site.client.machines(LookUp.MAC_ADDRESS, ["none"])
    assert refused.value.failure is MaasFailure.INVALID


async def test_every_subnet_is_on_a_network_that_is_listed_with_its_fabric(site: Site) -> None:
    known = {vlan.id for vlan in await site.client.vlans()}
    subnets = await site.client.subnets()
    assert subnets and {subnet.vlan.id for subnet in subnets if subnet.vlan is not None} <= known


async def test_a_machine_that_is_not_there_is_absent(site: Site) -> None:
    with pytest.raises(MaasError) as refused:
        await site.client.machine("zzzzzz")
    assert refused.value.failure is MaasFailure.ABSENT


async def test_no_error_contains_the_right_secret_that_maas_returns_for_a_wrong_one(site: Site) -> None:
    consumer, token, secret = site.key.split(":")
    assert secret in (await site.bare("users/?op=whoami", signed(f"{consumer}:{token}:{secret[::-1]}"))).text
    site.world.key = f"{consumer}:{token}:{secret[::-1]}"
    with pytest.raises(MaasError) as refused:
        await site.client.whoami()
    assert refused.value.failure is MaasFailure.AUTH
    assert secret not in f"{refused.value} {refused.value.detail} {refused.value.fields}"


async def test_a_late_clock_has_its_own_failure_class(site: Site) -> None:
    site.world.behind = timedelta(minutes=10)
    with pytest.raises(MaasError, match="clock") as refused:
        await site.client.whoami()
    assert refused.value.failure is MaasFailure.CLOCK_SKEW
    site.world.behind = -timedelta(hours=1)
    assert (await site.client.whoami()).is_superuser, "a clock that is fast is accepted"


# --- changes


async def test_a_second_creation_names_the_field_that_exists_already(site: Site) -> None:
    machine = await site.new()
    again = msgspec.structs.replace(NEW, hostname=machine.hostname)
    with pytest.raises(MaasError) as refused:
        await site.client.create(again)
    assert refused.value.failure is MaasFailure.INVALID and "hostname" in refused.value.fields


async def test_the_power_of_a_machine_is_changed_and_no_text_has_the_password(site: Site) -> None:
    machine = await site.new()
    elsewhere = PowerAccess(address="10.0.0.9", username=machine.system_id, password="another&one%2")
    await site.client.do(machine, changes.UpdateMachine(power=elsewhere))
    where = (await site.client.power_addresses([machine.system_id]))[machine.system_id]
    assert (where.power_address, where.power_user) == ("10.0.0.9", machine.system_id)


async def test_a_link_requested_twice_exists_once(site: Site) -> None:
    machine = await site.new()
    link = await linked(site, machine)
    for _ in range(2):
        await site.client.do(machine, link)
    (boot,) = (await site.client.machine(machine.system_id)).interface_set
    assert [one.mode for one in boot.links] == ["auto"]


async def test_a_static_address_in_use_has_its_own_failure_class(site: Site) -> None:
    first, second = await site.new(), await site.new()
    address = await site.free_address(4)
    await site.client.do(first, await linked(site, first, address))
    error = await refusal(site, second, await linked(site, second, address))
    assert error.failure is MaasFailure.ADDRESS_TAKEN and not error.ambiguous


@pytest.mark.parametrize("change", [DEPLOY, RELEASE, changes.Abort(comment="c")])
async def test_a_change_in_a_forbidding_state_is_a_conflict(site: Site, change: Change) -> None:
    machine = await site.new()
    error = await refusal(site, machine, change)
    assert error.failure is MaasFailure.CONFLICT and not error.ambiguous


async def test_a_machine_is_deleted_once(site: Site) -> None:
    machine = await site.new()
    await site.client.do(machine, site.forgotten(machine.system_id))
    assert (await refusal(site, machine, changes.Delete())).failure is MaasFailure.ABSENT


# --- with hardware


async def test_a_machine_is_deployed_locked_unlocked_and_released(site: Site) -> None:
    machine = await site.deployed()
    assert machine.state is MaasStatus.DEPLOYED
    await site.send("POST", f"machines/{machine.system_id}/?op=lock", {"comment": "c"})
    locked = await site.client.machine(machine.system_id)
    assert (await refusal(site, locked, RELEASE)).failure is MaasFailure.FORBIDDEN
    await site.client.do(locked, changes.Unlock(comment="c"))
    await site.client.do(await site.client.machine(machine.system_id), RELEASE)
    released = await site.settled(machine.system_id)
    assert (released.state, released.owner) == (MaasStatus.READY, None)
