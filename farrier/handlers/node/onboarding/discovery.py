"""Finds the machine of a node in MAAS by every recorded clue, and names contradictions. Reads only.

Every clue is looked up, even after a match, because a second machine that another clue finds is a conflict for an
operator. Listed machines that do not match the clue are ignored, so farrier finds no wrong machine if a region ignores
a filter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec

from farrier.handlers.node.bmc.logins import split
from farrier.handlers.node.changes import Failed
from farrier.model.maas.changes import LookUp
from farrier.model.maas.reading import HardwareInfo, MaasError, MaasFailure, Machine, PowerAddress
from farrier.model.machine import identity
from farrier.model.machine.identity import Another, Identity, Same
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient

_MAC_DIGITS = 12
_SYSTEMS = "/redfish/v1/Systems/"
# Size of the cache of `host_of`: each search reads the addresses of all machines of a region, which rarely change.
_MOST_HOSTS = 16_384
# Limits of the length of a detail.
_MOST_NAMED = 8
_LONGEST_NAME = 64
# Some boards write their serial between the serials of other parts.
_BETWEEN_SERIALS = re.compile(r"[/.\s]+")


class Clues(msgspec.Struct, frozen=True, kw_only=True):
    """The values by which farrier searches for a node's machine. `system` is the Redfish ID of the node's system.
    `named` is set if the node's address contains this ID, because its BMC has several systems."""

    maas_id: str | None
    hostname: str
    macs: tuple[str, ...]
    host: str
    system: str
    named: bool
    serial: str | None
    uuid: str | None = None


class FoundMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, the clues that found it, and the address of its BMC. `only_by_name` is set if the host name is the
    only clue that found it."""

    machine: Machine
    by: tuple[str, ...]
    only_by_name: bool = False
    power: PowerAddress = PowerAddress()


def clues(node: Node) -> Clues:
    """Return the recorded facts about the node, in the spelling of MAAS."""
    _, path = split(node.bmc_address or "")
    known_as = path or (node.bmc.system_path or "").rstrip("/")
    macs = (_mac(text) for text in (*node.macs, *node.bmc.macs))
    return Clues(
        maas_id=node.maas_id,
        hostname=node.name.partition(".")[0].lower(),
        macs=tuple(dict.fromkeys(mac for mac in macs if mac is not None)),
        host=host_of(node.bmc_address or ""),
        system=known_as.rpartition("/")[2] if known_as.startswith(_SYSTEMS) else "",
        named=path.startswith(_SYSTEMS),
        serial=node.bmc.serial,
        uuid=node.bmc.uuid,
    )


@lru_cache(maxsize=_MOST_HOSTS)
def host_of(address: str) -> str:
    """Return the host in a BMC's address in canonical form; empty if the address has no host."""
    text = address.strip()
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        pass
    try:
        host = (urlsplit(text if "://" in text else f"//{text}").hostname or "").rstrip(".")
    except ValueError:
        return ""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


def other_host(one: str, other: str) -> bool:
    """Return whether two hosts are certainly different. A host name and an IP address may be the same host."""
    return bool(one and other) and one != other and _is_number(one) == _is_number(other)


async def look(client: MaasClient, known: Clues) -> tuple[FoundMachine, ...] | None:
    """Return every machine that matches a clue, each once; None if the recorded machine no longer exists."""
    machines: dict[str, Machine] = {}
    by: defaultdict[str, list[str]] = defaultdict(list)

    def note(machine: Machine, clue: str) -> None:
        machines.setdefault(machine.system_id, machine)
        by[machine.system_id].append(clue)

    if known.maas_id is not None:
        recorded = await existing(client, known.maas_id)
        if recorded is None:
            return None
        note(recorded, "its recorded ID")
    for machine in await client.machines(LookUp.MAC_ADDRESS, known.macs):
        shared = sorted({*known.macs} & {*macs_of(machine)})
        if shared:
            note(machine, f"MAC address {shared[0]}")
    named = f"host name {known.hostname}"
    for machine in await client.machines(LookUp.HOSTNAME, (known.hostname,)):
        if machine.hostname.lower() == known.hostname:
            note(machine, named)
    addresses = await client.power_addresses()
    there = {system_id for system_id, power in addresses.items() if is_at(known, power)}
    more = await client.machines(LookUp.ID, sorted(there - machines.keys()))
    for machine in (*machines.values(), *more):
        if machine.system_id in there:
            note(machine, f"BMC address {known.host}")
    return tuple(
        FoundMachine(
            machine=machine,
            by=tuple(by[id_]),
            only_by_name={*by[id_]} == {named},
            power=addresses.get(id_, PowerAddress()),
        )
        for id_, machine in machines.items()
    )


async def existing(client: MaasClient, system_id: str) -> Machine | None:
    """Return the machine; None if it no longer exists."""
    try:
        return await client.machine(system_id)
    except MaasError as error:
        if error.failure is MaasFailure.ABSENT:
            return None
        raise


