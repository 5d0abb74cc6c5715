"""Reading Redfish resources: the fields that count, and that no data of a BMC can break the reader."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from farrier.model.machine.bmc import BmcError, PowerState
from farrier.services.bmc import resources

RESET = {"#ComputerSystem.Reset": {"target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}
BIOS = {"@odata.id": "/redfish/v1/Systems/1/Bios"}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
FIELDS = [
    "@odata.id", "@odata.type", "PowerState", "Actions", "Links", "ManagedBy", "Members", "Status", "Health",
    "HealthRollup", "HostInterface", "Bios", "UUID", "SerialNumber", "MACAddress", "PermanentMACAddress", "target",
    "#ComputerSystem.Reset", "@Redfish.ActionInfo", "ResetType@Redfish.AllowableValues", "Parameters", "Name",
    "AllowableValues",
]  # fmt: skip
nested = st.recursive(
    anything, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6), max_leaves=12
)
resource = st.dictionaries(st.sampled_from(FIELDS), nested, max_size=8)


# Hypothesis may be slow to build such resources on a busy machine; the test is about reading them.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(resource)
def test_no_resource_breaks_the_reader(sent: dict[str, Any]) -> None:
    assert resources.power(sent) in PowerState
    assert isinstance(resources.can_reset(sent), bool)
    assert isinstance(resources.is_manager(sent), bool)
    assert isinstance(resources.is_system(sent), bool)
    assert isinstance(resources.power_text(sent), str)
    assert isinstance(resources.reset_types(sent), frozenset | None)
    assert isinstance(resources.reset_info(sent), str | None)
    assert isinstance(resources.reset_types_of(sent), frozenset | None)
    for path in (*resources.managers(sent), *resources.links(sent.get("Members"))):
        assert path.startswith("/")
        assert path.isprintable()
    for text in (resources.text(sent.get("SerialNumber")), resources.health(sent), resources.uuid(sent)):
        assert text is None or (text.isprintable() and 0 < len(text) <= resources.LONGEST_TEXT)
    with suppress(BmcError):
        assert all(len(mac) == 17 for mac in resources.macs(sent))


systems_with_some_of_what_counts = st.dictionaries(
    st.sampled_from(["/a", "/b", "/c"]),
    st.fixed_dictionaries({}, optional={"Actions": st.just(RESET) | anything, "Bios": st.just(BIOS) | anything}),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(systems_with_some_of_what_counts)
def test_the_host_system_is_one_of_the_systems_or_none(systems: dict[str, dict[str, Any]]) -> None:
    chosen = None
    with suppress(BmcError):
        chosen = resources.host_system(systems)
    assert chosen in (*systems, None)
    assert len(systems) != 1 or chosen is not None


@pytest.mark.parametrize(
    ("systems", "host"),
    [
        ({"only": {}}, "only"),
        ({"baseboard": {"Bios": BIOS}, "host": {"Actions": RESET}}, "host"),
        ({"dpu": {"Actions": RESET}, "host": {"Actions": RESET, "Bios": BIOS}}, "host"),
        ({"a": {"Actions": RESET, "Bios": BIOS}, "b": {"Actions": RESET, "Bios": BIOS}}, None),
        ({"a": {"Actions": RESET}, "b": {"Actions": RESET}}, None),
        ({"a": {}, "b": {}}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("turn", [1, -1], ids=["as listed", "reversed"])
def test_the_choice_of_the_host_system_does_not_depend_on_the_order(
    systems: dict[str, dict[str, Any]], host: str | None, turn: int
) -> None:
    ordered = dict(list(systems.items())[::turn])
    if host is None:
        with pytest.raises(BmcError):
            resources.host_system(ordered)
    else:
        assert resources.host_system(ordered) == host


@pytest.mark.parametrize(
    ("interface", "mac"),
    [
        (
            {"PermanentMACAddress": "AA-BB-CC-DD-EE-FF", "MACAddress": "02:00:00:00:00:01"},
            "aa:bb:cc:dd:ee:ff",
        ),
        ({"PermanentMACAddress": None, "MACAddress": "02:00:00:00:00:01"}, "02:00:00:00:00:01"),
        ({"PermanentMACAddress": "", "MACAddress": "N/A"}, None),
        ({"MACAddress": "02:00:00:00:00:01:02:03"}, None),
        ({"MACAddress": "aa:bb:cc:dd:ee:ff", "Links": {"Chassis": BIOS, "HostInterface": None}}, "aa:bb:cc:dd:ee:ff"),
        ({"MACAddress": "aa:bb:cc:dd:ee:ff", "Links": []}, "aa:bb:cc:dd:ee:ff"),
        ({}, None),
    ],
)
def test_a_mac_address_is_the_permanent_one_in_a_uniform_notation(interface: dict[str, Any], mac: str | None) -> None:
    assert resources.macs(interface) == (() if mac is None else (mac,))


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({"Health": "OK", "HealthRollup": "Critical"}, "Critical"),
        ({"Health": "OK", "HealthRollup": None}, "OK"),
        ({"State": "Enabled"}, None),
        ("OK", None),
        (None, None),
    ],
)
def test_health_is_the_rollup_of_the_system_if_it_is_reported(status: object, health: str | None) -> None:
    assert resources.health({"Status": status}) == health
