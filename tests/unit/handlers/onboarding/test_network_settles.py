"""Any network tables on any machine: they are refused before a change, or applied, and then cause no more changes."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from farrier.handlers.node.changes import Done, Failed
from farrier.model.node.failures import FailureClass
from tests.support.networks import PORTS, changes, links, named, ready
from tests.support.stages import open_stand

_VIDS = st.sampled_from([None, 0, 100, 200, 300, 999])
_MTUS = st.sampled_from([None, 1500, 4200, 9000])
_NAMES = st.sampled_from(["eno1", *PORTS, "enp1s0f*", "enp*", "nothing"])


@st.composite
def link_tables(draw: st.DrawFn) -> dict[str, Any] | None:
    mode = draw(st.sampled_from([None, "auto", "dhcp", "static", "link_up"]))
    if mode is None:
        return None
    table: dict[str, Any] = {"mode": mode}
    if draw(st.booleans()):
        table["subnet"] = draw(st.sampled_from(["10.20.0.0/16", "10.30.0.0/16", "10.31.0.0/16", "10.32.0.0/16"]))
    if mode == "static":
        table["addresses"] = {"gpu-1": f"10.{draw(st.integers(30, 32))}.0.{draw(st.integers(1, 250))}"}
    return table


_VLANS = st.lists(
    st.fixed_dictionaries({"vid": st.sampled_from([100, 200, 300]), "mtu": _MTUS, "link": link_tables()}), max_size=2
)
_COMMON = {"vlan": _VIDS, "mtu": _MTUS, "link": link_tables(), "vlans": _VLANS}
_PORT_TABLES = st.lists(st.fixed_dictionaries({"match": _NAMES, **_COMMON}), max_size=3)
_BOND_TABLES = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(["bond0", "bond1"]),
            "ports": st.lists(_NAMES, min_size=1, max_size=2),
            "mode": st.sampled_from(["802.3ad", "active-backup"]),
            **_COMMON,
        }
    ),
    max_size=2,
)
_LIES_ON = st.lists(st.sampled_from([None, 5004, 5002, 5001, 5300]), min_size=len(PORTS), max_size=len(PORTS))


_SUBNETS = {200: "10.30.0.0/16", 300: "10.31.0.0/16"}


@st.composite
def fitting_links(draw: st.DrawFn, vid: int) -> dict[str, Any] | None:
    """Draw a valid link of an interface on this VLAN."""
    mode = draw(st.sampled_from([None, "auto", "dhcp", "static", "link_up"]))
    if mode is None:
        return None
    table: dict[str, Any] = {"mode": mode}
    if mode == "static":
        table["addresses"] = {"gpu-1": f"10.{vid // 100 + 28}.{draw(st.integers(0, 255))}.{draw(st.integers(1, 255))}"}
    elif draw(st.booleans()):
        table["subnet"] = _SUBNETS[vid]
    return table


@st.composite
def fitting_settings(draw: st.DrawFn) -> dict[str, Any]:
    vid = draw(st.sampled_from([200, 300]))
    mtu = draw(st.sampled_from([None, 4200, 9000]))
    other = 500 - vid
    vlan = {"vid": other, "mtu": draw(st.sampled_from([None, 1500, 4200])), "link": draw(fitting_links(other))}
    return {
        "vlan": vid,
        "mtu": mtu,
        "link": draw(fitting_links(vid)),
        "vlans": [vlan] if draw(st.booleans()) else [],
    }


@st.composite
def fitting_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Draw valid tables: each port is in one bond, in a separate table, or in no table."""
    use = draw(st.lists(st.sampled_from(["bond0", "bond1", "alone", "none"]), min_size=4, max_size=4))
    by_use = {name: [port for port, its in zip(PORTS, use, strict=True) if its == name] for name in set(use)}
    bonds = [
        {"name": name, "ports": by_use[name], "mode": "active-backup", **draw(fitting_settings())}
        for name in ("bond0", "bond1")
        if len(by_use.get(name, [])) > 1
    ]
    ports = [{"match": port, **draw(fitting_settings())} for port in by_use.get("alone", [])]
    return {"ports": ports, "bonds": bonds}


def _most(tables: dict[str, Any]) -> int:
    """The largest number of changes: each port of a table and each bond is set and linked, each port of a bond moved,
    each VLAN made, set and linked; a glob may match all ports."""
    ports = sum(2 * (1 if table["match"] in PORTS else len(PORTS)) for table in tables["ports"])
    bonds = sum(3 + len(PORTS) for _ in tables["bonds"])
    vlans = sum(3 * len(table["vlans"]) for table in (*tables["ports"], *tables["bonds"]))
    return ports + bonds + vlans * (1 if all(table["match"] in PORTS for table in tables["ports"]) else len(PORTS))


async def _settles(tables: dict[str, Any], on: list[int | None], *, fits: bool) -> None:
    async with open_stand() as at:
        machine = await ready(at, tables)
        for name, vlan in zip(PORTS, on, strict=True):
            named(machine, name).vlan = at.region.site.vlan(str(vlan)) if vlan is not None else None
        boot = links(machine, "eno1")
        settled = await at.settle()
        if isinstance(settled, Failed) and not fits:
            assert settled.failure is FailureClass.INVALID_CONFIG, settled
            assert changes(at) == []
            return
        assert isinstance(settled, Done), settled
        assert len(changes(at)) <= _most(tables)
        if not any(table["match"] == "eno1" for table in tables["ports"]):
            assert links(machine, "eno1") == boot
        made = [(one.name, one.vlan, one.params, list(one.links)) for one in machine.interfaces]
        at.world.observed.requests.clear()
        assert isinstance(await at.settle(), Done)
        assert changes(at) == []
        assert made == [(one.name, one.vlan, one.params, list(one.links)) for one in machine.interfaces]


_QUICKLY = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_QUICKLY
@given(ports=_PORT_TABLES, bonds=_BOND_TABLES, on=_LIES_ON)
def test_any_tables_are_refused_before_a_change_or_applied_permanently(
    ports: list[dict[str, Any]], bonds: list[dict[str, Any]], on: list[int | None]
) -> None:
    anyio.run(partial(_settles, {"ports": ports, "bonds": bonds}, on, fits=False))


@_QUICKLY
@given(tables=fitting_tables(), on=_LIES_ON)
def test_valid_tables_are_applied_permanently_regardless_of_the_vlans_of_the_ports(
    tables: dict[str, Any], on: list[int | None]
) -> None:
    static = [
        table["link"]["addresses"]["gpu-1"]
        for place in (*tables["ports"], *tables["bonds"])
        for table in (place, *place["vlans"])
        if table["link"] is not None and table["link"]["mode"] == "static"
    ]
    assume(len(set(static)) == len(static))
    anyio.run(partial(_settles, tables, on, fits=True))
