"""What a site says of its machines: one TOML file per site, one frozen struct per table of it.

A site is found by the label that nodes carry. Its file is read by `site_files`, at the start and again on SIGHUP;
handlers get what was read, so a run never sees half a change. No secret is in it: the API key is a credential
reference. What touches data on disks or networks that carry tenants is said here: nothing of it has a default that
wipes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from farrier.config.credentials import CredentialBinding
from farrier.model.maas_changes import LinkMode

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
Mtu: TypeAlias = Annotated[int, Meta(ge=576, le=9216, description="Bytes; none: as commissioning found it.")]

# As the database spells the names of resources; digits alone would be an id.
ResourceName: TypeAlias = Annotated[str, Meta(pattern=r"^(?=.*[^0-9])[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")]
MOST_USED = 16
"""Segments, and partitions, of one node: each is looked at in every run of an onboarding."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table of a site's file."""


class MaasSite(_Table, frozen=True, kw_only=True):
    """The region that the site's machines belong to."""

    url: Annotated[str, Meta(pattern=r"^https?://[^\s/]+(/[^\s]*)?/MAAS/?$", description="Base URL, up to /MAAS.")]
    key: Annotated[str, Meta(min_length=1, description="Credential reference of the API key, as MAAS prints it.")]
    ca_file: Annotated[str, Meta(description="PEM file with the authorities to trust. Empty: the system's.")] = ""
    agent_name: Annotated[Text, Meta(description="What deployments of ours are found by in MAAS.")] = "farrier"
    architecture: Annotated[Text, Meta(description="Of machines that we make in MAAS.")] = "amd64/generic"
    domain: Annotated[Text | None, Meta(description="Of machines that we make. None: the region's default.")] = None
    zone: Annotated[Text | None, Meta(description="Of machines that we make. None: the region's default.")] = None
    pool: Annotated[Text | None, Meta(description="Of machines that we make. None: the region's default.")] = None
    node_timeout: Annotated[
        timedelta,
        Meta(description="MAAS's own node_timeout; a deployment may last twice as long before MAAS fails it."),
    ] = timedelta(minutes=30)
    deploys_at_once: Annotated[
        int,
        Meta(ge=1, le=4, description="Requests to deploy that one replica has under way; each holds a slot of MAAS."),
    ] = 2


class UfmSite(_Table, frozen=True, kw_only=True):
    """The fabric manager of the site's InfiniBand."""

    url: Annotated[
        str, Meta(pattern=r"^https?://[^\s/?#]+/?$", description="Base URL, without a path: https://ufm.fra1.example.")
    ]
    credential: Annotated[
        str, Meta(description="Credential reference of a user and password. Either this or token.")
    ] = ""
    token: Annotated[str, Meta(description="Credential reference of an access token. Either this or credential.")] = ""
    ca_file: Annotated[str, Meta(description="PEM file with the authorities to trust. Empty: the system's.")] = ""
    partition_names: Annotated[
        bool,
        Meta(description="Give partitions in UFM our names, and put them back. Needs UFM 6.22 or later."),
    ] = False
    read_timeout: Annotated[timedelta, Meta(description="For a whole answer to a reading.")] = timedelta(seconds=15)
    change_timeout: Annotated[
        timedelta, Meta(description="For a whole answer to a change; what became of it is read afterwards.")
    ] = timedelta(seconds=30)


class ObserveSite(_Table, frozen=True, kw_only=True):
    """How often the region is looked at."""

    events_every: Annotated[timedelta, Meta(description="The cursor over the region's events.")] = timedelta(seconds=5)
    motion_every: Annotated[
        timedelta, Meta(description="Machines with a live workflow, also when no event named them.")
    ] = timedelta(seconds=30)
    sweep_every: Annotated[
        timedelta, Meta(description="Every machine once in this time, for what events do not tell.")
    ] = timedelta(minutes=30)
    most_lost_percent: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="When more of the machines, and more than three, vanish from the region within an hour, "
            "nothing it says of lost machines is believed. 100: whatever it says.",
        ),
    ] = 5


