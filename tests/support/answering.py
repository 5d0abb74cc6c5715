"""A controller that answers questions about the nodes of a site, as the daemon does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from farrier.config import ControllerConfig
from farrier.controller.dry_runs import Foreseer
from farrier.controller.host import LoopContext
from farrier.controller.ownership import Ownership
from farrier.enqueuer.listener import Listener
from farrier.handlers.node.kind import NODE_KIND
from farrier.io.calls.questions import PostgresQuestions
from farrier.io.calls.requests import PostgresRequests
from farrier.io.kinds.node import NodeRows
from tests.support.loop import Ledger
from tests.support.owner import ALL, MovedClock
from tests.support.site import Site


@asynccontextmanager
async def answering(site: Site) -> AsyncIterator[PostgresRequests]:
    """A controller answers questions about the nodes of the site; yields a client."""
    ownership = Ownership()
    ownership.acts_until = float("inf")
    ownership.held = {("node", shard): 1 for shard in ALL}
    host = LoopContext(config=ControllerConfig(), sink=Ledger(), clock=MovedClock(), ownership=ownership)
    questions = PostgresQuestions(site.pool, [NodeRows()])
    foreseer = Foreseer(questions, [(NODE_KIND, site.handler)], host)
    async with anyio.create_task_group() as group:
        group.start_soon(foreseer.run)
        group.start_soon(Listener(site.db.dsn, wake=lambda *_: foreseer.ring(), missed=lambda: None).run)
        yield PostgresRequests(site.pool, site.db.dsn)
        group.cancel_scope.cancel()
