"""The operating system: liveness, identity, facts, read-only file systems, the clock, and the metadata service."""

from __future__ import annotations

import ctypes
import http.client
import os
import re
import ssl
from typing import Any
from urllib.parse import urlsplit

from farrier_agent import VERSION
from farrier_agent.conditions import QUARANTINE, Condition, condition
from farrier_agent.host import Config, Host

# File systems whose driver makes them read-only after an error, as ext4(5) with errors=remount-ro.
_REMOUNTED = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs"})
_SIZE_OF_TIMEX = 256  # bytes; struct timex has 208
_TIME_ERROR = 5  # timex.h: the clock is not synchronised
_METADATA_TIMEOUT = 3.0  # seconds; a service of the same site responds within milliseconds
# Source: cloud-init, DataSourceMAAS.py, metadata_url of the datasource. User, password and query are left out.
_METADATA = re.compile(r"""metadata_url["']?:\s*["']?(https?://)(?:[^\s"'/@]*@)?([^\s"'?,}]+)""")


def liveness(host: Host) -> dict[str, Any]:
    """Return what each heartbeat says. Source: proc(5) uptime, random(4) boot_id."""
    return {
        "boot_id": host.text("/proc/sys/kernel/random/boot_id"),
        "uptime": float((host.text("/proc/uptime") or "0").split()[0]),
        "version": VERSION,
    }


def identity(host: Host) -> dict[str, Any]:
    """Return serial number, UUID and permanent MAC addresses. The port of a bond has the address of the bond.

    Sources: ABI/testing/sysfs-class-net; drivers/firmware/dmi-id.c; drivers/net/bonding/bond_sysfs_slave.c. farrier
    knows which values prove nothing.
    """
    cards = [os.path.dirname(device) for device in host.glob("/sys/class/net/*/device")]
    macs = {host.text(f"{card}/bonding_slave/perm_hwaddr") or host.text(f"{card}/address") for card in cards}
    ethernet = sorted(mac for mac in macs if re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", mac))
    serial, uuid = (host.text(f"/sys/class/dmi/id/product_{each}") or None for each in ("serial", "uuid"))
    return {"serial": serial, "uuid": uuid, "macs": ethernet}


def read(host: Host, _config: Config) -> dict[str, Any]:
    """Return facts and conditions of the operating system."""
    facts = {**identity(host), "kernel": host.text("/proc/sys/kernel/osrelease"), "agent": VERSION}
    facts |= {"board_serial": host.text("/sys/class/dmi/id/board_serial") or None, "cpus": _cpus(host)}
    return {"facts": facts, "conditions": [*_read_only(host), *_clock()]}


def _cpus(host: Host) -> list[dict[str, Any]]:
    """Return the inventory number (PPIN) of each CPU, if its firmware shows one. Source: sysfs-devices-system-cpu."""
    places = host.glob("/sys/devices/system/cpu/cpu*/topology")
    found = {host.text(f"{place}/physical_package_id"): host.text(f"{place}/ppin") for place in places}
    return [{"slot": slot, "serial": None if ppin in ("", "0x0") else ppin} for slot, ppin in sorted(found.items())]


def metadata(host: Host, _config: Config) -> dict[str, Any]:
    """Say that the region's metadata service answers: who reaches it can forge the region's results of cleaning."""
    files = (host.text(path) for path in host.glob("/etc/cloud/cloud.cfg.d/*.cfg"))
    urls = {"".join(found) for text in files for found in _METADATA.findall(text)}
    said = [f"{url} answers from the machine's network" for url in sorted(urls) if _answers(url)]
    return {"conditions": [condition("metadata_reachable", "; ".join(said))] if said else []}


def _read_only(host: Host) -> list[Condition]:
    """Return a condition for each file system that is read-only although fstab mounts it for writing. Source:
    proc(5) mounts, fstab(5)."""
    lines = [line.split() for line in host.text("/etc/fstab").splitlines() if not line.startswith("#")]
    wanted = {"/", *(parts[1] for parts in lines if len(parts) >= 4 and "ro" not in parts[3].split(","))}
    return [
        condition("fs/read-only", f"{place} ({kind} on {device}) is mounted read-only", QUARANTINE, place)
        for device, place, kind, options in (line.split()[:4] for line in host.text("/proc/self/mounts").splitlines())
        if place in wanted and kind in _REMOUNTED and "ro" in options.split(",")
    ]


def _clock() -> list[Condition]:
    """Say that nothing synchronises the clock: TLS fails with a wrong clock. Source: adjtimex(2), TIME_ERROR."""
    if ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_SIZE_OF_TIMEX)) != _TIME_ERROR:
        return []
    return [condition("clock/unsynchronised", "the kernel's clock is not synchronised (adjtimex)")]


def _answers(url: str) -> bool:
    """Return whether a server responds to HTTP there, whatever it responds."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=_METADATA_TIMEOUT)
    try:
        connection.request("GET", parts.path or "/")
        connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        return isinstance(error, ssl.SSLCertVerificationError)
    return True
