"""UFM in the model: its partition keys, and its failures.

Package `farrier.services` creates these values, and handlers read them. Nothing here depends on HTTP. A failure class
is a metric label, so its spelling never changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from farrier.model.request_error import RequestError

LOWEST_PKEY = 0x0001
HIGHEST_PKEY = 0x7FFE
"""Largest partition key for farrier. UFM uses 0x7fff for its management, and the sixteenth bit for the membership."""

_GUID = re.compile(r"(0x)?([0-9a-f]{16})")


class Membership(StrEnum):
    """The membership of a port. Limited members can reach full members, but not each other."""

    FULL = "full"
    LIMITED = "limited"


class RateLimit(StrEnum):
    """The rates that UFM accepts, in Gb/s. The rates are strings, because one of them is not an integer."""

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


class PartitionPort(msgspec.Struct, frozen=True):
    """The membership of a port in a partition. `index0` is set if the partition key is the first in the port's
    table."""

    membership: Membership = Membership.FULL
    index0: bool = False


class Qos(msgspec.Struct, frozen=True):
    """The service settings of a partition: MTU in KiB (2 or 4), rate in Gb/s, service level 0 to 15."""

    mtu_limit: int
    rate_limit: float
    service_level: int


class Pkey(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as UFM reports it. `qos` is None if UFM does not report the service settings."""

    number: int
    name: str = ""
    ip_over_ib: bool = True
    qos: Qos | None = None
    ports: Mapping[str, PartitionPort] = {}


class WantedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The target state of a partition. `name` is empty if UFM may choose the name."""

    number: int
    qos: Qos
    ip_over_ib: bool
    index0: bool
    name: str = ""


class Create(msgspec.Struct, frozen=True):
    """Creates the partition without ports."""

    wanted: WantedPartition


class SetQos(msgspec.Struct, frozen=True):
    """Changes the service settings of the partition."""

    wanted: WantedPartition


class Add(msgspec.Struct, frozen=True):
    """Adds these ports to the members of the partition."""

    wanted: WantedPartition
    guids: tuple[str, ...]
    membership: Membership


class SetPorts(msgspec.Struct, frozen=True):
    """Replaces the members of the partition by `ports`, and restores the values that an addition cannot set: the name,
    IP over IB, and the properties of ports that UFM already has. `off` lists the elements of `ports` that have other
    properties in UFM now."""

    wanted: WantedPartition
    ports: Mapping[str, PartitionPort]
    off: tuple[str, ...] = ()


class RemovePorts(msgspec.Struct, frozen=True):
    """Removes these ports from the partition. If a partition loses its last port, UFM may delete the partition."""

    wanted: WantedPartition
    guids: tuple[str, ...]


class DeleteKey(msgspec.Struct, frozen=True):
    """Deletes the partition with all its ports."""

    wanted: WantedPartition


PartitionChange: TypeAlias = Create | SetQos | Add | SetPorts | RemovePorts | DeleteKey
"""A change that farrier requests from UFM. `UfmClient.do` sends it."""


class UfmFailure(StrEnum):
    """The classes of failed calls to UFM. Failures that an operator must fix come first, failures that end by
    themselves last."""

    AUTH = "auth"  # the user or the token is refused or cannot be resolved
    FORBIDDEN = "forbidden"  # farrier's user lacks a right
    INVALID = "invalid"  # the parameters are invalid; a retry is useless
    ABSENT = "absent"  # UFM has no such key or port
    CONFLICT = "conflict"  # the current state forbids the call
    BUSY = "busy"  # UFM requests a later retry, or farrier's queue is too long
    UPSTREAM = "upstream"  # an error in UFM or in a proxy in front of it
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # a response that does not come from UFM


REFUSALS = frozenset({UfmFailure.INVALID, UfmFailure.ABSENT, UfmFailure.CONFLICT})
"""Failures by which UFM refuses a change of a partition. Other failures do not show whether UFM accepts the change."""


class UfmError(RequestError[UfmFailure]):
    """A call to UFM failed."""

    label = "ufm"

    @property
    def is_refusal(self) -> bool:
        """Whether UFM refused the change."""
        return self.failure in REFUSALS


def spelled(number: int) -> str:
    """Return a partition key in the spelling of UFM."""
    return f"{number:#x}"


def guid(text: str) -> str | None:
    """Return a port's GUID as 16 digits; None for an invalid GUID."""
    found = _GUID.fullmatch(text.strip().lower())
    return None if found is None else found.group(2)
