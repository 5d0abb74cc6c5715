"""Facts that prove that a machine is the recorded one, facts that disprove it, and facts that prove nothing."""

from __future__ import annotations

from uuid import UUID as UUID_TYPE
from uuid import uuid4

import pytest

from farrier.model.machine.identity import Another, Identity, Same, Unproven, compare, kept
from tests.support.identities import OWN_SERIALS, OWN_UUIDS, SHIPPED_MACS, SHIPPED_SERIALS, SHIPPED_UUIDS

UUID = "38b7a8c4-0001-11ec-9621-0242ac130002"
SWAPPED = "c4a8b738-0100-ec11-9621-0242ac130002"
OTHER_UUID = "99999999-0001-11ec-9621-0242ac130002"
MACS = ("a4:bb:6d:00:00:01", "a4:bb:6d:00:00:02")


@pytest.mark.parametrize(
    ("recorded", "seen", "by"),
    [
        pytest.param(Identity(serial="SN-1"), Identity(serial="SN-1"), "serial", id="serial"),
        pytest.param(Identity(serial="sn-1"), Identity(serial=" SN-1 "), "serial", id="serial, spelled otherwise"),
        pytest.param(Identity(uuid=UUID), Identity(uuid=UUID.upper()), "UUID", id="UUID, spelled otherwise"),
        pytest.param(Identity(uuid=UUID), Identity(uuid=SWAPPED), "UUID", id="UUID in the other byte order"),
        pytest.param(Identity(macs=MACS), Identity(macs=("A4-BB-6D-00-00-02",)), "MAC", id="one MAC in common"),
        pytest.param(
            Identity(serial="SN-1", uuid=UUID), Identity(serial="SN-1", uuid=UUID), "serial and UUID", id="both"
        ),
        pytest.param(Identity(serial="SN-1", uuid=UUID), Identity(uuid=UUID), "UUID", id="what is not reported"),
        pytest.param(
            Identity(serial="SN-1", macs=MACS),
            Identity(serial="SN-1", macs=("a4:bb:6d:00:00:09",)),
            "serial",
            id="new network cards in the same chassis",
        ),
        pytest.param(
            Identity(serial="N/A", uuid=UUID), Identity(serial="To Be Filled By O.E.M.", uuid=UUID), "UUID", id="filler"
        ),
    ],
)
def test_the_recorded_machine_is_recognised_by_a_matching_fact(recorded: Identity, seen: Identity, by: str) -> None:
    assert compare(recorded, seen) == Same(by)


@pytest.mark.parametrize(
    ("recorded", "seen", "facts"),
    [
        pytest.param(Identity(serial="SN-1"), Identity(serial="SN-2"), ("serial SN-1", "SN-2"), id="serial"),
        pytest.param(Identity(uuid=UUID), Identity(uuid=OTHER_UUID), (UUID, OTHER_UUID), id="UUID"),
        pytest.param(Identity(macs=MACS), Identity(macs=("a4:bb:6d:00:00:09",)), (*MACS, "00:09"), id="MACs"),
        pytest.param(
            Identity(serial="SN-1", uuid=UUID),
            Identity(serial="SN-1", uuid=OTHER_UUID),
            (UUID, OTHER_UUID),
            id="a swapped board",
        ),
        pytest.param(
            Identity(serial="SN-1", macs=MACS),
            Identity(serial="SN-2", macs=MACS),
            ("SN-1", "SN-2"),
            id="a moved network card",
        ),
    ],
)
def test_another_machine_is_reported_with_the_recorded_and_the_observed_fact(
    recorded: Identity, seen: Identity, facts: tuple[str, ...]
) -> None:
    verdict = compare(recorded, seen)
    assert isinstance(verdict, Another)
    assert all(word in verdict.text for word in facts), verdict.text


@pytest.mark.parametrize(
    ("recorded", "seen"),
    [
        pytest.param(Identity(), Identity(serial="SN-1", uuid=UUID, macs=MACS), id="nothing recorded"),
        pytest.param(Identity(serial="SN-1", uuid=UUID, macs=MACS), Identity(), id="nothing reported"),
        pytest.param(Identity(serial="SN-1"), Identity(uuid=UUID), id="nothing in common"),
        pytest.param(Identity(serial="None"), Identity(serial="None"), id="the same filler"),
        pytest.param(Identity(uuid=UUID), Identity(uuid="not a UUID"), id="no UUID"),
    ],
)
def test_a_fact_that_is_not_recorded_or_not_reported_proves_nothing(recorded: Identity, seen: Identity) -> None:
    assert isinstance(compare(recorded, seen), Unproven)


@pytest.mark.parametrize(
    ("identity", "known"),
    [
        (Identity(), False),
        (Identity(serial="Default string", uuid="ffffffff-ffff-ffff-ffff-ffffffffffff"), False),
        (Identity(serial="SN-1"), True),
        (Identity(uuid=UUID), True),
        (Identity(macs=MACS[:1]), True),
    ],
)
def test_an_identity_is_known_if_it_has_a_fact_that_can_prove_it(identity: Identity, known: bool) -> None:
    assert identity.is_known is known


def test_recorded_facts_are_kept_and_missing_facts_are_added() -> None:
    first = Identity(serial="SN-1", uuid="none", macs=MACS[:1])
    assert kept(first, Identity(serial="sn-1", uuid=UUID, macs=MACS)) == Identity(
        serial="SN-1", uuid=UUID, macs=MACS[:1]
    )


@pytest.mark.parametrize("uuid", SHIPPED_UUIDS)
def test_a_uuid_that_vendors_ship_proves_nothing(uuid: str) -> None:
    assert not Identity(uuid=uuid).is_known
    assert not Identity(uuid=str(UUID_TYPE(bytes_le=UUID_TYPE(uuid).bytes))).is_known


@pytest.mark.parametrize("uuid", OWN_UUIDS)
def test_a_uuid_of_one_machine_proves_the_machine(uuid: str) -> None:
    assert compare(Identity(uuid=uuid), Identity(uuid=uuid.upper())) == Same("UUID")


def test_random_uuids_can_be_unique() -> None:
    assert all(Identity(uuid=str(uuid4())).is_known for _ in range(2000))


@pytest.mark.parametrize("serial", SHIPPED_SERIALS)
def test_a_serial_that_vendors_ship_proves_nothing(serial: str) -> None:
    assert not Identity(serial=serial).is_known


@pytest.mark.parametrize("serial", OWN_SERIALS)
def test_a_serial_of_one_machine_proves_the_machine(serial: str) -> None:
    assert compare(Identity(serial=serial), Identity(serial=serial.lower())) == Same("serial")


@pytest.mark.parametrize("mac", SHIPPED_MACS)
def test_an_address_that_several_machines_may_have_proves_nothing(mac: str) -> None:
    assert isinstance(compare(Identity(macs=(mac,)), Identity(macs=(mac,))), Unproven)


def test_an_address_that_an_operator_registered_counts_although_it_is_locally_administered() -> None:
    """Virtual machines have only such addresses."""
    ours = Identity(registered=("52:54:00:00:00:01",))
    assert compare(ours, Identity(macs=("52-54-00-00-00-01", MACS[0]))) == Same("MAC")
    assert isinstance(compare(ours, Identity(macs=("52:54:00:00:00:02",))), Another)
    assert ours.is_known
