"""The settings of sites. Each site has one TOML file, and each table of the file is one frozen struct.

Each node names its site. `site_files` reads the files at the start and again on SIGHUP. Handlers receive all sites
together, so a run never sees a part of a change. The files contain no secret: the API key is a credential reference. No
default of a setting wipes disks or changes networks of tenants.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from farrier.config.burn_in import ValidationSite
from farrier.config.credentials import CredentialBinding
from farrier.model.maas.changes import LinkMode
from farrier.model.node.evidence import Require
from farrier.model.node.layers import CleaningBy

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=500)]
Mtu: TypeAlias = Annotated[
    int,
    Meta(
        ge=576, le=9216, description="MTU in bytes. If omitted, the interface keeps the MTU that commissioning found."
    ),
]

# The database's syntax of resource names. A name that consists only of digits would be read as an ID.
ResourceName: TypeAlias = Annotated[str, Meta(pattern=r"^(?=.*[^0-9])[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$")]
MOST_USED = 16
"""Largest number of segments, and of partitions, of one node. Every run of an onboarding reads each of them."""


CaFile: TypeAlias = Annotated[
    str,
    Meta(
        description="PEM file with the certificate authorities to trust. If empty, farrier uses the certificate "
        "authorities of the operating system."
    ),
]


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a site's file."""


class _Service(_Table, frozen=True, kw_only=True):
    """The table of a service. Slashes at the end of its URL are removed, so that URLs can be compared."""

    url: str

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "url", self.url.rstrip("/"))


class MaasSite(_Service, frozen=True, kw_only=True):
    """The MAAS region of the site's machines."""

    url: Annotated[str, Meta(pattern=r"^https?://[^\s/]+(/[^\s]*)?/MAAS/?$", description="Base URL, ending in /MAAS.")]
    key: Annotated[
        str, Meta(min_length=1, description="Reference to the API key. The secret has the form that MAAS prints.")
    ]
    ca_file: CaFile = ""
    agent_name: Annotated[
        Text, Meta(description="Prefix of the agent_name in MAAS. farrier finds its own deployments by this name.")
    ] = "farrier"
    architecture: Annotated[Text, Meta(description="Architecture of machines that farrier creates in MAAS.")] = (
        "amd64/generic"
    )
    domain: Annotated[
        Text | None,
        Meta(description="DNS domain of machines that farrier creates. If omitted, MAAS uses the region's default."),
    ] = None
    zone: Annotated[
        Text | None,
        Meta(description="Zone of machines that farrier creates. If omitted, MAAS uses the region's default."),
    ] = None
    pool: Annotated[
        Text | None,
        Meta(description="Resource pool of machines that farrier creates. If omitted, MAAS uses the region's default."),
    ] = None
    node_timeout: Annotated[
        timedelta,
        Meta(
            description="Value of the MAAS setting node_timeout. MAAS fails a deployment after at most twice this time."
        ),
    ] = timedelta(minutes=30)
    deploys_at_once: Annotated[
        int,
        Meta(
            ge=1,
            le=4,
            description="Largest number of concurrent deployment requests of one replica. Each request "
            "occupies a slot in MAAS.",
        ),
    ] = 2


class UfmSite(_Service, frozen=True, kw_only=True):
    """The UFM of the site's InfiniBand."""

    url: Annotated[
        str,
        Meta(
            pattern=r"^https?://[^\s/?#]+/?$", description="Base URL without a path, such as https://ufm.fra1.example."
        ),
    ]
    credential: Annotated[str, Meta(description="Reference to a user and password. Set either this or token.")] = ""
    token: Annotated[str, Meta(description="Reference to an access token. Set either this or credential.")] = ""
    ca_file: CaFile = ""
    partition_names: Annotated[
        bool,
        Meta(
            description="If true, a partition has the same name in UFM as in farrier, and farrier restores a name "
            "that was changed in UFM. Requires UFM 6.22 or later."
        ),
    ] = False
    read_timeout: Annotated[timedelta, Meta(description="Time limit for a read request, including the response.")] = (
        timedelta(seconds=15)
    )
    change_timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for a request that changes something. After this time, farrier reads from UFM "
            "whether the change took effect."
        ),
    ] = timedelta(seconds=30)