class CommissionSite(_Table, frozen=True, kw_only=True):
    """Commissioning wipes the machine's storage and network configuration in MAAS unless told to leave it."""

    keep_networking: Annotated[bool, Meta(description="Keep how MAAS has its interfaces configured.")] = False
    keep_storage: Annotated[bool, Meta(description="Keep how MAAS has its disks laid out.")] = False
    configure_bmc: Annotated[bool, Meta(description="Let MAAS make an account of its own on the BMC.")] = False
    enable_ssh: Annotated[bool, Meta(description="Leave the machine on and reachable by SSH afterwards.")] = False
    testing_scripts: Annotated[
        tuple[Text, ...] | None, Meta(description="None: the region's default. Empty: no tests.")
    ] = None


class Layout(StrEnum):
    FLAT = "flat"
    LVM = "lvm"
    BCACHE = "bcache"
    BLANK = "blank"
    CUSTOM = "custom"


class StorageSite(_Table, frozen=True, kw_only=True):
    """The boot disk is the one disk whose model, or else path, matches; it and nothing else is laid out."""

    boot_disk_model: Annotated[
        str, Meta(min_length=1, description="Regular expression, any case. The default finds Dell's BOSS controllers.")
    ] = r"\bDELL[ _-]?BOSS"
    layout: Annotated[
        Layout,
        Meta(
            description="How the boot disk is laid out; MAAS's own layouts. On a blank one MAAS deploys nothing: it is "
            "for machines that somebody lays out by hand."
        ),
    ] = Layout.FLAT
    root_size_gb: Annotated[
        Annotated[int, Meta(ge=8)] | None,
        Meta(description="Of the partition that the root is on, in GB. None: the whole disk."),
    ] = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.boot_disk_model)
        except re.error as error:
            raise ValueError(f"boot_disk_model is no regular expression: {error}") from None


class LinkSite(_Table, frozen=True, kw_only=True):
    """How an interface gets an address. `subnet` is a CIDR; `addresses` (for static) maps node names to addresses."""

    mode: Annotated[
        LinkMode,
        Meta(description="auto: MAAS gives one at deployment; dhcp; static: from addresses; link_up: none."),
    ] = LinkMode.AUTO
    subnet: Annotated[Text | None, Meta(description="CIDR that the address is from.")] = None
    addresses: Annotated[
        Mapping[str, str], Meta(description="For static: the address of each node, by the node's name.")
    ] = {}


class VlanSite(_Table, frozen=True, kw_only=True):
    """A tagged VLAN on a bond or a port."""

    vid: Annotated[int, Meta(ge=1, le=4094, description="Its number; MAAS has to know it on the port's own fabric.")]
    mtu: Mtu | None = None
    link: LinkSite | None = None


class PortSite(_Table, frozen=True, kw_only=True):
    """Ports that are set up alike."""

    match: Annotated[
        Text,
        Meta(
            description="Glob, in any case, over the port's name, or its vendor and product. The boot interface is "
            "meant only where this is its very name."
        ),
    ]
    vlan: Annotated[
        Annotated[int, Meta(ge=0, le=4094)] | None,
        Meta(description="VID of the untagged VLAN. None: that of its link's subnet, or the one it was found in."),
    ] = None
    fabric: Annotated[
        Text | None,
        Meta(description="Name of the fabric that `vlan` is on. None: the port's own, or the only one that has it."),
    ] = None
    mtu: Mtu | None = None
    link: LinkSite | None = None
    vlans: tuple[VlanSite, ...] = ()


