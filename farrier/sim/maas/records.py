"""The region's mutable records of machines, their networks and their disks. They check nothing and contain no rules of
MAAS."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime

from farrier.model.maas.reading import StatusNumber as Status


@dataclass(kw_only=True, slots=True)
class Vlan:
    id: int
    fabric_id: int
    vid: int = 0
    name: str = "untagged"
    mtu: int = 1500
    dhcp_on: bool = False
    primary_rack: str | None = None


@dataclass(kw_only=True, slots=True)
class Subnet:
    id: int
    name: str
    cidr: str
    gateway_ip: str | None
    vlan: Vlan
    dns_servers: list[str] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Link:
    id: int
    mode: str
    subnet: Subnet | None = None
    ip_address: str | None = None


@dataclass(kw_only=True, slots=True)
class Interface:
    id: int
    name: str
    mac_address: str
    type: str = "physical"
    vlan: Vlan | None = None
    links: list[Link] = field(default_factory=list)
    params: dict[str, object] = field(default_factory=dict)
    parents: list[Interface] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    discovered: tuple[Subnet, str] | None = None
    link_speed: int = 0
    vendor: str | None = None
    product: str | None = None
    firmware_version: str | None = None


@dataclass(kw_only=True, slots=True)
class Partition:
    id: int
    size: int
    uuid: str
    fs_uuid: str
    mount_point: str | None
    fstype: str = "ext4"


@dataclass(kw_only=True, slots=True)
class Disk:
    id: int
    name: str
    model: str
    serial: str
    id_path: str
    size: int
    tags: list[str] = field(default_factory=list)
    partition: Partition | None = None
    is_virtual: bool = False
    """Whether a storage layout made the disk. The root file system is mounted on such a disk."""


class Remains(enum.Enum):
    """The data on a disk."""

    EVERYWHERE = enum.auto()
    BETWEEN_THE_ENDS = enum.auto()  # a quick erasure overwrites 2 MiB at both ends


class SetType(enum.IntEnum):
    """The purpose of a set of scripts."""

    COMMISSIONING = 0
    INSTALLATION = 1
    TESTING = 2


class ScriptStatus(enum.IntEnum):
    """The status of a set of scripts; -1 if the machine has no set."""

    NONE = -1
    PENDING = 0
    RUNNING = 1
    PASSED = 2
    FAILED = 3
    TIMED_OUT = 4
    ABORTED = 5

    @property
    def label(self) -> str:
        return "Unknown" if self is ScriptStatus.NONE else self.name.replace("_", " ").capitalize()


@dataclass(kw_only=True, slots=True)
class Revision:
    """A text of a script. Its ID is unique among the revisions of all scripts."""

    id: int
    text: str
    comment: str | None
    created: datetime


@dataclass(kw_only=True, slots=True)
class Script:
    """A testing script that a user stored. `header` has the values in the comment at the start of the newest text."""

    id: int
    name: str
    tags: list[str]
    header: dict[str, str]
    history: list[Revision]
    """The revisions, newest first."""


@dataclass(kw_only=True, slots=True)
class ScriptRun:
    """One script of a test. `revision` is the revision that the machine reported with its result."""

    id: int
    script: Script
    created: datetime
    status: ScriptStatus = ScriptStatus.PENDING
    started: datetime | None = None
    ended: datetime | None = None
    exit_status: int | None = None
    stdout: bytes = b""
    revision: int | None = None


@dataclass(kw_only=True, slots=True)
class ScriptSet:
    """The scripts of one commissioning, installation or test. For commissioning and installation, the region keeps one
    log; `runs` has the scripts of a test."""

    id: int
    result_id: int
    type: SetType
    name: str
    status: ScriptStatus
    created: datetime
    started: datetime | None = None
    ended: datetime | None = None
    runs: list[ScriptRun] = field(default_factory=list)


@dataclass(kw_only=True)
class Machine:
    """A machine. Each change of its status increments `epoch`, which cancels work that was planned in an earlier
    epoch."""

    system_id: str
    hostname: str
    architecture: str = "amd64/generic"
    description: str = ""
    status: Status = Status.NEW
    previous_status: Status = Status.NEW
    epoch: int = 0
    owner: str | None = None
    locked: bool = False
    agent_name: str = ""
    power_type: str = ""
    power_state: str = "unknown"
    power_parameters: dict[str, str] = field(default_factory=dict)
    domain: str = "maas"
    zone: str = "default"
    pool: str = "default"
    tag_names: list[str] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    interfaces: list[Interface] = field(default_factory=list)
    disks: list[Disk] = field(default_factory=list)
    boot_disk_id: int | None = None
    script_sets: list[ScriptSet] = field(default_factory=list)
    data: dict[str, Remains] = field(default_factory=dict)
    """The disks on which data may be, by serial number. A disk that is not in the dictionary has none."""
    osystem: str = ""
    distro_series: str = ""
    hwe_kernel: str | None = None
    user_data: str | None = None
    netboot: bool = True
    enable_hw_sync: bool = False
    sync_interval: int | None = None
    last_sync: datetime | None = None
    error_description: str = ""
    skip_storage: bool = False
    skip_networking: bool = False
    cpu_count: int = 0
    memory: int = 0
    hardware_uuid: str | None = None
    hardware_info: dict[str, str] = field(default_factory=dict)

    def newest_set(self, kind: SetType) -> ScriptSet | None:
        return next((kept for kept in reversed(self.script_sets) if kept.type is kind), None)

    def boot_disk(self) -> Disk | None:
        """The chosen boot disk, or the oldest disk that is large enough (512 MiB)."""
        physical = [disk for disk in self.disks if not disk.is_virtual]
        chosen = next((disk for disk in physical if disk.id == self.boot_disk_id), None)
        return chosen or next((disk for disk in physical if disk.size >= 512 << 20), None)

    def boot_interface(self) -> Interface | None:
        """The first NIC, from which the machine boots."""
        return next((interface for interface in self.interfaces if interface.type == "physical"), None)
