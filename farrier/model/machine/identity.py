"""Compares the recorded identity of a machine with the identity that its BMC reports. Verification and adoption refuse
a machine that is not the recorded machine, or that belongs to another node. A value proves something only if it can be
unique: not missing, not a vendor's words, not a pattern of digits, and for a MAC address, not locally administered. A
registered MAC address counts in any case, because an operator stated it. The comparison ignores case, spaces,
separators, and the byte order of a UUID, because some firmware updates swap the byte order.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

# Words that boards report when SMBIOS has no serial number, from the defaults of board vendors: letters and digits in
# lower case. A word that ends with % stands for all words that begin with it.
_NO_SERIALS = frozenset(
    {
        *("", "na", "none", "null", "nil", "empty", "oem", "standard", "invalid%", "test", "sample", "dummy"),
        *("default", "defaultstring%", "undefined%", "unknown%", "unspecified", "unavailable", "notapplicable"),
        *("notavailable", "notdefined", "notprovided", "notset%", "notspecified%", "notpresent", "notassigned"),
        *("tobefilled%", "filledby%", "tbd", "tobedefined", "tobedetermined", "oemdefault%", "chassisserial"),
        *("serial", "serialno", "serialnumber%", "sernum%", "systemserial%", "productserial%", "yourserial%"),
        *("chassisserialnumber", "baseboardserial%", "boardserial%", "motherboardserial%", "type1%serial%"),
        *("type2%serial%", "type3%serial%", "noserial%", "noassettag", "assettag", "1234567890abcdef%"),
    }
)
# UUIDs that vendors ship in many machines and that are no pattern, as hexadecimal digits: Dell without a service tag,
# SolidRun's LX2160A.
_NO_UUIDS = frozenset(
    {
        "4c4c454400002010802080c04f202020",
        "4c4c4544002020108020a0c04f202020",
        "8a95d1987f4611e5bf8b08002704d48e",
    }
)

PLACEHOLDERS: tuple[str, ...] = tuple(sorted(_NO_SERIALS | _NO_UUIDS))
"""Values that identify no machine, as patterns of SQL's LIKE. The database ignores them, too, when it checks that each
machine has one node."""

_WORDS = re.compile("|".join(word.replace("%", ".*") for word in sorted(_NO_SERIALS)))
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
# Steps between neighbouring digits that count from the last digit to the first, and back.
_AROUND = {"90": 1, "f0": 1, "09": -1, "0f": -1}

# How many serial numbers and UUIDs are remembered with the results of their checks, because each read repeats them.
_KNOWN = 16_384

_SHORTEST_REPEATED = 6  # digits; a shorter serial number, such as 1212, may repeat a part by chance
_SHORTEST_COUNTED = 4  # digits; a shorter serial number may count by chance
# Of the 31 pairs of neighbouring digits in a random UUID, 6 are close, and 24 practically never.
_MOST_CLOSE = 23


def is_filler(text: str) -> bool:
    """Return whether a text is nothing, or a vendor's words in place of a value."""
    return _WORDS.fullmatch(_plain(text)) is not None


def is_placeholder(text: str) -> bool:
    """Return whether a text stands in place of a number: nothing, a vendor's words, or a pattern of digits."""
    return is_filler(text) or _is_pattern(_plain(text))


def _plain(text: str) -> str:
    return re.sub("[^a-z0-9]", "", text.casefold())


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """The values that identify a machine; missing values are None or empty. Two manufacturers may use the same serial
    number, so comparisons between nodes use the serial number together with `manufacturer`. `compare` ignores the
    manufacturer. `macs` are addresses that a BMC reports, and `registered` are addresses that operators stated."""

    serial: str | None = None
    uuid: str | None = None
    macs: tuple[str, ...] = ()
    registered: tuple[str, ...] = ()
    manufacturer: str | None = None

    @property
    def has_serial(self) -> bool:
        """Whether the serial number can identify a machine."""
        return bool(_serial(self.serial))

    @property
    def is_known(self) -> bool:
        """Whether at least one of the values can identify a machine."""
        return bool(_serial(self.serial) or _uuids(self.uuid) or _macs(self.macs) or _addresses(self.registered))


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
    compared: list[tuple[bool, str, str, str]] = []  # whether both are equal, the name, and both values
    if _serial(recorded.serial) and _serial(seen.serial):
        same = _serial(recorded.serial) == _serial(seen.serial)
        compared.append((same, "serial", str(recorded.serial), str(seen.serial)))
    if _uuids(recorded.uuid) and _uuids(seen.uuid):
        same = not _uuids(recorded.uuid).isdisjoint(_uuids(seen.uuid))
        compared.append((same, "UUID", str(recorded.uuid), str(seen.uuid)))
    ours, theirs = _macs(recorded.macs) | _addresses(recorded.registered), _macs(seen.macs)
    if recorded.registered:
        theirs = _addresses(seen.macs)
    if not compared and ours and theirs:
        expected = ", ".join(sorted({*recorded.macs, *recorded.registered}))
        compared.append((not ours.isdisjoint(theirs), "MAC", expected, ", ".join(seen.macs)))
    differs = [
        f"expected {name} {expected}, the BMC reports {came}" for same, name, expected, came in compared if not same
    ]
    if differs:
        return Another(f"another machine responds: {'; '.join(differs)}")
    if compared:
        return Same(" and ".join(name for _, name, _, _ in compared))
    return Unproven(
        f"the identities have no value in common to compare: recorded {described(recorded)}; the BMC reports "
        f"{described(seen)}"
    )