class ObserveSite(_Table, frozen=True, kw_only=True):
    """How often farrier reads the region."""

    events_every: Annotated[
        timedelta, Meta(description="Interval at which farrier reads the events of the region.")
    ] = timedelta(seconds=5)
    motion_every: Annotated[
        timedelta,
        Meta(
            description="Interval at which farrier reads each machine with a live workflow, even if no event "
            "names the machine."
        ),
    ] = timedelta(seconds=30)
    sweep_every: Annotated[
        timedelta,
        Meta(description="Interval at which farrier reads every machine, because some changes cause no event."),
    ] = timedelta(minutes=30)
    most_lost_percent: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="If more than this percentage of the machines, and more than three machines, vanish from the "
            "region within an hour, farrier ignores all losses. With 100, farrier never ignores losses.",
        ),
    ] = 5


class CommissionSite(_Table, frozen=True, kw_only=True):
    """Data that a commissioning keeps. By default, a commissioning wipes the machine's storage and network
    configuration in MAAS."""

    keep_networking: Annotated[bool, Meta(description="Keep the interface configuration in MAAS.")] = False
    keep_storage: Annotated[bool, Meta(description="Keep the disk layout in MAAS.")] = False
    configure_bmc: Annotated[bool, Meta(description="Let MAAS create its own account on the BMC.")] = False
    enable_ssh: Annotated[bool, Meta(description="Leave the machine on and reachable by SSH after commissioning.")] = (
        False
    )
    testing_scripts: Annotated[
        tuple[Text, ...] | None,
        Meta(
            description="Scripts that test the machine. If omitted, MAAS uses the region's default. If empty, MAAS "
            "runs no tests."
        ),
    ] = None


class Layout(StrEnum):
    FLAT = "flat"
    LVM = "lvm"
    BCACHE = "bcache"
    BLANK = "blank"
    CUSTOM = "custom"


class StorageSite(_Table, frozen=True, kw_only=True):
    """The storage layout of a machine. `boot_disk_model` must match the model of exactly one disk, which is the boot
    disk. If it matches no model, it must match the path of exactly one disk. farrier sets only the layout of the boot
    disk."""

    boot_disk_model: Annotated[
        str,
        Meta(
            min_length=1,
            description="Regular expression, case-insensitive. The default matches Dell's BOSS controllers.",
        ),
    ] = r"\bDELL[ _-]?BOSS"
    layout: Annotated[
        Layout,
        Meta(
            description="Layout of the boot disk, as MAAS names it. With the layout blank, an operator has to "
            "partition the disk, because MAAS does not deploy to a blank disk."
        ),
    ] = Layout.FLAT
    root_size_gb: Annotated[
        Annotated[int, Meta(ge=8)] | None,
        Meta(description="Size of the root partition in GB. If omitted, the partition fills the whole disk."),
    ] = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.boot_disk_model)
        except re.error as error:
            raise ValueError(f"boot_disk_model is not a valid regular expression: {error}") from None


class LinkSite(_Table, frozen=True, kw_only=True):
    """How an interface gets an address. `subnet` is a CIDR; `addresses` (for static) maps node names to addresses."""

    mode: Annotated[
        LinkMode,
        Meta(
            description="With the mode auto, MAAS assigns an address at deployment. With dhcp, the machine uses DHCP. "
            "With static, MAAS sets the node's address in the key addresses. With link_up, the interface has no "
            "address."
        ),
    ] = LinkMode.AUTO
    subnet: Annotated[Text | None, Meta(description="CIDR of the subnet of the address.")] = None
    addresses: Annotated[
        Mapping[str, str],
        Meta(description="Address of each node, by the name of the node. Used only with mode static."),
    ] = {}


class VlanSite(_Table, frozen=True, kw_only=True):
    """A tagged VLAN on a bond or a port."""

    vid: Annotated[int, Meta(ge=1, le=4094, description="VLAN ID. MAAS must have this VLAN on the fabric of the port.")]
    mtu: Mtu | None = None
    link: LinkSite | None = None


