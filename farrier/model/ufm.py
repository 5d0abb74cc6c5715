"""A fabric manager (UFM) as the model sees it: what it says of partition keys, and how a call to it fails.

Handlers decide on these; `farrier.services` produces them. Nothing here knows HTTP. A failure class is a metric label,
so its spelling never changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from farrier.model.request_error import RequestError

LOWEST_PKEY = 0x0001
HIGHEST_PKEY = 0x7FFE
"""Largest partition key for farrier. UFM uses 0x7fff for its management. The sixteenth bit is the membership."""

_GUID = re.compile(r"(0x)?([0-9a-f]{16})")


class Membership(StrEnum):
    """Limited members reach full ones, and not each other."""

    FULL = "full"
    LIMITED = "limited"


class RateLimit(StrEnum):
    """The rates that UFM knows, in Gb/s, as texts: one of them is no whole number."""

    G2_5 = "2.5"
    G5 = "5"
    G10 = "10"
    G14 = "14"
    G20 = "20"
    G25 = "25"
    G30 = "30"
    G40 = "40"
    G56 = "56"
    G60 = "60"
    G80 = "80"
    G100 = "100"
    G112 = "112"
    G120 = "120"
    G168 = "168"
    G200 = "200"
    G300 = "300"


class Port(msgspec.Struct, frozen=True):
    """How a port is a member of a partition. `index0`: the key is the first of the port's table."""

    membership: Membership = Membership.FULL
    index0: bool = False


class Qos(msgspec.Struct, frozen=True):
    """What a partition's services may use: MTU in KiB (2 or 4), rate in Gb/s, service level 0 to 15."""

    mtu_limit: int
    rate_limit: float
    service_level: int


class Pkey(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as UFM has it. `qos` is None if UFM does not report it."""

    number: int
    name: str = ""
    ip_over_ib: bool = True
    qos: Qos | None = None
    ports: Mapping[str, Port] = {}


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as it is to be. `name` is empty where UFM may call it what it likes."""

    number: int
    qos: Qos
    ip_over_ib: bool
    index0: bool
    name: str = ""


class UfmFailure(StrEnum):
    """Why a call to UFM did not do what it was for, from what a person mends to what mends itself."""

    AUTH = "auth"  # the user or the token is refused, or cannot be had
    FORBIDDEN = "forbidden"  # our user lacks a right
    INVALID = "invalid"  # the parameters are refused, and will be again
    ABSENT = "absent"  # UFM does not know this key, or this port
    CONFLICT = "conflict"  # not as things are now
    BUSY = "busy"  # UFM asks us to come back, or our own line is too long
    UPSTREAM = "upstream"  # it failed inside UFM, or in what stands in front of it
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # an answer that is not one of UFM


REFUSALS = frozenset({UfmFailure.INVALID, UfmFailure.ABSENT, UfmFailure.CONFLICT})
"""Failures of a change that are UFM's answer about this partition. Other failures say nothing about the partition."""


class UfmError(RequestError[UfmFailure]):
    """A call to UFM failed."""

    label = "ufm"

    @property
    def is_refusal(self) -> bool:
        """True of a change that UFM has refused for what it is."""
        return self.failure in REFUSALS


def spelled(number: int) -> str:
    """A partition key as UFM writes it."""
    return f"{number:#x}"


def guid(text: str) -> str | None:
    """A port's GUID in one spelling, 16 digits; None for what is none."""
    found = _GUID.fullmatch(text.strip().lower())
    return None if found is None else found.group(2)
