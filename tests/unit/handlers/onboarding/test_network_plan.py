"""The plan of a site's network: the meaning of tables, refused tables, and parts that exist already."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farrier.config.sites import NetworkSite
from farrier.errors import ConfigError
from farrier.handlers.node.onboarding.network.lookup import RegionPlaces
from farrier.handlers.node.onboarding.network.plan import SeenNetwork, plan
from farrier.model.maas.changes import Change, CreateBond, CreateVlan, LinkMode, LinkSubnet, UpdateInterface
from farrier.model.maas.reading import Interface, Link, Subnet, Vlan

PXE = Vlan(id=1, vid=0, fabric="pxe", fabric_id=1)
RAIL = Vlan(id=2, vid=0, fabric="rail", fabric_id=2)
RAIL_200 = Vlan(id=3, vid=200, fabric="rail", fabric_id=2)
RAIL_300 = Vlan(id=4, vid=300, fabric="rail", fabric_id=2)
FAR = Vlan(id=5, vid=0, fabric="far", fabric_id=5)
FAR_300 = Vlan(id=6, vid=300, fabric="far", fabric_id=5)
ONLY_FAR = Vlan(id=7, vid=700, fabric="far", fabric_id=5)
BOOT_NET = Subnet(id=10, cidr="10.0.0.0/16", vlan=PXE)
NET_200 = Subnet(id=20, cidr="10.200.0.0/16", vlan=RAIL_200)
NET_300 = Subnet(id=30, cidr="10.31.0.0/16", vlan=RAIL_300)
NET_300_B = Subnet(id=31, cidr="10.32.0.0/16", vlan=RAIL_300)
PLACES = RegionPlaces(
    vlans=(PXE, RAIL, RAIL_200, RAIL_300, FAR, FAR_300, ONLY_FAR), subnets=(BOOT_NET, NET_200, NET_300, NET_300_B)
)
UP = Link(id=90, mode="link_up")


def nic(number: int, name: str, **fields: Any) -> Interface:
    given: dict[str, Any] = {
        "type": "physical",
        "vlan": RAIL,
        "links": (UP,),
        "effective_mtu": 1500,
        "vendor": "Mellanox Technologies",
        "product": "MT2910 Family [ConnectX-7]",
        "params": "",
    }
    return Interface(id=number, name=name, **given | fields)


BOOT = nic(1, "eno1", vlan=PXE, vendor="Broadcom", product="BCM5720", links=(Link(id=9, mode="auto", subnet=BOOT_NET),))
A, B, C = nic(2, "enp1s0f0np0"), nic(3, "enp1s0f1np1"), nic(4, "enp2s0")
BOND = nic(
    7,
    "bond0",
    type="bond",
    parents=(A.name, B.name),
    params={"bond_mode": "802.3ad", "bond_lacp_rate": "fast", "bond_xmit_hash_policy": "layer3+4"},
)
TWO = {"name": "bond0", "ports": ["enp1s0f*"]}


def missing(*interfaces: Interface, **tables: Any) -> list[Change]:
    network = msgspec.convert(tables, NetworkSite)
    seen = SeenNetwork(interfaces=(BOOT, *interfaces), boot=BOOT.id, places=PLACES)
    return [one.change for one in plan(seen, network, "gpu-1")]


def refusal(*interfaces: Interface, **tables: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        missing(*interfaces, **tables)
    return str(refused.value)


# --- which ports


@pytest.mark.parametrize(
    "match", ["enp1s0f0np0", "enp1s0f0*", "ENP1S0F0*", "*ConnectX-7?", "mellanox tech*", "Mellanox*"]
)
def test_a_port_matches_by_its_name_or_by_its_vendor_and_product(match: str) -> None:
    assert missing(A, ports=[{"match": match, "mtu": 9000}]) == [UpdateInterface(interface=A.id, mtu=9000)]


@pytest.mark.parametrize("match", ["*", "en*", "eno?", "Broadcom BCM5720"])
def test_no_glob_matches_the_boot_interface(match: str) -> None:
    tables = {"ports": [{"match": match, "mtu": 9000}]}
    if match in {"*", "en*"}:
        assert missing(A, **tables) == [UpdateInterface(interface=A.id, mtu=9000)]
    else:
        assert "no port matches" in refusal(A, **tables)


def test_the_exact_name_matches_the_boot_interface() -> None:
    assert missing(A, ports=[{"match": "eno1", "mtu": 9000}]) == [UpdateInterface(interface=1, mtu=9000)]


def test_a_bond_is_not_matched_as_a_port() -> None:
    assert "no port matches 'bond0'" in refusal(A, B, BOND, ports=[{"match": "bond0", "mtu": 9000}])


def test_a_glob_that_matches_nothing_is_reported_with_the_ports_of_the_machine() -> None:
    refused = refusal(A, ports=[{"match": "ens*"}])
    assert refused.startswith("network.ports 1: no port matches 'ens*'")
    assert "enp1s0f0np0 (Mellanox Technologies" in refused


# --- refused tables


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        (
            {"bonds": [{"name": "bond0", "ports": ["enp1s0f0*"]}]},
            "network.bonds 1 (bond0): a bond needs at least two ports",
        ),
        ({"bonds": [TWO, {"name": "bond1", "ports": ["enp1*", "enp2*"]}]}, "both match enp1s0f0np0"),
        ({"bonds": [TWO, {"name": "bond0", "ports": ["enp2*", "eno1"]}]}, "the machine boots from eno1"),
        ({"ports": [{"match": "enp1*"}, {"match": "*np0"}]}, "network.ports 1 and network.ports 2 both match"),
        ({"bonds": [TWO], "ports": [{"match": "enp1*", "vlan": 200}]}, "is in network.bonds 1 (bond0); configure vlan"),
        ({"bonds": [TWO], "ports": [{"match": "enp1*", "link": {}}]}, "is in network.bonds 1 (bond0); configure vlan"),
        ({"bonds": [TWO | {"mtu": 9000}], "ports": [{"match": "enp1*", "mtu": 1500}]}, "mtu 1500 of enp1s0f0np0 is"),
        ({"ports": [{"match": "enp2*", "mtu": 1500, "vlans": [{"vid": 300, "mtu": 9000}]}]}, "only mtu 1500"),
        ({"ports": [{"match": "enp2*", "vlans": [{"vid": 300}, {"vid": 300}]}]}, "VLANs are listed twice"),
        ({"ports": [{"match": "enp1*", "link": {"mode": "static"}}]}, "one static address but matches several ports"),
        ({"ports": [{"match": "eno1", "link": {"mode": "dhcp"}}]}, "its link must be auto"),
        ({"ports": [{"match": "enp2*", "vlan": 999}]}, "no VLAN 999; fabrics that have it: none"),
        ({"ports": [{"match": "enp2*", "vlan": 200, "fabric": "pxe"}]}, "no VLAN 200 of pxe; fabrics"),
        ({"ports": [{"match": "enp2*", "vlans": [{"vid": 700}]}]}, "VLAN 700 of rail; fabrics that have it: far"),
        ({"ports": [{"match": "enp2*", "link": {"subnet": "10.99.0.0/16"}}]}, "no subnet 10.99.0.0/16; subnets: 10.0."),
        ({"ports": [{"match": "enp2*", "vlan": 300, "link": {"subnet": "10.200.0.0/16"}}]}, "not on VID 300"),
        ({"ports": [{"match": "enp2*", "vlan": 300, "link": {}}]}, "does not have exactly one subnet"),
        (
            {"ports": [{"match": "enp2*", "link": {}}]},
            "VLAN 0 of rail does not have exactly one subnet; set the link's subnet",
        ),
        (
            {"ports": [{"match": "enp2*", "vlans": [{"vid": 300, "link": {"subnet": "10.200.0.0/16"}}]}]},
            "is on VLAN 200 of rail, not on VLAN 300 of rail",
        ),
        (
            {"ports": [{"match": "enp2*", "vlan": 200, "link": {"mode": "static"}}]},
            "link.addresses has no address for gpu-1",
        ),
        (
            {"ports": [{"match": "enp2*", "vlan": 200, "link": {"mode": "static", "addresses": {"gpu-1": "x"}}}]},
            "the address for gpu-1 is not valid",
        ),
        (
            {
                "ports": [
                    {"match": "enp2*", "vlan": 200, "link": {"mode": "static", "addresses": {"gpu-1": "10.9.9.9"}}}
                ]
            },
            "does not have exactly one subnet that contains 10.9.9.9",
        ),
    ],
)
def test_tables_that_cannot_be_applied_are_refused_with_the_reason(tables: dict[str, Any], expected: str) -> None:
    assert expected in refusal(A, B, C, **tables)


def test_a_vid_on_several_fabrics_needs_the_name_of_the_fabric() -> None:
    lost = nic(4, "enp2s0", vlan=PXE)
    assert "VLAN 300 is on several fabrics; set fabric to one of them: far, rail" in refusal(
        lost, ports=[{"match": "enp2*", "vlan": 300}]
    )
    assert missing(lost, ports=[{"match": "enp2*", "vlan": 300, "fabric": "far"}]) == [
        UpdateInterface(interface=4, vlan=FAR_300.id)
    ]


# --- ports


def test_a_vid_is_searched_on_the_fabric_of_the_port() -> None:
    assert missing(C, ports=[{"match": "enp2*", "vlan": 300}]) == [UpdateInterface(interface=4, vlan=RAIL_300.id)]


def test_the_subnet_of_a_link_determines_the_vlan() -> None:
    change = {"match": "enp2*", "mtu": 9000, "link": {"subnet": "10.200.0.0/16"}}
    assert missing(C, ports=[change]) == [
        UpdateInterface(interface=4, vlan=RAIL_200.id, mtu=9000),
        LinkSubnet(interface=4, mode=LinkMode.AUTO, subnet=NET_200.id),
    ]


def test_an_unchanged_link_is_made_again_after_a_move_to_another_vlan() -> None:
    """MAAS removes the links when an interface moves to another VLAN."""
    on_dhcp = nic(4, "enp2s0", links=(Link(id=5, mode="dhcp"),))
    table = {"match": "enp2*", "vlan": 200, "link": {"mode": "dhcp"}}
    assert missing(on_dhcp, ports=[table]) == [
        UpdateInterface(interface=4, vlan=RAIL_200.id),
        LinkSubnet(interface=4, mode=LinkMode.DHCP),
    ]


@pytest.mark.parametrize(
    "port",
    [
        nic(4, "enp2s0", vlan=RAIL_200, params={"mtu": 9000}, effective_mtu=9000),
        nic(4, "enp2s0", vlan=RAIL_200, effective_mtu=9000),
        nic(4, "enp2s0", vlan=RAIL_200, params={"mtu": 9000}, effective_mtu=9216),
    ],
    ids=["own", "of its VLAN", "less than the effective MTU"],
)
def test_an_mtu_that_is_already_set_is_not_set_again(port: Interface) -> None:
    assert missing(port, ports=[{"match": "enp2*", "vlan": 200, "mtu": 9000}]) == []


def test_an_mtu_inherited_from_the_former_vlan_is_set_with_the_move() -> None:
    port = nic(4, "enp2s0", vlan=RAIL_300, effective_mtu=9000)
    table = {"match": "enp2*", "vlan": 200, "mtu": 9000}
    assert missing(port, ports=[table]) == [UpdateInterface(interface=4, vlan=RAIL_200.id, mtu=9000)]


@pytest.mark.parametrize(
    ("links", "there"),
    [
        ((Link(id=5, mode="static", subnet=NET_200, ip_address="10.200.0.7"),), True),
        ((Link(id=5, mode="static", subnet=NET_200, ip_address="10.200.0.8"),), False),
        ((Link(id=5, mode="static", subnet=NET_200),), False),
        ((Link(id=5, mode="auto", subnet=NET_200, ip_address="10.200.0.7"),), False),
        ((UP, Link(id=5, mode="static", subnet=NET_200, ip_address="10.200.0.7")), False),
        ((), False),
    ],
)
def test_only_exactly_the_configured_static_link_needs_no_change(links: tuple[Link, ...], there: bool) -> None:
    table = {"match": "enp2*", "vlan": 200, "link": {"mode": "static", "addresses": {"gpu-1": "10.200.0.7"}}}
    change = LinkSubnet(interface=4, mode=LinkMode.STATIC, subnet=20, ip_address="10.200.0.7")
    assert missing(nic(4, "enp2s0", vlan=RAIL_200, links=links), ports=[table]) == ([] if there else [change])


# --- bonds


def test_a_bond_is_made_of_its_ports_with_the_parameters_of_its_mode() -> None:
    assert missing(A, B, C, bonds=[TWO | {"mtu": 9000}]) == [
        CreateBond(
            name="bond0",
            parents=(2, 3),
            mode="802.3ad",
            lacp_rate="fast",
            xmit_hash_policy="layer3+4",
            mtu=9000,
            vlan=RAIL.id,
        )
    ]
    assert missing(A, B, bonds=[TWO | {"mode": "active-backup"}]) == [
        CreateBond(name="bond0", parents=(2, 3), mode="active-backup", vlan=RAIL.id)
    ]


def test_ports_on_different_vlans_are_moved_to_one_vlan_before_the_bond_is_made() -> None:
    apart = msgspec.structs.replace(B, vlan=FAR)
    assert "its ports are on different VLANs; set vlan of the bond" in refusal(A, apart, bonds=[TWO])
    first, second = missing(A, apart, bonds=[TWO | {"vlan": 0, "fabric": "rail"}])
    assert first == UpdateInterface(interface=3, vlan=RAIL.id)
    assert isinstance(second, CreateBond) and second.vlan == RAIL.id


def test_no_bond_is_made_if_its_vlans_or_its_link_cannot_be_made() -> None:
    assert "no VLAN 700 of rail" in refusal(A, B, bonds=[TWO | {"vlans": [{"vid": 700}]}])
    assert "does not have exactly one subnet" in refusal(A, B, bonds=[TWO | {"vlans": [{"vid": 300, "link": {}}]}])
    assert "does not have exactly one subnet" in refusal(A, B, bonds=[TWO | {"link": {}}])


def test_an_existing_bond_gets_its_vlans_and_links() -> None:
    vlans = [{"vid": 200, "mtu": 9000, "link": {}}, {"vid": 300}]
    there = nic(8, "bond0.300", type="vlan", parents=("bond0",), vlan=RAIL_300)
    assert missing(A, B, BOND, there, bonds=[TWO | {"vlans": vlans}]) == [CreateVlan(parent=7, vlan=3, mtu=9000)]
    made = nic(9, "bond0.200", type="vlan", parents=("bond0",), vlan=RAIL_200, params={"mtu": 9000})
    assert missing(A, B, BOND, there, made, bonds=[TWO | {"vlans": vlans}]) == [
        LinkSubnet(interface=9, mode=LinkMode.AUTO, subnet=20)
    ]


@pytest.mark.parametrize(
    ("bond", "expected"),
    [
        (nic(7, "bond0", type="bond", parents=(A.name, C.name), params={}), "has the ports enp1s0f0np0, enp2s0, but"),
        (msgspec.structs.replace(BOND, params={"bond_mode": "balance-rr"}), "bond_mode 'balance-rr'"),
        (msgspec.structs.replace(BOND, params={"bond_lacp_rate": "slow"}), "bond_lacp_rate 'slow'"),
        (nic(7, "bond0", type="bridge", parents=(A.name,)), "bond0 is a bridge interface"),
        (nic(7, "bond9", type="bond", parents=(A.name, B.name)), "enp1s0f0np0 is in bond bond9 in MAAS"),
    ],
)
def test_an_existing_bond_that_differs_is_not_changed(bond: Interface, expected: str) -> None:
    refused = refusal(A, B, C, bond, bonds=[TWO])
    assert expected in refused
    assert "commission the machine again" in refused


def test_a_port_that_maas_has_in_a_bond_is_refused_as_a_single_port() -> None:
    assert "is in bond bond0 in MAAS" in refusal(A, B, BOND, ports=[{"match": "enp1*", "link": {"mode": "dhcp"}}])


def test_ports_of_a_bond_may_have_an_mtu() -> None:
    tables = {"bonds": [TWO], "ports": [{"match": "enp1*", "mtu": 9000}]}
    assert missing(A, B, BOND, **tables) == [
        UpdateInterface(interface=2, mtu=9000),
        UpdateInterface(interface=3, mtu=9000),
    ]


def test_a_port_without_a_vlan_gets_the_configured_vlan_or_is_refused() -> None:
    lost = nic(4, "enp2s0", vlan=None, links=())
    assert missing(lost, ports=[{"match": "enp2*", "vlan": 200}]) == [UpdateInterface(interface=4, vlan=3)]
    assert "on no VLAN in MAAS" in refusal(lost, ports=[{"match": "enp2*", "vlans": [{"vid": 300}]}])
    assert "is on no VLAN, so its subnet is unknown" in refusal(lost, ports=[{"match": "enp2*", "link": {}}])


def test_the_list_of_ports_in_a_refusal_is_bounded() -> None:
    many = [nic(100 + number, f"ens{number}" + "x" * 300) for number in range(60)]
    assert len(refusal(*many, ports=[{"match": "nothing"}])) < 1500
