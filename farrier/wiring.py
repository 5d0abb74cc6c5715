"""The composition root: makes every room from the configuration and hands each the others as protocols.

The only place that knows two rooms. Called by `daemon`; what it returns is ready to run and runs nothing by
itself. Everything is a context: what was opened is closed in reverse order, also when a later step fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from uuid import UUID, uuid4

import anyio
import msgspec
import structlog
from typing_extensions import override

from farrier import config as settings
from farrier.clock import MonotonicClock
from farrier.controller.host import Host
from farrier.controller.processor import Processor
from farrier.enqueuer.listener import Listener
from farrier.handlers.node import NODE_KIND, NodeHandler, NodeServices
from farrier.handlers.node.kind import stage_layer
from farrier.io import catalog, client, migrate, pool
from farrier.io.agents import PostgresAgents
from farrier.io.api import PostgresRequests
from farrier.io.embedded import default_directory
from farrier.io.fleet import PostgresFleet
from farrier.io.node import NodeRows
from farrier.io.notifications import PostgresNotifications
from farrier.io.queries import PostgresQueries
from farrier.io.state import PostgresStateIO
from farrier.metrics.definitions import KindWords, ServiceWords, Vocabulary
from farrier.metrics.fleet import FleetGauges
from farrier.metrics.sink import Constant
from farrier.model import edges, mapping, stages
from farrier.model.bmc import BmcFailure
from farrier.model.node import Node
from farrier.model.schedule import Claim, Lane
from farrier.model.status import NodeStatus
from farrier.model.workflow import LIVE, WorkflowKind
from farrier.model.writes import Write
from farrier.protocols import AgentApi, Clock, FleetApi, MetricsSink, ServiceObserver
from farrier.services.bmc import open_bmc
from farrier.services.bmc_exchange import Operation
from farrier.services.bmc_settings import BmcSettings
from farrier.services.credentials import CredentialPlaces, Credentials, open_credentials
from farrier.services.maas_transport import Times
from farrier.services.regions import open_regions
from farrier.services.trust import CaFile, Insecure, Pinned, SystemCa, Trust
from farrier.services.vault import VaultSettings
from farrier.services.vault_answers import Operation as VaultOperation
from farrier.services.vault_answers import Result as VaultResult
from farrier.web.backend import Backend

_log = structlog.stdlib.get_logger(__name__)

# Closing waits for connections that are being used; after this they are dropped.
_CLOSE_SECONDS = 5
_WEB_CONNECTIONS = 3


class Database(msgspec.Struct, frozen=True):
    """A server that was reached."""

    dsn: str
    pool: pool.Pool
    embedded: bool


@asynccontextmanager
async def database(config: settings.DatabaseConfig) -> AsyncIterator[Database]:
    """Connections to the configured server, tried for as long as `db_timeout`. An embedded server is
    started, and stopped again at the end by whoever started it. Raises DatabaseUnreachable or
    ConfigError."""
    async with client.server(_located(config)) as dsn:
        connections = await pool.open_pool(
            dsn, size=config.pool_max, patience=config.db_timeout, pgbouncer=config.pgbouncer
        )
        try:
            yield Database(dsn, connections, embedded=not config.dsn)
        finally:
            with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
                await connections.close()
            connections.terminate()


def _located(config: settings.DatabaseConfig) -> settings.DatabaseConfig:
    """With the directory of the embedded server, if that is what is meant."""
    if config.dsn or config.embedded:
        return config
    return msgspec.structs.replace(config, embedded=str(default_directory()))


async def prepare(database: Database, config: settings.Config) -> int:
    """Make sure that schema and program fit, and tell the database what it must know of the configuration;
    answers the schema's version. An embedded database is migrated; any other is an operator's, and an old
    schema in it raises SchemaMissing. Raises SchemaTooNew."""
    async with database.pool.acquire() as conn:
        if database.embedded:
            await migrate.migrate(conn, after=catalog.sync)
        status = await migrate.check(conn)
        status.require_current()
        await catalog.set_offline_after(conn, config.node.offline_after)
    return status.found


class Progress:
    """Whether the claim loops live. A claim that failed proves that the loop turns, one that succeeded that
    the database answers, too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tried = dict.fromkeys(Lane, clock.monotonic())
        self._succeeded = clock.monotonic()
        self.first_claim = anyio.Event()

    def tried(self, lane: Lane) -> None:
        """A claim came back, whatever it said."""
        self._tried[lane] = self._clock.monotonic()

    def succeeded(self) -> None:
        """The database answered a claim."""
        self._succeeded = self._clock.monotonic()
        self.first_claim.set()

    def stalled_for(self) -> timedelta:
        """How long the slower of the lanes has not come back from a claim."""
        return timedelta(seconds=self._clock.monotonic() - min(self._tried.values()))

    def unanswered_for(self) -> timedelta:
        """How long no claim has succeeded."""
        return timedelta(seconds=self._clock.monotonic() - self._succeeded)


class _NodeIO(PostgresStateIO[Node, Node, Write]):
    """Storage of nodes that notes the progress of its claims."""

    def __init__(self, database: Database, progress: Progress, *, owner: UUID, lease: timedelta) -> None:
        super().__init__(database.pool, NodeRows(), owner=owner, lease=lease)
        self._progress = progress

    @override
    async def claim(self, lane: Lane, limit: int, floor: datetime | None) -> Claim:
        try:
            claim = await super().claim(lane, limit, floor)
            self._progress.succeeded()
        finally:
            self._progress.tried(lane)
        return claim


class Runtime(msgspec.Struct, frozen=True):
    """What the daemon runs once the database is there."""

    owner: UUID
    processor: Processor[Node, Node, Write, NodeServices]
    listener: Listener | None
    progress: Progress


