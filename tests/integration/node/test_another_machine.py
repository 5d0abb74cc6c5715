"""A node that has had a machine gets another one only by an intent that says so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.model.machine.bmc import BmcError, BmcFailure, PowerState
from tests.support.fake_bmc import READING
from tests.support.site import Machine, Site

NEW = "https://10.0.0.2"  # another machine responds here: SN-2
_REASONS = "SELECT reason, cause FROM farrier.history WHERE kind = 'node' AND id = $1 ORDER BY version"


async def known(machine: Machine) -> tuple[str, str | None, str | None]:
    bmc = await machine.bmc()
    return (await machine.look())["management"], bmc.get("failure"), bmc.get("serial")


async def in_service(site: Site) -> Machine:
    machine = await site.active()
    return await machine.asked("set_bmc", address="https://10.0.0.1", credential="env:BMC")


async def test_set_bmc_alone_does_not_give_a_node_in_service_another_machine(site: Site) -> None:
    machine = await in_service(site)
    await machine.asked("set_bmc", address=NEW)
    assert await known(machine) == ("enroll", "identity_mismatch", "SN-1")
    error = (await machine.bmc())["last_error"]
    assert "SN-1" in error and "SN-2" in error
    assert (await machine.ask("set_power", power="off")).status == "rejected"
    assert site.bmc.sent == [] and site.bmc.power is PowerState.ON


@pytest.mark.parametrize("status", ["enrolling", "active"])
async def test_clear_bmc_does_not_make_a_node_forget_which_machine_it_had(site: Site, status: str) -> None:
    machine = await in_service(site) if status == "active" else await site.with_bmc()
    await machine.asked("clear_bmc")
    await machine.asked("set_bmc", address=NEW, credential="env:BMC")
    assert (await known(machine))[:2] == ("enroll", "identity_mismatch")
    await machine.asked("set_bmc", address="https://10.0.0.1")
    assert await known(machine) == ("manageable", None, "SN-1"), "the machine itself is welcome back"


async def test_mac_addresses_that_a_bmc_reported_are_enough_to_refuse_another_machine(site: Site) -> None:
    bare = replace(READING, serial=None, uuid=None, macs=("a4:bb:6d:00:00:01",))
    site.bmc.script = site.bmc.read_script = lambda _target: bare
    machine = await in_service(site)
    site.bmc.script = site.bmc.read_script = lambda _target: replace(bare, macs=("a4:bb:6d:00:00:02",))
    await machine.asked("set_bmc", address=NEW)
    assert (await known(machine))[:2] == ("enroll", "identity_mismatch")


async def test_replace_gives_the_node_another_machine_and_its_history_has_both_serials(site: Site) -> None:
    machine = await site.with_bmc()
    id_ = await machine.tell("set_bmc", address=NEW, replace=True)
    await site.settled()
    assert await known(machine) == ("manageable", None, "SN-2")
    rows = await site.conn.fetch(_REASONS, machine.id)
    replaced = [row["reason"] for row in rows if "SN-1" in row["reason"] and "SN-2" in row["reason"]]
    causes = {row["cause"] for row in rows if row["reason"] in replaced}
    assert len(replaced) == 1 and causes == {f"intent {id_}"}


async def test_in_service_a_replacement_needs_force(site: Site) -> None:
    machine = await in_service(site)
    refused = await machine.ask("set_bmc", address=NEW, replace=True)
    assert refused.status == "rejected" and "force: true" in str(refused.reason) and "SN-1" in str(refused.reason)
    assert await known(machine) == ("manageable", None, "SN-1")
    assert (await machine.look())["bmc_address"] == "https://10.0.0.1"
    await machine.asked("set_bmc", address=NEW, replace=True, force=True)
    assert await known(machine) == ("manageable", None, "SN-2")


async def test_a_replacement_behind_the_same_address_needs_no_details(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.script = site.bmc.read_script = lambda _target: replace(READING, serial="SN-9", uuid=None)
    await machine.asked("manage")
    assert (await known(machine))[1] == "identity_mismatch"
    await machine.asked("set_bmc", replace=True)
    assert await known(machine) == ("manageable", None, "SN-9")


async def test_a_replacement_outlives_a_typing_error_in_the_address(site: Site) -> None:
    machine = await site.with_bmc()
    await site.register("other", bmc_address="https://10.0.0.3", bmc_credential="env:BMC")
    site.bmc.script = lambda _target: replace(READING, serial="SN-3", uuid="38b7a8c4-0001-11ec-9621-000000000003")
    await machine.asked("set_bmc", address="https://10.0.0.33", replace=True)
    assert (await known(machine))[1] == "identity_taken"
    site.bmc.recover()
    await machine.asked("set_bmc", address=NEW)
    assert await known(machine) == ("manageable", None, "SN-2")


async def test_a_replacement_can_be_called_off(site: Site) -> None:
    machine = await site.with_bmc()
    site.bmc.fail(BmcError(BmcFailure.UNREACHABLE, "no route"))
    await machine.asked("set_bmc", address=NEW, replace=True)
    site.bmc.recover()
    await machine.asked("set_bmc", replace=False)
    assert (await known(machine))[:2] == ("enroll", "identity_mismatch")


async def test_registered_mac_addresses_stay_binding_in_a_replacement(site: Site) -> None:
    machine = await site.with_bmc(macs=["a4:bb:6d:00:00:01"])
    bare = replace(READING, serial="SN-2", uuid=None, macs=("a4:bb:6d:00:00:02",))
    site.bmc.script = site.bmc.read_script = lambda _target: bare
    await machine.asked("set_bmc", address=NEW, replace=True)
    assert (await known(machine))[1] == "identity_mismatch", "the registration still says which machine it must be"
    await machine.asked("set", macs=["a4:bb:6d:00:00:02"])
    await machine.asked("manage")
    assert await known(machine) == ("manageable", None, "SN-2")
