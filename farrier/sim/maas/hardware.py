"""The hardware of a simulated machine, and the results of the work on this machine. MAAS detects the hardware only by
commissioning.

Tests and the demo set a `Nature` in a region, for one machine or for all machines. The default is a server with a PXE
NIC, two more NICs, two NVMe disks and a BOSS pair, on which all work succeeds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeAlias

import msgspec


class Nic(msgspec.Struct, frozen=True, kw_only=True):
    """A network port. The first port of a machine has the MAC address with which the machine was created."""

    name: str
    mac_address: str = ""
    speed: int = 10000


class DiskModel(msgspec.Struct, frozen=True, kw_only=True):
    """A disk, with the values that its firmware reports."""

    name: str
    model: str
    serial: str
    id_path: str
    size: int
    tags: tuple[str, ...] = ("ssd",)


def nvme(number: int, *, size: int = 3_840_000_000_000) -> DiskModel:
    name = f"nvme{number}n1"
    path = f"/dev/disk/by-id/nvme-{name}"
    return DiskModel(name=name, model="Dell Ent NVMe CM6 RI 3.84TB", serial=f"S{name}", id_path=path, size=size)


def boss(serial: str = "00e0b5f8f6e80010") -> DiskModel:
    path = f"/dev/disk/by-id/ata-DELLBOSS_VD_{serial}"
    tags = ("ssd", "sata")
    return DiskModel(name="sda", model="DELLBOSS VD", serial=serial, id_path=path, size=480_000_000_000, tags=tags)


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of a server. `serial` and `uuid` are those of the system, as its firmware reports them."""

    nics: tuple[Nic, ...] = (Nic(name="eno1"), Nic(name="enp1s0f0np0"), Nic(name="enp1s0f1np1"))
    disks: tuple[DiskModel, ...] = (nvme(0), nvme(1), boss())
    cpu_count: int = 64
    memory: int = 1_048_576
    serial: str = ""
    uuid: str = ""


class CommissionFate(enum.Enum):
    """How commissioning ends."""

    PASSES = enum.auto()
    SCRIPT_FAILS = enum.auto()
    NEVER_BOOTS = enum.auto()
    TESTS_FAIL = enum.auto()


class DeployFate(enum.Enum):
    """How a deployment ends. Each way to fail writes different events, which show a different failure class."""

    SUCCEEDS = enum.auto()
    NEVER_NETBOOTS = enum.auto()
    NO_DATASOURCE = enum.auto()
    STORAGE_FAILS = enum.auto()
    IMAGE_FAILS = enum.auto()
    NEVER_REPORTS = enum.auto()
    CLOUD_INIT_FAILS = enum.auto()


class EraseFate(enum.Enum):
    """How erasing disks ends. MAAS ends no erasure that hangs."""

    SUCCEEDS = enum.auto()
    FAILS = enum.auto()
    HANGS = enum.auto()


class RunFate(enum.Enum):
    """How a test ends. The region gives up on a machine that does not boot or stops to report."""

    RUNS = enum.auto()
    NEVER_BOOTS = enum.auto()
    HANGS = enum.auto()


class Printed(msgspec.Struct, frozen=True):
    """The result of a script."""

    stdout: bytes = b""
    exit_status: int = 0


Program: TypeAlias = Callable[[], Printed]


class Nature(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware of one machine, and the results of the work on this machine. `bmc_error` is the error of the
    machine's BMC. With `never_on`, the region ends between the commit of each status and the power action, so no work
    begins (maasserver/models/node.py:2573)."""

    hardware: Hardware = Hardware()
    commission: CommissionFate = CommissionFate.PASSES
    deploy: DeployFate = DeployFate.SUCCEEDS
    erase: EraseFate = EraseFate.SUCCEEDS
    test: RunFate = RunFate.RUNS
    lying_disks: frozenset[str] = frozenset()
    """The serial numbers of disks that report a successful erasure, and keep their data."""
    programs: Mapping[str, Program] = {}
    """What scripts do on the machine, by name. A script that is not listed succeeds, and prints nothing."""
    bmc_error: str | None = None
    never_on: bool = False


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """How long the region's work takes, measured by the region's clock. If `power` is 0, the power is switched within
    the call."""

    power: timedelta = timedelta(0)
    commission: timedelta = timedelta(minutes=8)
    deploy: timedelta = timedelta(minutes=12)
    erase: timedelta = timedelta(minutes=10)
    test: timedelta = timedelta(minutes=4)
    rescue: timedelta = timedelta(minutes=4)
    # How often a deployed machine reports its hardware. As in MAAS, this is a whole number of seconds.
    sync: timedelta = timedelta(minutes=15)
    # This is MAAS's `node_timeout`; a deployment may last twice as long.
    node_timeout: timedelta = timedelta(minutes=30)

    def shorter(self, factor: float) -> Durations:
        """Return the same durations divided by `factor`."""
        return Durations(**{name: getattr(self, name) / factor for name in self.__struct_fields__})
