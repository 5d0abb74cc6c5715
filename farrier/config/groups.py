"""Defines every setting: its type, default and meaning. Each section of the file is one frozen struct.

The description of a field is the documentation that operators read (`farrier config`, docs/), so it states what the
setting does and why the default was chosen. Durations are `timedelta` here; in a file they are written `"30s"`, `"5m"`,
`"72h"` or as a number of seconds. `__post_init__` checks the relations between fields, and `reading` converts its
ValueError to a ConfigError.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from typing_extensions import override

from farrier.config.credentials import CredentialsConfig, check_networks
from farrier.config.database import DatabaseConfig
from farrier.config.processes import AgentsConfig, ClientConfig, HttpConfig, LogConfig, MetricsConfig, TracesConfig
from farrier.config.segments import SegmentsConfig
from farrier.model.advice.diagnosis import Patience
from farrier.model.credential import is_plain_path
from farrier.model.machine.bmc import BmcAuth
from farrier.model.node.conditions import ConditionRule
from farrier.model.node.limits import Limits


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


class ControllerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the loop: intervals, batch sizes and time limits."""

    period: Annotated[
        timedelta,
        Meta(description="Interval at which the handler of each resource runs, even without an event."),
    ] = _seconds(30)
    jitter: Annotated[
        float,
        Meta(
            ge=0,
            le=0.5,
            description="Fraction of the period over which farrier spreads the runs, so that the handlers of all "
            "resources do not run at once.",
        ),
    ] = 0.1
    resync: Annotated[
        timedelta,
        Meta(
            description="Interval at which farrier reads each resource from the database. If a change, such "
            "as a row edited by hand, causes no wake, farrier sees it after at most this time."
        ),
    ] = _seconds(300)
    batch: Annotated[
        int,
        Meta(
            ge=1,
            le=5000,
            description="Largest number of resources per load. Values above 500 make each load slower and bring no "
            "benefit.",
        ),
    ] = 500
    passes: Annotated[
        int,
        Meta(
            ge=1,
            le=16,
            description="Batches per kind that farrier loads, runs and commits at the same time. While it runs one "
            "batch, the others wait for the database.",
        ),
    ] = 3
    max_in_flight: Annotated[
        int,
        Meta(ge=1, description="Concurrent steps (calls to outside services) per kind in one process."),
    ] = 1000
    max_handling_time: Annotated[
        timedelta,
        Meta(
            description="Time limit for a step. farrier cancels a step that takes longer, and records the error "
            "timeout."
        ),
    ] = _seconds(180)
    poll_interval: Annotated[
        timedelta,
        Meta(
            description="Interval at which the loop polls for wakes. While the connection for LISTEN is lost, a "
            "wake is delayed by at most this interval."
        ),
    ] = _seconds(0.5)
    drain_timeout: Annotated[
        timedelta,
        Meta(description="How long running steps may continue after SIGTERM before they are cancelled."),
    ] = _seconds(20)
    rerun_limit: Annotated[
        int,
        Meta(
            ge=1,
            description="Largest number of immediate reruns of a resource in a row. After these, the resource waits "
            "for its turn among the resources that are due. If the run changed no state, the resource also pauses for "
            "1 s before that. So a handler that loops does not delay other resources.",
        ),
    ] = 50
    kinds: Annotated[
        tuple[str, ...],
        Meta(description="Kinds of resources from other packages that this process runs, each as package.module:NAME."),
    ] = ()


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of nodes: when a node counts as silent, time limits of its handler, and the brake."""

    offline_after: Annotated[
        timedelta,
        Meta(
            description="farrier marks a node offline when its last heartbeat is older than this. The time of outages "
            "of the database or of all daemons does not count. For agents that use doors, the time in which all doors "
            "are dead does not count either."
        ),
    ] = _seconds(180)
    force_after: Annotated[
        timedelta,
        Meta(
            description="If an intent sets the parameter force, farrier waits for this time after the beginning of a "
            "stage. Then farrier cancels the stage's agent tasks that have not ended."
        ),
    ] = _seconds(600)
    force_power_after: Annotated[
        timedelta,
        Meta(
            description="Time that an operating system has for a graceful shutdown by set_power. Then farrier forces "
            "the power off. The parameter force_after of an intent takes precedence."
        ),
    ] = _seconds(300)
    observation_ttl: Annotated[
        timedelta,
        Meta(
            description="Age at which a reading of MAAS or of a BMC is outdated. farrier does not act on an "
            "outdated reading."
        ),
    ] = _seconds(300)
    power_sync_interval: Annotated[
        timedelta,
        Meta(
            description="Interval at which farrier reads power, health and identity of each manageable node, with one "
            "request. Some BMCs fail if they receive more requests. Must be shorter than observation_ttl."
        ),
    ] = _seconds(60)
    confirmed_every: Annotated[
        timedelta,
        Meta(
            description="Interval at which farrier stores an unchanged power reading. Storing every reading of "
            "100,000 BMCs would update 1,700 rows a second. A stored reading is fresh for observation_ttl plus this "
            "interval, unless a BMC failure is recorded. With 1s, farrier stores each reading."
        ),
    ] = _seconds(600)
    probe_deadline: Annotated[
        timedelta, Meta(description="Time limit for one probe of a BMC, with all its requests.")
    ] = _seconds(30)
    transient_deadline: Annotated[
        timedelta, Meta(description="How long a node may be verifying or adopting before its onboarding fails.")
    ] = _seconds(60)
    max_task_attempts: Annotated[
        int, Meta(ge=1, description="Number of failed results after which an agent task fails permanently.")
    ] = 5
    brake_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="At most this share of a site's nodes in service may leave service within brake_window "
            "because of silence, power off or conditions. If more nodes would leave, farrier holds them in service, "
            "because a large number of failures at once suggests a fault of the network, the region or the path of "
            "heartbeats. With 1, there is no brake.",
        ),
    ] = 0.1
    brake_at_least: Annotated[
        int,
        Meta(
            ge=2,
            description="The brake holds nodes only if at least this many nodes would leave service, because in a "
            "small site a single node can exceed brake_share.",
        ),
    ] = 5
    conditions: Annotated[
        tuple[ConditionRule, ...],
        Meta(
            description="The highest effects of conditions. Each table [[node.conditions]] has source, id, site and "
            "model, which are patterns in which * matches any characters, and effect (note or quarantine). The first "
            "table that matches a condition applies; a condition without one has its default effect. No table raises "
            "an effect above what the source requests. Conditions of the sources operator and workflow cannot be "
            "lowered. The next run of a node applies a change. The environment variable contains a JSON array."
        ),
    ] = ()
    brake_window: Annotated[
        timedelta,
        Meta(
            description="Time for which the brake counts a node that left service. The brake refreshes its count "
            "once a minute, so it may count the node for up to a minute more. If the brake holds a node in service, "
            "farrier tries each minute to take this node out of service, and counts it for three minutes after the "
            "last try."
        ),
    ] = _seconds(600)
    bootstrap_ttl: Annotated[
        timedelta,
        Meta(
            description="How long a bootstrap token stays valid. An agent can use the token once. The default leaves "
            "time to rack and cable a machine."
        ),
    ] = timedelta(hours=72)

    def __post_init__(self) -> None:
        if not timedelta(0) < self.power_sync_interval < self.observation_ttl:
            raise ValueError(
                "power_sync_interval must be shorter than observation_ttl, because otherwise each reading would be "
                "stale before the next one"
            )

    @property
    def patience(self) -> Patience:
        """The ages from which a node counts as silent and an observation as outdated."""
        return Patience(offline_after=self.offline_after, observation_ttl=self.observation_ttl)


# Private, carrier-grade and unique-local networks, without loopback and without link-local networks, in which clouds
# offer secrets.
_MANAGEMENT_NETWORKS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")


class BmcTrustConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which certificates of BMCs farrier trusts."""

    ca_file: Annotated[
        str,
        Meta(
            description="PEM file with the certificate authorities that sign BMC certificates. If empty, farrier uses"
            " the certificate authorities of the operating system."
        ),
    ] = ""
    fingerprint: Annotated[
        str,
        Meta(
            description="SHA-256 fingerprint of the only certificate that farrier trusts. With a fingerprint, "
            "farrier trusts no authority."
        ),
    ] = ""
    insecure: Annotated[
        bool,
        Meta(
            description="Accept any certificate. A machine that impersonates a BMC then receives the password of the "
            "BMC. farrier logs a warning at every start."
        ),
    ] = False

    ciphers: Annotated[
        str,
        Meta(
            description="Ciphers of TLS 1.2 for BMCs with old firmware, as a list of OpenSSL, such as AES256-SHA. A"
            " BMC with a short RSA key also requires @SECLEVEL=0 in the list. If empty, farrier uses only ciphers with"
            " forward secrecy. farrier logs a warning at every start."
        ),
    ] = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.ca_file, self.fingerprint, self.insecure))) > 1:
            raise ValueError("set only one of ca_file, fingerprint and insecure")


