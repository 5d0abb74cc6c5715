"""A MAAS region as the model sees it: what it says of a machine, and how a call to it fails.

Handlers and observers decide on these; `farrier.services` produces them. Nothing here knows HTTP. Fields have the
region's own names, and only those that a stage reads; whatever else it sends is passed over. A failure class is a
metric label and a column value, so its spelling never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

import msgspec

from farrier.model.request_error import RequestError


class MaasStatus(StrEnum):
    """Where a machine stands, in words of the model."""

    NEW = "new"
    COMMISSIONING = "commissioning"
    READY = "ready"
    ALLOCATED = "allocated"
    DEPLOYING = "deploying"
    DEPLOYED = "deployed"
    FAILED = "failed"
    BROKEN = "broken"
    ABSENT = "absent"  # never of a number: there is no such machine
    OTHER = "other"  # on its way out, somebody's own action, or a status that we do not know


class StatusNumber(IntEnum):
    """The numbers by which a region knows its statuses, the same in all of 3.x."""

    NEW = 0
    COMMISSIONING = 1
    FAILED_COMMISSIONING = 2
    MISSING = 3
    READY = 4
    RESERVED = 5
    DEPLOYED = 6
    RETIRED = 7
    BROKEN = 8
    DEPLOYING = 9
    ALLOCATED = 10
    FAILED_DEPLOYMENT = 11
    RELEASING = 12
    RELEASING_FAILED = 13
    DISK_ERASING = 14
    FAILED_DISK_ERASING = 15
    RESCUE_MODE = 16
    ENTERING_RESCUE_MODE = 17
    FAILED_TO_ENTER_RESCUE_MODE = 18
    EXITING_RESCUE_MODE = 19
    FAILED_TO_EXIT_RESCUE_MODE = 20
    TESTING = 21
    FAILED_TESTING = 22


_STATUS_OF: Mapping[int, MaasStatus] = {
    StatusNumber.NEW: MaasStatus.NEW,
    StatusNumber.COMMISSIONING: MaasStatus.COMMISSIONING,
    StatusNumber.TESTING: MaasStatus.COMMISSIONING,
    StatusNumber.READY: MaasStatus.READY,
    StatusNumber.ALLOCATED: MaasStatus.ALLOCATED,
    StatusNumber.RESERVED: MaasStatus.ALLOCATED,
    StatusNumber.DEPLOYING: MaasStatus.DEPLOYING,
    StatusNumber.DEPLOYED: MaasStatus.DEPLOYED,
    StatusNumber.FAILED_COMMISSIONING: MaasStatus.FAILED,
    StatusNumber.FAILED_TESTING: MaasStatus.FAILED,
    StatusNumber.FAILED_DEPLOYMENT: MaasStatus.FAILED,
    StatusNumber.RELEASING_FAILED: MaasStatus.FAILED,
    StatusNumber.FAILED_DISK_ERASING: MaasStatus.FAILED,
    StatusNumber.BROKEN: MaasStatus.BROKEN,
}


class MaasFailure(StrEnum):
    """Why a call to MAAS did not do what it was for, from what a person mends to what mends itself."""

    AUTH = "auth"  # the key is refused, or did not arrive
    CLOCK_SKEW = "clock_skew"  # refused because our clocks differ by minutes
    FORBIDDEN = "forbidden"  # a locked machine, or rights that our user lacks
    FOREIGN_OWNER = "foreign_owner"  # somebody else holds the machine; nothing was sent
    INVALID = "invalid"  # the parameters are refused, and will be again
    ADDRESS_TAKEN = "address_taken"  # a static address that another interface has
    ABSENT = "absent"  # there is no such machine
    CONFLICT = "conflict"  # not in this state: read again, decide again
    CAPACITY = "capacity"  # no addresses left
    POWER = "power"  # MAAS could not switch the machine by its BMC
    BUSY = "busy"  # the region asks us to come back
    UPSTREAM = "upstream"  # it failed inside the region, or in what stands in front of it
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # an answer that is not one of MAAS


class MaasError(RequestError[MaasFailure]):
    """A call to MAAS failed. `fields` are the region's words on single parameters."""

    label = "maas"

    def __init__(
        self,
        failure: MaasFailure,
        detail: str,
        *,
        operation: str = "call",
        ambiguous: bool = False,
        retry_after: timedelta | None = None,
        fields: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        super().__init__(failure, detail, operation=operation, ambiguous=ambiguous, retry_after=retry_after)
        self.fields = dict(fields or {})


class Filesystem(msgspec.Struct, frozen=True, kw_only=True):
    fstype: str | None = None
    mount_point: str | None = None


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    size: int | None = None
    filesystem: Filesystem | None = None


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A disk, as commissioning found it."""

    id: int
    name: str | None = None
    type: str | None = None
    model: str | None = None
    id_path: str | None = None
    filesystem: Filesystem | None = None
    partitions: tuple[Partition, ...] = ()


class Vlan(msgspec.Struct, frozen=True, kw_only=True):
    """`vid` is its number on the wire, which is unique within its fabric only."""

    id: int
    vid: int | None = None
    fabric: str | None = None
    fabric_id: int | None = None


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    cidr: str | None = None
    vlan: Vlan | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """How an interface gets its address; `mode` is `auto`, `dhcp`, `static` or `link_up`."""

    id: int
    mode: str
    subnet: Subnet | None = None
    ip_address: str | None = None


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface. Parents are names."""

    id: int
    name: str
    type: str | None = None
    mac_address: str | None = None
    vlan: Vlan | None = None
    links: tuple[Link, ...] = ()
    parents: tuple[str, ...] = ()
    effective_mtu: int | None = None
    vendor: str | None = None
    product: str | None = None
    params: dict[str, object] | str | None = None


class HardwareInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Which of the serials a BMC calls its own differs by vendor."""

    system_serial: str | None = None
    mainboard_serial: str | None = None
    chassis_serial: str | None = None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of a machine. `read_at` is the client's monotonic clock at the answer: a change is only made on
    the word of a reading that is seconds old. `error_description` outlives its cause; it counts only while the status
    is a failed one."""

    system_id: str
    status: int
    hostname: str
    owner: str | None = None
    locked: bool = False
    status_name: str | None = None
    status_message: str | None = None
    error_description: str | None = None
    description: str | None = None
    osystem: str | None = None
    distro_series: str | None = None
    netboot: bool | None = None
    power_type: str | None = None
    power_state: str | None = None
    hardware_uuid: str | None = None
    hardware_info: HardwareInfo | None = None
    boot_disk: BlockDevice | None = None
    boot_interface: Interface | None = None
    interface_set: tuple[Interface, ...] = ()
    blockdevice_set: tuple[BlockDevice, ...] = ()
    commissioning_status_name: str | None = None
    testing_status_name: str | None = None
    enable_hw_sync: bool | None = None
    sync_interval: float | None = None
    last_sync: datetime | None = None
    read_at: float = 0.0

    @property
    def state(self) -> MaasStatus:
        """The status of the model for the machine's status number; `other` for an unknown number."""
        return _STATUS_OF.get(self.status, MaasStatus.OTHER)


class PowerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a machine's BMC is, without the secret that the region keeps beside it. `node_id` is the Redfish id of the
    machine's system, for a BMC with several; empty: its only one."""

    power_address: str | None = None
    power_user: str | None = None
    node_id: str | None = None


class ScriptResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    status_name: str | None = None


class ScriptSet(msgspec.Struct, frozen=True, kw_only=True):
    """One round of commissioning, testing or installation scripts."""

    id: int
    status_name: str | None = None
    results: tuple[ScriptResult, ...] = ()


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the machine `node`. Ids grow, but may be committed out of order."""

    id: int
    node: str
    type: str
    description: str | None = None
    created: str | None = None

    @property
    def at(self) -> datetime | None:
        """When, to the second; None if it is not written as we know it."""
        try:
            return datetime.strptime(self.created or "", "%a, %d %b. %Y %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return None

    def carries(self, comment: str) -> bool:
        """Whether it is the trace of a request that was made with this comment: how a call is recognised whose answer
        was lost."""
        return bool(comment) and (self.description or "").endswith(f") - {comment}")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom the region takes us for."""

    username: str
    is_superuser: bool = False
