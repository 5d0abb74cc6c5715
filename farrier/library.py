"""The public library for packages that define kinds. It is stable; everything else in farrier may change with any
release. `docs/integrate/own-kind.md` shows how to define a kind with it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from farrier.enqueuer.enqueuer import Enqueuer
from farrier.errors import (
    ConfigError,
    CredentialError,
    DatabaseUnreachable,
    FarrierError,
    HandlerError,
    RefusedByModel,
    ServiceError,
)
from farrier.handlers.resource.extension import Decided, Extension, Handler, ServiceContext
from farrier.handlers.resource.requests import accept, params_of, reject
from farrier.io.connections.pool import open_pool
from farrier.model.credential import Credential
from farrier.model.intents.params import NoParams, Params
from farrier.model.kinds.measures import KindMetric, Sample
from farrier.model.kinds.resource import Answer, Pending, Resource
from farrier.model.kinds.spec import KindAction, KindEdge, KindLayer, KindSpec, KindState
from farrier.model.loop.outcome import Decision, Deleted, DoNothing, EndsBy, Outcome, Step, Transition, Update, Wait
from farrier.model.loop.restores import Hold
from farrier.protocols import CredentialStore, StateHandler
from farrier.protocols.permit import require_lease

__all__ = [
    "Answer",
    "ConfigError",
    "Credential",
    "CredentialError",
    "CredentialStore",
    "DatabaseUnreachable",
    "Decided",
    "Decision",
    "Deleted",
    "DoNothing",
    "EndsBy",
    "Enqueuer",
    "Extension",
    "FarrierError",
    "Handler",
    "HandlerError",
    "Hold",
    "KindAction",
    "KindEdge",
    "KindLayer",
    "KindMetric",
    "KindSpec",
    "KindState",
    "NoParams",
    "Outcome",
    "Params",
    "Pending",
    "RefusedByModel",
    "Resource",
    "Sample",
    "ServiceContext",
    "ServiceError",
    "StateHandler",
    "Step",
    "Transition",
    "Update",
    "Wait",
    "accept",
    "open_enqueuer",
    "params_of",
    "reject",
    "require_lease",
]

# The caller has just written to the database, so the server is available, or will soon be available again.
_PATIENCE = timedelta(seconds=5)


@asynccontextmanager
async def open_enqueuer(dsn: str) -> AsyncIterator[Enqueuer]:
    """Open an enqueuer, which makes handlers run as soon as possible: `await enqueuer.enqueue("volume", 7)`. From SQL,
    call `farrier.enqueue` instead. Raises DatabaseUnreachable."""
    connections = await open_pool(dsn, size=1, patience=_PATIENCE)
    try:
        yield Enqueuer(connections)
    finally:
        await connections.close()