class BmcHostConfig(BmcTrustConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of connections to one BMC host."""

    auth: Annotated[
        BmcAuth | None,
        Meta(
            description="The only kind of authentication that farrier uses at this host. If it is not set, farrier "
            "chooses the kind by what the BMC accepts."
        ),
    ] = None


class BmcConfig(BmcTrustConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of connections to BMCs."""

    hosts: Annotated[
        dict[str, BmcHostConfig],
        Meta(
            description="Settings of individual BMC hosts (ca_file, fingerprint, insecure, ciphers, auth): one table "
            '[bmc.hosts."NAME"] for each. NAME is the host exactly as in the address of the BMC.'
        ),
    ] = msgspec.field(default_factory=dict)
    auth: Annotated[
        BmcAuth,
        Meta(
            description="The kind of authentication that farrier tries first. With the value basic, farrier sends the "
            "password with each request, and uses no session. With the value session, farrier logs in once, and each "
            "process occupies one of the BMC's few sessions. If a BMC refuses the kind, farrier uses the other kind."
        ),
    ] = BmcAuth.BASIC
    session_directory: Annotated[
        str,
        Meta(
            description="Local directory in which farrier records open sessions, so that the next process can close "
            "the sessions of a killed process. Several processes may share the directory. If empty, farrier uses "
            "the directory bmc-sessions in the StateDirectory of the systemd unit. If there is no unit and bmc.auth"
            " is session, this setting is required."
        ),
    ] = ""
    allowed_networks: Annotated[
        tuple[str, ...],
        Meta(description="Networks that may contain BMC addresses. farrier sends nothing to other addresses."),
    ] = _MANAGEMENT_NETWORKS
    concurrency: Annotated[
        int,
        Meta(
            ge=1,
            description="Largest number of BMCs that one process contacts at the same time. If a BMC has not "
            "responded within a second, its requests continue, but the BMC is not included in this number.",
        ),
    ] = 200
    kept_connections: Annotated[
        int,
        Meta(
            ge=0,
            description="Largest number of connections that one process keeps open for the next read of a BMC: at most "
            "one for each BMC, for at most 150 s without a read. A connection takes some 60 KiB of memory. With the "
            "value 0, each request gets a new connection.",
        ),
    ] = 8192
    connect_timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for opening a connection. A BMC accepts a connection within milliseconds, or not "
            "at all."
        ),
    ] = _seconds(3)

    @override
    def __post_init__(self) -> None:
        super().__post_init__()
        check_networks("allowed_networks", self.allowed_networks)

    def tls_exceptions(self) -> Iterator[tuple[str, str]]:
        """Return the exceptions from the usual TLS policy: the setting, and what it permits."""
        for prefix, trust in (("bmc", self), *((f'bmc.hosts."{host}"', trust) for host, trust in self.hosts.items())):
            if trust.insecure:
                yield f"{prefix}.insecure", "certificates are not checked, so an impostor receives the password"
            if trust.ciphers:
                yield f"{prefix}.ciphers", f"the ciphers {trust.ciphers} are used instead of the usual ones"


class VaultConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings for references that begin with `vault:`. They name secrets of one KV version 2 mount, below
    `path_prefix`."""

    address: Annotated[
        str,
        Meta(
            description="https://host[:port] of Vault or of the proxy in front of it. If empty, farrier uses no Vault."
        ),
    ] = ""
    token: Annotated[
        str,
        Meta(
            description="Reference (file:, systemd: or env:) to the token, never the token itself. farrier reads "
            "it before each request, so a renewed token applies at once."
        ),
    ] = ""
    mount: Annotated[str, Meta(description="Mount of the KV version 2 engine.")] = "secret"
    path_prefix: Annotated[
        str,
        Meta(
            description="Path prefix that every vault: reference must have. farrier compares whole names: with the "
            "prefix farrier, it refuses farrier-b/x. If empty, references may name any path of the mount."
        ),
    ] = "farrier"
    namespace: Annotated[
        str, Meta(description="Namespace (Vault Enterprise, HCP). If empty, farrier uses the root namespace.")
    ] = ""
    ca_file: Annotated[
        str,
        Meta(
            description="PEM file with the certificate authorities that sign Vault's certificate. If empty, farrier "
            "uses the certificate authorities of the operating system."
        ),
    ] = ""
    timeout: Annotated[
        timedelta,
        Meta(
            description="Time limit for one request to Vault, including the response. A working Vault responds within "
            "milliseconds."
        ),
    ] = _seconds(5)
    keep: Annotated[
        timedelta,
        Meta(
            description="How long farrier keeps a secret in memory. farrier uses a rotated secret after at most "
            "this time. With the default, 5,000 BMCs that share one secret cause two requests a "
            "minute."
        ),
    ] = _seconds(30)

    def __post_init__(self) -> None:
        if self.address:
            _check_vault_address(self.address)
            if self.token.partition(":")[0] not in ("file", "systemd", "env"):
                raise ValueError(
                    "token must be a reference to the token (file:, systemd: or env:), not the token itself"
                )
        for name, path in (("mount", self.mount), ("path_prefix", self.path_prefix), ("namespace", self.namespace)):
            if not is_plain_path(path) and (path or name == "mount"):
                raise ValueError(f"{name} must be names separated by single slashes, without a slash at either end")


def _check_vault_address(address: str) -> None:
    parts = urlsplit(address)
    plain = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc
    if not plain or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError("address must be https://host[:port], without a path: passwords are never sent unencrypted")
    parts.port  # noqa: B018 - raises ValueError if it is none


class HistoryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long farrier keeps history."""

    keep_days: Annotated[
        int,
        Meta(
            ge=0,
            le=36_500,
            description="Number of days after which farrier removes history, a few thousand rows at a time. farrier "
            "keeps the newest entry of each layer of a resource that has not ended. With 0, farrier removes "
            "nothing. 0 is the default, because removed history cannot be recovered. Set the same value on all "
            "replicas.",
        ),
    ] = 0


class SitesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The directory of the site files."""

    directory: Annotated[
        str,
        Meta(
            description="Directory with one TOML file for each site, NAME.toml. farrier reads the files at the start "
            "and on SIGHUP. If empty, there are no sites, and farrier cannot onboard nodes through MAAS."
        ),
    ] = ""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings: one section of the file per field."""

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
    agents: AgentsConfig = AgentsConfig()
    metrics: MetricsConfig = MetricsConfig()
    traces: TracesConfig = TracesConfig()
    log: LogConfig = LogConfig()
    client: ClientConfig = ClientConfig()
    sla: Annotated[
        Limits,
        Meta(
            description='Limits that override the default limits. The key of a limit is "layer.state", for example '
            '"status.offline" = "1h". [sla.site.NAME] sets limits of one site, and [sla.model.NAME] limits of one '
            "machine model. A site's limit has precedence over a model's limit, and a model's limit over a general "
            "one. farrier sla list shows every key."
        ),
    ] = Limits()