class PortSite(_Table, frozen=True, kw_only=True):
    """Ports with the same configuration."""

    match: Annotated[
        Text,
        Meta(
            description="Glob, case-insensitive, for the port's name or its vendor and product. The boot "
            "interface matches only by its exact name."
        ),
    ]
    vlan: Annotated[
        Annotated[int, Meta(ge=0, le=4094)] | None,
        Meta(
            description="VID of the untagged VLAN. If omitted, farrier uses the VLAN of the link's subnet. If the "
            "link names no subnet, the port stays on its VLAN."
        ),
    ] = None
    fabric: Annotated[
        Text | None,
        Meta(
            description="Name of the fabric of `vlan`. If omitted, farrier uses the fabric of the port. If this "
            "fabric does not have the VID, farrier uses the only fabric that has it."
        ),
    ] = None
    mtu: Mtu | None = None
    link: LinkSite | None = None
    vlans: tuple[VlanSite, ...] = ()


class BondSite(_Table, frozen=True, kw_only=True):
    """A bond of at least two ports."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z][A-Za-z0-9._-]{0,14}$",
            description="Name of the interface in the installed system, such as bond0.",
        ),
    ]
    ports: Annotated[
        tuple[Text, ...],
        Meta(
            min_length=1,
            description="Globs that select the ports. They follow the same rules as `match` in [[network.ports]].",
        ),
    ]
    mode: Annotated[
        str,
        Meta(
            pattern=r"^(balance-(rr|xor|tlb|alb)|active-backup|broadcast|802\.3ad)$",
            description="Bond mode, as the kernel names it: balance-rr, balance-xor, balance-tlb, balance-alb, "
            "active-backup, broadcast or 802.3ad.",
        ),
    ] = "802.3ad"
    lacp_rate: Annotated[Text | None, Meta(description="fast or slow, for mode 802.3ad.")] = "fast"
    xmit_hash_policy: Annotated[
        Text | None,
        Meta(description="Hash policy, as the kernel names it, for modes 802.3ad, balance-xor and balance-tlb."),
    ] = "layer3+4"
    vlan: Annotated[
        Annotated[int, Meta(ge=0, le=4094)] | None,
        Meta(
            description="VID of the untagged VLAN. If omitted, farrier uses the VLAN of the link's subnet. If the "
            "link names no subnet, farrier uses the VLAN of the ports, which must be the same for all ports."
        ),
    ] = None
    fabric: Annotated[
        Text | None,
        Meta(
            description="Name of the fabric of `vlan`. If omitted, farrier uses the fabric of the ports. If this "
            "fabric does not have the VID, farrier uses the only fabric that has it."
        ),
    ] = None
    mtu: Mtu | None = None
    link: LinkSite | None = None
    vlans: tuple[VlanSite, ...] = ()


class NetworkSite(_Table, frozen=True, kw_only=True):
    """Network configuration beyond the results of commissioning. Interfaces that match nothing here are not changed."""

    pxe_subnet: Annotated[
        Text | None,
        Meta(
            description="CIDR of the subnet of the boot interface. If omitted, farrier uses the subnet on which MAAS "
            "saw the interface."
        ),
    ] = None
    segments: Annotated[
        tuple[ResourceName, ...],
        Meta(
            max_length=MOST_USED,
            description="Names of network segments. Each deployed node receives one address of each segment.",
        ),
    ] = ()
    ports: tuple[PortSite, ...] = ()
    bonds: tuple[BondSite, ...] = ()


class InfinibandSite(_Table, frozen=True, kw_only=True):
    """The InfiniBand partitions of the site's nodes."""

    partitions: Annotated[
        tuple[ResourceName, ...],
        Meta(
            max_length=MOST_USED,
            description="Names of IB partitions. Each port of a deployed node becomes a member. Needs [ufm].",
        ),
    ] = ()


class DeploySite(_Table, frozen=True, kw_only=True):
    distro_series: Annotated[Text, Meta(description="Image to install, such as ubuntu/noble.")] = "ubuntu/noble"
    hwe_kernel: Annotated[
        Text | None, Meta(description="Kernel to install. If omitted, MAAS installs the default kernel of the image.")
    ] = None
    hardware_sync: Annotated[
        bool, Meta(description="If true, the installed system reports its hardware to MAAS every 15 minutes.")
    ] = True
    max_datasource_retries: Annotated[
        int,
        Meta(
            ge=0,
            le=10,
            description="Number of times that farrier repeats a deployment after cloud-init did not reach MAAS.",
        ),
    ] = 2
    bootstrap_ttl: Annotated[
        timedelta, Meta(description="How long the bootstrap token in the user data stays valid.")
    ] = timedelta(hours=6)


