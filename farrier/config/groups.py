"""Every setting: its type, default, and what it means, in one frozen struct per section of the file.

The description of a field is the documentation that operators read (`farrier config`, docs/), so it says
what the setting does, and why the default is what it is. Durations are `timedelta` here; in a file they are
written `"30s"`, `"5m"`, `"72h"` or a number of seconds. What a single field cannot say (this one shorter than
that one) is checked in `__post_init__`, whose ValueError `reading` turns into a ConfigError.
"""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from typing_extensions import override

from farrier.config.credentials import CredentialsConfig
from farrier.config.database import DatabaseConfig
from farrier.config.observability import HttpConfig, LogConfig, MetricsConfig
from farrier.config.segments import SegmentsConfig
from farrier.model.bmc import BmcAuth
from farrier.model.credential import is_plain_path
from farrier.model.diagnosis import Patience
from farrier.model.limits import Limits


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


class ControllerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The loop: how often, how many at once, and when a run is given up."""

    period: Annotated[
        timedelta,
        Meta(description="Every resource's handler runs at least this often, woken or not."),
    ] = _seconds(30)
    jitter: Annotated[
        float,
        Meta(
            ge=0,
            le=0.5,
            description="Fraction of the period by which runs are spread, so that no two march in step.",
        ),
    ] = 0.1
    resync: Annotated[
        timedelta,
        Meta(
            description="Every resource is read from the database at least this often, also when nothing said that it "
            "changed: the bound for what no notification and no poll can announce, such as rows changed by hand."
        ),
    ] = _seconds(300)
    batch: Annotated[
        int,
        Meta(ge=1, le=5000, description="Resources of one load. Past 500 a round trip gets longer, not cheaper."),
    ] = 500
    passes: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="Loads of each kind at the same time: while one computes, the others wait for the database.",
        ),
    ] = 3
    max_in_flight: Annotated[
        int,
        Meta(ge=1, description="Steps (calls to the outside) of one kind under way at the same time in one process."),
    ] = 1000
    max_handling_time: Annotated[
        timedelta,
        Meta(description="A step that takes longer is cancelled and stored as outcome error: timeout."),
    ] = _seconds(180)
    poll_interval: Annotated[
        timedelta,
        Meta(
            description="How often wakes are looked for that no notification announced: the bound when LISTEN is lost."
        ),
    ] = _seconds(0.5)
    drain_timeout: Annotated[
        timedelta,
        Meta(description="After SIGTERM, how long running steps may go on before they are cut off."),
    ] = _seconds(20)
    rerun_limit: Annotated[
        int,
        Meta(
            ge=1,
            description="Immediate reruns of one resource in a row, after which it waits for its period "
            "once: a loop in a handler must not starve the others.",
        ),
    ] = 50
    kinds: Annotated[
        tuple[str, ...],
        Meta(description="Kinds of resources from other packages that run here, too, each as package.module:NAME."),
    ] = ()


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a node counts as silent, and how patient its handler is."""

    offline_after: Annotated[
        timedelta, Meta(description="A node whose last heartbeat is older than this is offline.")
    ] = _seconds(180)
    force_after: Annotated[
        timedelta, Meta(description="With force: agent tasks still unfinished after this time are cancelled.")
    ] = _seconds(600)
    observation_ttl: Annotated[
        timedelta, Meta(description="What MAAS or a BMC said longer ago than this proves nothing any more.")
    ] = _seconds(300)
    power_sync_interval: Annotated[
        timedelta,
        Meta(
            description="Power, health and identity of a manageable node are read this often, by one request. Some "
            "BMCs cannot bear much more; longer than a few minutes, and what was read is stale too soon."
        ),
    ] = _seconds(60)
    confirmed_every: Annotated[
        timedelta,
        Meta(
            description="A read of power that finds what is recorded is stored this often: a minute's reads of 100,000 "
            "BMCs would be 1,700 row updates a second of nothing new. Where nothing is known to fail, what is stored "
            "counts as fresh for this much longer than observation_ttl. With 1s each is stored."
        ),
    ] = _seconds(600)
    probe_deadline: Annotated[timedelta, Meta(description="One probe of a BMC, all its requests together.")] = _seconds(
        30
    )
    transient_deadline: Annotated[
        timedelta, Meta(description="How long a node may be verifying or adopting before that has failed.")
    ] = _seconds(60)
    max_task_attempts: Annotated[
        int, Meta(ge=1, description="Failed results of one agent task before it has failed for good.")
    ] = 5
    brake_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="When more than this share of a site's nodes in service would leave it by silence or drift "
            "within brake_window, none of them does: what fails for a tenth of a site at once is its network, its "
            "region or the path of heartbeats rather than the machines. 1: no brake.",
        ),
    ] = 0.1
    brake_at_least: Annotated[
        int,
        Meta(ge=2, description="Fewer are never held: the share of a small site is a single machine."),
    ] = 5
    brake_window: Annotated[
        timedelta,
        Meta(
            description="For how long a node that left counts, up to a minute longer; one that is held tries again "
            "after half of it. What breaks a whole site does so within minutes."
        ),
    ] = _seconds(600)
    bootstrap_ttl: Annotated[
        timedelta,
        Meta(description="How long a bootstrap token may be used, once; the time to rack and cable a machine."),
    ] = timedelta(hours=72)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.power_sync_interval < self.observation_ttl:
            raise ValueError("power_sync_interval must be shorter than observation_ttl, or no read would ever be fresh")

    @property
    def patience(self) -> Patience:
        """What a node is told by to be silent, or its observation to be old."""
        return Patience(offline_after=self.offline_after, observation_ttl=self.observation_ttl)


