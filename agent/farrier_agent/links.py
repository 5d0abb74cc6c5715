"""Network cards and InfiniBand ports.

Sources: ABI/testing/sysfs-class-net; ABI/stable/sysfs-class-infiniband; PCI Local Bus Specification 3.0, appendix I
(vital product data).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any, NamedTuple

from farrier_agent.conditions import NOTE, QUARANTINE, condition
from farrier_agent.host import Config, Host

_UP = 1  # linux/if.h: IFF_UP
_OFF = "switched off"  # by the system's network configuration
_LARGEST_VPD = 4096  # bytes; the serial number is among the first entries, and each read of the card is slow


class Port(NamedTuple):
    """A port: its name for the configuration and for people, its state, its rate in Gb/s, and its kind of card."""

    name: str
    shown: str
    target: str
    state: str
    rate: float
    kind: str


def read(host: Host, config: Config) -> dict[str, Any]:
    """Return facts and conditions of the ports. A port that `config.links` does not name is compared with ports of the
    same kind of card, and only noted. A rate of 0 is unknown."""
    cards = [os.path.dirname(path) for path in host.glob("/sys/class/net/*/device")]
    infiniband = list(_infiniband(host))
    ports, found = [*(_card(host, card) for card in cards), *infiniband], []
    for port in ports:
        named = [float(rate) for glob, rate in config.links.items() if fnmatch(port.name, glob)]
        least = named[0] if named else max(each.rate for each in ports if each.kind == port.kind)
        effect = QUARANTINE if named else NOTE
        if port.state != "up" and (named or port.state != _OFF):
            found.append(condition("link/down", f"{port.shown} is {port.state}", effect, port.target))
        elif port.state == "up" and 0 < port.rate < least:
            said = f"{port.shown} runs at {port.rate:g} Gb/s, expected {least:g}"
            found.append(condition("link/slow", said, effect, port.target))
    guids = sorted(port.target for port in infiniband)
    return {"facts": {"nics": [_facts(host, card) for card in cards], "ib_guids": guids}, "conditions": found}


def _card(host: Host, card: str) -> Port:
    """Return an Ethernet port, of a kind of its own, because ports of one card may have different partners."""
    name, rate = os.path.basename(card), (host.number(f"{card}/speed") or 0) / 1000
    down = "without link" if (host.number(f"{card}/flags") or 0) & _UP else _OFF
    state = "up" if host.text(f"{card}/carrier") == "1" else down
    return Port(name, name, host.text(f"{card}/address"), state, rate, card)


def _infiniband(host: Host) -> Iterator[Port]:
    """Return the InfiniBand ports. The GUID of a port is the lower half of its first GID."""
    for port in host.glob("/sys/class/infiniband/*/ports/*"):
        if host.text(f"{port}/link_layer") == "InfiniBand":
            name, number = port.split("/")[4], os.path.basename(port)
            state, physical = (host.text(f"{port}/{each}").partition(": ")[2] for each in ("state", "phys_state"))
            rate = re.match(r"[\d.]+", host.text(f"{port}/rate"))  # such as `400 Gb/sec (4X NDR)`
            guid = "".join(host.text(f"{port}/gids/0").split(":")[4:])
            yield Port(
                name, f"InfiniBand port {name}/{number}", guid, "up" if state == "ACTIVE" else f"{state} ({physical})",
                float(rate[0]) if rate else 0.0, host.text(f"{port}/../../board_id"),
            )  # fmt: skip


def _facts(host: Host, card: str) -> dict[str, Any]:
    vpd = _vpd(host.content(f"{card}/device/vpd", _LARGEST_VPD))
    device = next(iter(host.glob(f"{card}/device/infiniband/*")), "/none")
    return {
        "name": os.path.basename(card), "mac": host.text(f"{card}/address"), "serial": vpd.get("SN"),
        "model": vpd.get("name") or vpd.get("PN"), "firmware": host.text(f"{device}/fw_ver") or None,
        "guid": host.text(f"{device}/node_guid") or None,
    }  # fmt: skip


def _vpd(data: bytes) -> dict[str, str]:
    """Return name, part and serial number from a card's vital product data: a name, and then fields with keys."""
    at = 3 + int.from_bytes(data[1:3], "little")
    found, end = {"name": data[3:at]}, at + 3 + int.from_bytes(data[at + 1 : at + 3], "little")
    at += 3
    while at + 3 <= min(end, len(data)):
        field, at = at, at + 3 + data[at + 2]
        found[data[field : field + 2].decode("ascii", "replace")] = data[field + 3 : at]
    return {key: value.decode("ascii", "replace").strip("\0 ") for key, value in found.items()}
