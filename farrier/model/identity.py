"""Compares the recorded identity of a machine with the identity that its BMC reports. Verification and adoption refuse
a machine that is not the recorded machine, or that belongs to another node. A value proves nothing if it is not
recorded, if the BMC does not report it, or if it is a vendor's placeholder. The comparison ignores case, spaces,
separators, and the byte order of a UUID, because some firmware updates swap the byte order.
"""

from __future__ import annotations

from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

# Placeholders that boards report when SMBIOS has no serial number, from the defaults of board vendors.
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
# Default UUIDs of AMI and its licensees, found in thousands of machines.
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
"""Values that identify no machine. The database ignores them, too, when it checks that each machine has one node."""


def is_placeholder(text: str) -> bool:
    """Return whether a text stands in place of a value: nothing, a vendor's words, or one repeated character."""
    plain = text.strip().casefold()
    return plain in _NO_SERIALS or len(set(plain) - set(":-. ")) <= 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The values that identify a machine; missing values are None or empty. Two manufacturers may use the same serial
    number, so comparisons between nodes use the serial number together with `manufacturer`. `compare` ignores the
    manufacturer."""

    serial: str | None = None
    uuid: str | None = None
    macs: tuple[str, ...] = ()
    manufacturer: str | None = None

    @property
    def is_known(self) -> bool:
        """Whether at least one of the values can identify a machine."""
        return bool(_serial(self.serial) or _uuids(self.uuid) or _macs(self.macs))


class Same(msgspec.Struct, frozen=True):
    """The machine is the recorded machine. `by` names the values that match."""

    by: str


class Another(msgspec.Struct, frozen=True):
    """The machine is not the recorded machine. `text` names the recorded and the reported values."""

    text: str


class Unproven(msgspec.Struct, frozen=True):
    """No value proves whether the machine is the recorded machine."""

    text: str


Verdict: TypeAlias = Same | Another | Unproven


class Holder(msgspec.Struct, frozen=True):
    """The node to which a machine belongs, and the kind of value that proves this."""

    node: str
    kind: Literal["uuid", "serial", "mac"]

    @property
    def text(self) -> str:
        name = {"uuid": "UUID", "serial": "serial number", "mac": "MAC address"}[self.kind]
        return f"this machine belongs to node {self.node}: it has the same {name}"


def compare(recorded: Identity, seen: Identity) -> Verdict:
    """Compare two identities. If the serial number or the UUID differs, it is another machine, even if other values
    match. MAC addresses are compared only if neither serials nor UUIDs can be compared, because network cards are
    replaced. In this case, one common address proves that it is the same machine."""
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
    return Unproven(
        f"the identities have no value in common to compare: recorded {described(recorded)}; the BMC reports "
        f"{described(seen)}"
    )


def kept(recorded: Identity, seen: Identity) -> Identity:
    """Return the identity to record: recorded values stay, and missing values are added from the reading."""
    return Identity(
        serial=recorded.serial if _serial(recorded.serial) else seen.serial,
        uuid=recorded.uuid if _uuids(recorded.uuid) else seen.uuid,
        macs=recorded.macs or seen.macs,
        manufacturer=seen.manufacturer,
    )


def described(identity: Identity) -> str:
    """Return the values that can identify the machine, as a text."""
    serial = [f"serial {identity.serial}"] if _serial(identity.serial) else []
    uuid = [f"UUID {identity.uuid}"] if _uuids(identity.uuid) else []
    macs = [f"MAC {_listed(identity.macs)}"] if _macs(identity.macs) else []
    return ", ".join((*serial, *uuid, *macs)) or "no value that identifies a machine"


def _note(same: bool, name: str, expected: str, came: str, *, matches: list[str], differs: list[str]) -> None:
    if same:
        matches.append(name)
    else:
        differs.append(f"expected {name} {expected}, the BMC reports {came}")


def _listed(macs: tuple[str, ...]) -> str:
    return ", ".join(macs)


def _serial(text: str | None) -> str:
    """Return the serial in canonical form; empty for a placeholder."""
    plain = (text or "").strip().casefold()
    return "" if plain in _NO_SERIALS or len(set(plain)) <= 1 else plain


def _uuids(text: str | None) -> frozenset[UUID]:
    """Return the UUID in both byte orders; empty for a placeholder."""
    try:
        uuid = UUID((text or "").strip())
    except ValueError:
        return frozenset()
    swapped = UUID(bytes_le=uuid.bytes)
    says_nothing = len(set(uuid.bytes)) == 1 or not _NO_UUIDS.isdisjoint((uuid, swapped))
    return frozenset() if says_nothing else frozenset((uuid, swapped))


def _macs(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the addresses as hexadecimal digits, without placeholders."""
    plain = ("".join(char for char in text.casefold() if char not in ":-. ") for text in texts)
    return frozenset(mac for mac in plain if len(set(mac)) > 1)