class BondSite(_Table, frozen=True, kw_only=True):
    """Ports bonded, two at least."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,14}$", description="As the system calls it: bond0.")]
    ports: Annotated[tuple[Text, ...], Meta(min_length=1, description="Globs, as match of a port.")]
    mode: Annotated[
        str,
        Meta(
            pattern=r"^(balance-(rr|xor|tlb|alb)|active-backup|broadcast|802\.3ad)$",
            description="The kernel's word for it.",
        ),
    ] = "802.3ad"
    lacp_rate: Annotated[Text | None, Meta(description="fast or slow; for 802.3ad.")] = "fast"
    xmit_hash_policy: Annotated[
        Text | None, Meta(description="The kernel's word for it; for 802.3ad, balance-xor and balance-tlb.")
    ] = "layer3+4"
    vlan: Annotated[
        Annotated[int, Meta(ge=0, le=4094)] | None,
        Meta(description="VID of the untagged VLAN. None: that of its link's subnet, or the one all its ports are in."),
    ] = None
    fabric: Annotated[Text | None, Meta(description="Name of the fabric that `vlan` is on, as for a port.")] = None
    mtu: Mtu | None = None
    link: LinkSite | None = None
    vlans: tuple[VlanSite, ...] = ()


class NetworkSite(_Table, frozen=True, kw_only=True):
    """What the fabric needs beyond what commissioning found. Interfaces that nothing here names are left alone."""

    pxe_subnet: Annotated[
        Text | None,
        Meta(description="CIDR that the boot interface gets its address from. None: the one it was seen on."),
    ] = None
    segments: Annotated[
        tuple[ResourceName, ...],
        Meta(
            max_length=MOST_USED,
            description="Network segments of which each node that is deployed gets an address, by name.",
        ),
    ] = ()
    ports: tuple[PortSite, ...] = ()
    bonds: tuple[BondSite, ...] = ()


class InfinibandSite(_Table, frozen=True, kw_only=True):
    """What nodes use of the site's InfiniBand."""

    partitions: Annotated[
        tuple[ResourceName, ...],
        Meta(
            max_length=MOST_USED,
            description="IB partitions of which each port of a node that is deployed becomes a member, by name. Needs "
            "[ufm].",
        ),
    ] = ()


class DeploySite(_Table, frozen=True, kw_only=True):
    distro_series: Annotated[Text, Meta(description="What is installed, e.g. ubuntu/noble.")] = "ubuntu/noble"
    hwe_kernel: Annotated[Text | None, Meta(description="Kernel to install. None: the image's own.")] = None
    hardware_sync: Annotated[
        bool, Meta(description="Have the installed system tell MAAS of its hardware every 15 minutes.")
    ] = True
    max_datasource_retries: Annotated[
        int,
        Meta(ge=0, le=10, description="Deployments made again by themselves when cloud-init did not reach MAAS."),
    ] = 2
    bootstrap_ttl: Annotated[timedelta, Meta(description="How long the token in the user data is good for.")] = (
        timedelta(hours=6)
    )


class CloudInitSite(_Table, frozen=True, kw_only=True):
    """`template` is the text that was read from `template_file`; a site's file does not say it itself."""

    template: str = ""
    template_file: Annotated[
        str,
        Meta(
            description="Template of the user data, relative to the site's file and within the directory of the sites. "
            "Empty: none is sent."
        ),
    ] = ""
    variables: Annotated[
        Mapping[str, str | int | float | bool],
        Meta(description="What the template may name beside the node. No secrets."),
    ] = {}
    max_bytes: Annotated[
        int, Meta(ge=1024, le=1024 * 1024, description="Largest user data that is sent, before it is encoded.")
    ] = 64 * 1024


class Erase(StrEnum):
    """`quick` overwrites the ends of disks, `secure` uses their own erasure, `full` overwrites everything."""

    NONE = "none"
    QUICK = "quick"
    SECURE = "secure"
    FULL = "full"


class ReleaseSite(_Table, frozen=True, kw_only=True):
    erase: Annotated[Erase, Meta(description="How disks are erased when a machine is given back.")] = Erase.NONE
    remove_record: Annotated[
        bool,
        Meta(
            description="Also remove the machine from MAAS after storage_cleanup, and when a node that we "
            "created there is deleted."
        ),
    ] = False


class CredentialsSite(_Table, frozen=True, kw_only=True):
    """Which BMCs of the site's nodes may be sent which credentials, beside what the settings say for all sites."""

    bindings: tuple[CredentialBinding, ...] = ()


class Site(_Table, frozen=True, kw_only=True):
    """One site. `name` is that of its file."""

    name: str = ""
    maas: MaasSite | None = None
    ufm: UfmSite | None = None
    observe: ObserveSite = ObserveSite()
    commission: CommissionSite = CommissionSite()
    storage: StorageSite = StorageSite()
    network: NetworkSite = NetworkSite()
    infiniband: InfinibandSite = InfinibandSite()
    deploy: DeploySite = DeploySite()
    cloud_init: CloudInitSite = CloudInitSite()
    release: ReleaseSite = ReleaseSite()
    credentials: CredentialsSite = CredentialsSite()


Sites: TypeAlias = Mapping[str, Site]

# Fields that no file sets.
DERIVED = frozenset({(Site, "name"), (CloudInitSite, "template")})
