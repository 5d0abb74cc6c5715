"""The interfaces between packages: calls go in at one package, and another package answers them.

Each package uses other packages only through these protocols; `wiring` passes the implementations. The docstring of a
method is its contract: whether the method may be called twice, what it raises, and what the caller does with the
result.
"""

from __future__ import annotations

from farrier.protocols.database import (
    AgentCalls,
    Door,
    FleetApi,
    Identities,
    MonitorCalls,
    Queries,
    Requests,
    ServerQueries,
)
from farrier.protocols.loop import Clock, Controllers, Kind, MetricsSink, Questions, Snapshot, StateHandler, StateIO
from farrier.protocols.outside import (
    BmcClient,
    CredentialStore,
    Fabrics,
    MaasClient,
    NodeCredentials,
    Regions,
    ServiceObserver,
    UfmClient,
)

__all__ = [
    "AgentCalls",
    "BmcClient",
    "Clock",
    "Controllers",
    "CredentialStore",
    "Door",
    "Fabrics",
    "FleetApi",
    "Identities",
    "Kind",
    "MaasClient",
    "MetricsSink",
    "MonitorCalls",
    "NodeCredentials",
    "Queries",
    "Questions",
    "Regions",
    "Requests",
    "ServerQueries",
    "ServiceObserver",
    "Snapshot",
    "StateHandler",
    "StateIO",
    "UfmClient",
]