def is_at(known: Clues, power: PowerAddress) -> bool:
    """Return whether the address is the node's BMC. If both name a system, the systems must be the same."""
    if not known.host or host_of(power.power_address or "") != known.host:
        return False
    return not known.system or not power.node_id or known.system == power.node_id


def the_one(found: tuple[FoundMachine, ...]) -> FoundMachine | Failed | None:
    """Return the only machine; a failure if there are several machines, None if there is no machine."""
    if len(found) > 1:
        candidates = "; ".join(f"{_named(one.machine)} by {' and '.join(one.by)}" for one in found[:_MOST_NAMED])
        more = f"; and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        detail = f"several machines in MAAS match this node: {candidates}{more}"
        return Failed(failure=FailureClass.DISCOVERY_CONFLICT, detail=detail)
    return found[0] if found else None


def contradiction(known: Clues, found: FoundMachine) -> Failed | None:
    """Return why the machine is not the node's, or None. A value that only one side has proves nothing."""
    machine = found.machine
    what = f"machine {_named(machine)}, found by {' and '.join(found.by)},"
    other = _other_serial(known.serial, machine)
    if other is not None:
        return Failed(
            failure=FailureClass.IDENTITY_MISMATCH,
            detail=f"{what} has serial {other[:_LONGEST_NAME]} in MAAS, but the node's BMC reports {known.serial}",
        )
    theirs = macs_of(machine)
    if known.macs and theirs and not {*known.macs} & {*theirs}:
        return Failed(
            failure=FailureClass.DISCOVERY_CONFLICT,
            detail=f"{what} has different MAC addresses: the node has {_listed(known.macs)}, the machine "
            f"{_listed(theirs)}",
        )
    if found.only_by_name and not _is_proven(known, machine):
        return Failed(
            failure=FailureClass.DISCOVERY_CONFLICT,
            detail=f"{what} matches only by name, which does not prove its identity: the node has MAC addresses "
            f"{_listed(known.macs) or 'unknown'} and its BMC at {known.host or 'an unknown address'}; the "
            f"machine has {_listed(theirs) or 'unknown'} and its BMC at "
            f"{host_of(found.power.power_address or '') or 'none'}",
        )
    return None


def _is_proven(known: Clues, machine: Machine) -> bool:
    """Return whether the serial number or the UUID proves that the machine is the node's machine."""
    recorded = Identity(serial=known.serial, uuid=known.uuid)
    info = machine.hardware_info or HardwareInfo()
    return isinstance(identity.compare(recorded, Identity(serial=info.system_serial, uuid=machine.hardware_uuid)), Same)


def macs_of(machine: Machine) -> tuple[str, ...]:
    """Return the MAC addresses of the machine's interfaces in canonical form."""
    found = (_mac(interface.mac_address or "") for interface in machine.interface_set)
    return tuple(dict.fromkeys(mac for mac in found if mac is not None))


def taken_by_other(system_id: str, other: str) -> Failed:
    """Return the failure if another node of the site already has the machine."""
    return Failed(
        failure=FailureClass.DISCOVERY_CONFLICT,
        detail=f"machine {system_id}, found in MAAS for this node, belongs to node {other}",
    )


def _other_serial(serial: str | None, machine: Machine) -> str | None:
    """Return the serial number of the machine's system if it differs from the one that the BMC reports. Some BMCs
    report the serial number of the board; some boards write this number among other serial numbers. The serial numbers
    of the board and the chassis can prove that it is the same machine, but never that it is another machine."""
    info = machine.hardware_info or HardwareInfo()
    ours = Identity(serial=serial)
    if not isinstance(identity.compare(ours, Identity(serial=info.system_serial)), Another):
        return None
    others = (info.mainboard_serial or "", info.chassis_serial or "")
    parts = [part for text in others for part in (text, *_BETWEEN_SERIALS.split(text))]
    same = any(isinstance(identity.compare(ours, Identity(serial=part)), Same) for part in parts)
    return None if same else info.system_serial


def _named(machine: Machine) -> str:
    return f"{machine.system_id[:_LONGEST_NAME]} ({machine.hostname[:_LONGEST_NAME]})"


def _listed(macs: tuple[str, ...]) -> str:
    return ", ".join(macs[:_MOST_NAMED]) + (", …" if len(macs) > _MOST_NAMED else "")


def _mac(text: str) -> str | None:
    """Return the address in the spelling of MAAS; None if it is not the address of an Ethernet card."""
    digits = "".join(char for char in text.casefold() if char not in ":-. ")
    if len(digits) != _MAC_DIGITS or len(set(digits)) == 1 or not all(char in "0123456789abcdef" for char in digits):
        return None
    return ":".join(digits[at : at + 2] for at in range(0, _MAC_DIGITS, 2))


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