@asynccontextmanager
async def runtime(
    config: settings.Config, database: Database, *, sink: MetricsSink, observer: ServiceObserver
) -> AsyncIterator[Runtime]:
    """The loop over nodes with all that it needs, not yet running. Raises ConfigError."""
    clock = MonotonicClock()
    progress = Progress(clock)
    owner = uuid4()
    async with (
        credentials(config, observer=observer) as store,
        open_bmc(bmc_settings(config), credentials=store, observer=observer) as bmc,
        open_regions(credentials=store, times=Times(clock=clock), observer=observer) as regions,
    ):
        processor = Processor(
            NODE_KIND,
            NodeHandler(config.node, config.sla),
            _NodeIO(database, progress, owner=owner, lease=config.controller.lease),
            services=NodeServices(bmc, store, regions),
            host=Host(config=config.controller, sink=sink, clock=clock),
        )
        listener = None
        if not config.database.pgbouncer:
            listener = Listener(PostgresNotifications(database.dsn), wake=[processor.wake])
        yield Runtime(owner, processor, listener, progress)


@asynccontextmanager
async def backend(config: settings.Config, database: Database, *, observer: ServiceObserver) -> AsyncIterator[Backend]:
    """What the web works on, over connections of its own: a long list must not make the loop wait."""
    pgbouncer = config.database.pgbouncer
    connections = await pool.open_pool(
        database.dsn, size=_WEB_CONNECTIONS, patience=config.database.db_timeout, pgbouncer=pgbouncer
    )
    try:
        requests = PostgresRequests(connections, database.dsn, pgbouncer=pgbouncer)
        async with credentials(config, observer=observer) as store:
            reference = config.http.bearer_token
            token = partial(store.token, reference) if reference else None
            yield Backend(PostgresQueries(connections), requests, config.sla, token)
    finally:
        connections.terminate()


class Outside(msgspec.Struct, frozen=True):
    """The database as others use it, for simulations."""

    agents: AgentApi
    fleet: FleetApi


def outside(database: Database, name: str) -> Outside:
    """A service called `name`, and agents, on the connections of `database`."""
    return Outside(PostgresAgents(database.pool), PostgresFleet(database.pool, name))


def credentials(config: settings.Config, *, observer: ServiceObserver) -> AbstractAsyncContextManager[Credentials]:
    """Where secrets come from, to be opened. Raises ConfigError."""
    places = CredentialPlaces(
        file_roots=tuple(map(Path, config.credentials.file_roots)), env_prefix=config.credentials.env_prefix
    )
    return open_credentials(places, vault_settings(config.vault), clock=MonotonicClock(), observer=observer)


def vault_settings(config: settings.VaultConfig) -> VaultSettings | None:
    """How Vault is spoken to; None where there is none."""
    if not config.address:
        return None
    return VaultSettings(
        address=config.address,
        token=config.token,
        mount=config.mount,
        path_prefix=config.path_prefix,
        namespace=config.namespace,
        ca_file=Path(config.ca_file) if config.ca_file else None,
        timeout=config.timeout,
        keep=config.keep,
    )


def bmc_settings(config: settings.Config) -> BmcSettings:
    """How BMCs are spoken to."""
    return BmcSettings(
        trust=_trust(config.bmc),
        trust_by_host={name.lower(): _trust(host) for name, host in config.bmc.hosts.items()},
        auth=config.bmc.auth,
        networks=tuple(ip_network(network) for network in config.bmc.allowed_networks),
        deadline=config.node.probe_deadline,
        connect_timeout=config.bmc.connect_timeout,
        concurrency=config.bmc.concurrency,
    )


def _trust(config: settings.BmcTrustConfig) -> Trust:
    if config.insecure:
        return Insecure()
    if config.fingerprint:
        return Pinned(config.fingerprint)
    return CaFile(Path(config.ca_file)) if config.ca_file else SystemCa()


def fleet_gauges() -> FleetGauges:
    """Figures of the fleet, none yet."""
    return FleetGauges(_node_words(), MonotonicClock())


def trust_gauge(config: settings.BmcConfig) -> Constant:
    """How many TLS policies trust any certificate."""
    return Constant(
        "farrier_bmc_tls_insecure",
        "BMC certificates that are not checked: 1 for the setting of all hosts, 1 for each host's own.",
        sum(trust.insecure for trust in (config, *config.hosts.values())),
    )


def vocabulary() -> Vocabulary:
    """Every label value that metrics of this program may have."""
    results = ("ok", "cancelled", *(failure.value for failure in BmcFailure))
    bmc = ServiceWords(operations=tuple(operation.value for operation in Operation), results=results)
    vault = ServiceWords(operations=tuple(VaultOperation), results=tuple(VaultResult))
    return Vocabulary(kinds={NODE_KIND.name: _node_words()}, services={"bmc": bmc, "vault": vault})


def _node_words() -> KindWords:
    layers = {
        str(layer): (edges.LAYER_KIND[layer], tuple(state.value for state in states))
        for layer, states in edges.STATES.items()
    }
    stages_of: dict[WorkflowKind, type[stages.OnboardingStage | stages.DecommissionStage]] = {
        WorkflowKind.ONBOARDING: stages.OnboardingStage,
        WorkflowKind.DECOMMISSION: stages.DecommissionStage,
    }
    for kind, names in stages_of.items():
        layers[stage_layer(kind)] = (stage_layer(kind), tuple(stage.value for stage in names))
    at_work = {(row.kind, row.node_status) for row in mapping.ROWS if row.workflow_status in LIVE}
    return KindWords(
        layers=layers,
        labels=(
            *((status.value, "") for status in NodeStatus),
            *((status.value, stage.value) for kind, status in sorted(at_work) for stage in stages_of[kind]),
        ),
    )