# Private, carrier-grade and unique-local addresses; not loopback, nor link-local, where clouds keep secrets.
_MANAGEMENT_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")


class BmcTrustConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whom to believe to be a BMC."""

    ca_file: Annotated[
        str,
        Meta(description="PEM file with the authorities that sign BMC certificates. Empty: the system's."),
    ] = ""
    fingerprint: Annotated[
        str, Meta(description="SHA-256 fingerprint of the one certificate to trust, instead of authorities.")
    ] = ""
    insecure: Annotated[
        bool,
        Meta(description="Trust any certificate. Passwords then go to whoever answers; logged at every start."),
    ] = False

    def __post_init__(self) -> None:
        if sum(map(bool, (self.ca_file, self.fingerprint, self.insecure))) > 1:
            raise ValueError("ca_file, fingerprint and insecure exclude one another; give one")


class BmcConfig(BmcTrustConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How BMCs are reached and trusted."""

    hosts: Annotated[
        dict[str, BmcTrustConfig],
        Meta(
            description='Hosts that have ca_file, fingerprint or insecure of their own, as [bmc.hosts."name"], spelled '
            "as in their addresses."
        ),
    ] = msgspec.field(default_factory=dict)
    auth: Annotated[
        BmcAuth,
        Meta(
            description="basic sends the password with each request and uses nothing up. session logs in once and "
            "takes one of the few sessions of each BMC for good, per process."
        ),
    ] = BmcAuth.BASIC
    session_directory: Annotated[
        str,
        Meta(
            description="Directory of this machine in which open sessions are recorded: a successor closes those of a "
            "killed process. Needed for session; processes may share it. Empty: the unit's StateDirectory."
        ),
    ] = ""
    allowed_networks: Annotated[
        tuple[str, ...],
        Meta(description="Networks in which BMC addresses may be. Others are refused before a packet is sent."),
    ] = _MANAGEMENT_NETWORKS
    concurrency: Annotated[
        int,
        Meta(
            ge=1,
            description="BMCs spoken to at the same time by one process. One that takes longer than a second gives its "
            "place to another and goes on.",
        ),
    ] = 200
    connect_timeout: Annotated[
        timedelta, Meta(description="A management network answers in milliseconds or not at all.")
    ] = _seconds(3)

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        for network in self.allowed_networks:
            ipaddress.ip_network(network)


class VaultConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where vault: references lead: to one path of one KV version 2 mount."""

    address: Annotated[
        str, Meta(description="https://host[:port] of Vault, or of what stands in front of it. Empty: no Vault.")
    ] = ""
    token: Annotated[
        str,
        Meta(
            description="Reference (file:, systemd:, env:) of the token, read before each request: whoever renews it "
            "need not tell farrier. Never the token itself."
        ),
    ] = ""
    mount: Annotated[str, Meta(description="Mount of the KV version 2 engine.")] = "secret"
    path_prefix: Annotated[
        str,
        Meta(description="Path below which vault: references must lie, in whole names. Empty: anywhere in the mount."),
    ] = "farrier"
    namespace: Annotated[str, Meta(description="Namespace (Vault Enterprise, HCP). Empty: the root.")] = ""
    ca_file: Annotated[
        str, Meta(description="PEM file with the authorities that sign Vault's certificate. Empty: the system's.")
    ] = ""
    timeout: Annotated[
        timedelta, Meta(description="One request with its answer. A Vault that works answers in milliseconds.")
    ] = _seconds(5)
    keep: Annotated[
        timedelta,
        Meta(
            description="How long a secret that was read is kept in memory: a rotation is seen this much later, and "
            "5,000 BMCs that share one secret cost two requests a minute."
        ),
    ] = _seconds(30)

    def __post_init__(self) -> None:
        if self.address:
            _check_vault_address(self.address)
            if self.token.partition(":")[0] not in ("file", "systemd", "env"):
                raise ValueError("token is a reference, file:, systemd: or env:, to where the token is")
        for name, path in (("mount", self.mount), ("path_prefix", self.path_prefix), ("namespace", self.namespace)):
            if not is_plain_path(path) and (path or name == "mount"):
                raise ValueError(f"{name} is names with single slashes between them, and none at its ends")


def _check_vault_address(address: str) -> None:
    parts = urlsplit(address)
    plain = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc
    if not plain or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(
            "address is https://host[:port]: passwords are not sent unencrypted, and the path is given apart"
        )
    parts.port  # noqa: B018 - raises ValueError if it is none


class HistoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long what happened is remembered."""

    keep_days: Annotated[
        int,
        Meta(
            ge=0,
            le=36_500,
            description="Changes older than so many days are removed, a few thousand at a time; the newest of each "
            "layer of a resource stays. 0: all is kept for ever, because what is gone cannot be asked for. Give all "
            "replicas the same.",
        ),
    ] = 0


class SitesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the sites are described."""

    directory: Annotated[
        str,
        Meta(
            description="Directory with one TOML file per site, NAME.toml; read at the start and on SIGHUP. Empty: no "
            "sites, so nothing is onboarded through MAAS."
        ),
    ] = ""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All of it: one section of the file per field."""

    database: DatabaseConfig = DatabaseConfig()
    controller: ControllerConfig = ControllerConfig()
    node: NodeConfig = NodeConfig()
    bmc: BmcConfig = BmcConfig()
    credentials: CredentialsConfig = CredentialsConfig()
    vault: VaultConfig = VaultConfig()
    sites: SitesConfig = SitesConfig()
    segments: SegmentsConfig = SegmentsConfig()
    history: HistoryConfig = HistoryConfig()
    http: HttpConfig = HttpConfig()
    metrics: MetricsConfig = MetricsConfig()
    log: LogConfig = LogConfig()
    sla: Annotated[
        Limits,
        Meta(
            description='Limits that replace the defaults, by "layer.state", e.g. "status.offline" = "1h"; those of '
            "one site in [sla.site.NAME], of one model of machine in [sla.model.NAME]. A site's win over a model's, "
            "and a model's over all others. farrier sla list shows every name."
        ),
    ] = Limits()
