"""The changes that farrier requests from MAAS: one struct for each, as data.

Stages create these changes. `MaasClient.do` sends a change, unless another user owns the machine. A later reading shows
whether a change was made. The region stores `comment` in the event of the request, so farrier recognises its own
requests. The `repr` of a change masks secrets and user data.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
from typing_extensions import override


class LookUp(StrEnum):
    """The keys by which machines can be searched. Each value is a parameter of the region's API."""

    ID = "id"
    HOSTNAME = "hostname"
    MAC_ADDRESS = "mac_address"


class LinkMode(StrEnum):
    AUTO = "auto"
    DHCP = "dhcp"
    STATIC = "static"
    LINK_UP = "link_up"


class PowerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The data with which the region accesses a BMC by Redfish. `address` is a host name or IP address; the region
    completes the URL."""

    address: str
    username: str
    password: str
    node_id: str = ""

    @override
    def __repr__(self) -> str:
        return f"PowerAccess(address={self.address!r}, username={self.username!r}, password=***)"


class NewMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that the region creates without commissioning it. `description` identifies machines that farrier
    created."""

    hostname: str
    mac_addresses: tuple[str, ...]
    power: PowerAccess
    description: str
    architecture: str = "amd64/generic"
    domain: str | None = None
    zone: str | None = None
    pool: str | None = None


class UpdateMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Changes only the given fields. MAAS allows this in any status, but not while the machine is locked."""

    hostname: str | None = None
    description: str | None = None
    power: PowerAccess | None = None
    enable_hw_sync: bool | None = None


class Commission(msgspec.Struct, frozen=True, kw_only=True):
    """Commissions the machine. MAAS allows this in the statuses new, ready, failed commissioning and broken.
    Commissioning removes the network and storage configuration unless the flags prevent this, so both flags are
    required."""

    skip_networking: bool
    skip_storage: bool
    skip_bmc_config: bool = True
    enable_ssh: bool = False
    testing_scripts: tuple[str, ...] | None = None
    """The tests to run. If None, MAAS uses the region's default. If empty, MAAS runs no tests."""


class TestMachine(msgspec.Struct, frozen=True, kw_only=True):
    """Boots the machine into the region's ephemeral system, and runs the testing scripts with this name or tag there.
    Afterwards the machine is ready and off, or failed testing. The request takes no comment, so a caller recognises its
    own request by the ID of the newest round of scripts before it."""

    script: str


class Abort(msgspec.Struct, frozen=True, kw_only=True):
    comment: str


class SetBootDisk(msgspec.Struct, frozen=True, kw_only=True):
    """Sets the boot disk. MAAS allows this only in status ready. The request may be repeated."""

    device: int


class SetStorageLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces the layout of the boot disk. MAAS allows this only in status ready."""

    layout: str
    root_size: int | None = None


class CreateBond(msgspec.Struct, frozen=True, kw_only=True):
    """Creates a bond. Fails with `invalid` while a parent is in a bond, so the caller must read the machine before it
    retries."""

    name: str
    parents: tuple[int, ...]
    mode: str
    lacp_rate: str | None = None
    xmit_hash_policy: str | None = None
    mtu: int | None = None
    vlan: int | None = None


class CreateVlan(msgspec.Struct, frozen=True, kw_only=True):
    """Creates a VLAN interface. `vlan` is the region's ID of the VLAN, not the VLAN's number in Ethernet frames."""

    parent: int
    vlan: int
    mtu: int | None = None


class UpdateInterface(msgspec.Struct, frozen=True, kw_only=True):
    """Changes an interface. The request may be repeated."""

    interface: int
    name: str | None = None
    vlan: int | None = None
    mtu: int | None = None


class LinkSubnet(msgspec.Struct, frozen=True, kw_only=True):
    """Replaces all links of the interface by this link, so a repetition creates no second link."""

    interface: int
    mode: LinkMode
    subnet: int | None = None
    ip_address: str | None = None


class Deploy(msgspec.Struct, frozen=True, kw_only=True):
    """Deploys the machine. MAAS allows this in status ready, where the request also acquires the machine, and in status
    allocated. The region does not keep user data, so each request contains the user data."""

    user_data: str
    comment: str
    distro_series: str | None = None
    hwe_kernel: str | None = None
    enable_hw_sync: bool = True

    @override
    def __repr__(self) -> str:
        return f"Deploy(distro_series={self.distro_series!r}, comment={self.comment!r}, user_data=***)"


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Releases the machine. The request has no effect on a machine that is ready or becoming ready."""

    comment: str
    erase: bool = False
    quick_erase: bool = False
    secure_erase: bool = False


class MarkBroken(msgspec.Struct, frozen=True, kw_only=True):
    """Marks the machine as broken, so that it can be released with erasing again. MAAS allows this only to the owner of
    the machine (maasserver/api/machines.py), which farrier's user stays after a failed test."""

    comment: str


class PowerOff(msgspec.Struct, frozen=True, kw_only=True):
    comment: str


class Unlock(msgspec.Struct, frozen=True, kw_only=True):
    comment: str


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Deletes the machine. The region also deletes a deployed machine, unless the machine is locked. A second request
    fails with `absent`."""


Change: TypeAlias = (
    UpdateMachine
    | Commission
    | TestMachine
    | Abort
    | SetBootDisk
    | SetStorageLayout
    | CreateBond
    | CreateVlan
    | UpdateInterface
    | LinkSubnet
    | Deploy
    | Release
    | MarkBroken
    | PowerOff
    | Unlock
    | Delete
)
