"""Requests to a region: forms, paths that end in a slash, and no value that would change a path."""

from __future__ import annotations

import msgspec
import pytest

from farrier.model.maas import changes
from farrier.model.maas.changes import Change, LinkMode, NewMachine, PowerAccess
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.services.maas.requests import creation, of_change, path

POWER = PowerAccess(address="10.0.0.1", username="root", password="calvin")
NEW = NewMachine(hostname="gpu001", mac_addresses=("m1", "m2"), power=POWER, description="workflow 7")
SID = "abc123"

EVERY_CHANGE: tuple[Change, ...] = (
    changes.UpdateMachine(hostname="b", power=POWER, enable_hw_sync=True),
    changes.Commission(skip_networking=True, skip_storage=False, testing_scripts=()),
    changes.TestMachine(script="farrier-clean-check"),
    changes.Abort(comment="c"),
    changes.SetBootDisk(device=7),
    changes.SetStorageLayout(layout="flat", root_size=5),
    changes.CreateBond(name="bond0", parents=(1, 2), mode="802.3ad", lacp_rate="fast", mtu=9000, vlan=5001),
    changes.CreateVlan(parent=3, vlan=5002),
    changes.UpdateInterface(interface=4, name="roce0", vlan=5003, mtu=9000),
    changes.LinkSubnet(interface=4, mode=LinkMode.AUTO, subnet=2),
    changes.Deploy(user_data="#cloud-config é\n", comment="c", distro_series="noble"),
    changes.Release(comment="c", erase=True),
    changes.MarkBroken(comment="c"),
    changes.PowerOff(comment="c"),
    changes.Unlock(comment="c"),
    changes.Delete(),
)
EXPECTED = {
    "UpdateMachine": (
        "PUT machines/abc123/ hostname=b enable_hw_sync=true power_type=redfish "
        "power_parameters_power_address=10.0.0.1 power_parameters_power_user=root power_parameters_power_pass=calvin"
    ),
    "Commission": (
        "POST machines/abc123/?op=commission skip_networking=true skip_storage=false skip_bmc_config=true "
        "enable_ssh=false testing_scripts=none"
    ),
    "TestMachine": "POST machines/abc123/?op=test testing_scripts=farrier-clean-check",
    "Abort": "POST machines/abc123/?op=abort comment=c",
    "SetBootDisk": "POST nodes/abc123/blockdevices/7/?op=set_boot_disk",
    "SetStorageLayout": "POST machines/abc123/?op=set_storage_layout storage_layout=flat root_size=5",
    "CreateBond": (
        "POST nodes/abc123/interfaces/?op=create_bond name=bond0 bond_mode=802.3ad bond_lacp_rate=fast mtu=9000 "
        "vlan=5001 parents=1 parents=2"
    ),
    "CreateVlan": "POST nodes/abc123/interfaces/?op=create_vlan parent=3 vlan=5002",
    "UpdateInterface": "PUT nodes/abc123/interfaces/4/ name=roce0 vlan=5003 mtu=9000",
    "LinkSubnet": "POST nodes/abc123/interfaces/4/?op=link_subnet mode=auto subnet=2 force=true",
    "Deploy": (
        "POST machines/abc123/?op=deploy user_data=I2Nsb3VkLWNvbmZpZyDDqQo= comment=c agent_name=ours "
        "distro_series=noble enable_hw_sync=true"
    ),
    "Release": "POST machines/abc123/?op=release comment=c erase=true quick_erase=false secure_erase=false",
    "MarkBroken": "POST machines/abc123/?op=mark_broken comment=c",
    "PowerOff": "POST machines/abc123/?op=power_off comment=c",
    "Unlock": "POST machines/abc123/?op=unlock comment=c",
    "Delete": "DELETE machines/abc123/",
}


@pytest.mark.parametrize("change", EVERY_CHANGE, ids=lambda change: type(change).__name__)
def test_every_change_is_one_request(change: Change) -> None:
    request = of_change(SID, change, agent_name="ours")
    query = "".join(f"?{name}={value}" for name, value in request.query)
    form = "".join(f" {name}={value}" for name, value in request.form)
    assert f"{request.method} {request.path}{query}{form}" == EXPECTED[type(change).__name__]
    assert request.changes
    assert request.path.endswith("/")


def test_the_table_has_every_change() -> None:
    assert {type(change) for change in EVERY_CHANGE} == set(Change.__args__)


def test_maas_does_not_commission_a_new_machine_by_itself() -> None:
    form = creation(NEW).form
    assert ("commission", "false") in form
    assert [value for name, value in form if name == "mac_addresses"] == ["m1", "m2"]


@pytest.mark.parametrize("address", ["https://10.0.0.1", "10.0.0.1/24", "bmc 1", "", "10.0.0.1:443", "bmc/../x"])
def test_a_bmc_address_that_the_region_does_not_accept_is_not_sent(address: str) -> None:
    with pytest.raises(MaasError) as refusal:
        creation(msgspec.structs.replace(NEW, power=msgspec.structs.replace(POWER, address=address)))
    assert refusal.value.failure is MaasFailure.INVALID


@pytest.mark.parametrize("address", ["10.0.0.1", "[fd00::1]", "fd00::1", "bmc-1.example.com"])
def test_a_bare_address_is_sent(address: str) -> None:
    form = dict(creation(msgspec.structs.replace(NEW, power=msgspec.structs.replace(POWER, address=address))).form)
    assert form["power_parameters_power_address"] == address.strip("[]")


@pytest.mark.parametrize("system_id", ["", "../users", "abc/def", "abc?op=x", "abc%2f", "abc 1", "abc\n"])
def test_a_name_that_would_change_the_path_is_not_sent(system_id: str) -> None:
    with pytest.raises(MaasError) as refusal:
        path("machines", system_id)
    assert refusal.value.failure is MaasFailure.INVALID


def test_no_repr_of_a_creation_contains_the_password() -> None:
    assert "calvin" not in repr(creation(NEW))
    assert creation(NEW).secrets == ("calvin",)
