"""Network cards and InfiniBand ports.

Sources: ABI/testing/sysfs-class-net; ABI/stable/sysfs-class-infiniband; PCI Local Bus Specification 3.0, appendix I
(vital product data).
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from farrier_agent.conditions import NOTE, QUARANTINE, Condition, condition
from farrier_agent.host import Config, Host

_UP = 1  # linux/if.h: IFF_UP
_LARGEST_VPD = 4096  # bytes; the serial number is among the first entries, and each read of the card is slow


def read(host: Host, config: Config) -> dict[str, Any]:
    """Return facts and conditions of the ports. `config.links` names ports that must be up, with their rate in Gb/s."""
    cards = [os.path.dirname(path) for path in host.glob("/sys/class/net/*/device")]
    ports = host.glob("/sys/class/infiniband/*/ports/*")
    rates = {port: _gigabits(host.text(f"{port}/rate")) for port in ports}
    found: list[Condition] = []
    for card in cards:
        found += _of_card(host, card, config.links)
    for port in ports:
        found += _of_port(host, port, rates, config.links)
    guids = [_guid(host, port) for port in ports if host.text(f"{port}/link_layer") == "InfiniBand"]
    facts = {"nics": [_facts(host, card) for card in cards], "ib_guids": sorted(guid for guid in guids if guid)}
    return {"facts": facts, "conditions": found}


def _of_card(host: Host, card: str, links: Mapping[str, float]) -> Iterator[Condition]:
    name, mac = os.path.basename(card), host.text(f"{card}/address")
    wanted = _wanted(links, name)
    if not (host.number(f"{card}/flags") or 0) & _UP and wanted is None:
        return
    if host.text(f"{card}/carrier") != "1":
        yield condition("link/down", f"{name} has no link", NOTE if wanted is None else QUARANTINE, mac)
        return
    rate = (host.number(f"{card}/speed") or 0) / 1000
    if wanted is not None and 0 < rate < wanted:
        yield condition("link/slow", f"{name} runs at {rate:g} Gb/s, expected {wanted:g}", QUARANTINE, mac)


def _of_port(host: Host, port: str, rates: Mapping[str, float], links: Mapping[str, float]) -> Iterator[Condition]:
    """An InfiniBand port is compared with the configuration, or else with ports of the same kind of card."""
    if host.text(f"{port}/link_layer") != "InfiniBand":
        return
    device, number = port.split("/")[4], port.split("/")[6]
    name, target = f"{device}/{number}", _guid(host, port) or f"{device}/{number}"
    wanted = _wanted(links, device)
    effect = NOTE if wanted is None else QUARANTINE
    state = host.text(f"{port}/state")
    if not state.endswith("ACTIVE"):
        physical = host.text(f"{port}/phys_state").partition(":")[2].strip()
        yield condition(
            "link/down", f"InfiniBand port {name} is {state.partition(':')[2].strip()} ({physical})", effect, target
        )
        return
    kind = host.text(f"/sys/class/infiniband/{device}/board_id")
    alike = [
        rate
        for each, rate in rates.items()
        if host.text(f"/sys/class/infiniband/{each.split('/')[4]}/board_id") == kind
    ]
    least = wanted if wanted is not None else max(alike, default=0.0)
    if rates[port] < least:
        yield condition(
            "link/slow", f"InfiniBand port {name} runs at {rates[port]:g} Gb/s, expected {least:g}", effect, target
        )


def _facts(host: Host, card: str) -> dict[str, Any]:
    vpd = _vpd(host, f"{card}/device/vpd")
    device = next(iter(host.glob(f"{card}/device/infiniband/*")), "/none")
    return {
        "name": os.path.basename(card), "mac": host.text(f"{card}/address"), "serial": vpd.get("SN"),
        "model": vpd.get("name") or vpd.get("PN"), "firmware": host.text(f"{device}/fw_ver") or None,
        "guid": host.text(f"{device}/node_guid") or None,
    }  # fmt: skip


def _guid(host: Host, port: str) -> str:
    """Return the GUID of a port: the lower half of its first GID."""
    return "".join(host.text(f"{port}/gids/0").split(":")[4:])


def _gigabits(rate: str) -> float:
    """Return the number of a rate such as `400 Gb/sec (4X NDR)`."""
    found = re.match(r"[\d.]+", rate)
    return float(found[0]) if found else 0.0


def _wanted(links: Mapping[str, float], name: str) -> float | None:
    return next((float(rate) for glob, rate in links.items() if fnmatch.fnmatch(name, glob)), None)


def _vpd(host: Host, path: str) -> dict[str, str]:
    """Return name, part and serial number from a card's vital product data."""
    found: dict[str, str] = {}
    try:
        with open(host.path(path), "rb") as file:
            data = file.read(_LARGEST_VPD)
    except OSError:
        return found
    at = 0
    while at + 3 <= len(data) and data[at] in (0x82, 0x90):  # the identifier, and the read-only fields
        end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "little")
        if data[at] == 0x82:
            found["name"] = data[at + 3 : end].decode("ascii", "replace").strip("\0 ")
        else:
            field = at + 3
            while field + 3 <= min(end, len(data)):
                last = field + 3 + data[field + 2]
                found[data[field : field + 2].decode("ascii", "replace")] = (
                    data[field + 3 : last].decode("ascii", "replace").strip("\0 ")
                )
                field = last
        at = end
    return found