class CloudInitSite(_Table, frozen=True, kw_only=True):
    """User data of deployments. `template` is the content of `template_file`, or farrier's own; no file sets it."""

    template: str = ""
    template_file: Annotated[
        str,
        Meta(
            description="Template of the user data, as a path relative to the site's file, within the directory of "
            "the sites. If empty, machines get the user data that installs farrier's agent, if agents.url is set in "
            "farrier's settings; otherwise they get none."
        ),
    ] = ""
    variables: Annotated[
        Mapping[str, str | int | float | bool],
        Meta(
            description="Values that the template can use in addition to the values of the node. The values must not "
            "be secrets."
        ),
    ] = {}
    max_bytes: Annotated[
        int, Meta(ge=1024, le=1024 * 1024, description="Largest size of user data in bytes, before encoding.")
    ] = 64 * 1024


class AgentsSite(_Table, frozen=True, kw_only=True):
    """The server for agents, from farrier's settings; a site's file does not set it."""

    url: str = ""
    ca: str = ""
    sha256: str = ""


class CleaningSite(_Table, frozen=True, kw_only=True):
    by: Annotated[
        CleaningBy | None,
        Meta(
            description="Who cleans a machine. With region, in the modes reimage and full_decommission, MAAS erases "
            "the disks, and farrier checks them outside the machine's system; in other modes, the agent cleans. With "
            "agent, farrier's agent erases every disk but the system's, and the memory of the GPUs. With worker, the "
            "agent leaves these tasks to a worker. If omitted, the region cleans in those two modes if the site has "
            "MAAS, and the agent fails its tasks."
        ),
    ] = None

    require: Annotated[
        Require,
        Meta(
            description="Which cleaning a node must have before it returns to service after it was retired. With none, "
            "any; a cleaning without evidence is marked as unproven. With evidence, each cleaning stage without "
            "complete evidence fails. With outside, only the evidence of the region counts; a node whose machine MAAS "
            "did not install then does not return, and has to be removed and registered again."
        ),
    ] = Require.NONE


class Erase(StrEnum):
    """How disks are erased: `quick` overwrites the ends of disks, `secure` uses the disks' own erasure or, for disks
    without it, overwrites everything, and `full` overwrites everything."""

    NONE = "none"
    QUICK = "quick"
    SECURE = "secure"
    FULL = "full"


LEAVES_DATA = frozenset({Erase.NONE, Erase.QUICK})
"""The ways after which data are still on the disks."""


class ReleaseSite(_Table, frozen=True, kw_only=True):
    erase: Annotated[
        Erase | None,
        Meta(
            description="How MAAS erases the disks when a machine is released. If omitted, secure if the region cleans "
            "the machine, otherwise none. quick leaves all data but the ends of the disks."
        ),
    ] = None
    remove_record: Annotated[
        bool,
        Meta(
            description="If true, farrier deletes the machine from MAAS after storage_cleanup and, if farrier created "
            "the machine, also when the node is deleted."
        ),
    ] = False


class CredentialsSite(_Table, frozen=True, kw_only=True):
    """Further credential bindings for the BMCs of the site's nodes, in addition to those of all sites."""

    bindings: tuple[CredentialBinding, ...] = ()


class Site(_Table, frozen=True, kw_only=True):
    """One site. `name` is the name of its file."""

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
    cleaning: CleaningSite = CleaningSite()
    release: ReleaseSite = ReleaseSite()
    validation: ValidationSite = ValidationSite()
    agents: AgentsSite = AgentsSite()
    credentials: CredentialsSite = CredentialsSite()


Sites: TypeAlias = Mapping[str, Site]

# The fields that no file sets.
DERIVED = frozenset({(Site, "name"), (Site, "agents"), (CloudInitSite, "template")})
