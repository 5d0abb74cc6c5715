"""Is this the recorded machine? Compares what is recorded of a machine with what its BMC reports.

Verifying and adopting ask it; both refuse another machine, and one that belongs to another node. What is not recorded,
not reported, or a placeholder that vendors ship proves nothing, in either direction. Spelling does not count: case,
blanks, separators, and the byte order of a UUID, which firmware updates are known to swap.
"""

from __future__ import annotations

from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

# What boards say for which nobody wrote anything into the store that SMBIOS reads, by board vendors' defaults.
_NO_SERIALS = frozenset(
    {
        "n/a",
        "na",
        "none",
        "null",
        "nil",
        "empty",
        "default",
        "invalid",
        "oem",
        "standard",
        "undefined",
        "unknown",
        "unspecified",
        "not applicable",
        "not available",
        "not defined",
        "not provided",
        "not set",
        "not specified",
        "default string",
        "default_string",
        "to be filled",
        "to be filled by o.e.m.",
        "to be filled by o.e.m",
        "to be filled by oem",
        "serial number",
        "system serial number",
        "chassis serial number",
        "base board serial number",
        "123456",
        "1234567",
        "12345678",
        "123456789",
        "1234567890",
        "0123456789",
        "0123456789abcdef",
        "1234567890abcdef",
    }
)
# Defaults of AMI and of its licensees, found in thousands of machines.
_NO_UUIDS = frozenset(
    map(
        UUID,
        (
            "03000200-0400-0500-0006-000700080009",
            "03020100-0504-0706-0809-0a0b0c0d0e0f",
            "00112233-4455-6677-8899-aabbccddeeff",
            "12345678-1234-5678-90ab-cddeefaabbcc",
            "deadbeef-dead-beef-dead-beefdeadbeef",
        ),
    )
)

PLACEHOLDERS: tuple[str, ...] = tuple(sorted({*_NO_SERIALS, *map(str, _NO_UUIDS)}))
"""Values that identify no machine. The database uses them, too, when it allows each machine only one node."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a machine. Absent is None or empty. `manufacturer` qualifies the serial: manufacturers do not
    coordinate their numbers, so it counts between machines of a fleet, and not in `compare`.
    """

    serial: str | None = None
    uuid: str | None = None
    macs: tuple[str, ...] = ()
    manufacturer: str | None = None

    @property
    def is_known(self) -> bool:
        """True when it holds anything that can prove something."""
        return bool(_serial(self.serial) or _uuids(self.uuid) or _macs(self.macs))


class Same(msgspec.Struct, frozen=True):
    """It is the recorded machine: `by` names what matched."""

    by: str


class Another(msgspec.Struct, frozen=True):
    """It is another machine: `text` says what was expected and what came."""

    text: str


class Unproven(msgspec.Struct, frozen=True):
    """Nothing speaks against it and nothing for it."""

    text: str


Verdict: TypeAlias = Same | Another | Unproven


class Holder(msgspec.Struct, frozen=True):
    """The node to which a machine belongs, and by which kind of number that is known."""

    node: str
    kind: Literal["uuid", "serial", "mac"]

    @property
    def text(self) -> str:
        name = {"uuid": "UUID", "serial": "serial number", "mac": "MAC address"}[self.kind]
        return f"this machine belongs to node {self.node}: it has the same {name}"


def compare(recorded: Identity, seen: Identity) -> Verdict:
    """A serial or a UUID that differs is another machine, whatever else matches. MAC addresses decide only where
    neither of those can be compared, because network cards are replaced: one in common is enough."""
    differs: list[str] = []
    matches: list[str] = []
    if _serial(recorded.serial) and _serial(seen.serial):
        same = _serial(recorded.serial) == _serial(seen.serial)
        _note(same, "serial", str(recorded.serial), str(seen.serial), matches=matches, differs=differs)
    if _uuids(recorded.uuid) and _uuids(seen.uuid):
        same = not _uuids(recorded.uuid).isdisjoint(_uuids(seen.uuid))
        _note(same, "UUID", str(recorded.uuid), str(seen.uuid), matches=matches, differs=differs)
    if not differs and not matches and _macs(recorded.macs) and _macs(seen.macs):
        same = not _macs(recorded.macs).isdisjoint(_macs(seen.macs))
        _note(same, "MAC", _listed(recorded.macs), _listed(seen.macs), matches=matches, differs=differs)
    if differs:
        return Another(f"another machine responds: {'; '.join(differs)}")
    if matches:
        return Same(" and ".join(matches))
    return Unproven(f"nothing to compare: recorded {_described(recorded)}; the BMC reports {_described(seen)}")


def kept(recorded: Identity, seen: Identity) -> Identity:
    """What is recorded from now on: the first word stays, what was missing is added."""
    return Identity(
        serial=recorded.serial if _serial(recorded.serial) else seen.serial,
        uuid=recorded.uuid if _uuids(recorded.uuid) else seen.uuid,
        macs=recorded.macs or seen.macs,
        manufacturer=seen.manufacturer,
    )


def _note(same: bool, name: str, expected: str, came: str, *, matches: list[str], differs: list[str]) -> None:
    if same:
        matches.append(name)
    else:
        differs.append(f"expected {name} {expected}, the BMC reports {came}")


def _described(identity: Identity) -> str:
    serial = [f"serial {identity.serial}"] if _serial(identity.serial) else []
    uuid = [f"UUID {identity.uuid}"] if _uuids(identity.uuid) else []
    macs = [f"MAC {_listed(identity.macs)}"] if _macs(identity.macs) else []
    return ", ".join((*serial, *uuid, *macs)) or "nothing that identifies a machine"


def _listed(macs: tuple[str, ...]) -> str:
    return ", ".join(macs)


def _serial(text: str | None) -> str:
    """The serial in one spelling; empty when it says nothing."""
    plain = (text or "").strip().casefold()
    return "" if plain in _NO_SERIALS or len(set(plain)) <= 1 else plain


def _uuids(text: str | None) -> frozenset[UUID]:
    """The UUID in both byte orders; empty when it says nothing."""
    try:
        uuid = UUID((text or "").strip())
    except ValueError:
        return frozenset()
    swapped = UUID(bytes_le=uuid.bytes)
    says_nothing = len(set(uuid.bytes)) == 1 or not _NO_UUIDS.isdisjoint((uuid, swapped))
    return frozenset() if says_nothing else frozenset((uuid, swapped))


def _macs(texts: tuple[str, ...]) -> frozenset[str]:
    """The addresses as hexadecimal digits; none that no card has."""
    plain = ("".join(char for char in text.casefold() if char not in ":-. ") for text in texts)
    return frozenset(mac for mac in plain if len(set(mac)) > 1)
