"""A MAAS region in the model: its readings of machines, and its failures.

Package `farrier.services` creates these values, and handlers read them. Nothing here depends on HTTP. Fields have the
same names as in the MAAS API; fields that farrier does not read are omitted. A failure class is a metric label and a
column value, so its spelling never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import IntEnum, StrEnum

import msgspec

from farrier.model.request_error import RequestError


class MaasStatus(StrEnum):
    """The status of a machine in MAAS, reduced to the statuses that the model distinguishes."""

    NEW = "new"
    COMMISSIONING = "commissioning"
    READY = "ready"
    ALLOCATED = "allocated"
    DEPLOYING = "deploying"
    DEPLOYED = "deployed"
    FAILED = "failed"
    BROKEN = "broken"
    ABSENT = "absent"  # no status number: the machine does not exist
    OTHER = "other"  # any other known status, such as releasing, rescue mode or retired
    UNKNOWN = "unknown"  # a status number of a newer MAAS: it proves nothing about the machine


UNUSED = frozenset({MaasStatus.READY, MaasStatus.NEW, MaasStatus.ABSENT})
"""The states of a machine that nobody uses."""


class StatusNumber(IntEnum):
    """The status numbers of MAAS, which are the same in all versions 3.x."""

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

    @property
    def label(self) -> str:
        """The name of the status in MAAS, which responses contain as `status_name`."""
        return self.name.replace("_", " ").capitalize()


RESCUE = frozenset(
    {
        StatusNumber.RESCUE_MODE,
        StatusNumber.ENTERING_RESCUE_MODE,
        StatusNumber.FAILED_TO_ENTER_RESCUE_MODE,
        StatusNumber.EXITING_RESCUE_MODE,
        StatusNumber.FAILED_TO_EXIT_RESCUE_MODE,
    }
)
"""Statuses in which the owner is the user who started rescue mode. MAAS never restores the former owner."""

BEING_RELEASED = frozenset({StatusNumber.RELEASING, StatusNumber.DISK_ERASING})
"""Statuses of a machine whose release is in progress. The release ends by itself."""


_STATUS_OF: Mapping[int, MaasStatus] = {
    **dict.fromkeys(StatusNumber, MaasStatus.OTHER),
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
    """The classes of failed calls to MAAS. Failures that an operator must fix come first, failures that end by
    themselves last."""

    AUTH = "auth"  # MAAS refuses the key, or received none
    CLOCK_SKEW = "clock_skew"  # MAAS refuses the request, because the clocks differ by minutes
    FORBIDDEN = "forbidden"  # the machine is locked, or farrier's user lacks a right
    FOREIGN_OWNER = "foreign_owner"  # another user holds the machine; nothing was sent
    INVALID = "invalid"  # the parameters are invalid; a retry is useless
    ADDRESS_TAKEN = "address_taken"  # another interface has the static address
    ABSENT = "absent"  # the machine does not exist
    CONFLICT = "conflict"  # the state of the machine forbids the call: read and decide again
    CAPACITY = "capacity"  # no addresses left
    POWER = "power"  # MAAS could not switch the machine by its BMC
    BUSY = "busy"  # the region requests a later retry
    UPSTREAM = "upstream"  # an error in the region or in a proxy in front of it
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    PROTOCOL = "protocol"  # a response that does not come from MAAS


class MaasError(RequestError[MaasFailure]):
    """A call to MAAS failed. `fields` has the region's message for each rejected parameter."""

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


class DiskPartition(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    size: int | None = None
    filesystem: Filesystem | None = None


class BlockDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A disk that the commissioning of the machine found."""

    id: int
    name: str | None = None
    type: str | None = None
    serial: str | None = None
    size: int | None = None
    model: str | None = None
    id_path: str | None = None
    filesystem: Filesystem | None = None
    partitions: tuple[DiskPartition, ...] = ()


class Vlan(msgspec.Struct, frozen=True, kw_only=True):
    """A VLAN. `vid` is the VLAN's number in Ethernet frames; it is unique only within the VLAN's fabric."""

    id: int
    vid: int | None = None
    fabric: str | None = None
    fabric_id: int | None = None


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    cidr: str | None = None
    vlan: Vlan | None = None


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The address configuration of an interface; `mode` is `auto`, `dhcp`, `static` or `link_up`."""

    id: int
    mode: str
    subnet: Subnet | None = None
    ip_address: str | None = None


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """A network interface. `parents` are the names of other interfaces."""

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


class HardwareInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model and the serial numbers of a machine. The serial number that the BMC reports differs between vendors."""

    system_product: str | None = None
    system_serial: str | None = None
    mainboard_serial: str | None = None
    chassis_serial: str | None = None


class SeenMachine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a machine that the handlers of nodes use: the fields of `MaasObservation` that come from the
    region."""

    status: int | None = None
    status_name: str | None = None
    hostname: str | None = None
    owner: str | None = None
    locked: bool = False
    power_state: str | None = None
    netboot: bool | None = None
    status_message: str | None = None
    error_description: str | None = None
    osystem: str | None = None
    distro_series: str | None = None
    commissioning_status_name: str | None = None
    testing_status_name: str | None = None
    enable_hw_sync: bool | None = None
    sync_interval: float | None = None
    last_sync: datetime | None = None


class Recorded(SeenMachine, frozen=True, kw_only=True, omit_defaults=True):
    """The fields of a machine that farrier stores. An enrolment compares the UUID and the serial number, which the
    commissioning of the machine read from its firmware, with the facts of the agent (`farrier.other_machine`)."""

    hardware_uuid: str | None = None
    hardware_info: HardwareInfo | None = None


class Machine(Recorded, frozen=True, kw_only=True, omit_defaults=False):
    """One reading of a machine. `read_at` is the monotonic time at which the client received the response. A change
    requires a reading that is at most some seconds old. MAAS keeps `error_description` after its cause is gone, so
    farrier uses it only in a failed status."""

    system_id: str
    status: int
    hostname: str
    description: str | None = None
    power_type: str | None = None
    boot_disk: BlockDevice | None = None
    boot_interface: Interface | None = None
    interface_set: tuple[Interface, ...] = ()
    blockdevice_set: tuple[BlockDevice, ...] = ()
    read_at: float = 0.0

    @property
    def state(self) -> MaasStatus:
        """The model's name for the machine's status number."""
        return _STATUS_OF.get(self.status, MaasStatus.UNKNOWN)


class PowerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a machine's BMC, without its secret. If the BMC has several systems, `node_id` is the Redfish ID
    of the machine's system; otherwise it is empty."""

    power_address: str | None = None
    power_user: str | None = None
    node_id: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of the machine `node`. Later events have higher IDs, but MAAS may commit events out of order."""

    id: int
    node: str
    type: str
    description: str | None = None
    created: str | None = None

    @property
    def at(self) -> datetime | None:
        """The time of the event, to the second; None if farrier does not know the format of the time."""
        try:
            return datetime.strptime(self.created or "", "%a, %d %b. %Y %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return None

    def carries(self, comment: str) -> bool:
        """Return whether a request with this comment caused the event. This finds requests whose responses were
        lost."""
        return bool(comment) and (self.description or "").endswith(f") - {comment}")


class MaasUser(msgspec.Struct, frozen=True, kw_only=True):
    """The user to whom the API key belongs."""

    username: str
    is_superuser: bool = False