def kept(recorded: Identity, seen: Identity) -> Identity:
    """Return the identity to record: recorded values stay, and missing values are added from the reading."""
    return Identity(
        serial=recorded.serial if _serial(recorded.serial) else seen.serial,
        uuid=recorded.uuid if _uuids(recorded.uuid) else seen.uuid,
        macs=recorded.macs if _macs(recorded.macs) or not seen.macs else seen.macs,
        manufacturer=seen.manufacturer,
    )


def described(identity: Identity) -> str:
    """Return the values that can identify the machine, as a text."""
    serial = [f"serial {identity.serial}"] if _serial(identity.serial) else []
    uuid = [f"UUID {identity.uuid}"] if _uuids(identity.uuid) else []
    known = sorted({*(identity.macs if _macs(identity.macs) else ()), *identity.registered})
    macs = [f"MAC {', '.join(known)}"] if known else []
    return ", ".join((*serial, *uuid, *macs)) or "no value that identifies a machine"


@lru_cache(maxsize=_KNOWN)
def _serial(text: str | None) -> str:
    """Return the serial in canonical form; empty for a placeholder."""
    plain = (text or "").strip().casefold()
    return "" if is_placeholder(plain) else plain


@lru_cache(maxsize=_KNOWN)
def _uuids(text: str | None) -> frozenset[UUID]:
    """Return the UUID in both byte orders; empty if it cannot be unique."""
    try:
        uuid = UUID((text or "").strip())
    except ValueError:
        return frozenset()
    both = frozenset((uuid, UUID(bytes_le=uuid.bytes)))
    return both if all(_is_unique(one.hex) for one in both) else frozenset()


def _is_unique(digits: str) -> bool:
    """Return whether the 32 digits can be the UUID of one machine, in this order of bytes. Vendors ship UUIDs that
    count, some with a MAC address between the counting bytes."""
    if digits.startswith("0" * 20):
        return _is_unique_mac(digits[20:])
    close = sum(abs(step) <= 1 for step in _steps(digits))
    if digits in _NO_UUIDS or _is_pattern(digits) or close > _MOST_CLOSE:
        return False
    numbers = bytes.fromhex(digits)
    every_second = (numbers[::2], numbers[1::2])
    return all(len({(after - before) % 256 for before, after in pairwise(part)}) > 1 for part in every_second)


def _is_pattern(digits: str) -> bool:
    """Return whether digits and letters were written, not assigned: they are empty, repeat a part of themselves, or
    count."""
    length = len(digits)
    parts = range(1, length // 2 + 1) if length >= _SHORTEST_REPEATED else range(1, min(2, length // 2 + 1))
    steps = set(_steps(digits))
    counts = length >= _SHORTEST_COUNTED and steps in ({1}, {-1})
    return length <= 1 or counts or any(digits == digits[:part] * (length // part) for part in parts)


def _steps(digits: str) -> tuple[int, ...]:
    """Return the differences between neighbouring digits."""
    return tuple(
        _AROUND.get(before + after, _ALPHABET.find(after) - _ALPHABET.find(before))
        for before, after in pairwise(digits)
    )


def _is_unique_mac(digits: str) -> bool:
    """Return whether the 12 digits can be the address of one network card. The two low bits of the first byte mark
    addresses that are locally administered, or of a group."""
    assigned = not int(digits[1], 16) & 0b11
    return assigned and not _is_pattern(digits) and any(abs(step) > 1 for step in _steps(digits))


def _addresses(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the addresses as hexadecimal digits, without placeholders."""
    plain = (re.sub(r"[:. -]", "", text.casefold()) for text in texts)
    return frozenset(mac for mac in plain if re.fullmatch("[0-9a-f]{12}", mac) and len(set(mac)) > 1)


def _macs(texts: tuple[str, ...]) -> frozenset[str]:
    """Return the addresses that can be unique, as hexadecimal digits."""
    return frozenset(filter(_is_unique_mac, _addresses(texts)))
