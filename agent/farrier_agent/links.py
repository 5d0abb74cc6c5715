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
    ports = [
        port for port in host.glob("/sys/class/infiniband/*/ports/*") if host.text(f"{port}/link_layer") == "InfiniBand"
    ]
    rates: dict[str, float] = {}
    for port in ports:
        kind = host.text(f"{port}/../../board_id")
        rates[kind] = max(rates.get(kind, 0), _gigabits(host, port))
    found = [each for card in cards for each in _of_card(host, card, config.links)]
    found += [each for port in ports for each in _of_port(host, port, rates, config.links)]
    guids = sorted(_guid(host, port) for port in ports)
    return {"facts": {"nics": [_facts(host, card) for card in cards], "ib_guids": guids}, "conditions": found}


def _of_card(host: Host, card: str, links: Mapping[str, float]) -> Iterator[Condition]:
    name, rate = os.path.basename(card), (host.number(f"{card}/speed") or 0) / 1000
    wanted = _wanted(links, name)
    if wanted is not None or (host.number(f"{card}/flags") or 0) & _UP:
        state = "up" if host.text(f"{card}/carrier") == "1" else "without link"
        yield from _judged(name, host.text(f"{card}/address"), state, rate, wanted, wanted or 0)


def _of_port(host: Host, port: str, rates: Mapping[str, float], links: Mapping[str, float]) -> Iterator[Condition]:
    """An InfiniBand port is compared with the configuration, or else with ports of the same kind of card."""
    device = port.split("/")[4]
    wanted = _wanted(links, device)
    least = rates[host.text(f"{port}/../../board_id")] if wanted is None else wanted
    state = host.text(f"{port}/state").partition(": ")[2]
    state = "up" if state == "ACTIVE" else f"{state} ({host.text(f'{port}/phys_state').partition(': ')[2]})"
    name = f"InfiniBand port {device}/{os.path.basename(port)}"
    yield from _judged(name, _guid(host, port), state, _gigabits(host, port), wanted, least)


def _judged(name: str, target: str, state: str, rate: float, wanted: float | None, least: float) -> Iterator[Condition]:
    """A port that the configuration does not name is only noted. A rate of 0 is unknown."""
    effect = NOTE if wanted is None else QUARANTINE
    if state != "up":
        yield condition("link/down", f"{name} is {state}", effect, target)
    elif 0 < rate < least:
        yield condition("link/slow", f"{name} runs at {rate:g} Gb/s, expected {least:g}", effect, target)


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


def _gigabits(host: Host, port: str) -> float:
    """Return the number of a rate such as `400 Gb/sec (4X NDR)`."""
    found = re.match(r"[\d.]+", host.text(f"{port}/rate"))
    return float(found[0]) if found else 0.0


def _wanted(links: Mapping[str, float], name: str) -> float | None:
    return next((float(rate) for glob, rate in links.items() if fnmatch.fnmatch(name, glob)), None)


def _vpd(host: Host, path: str) -> dict[str, str]:
    """Return name, part and serial number from a card's vital product data: a name, and then fields with keys."""
    found: dict[str, str] = {}
    try:
        with open(host.path(path), "rb") as file:
            data = file.read(_LARGEST_VPD)
    except OSError:
        return found
    at = 3 + int.from_bytes(data[1:3], "little")
    found["name"] = data[3:at].decode("ascii", "replace").strip("\0 ")
    end = at + 3 + int.from_bytes(data[at + 1 : at + 3], "little")
    at += 3
    while at + 3 <= min(end, len(data)):
        last = at + 3 + data[at + 2]
        found[data[at : at + 2].decode("ascii", "replace")] = (
            data[at + 3 : last].decode("ascii", "replace").strip("\0 ")
        )
        at = last
    return found
