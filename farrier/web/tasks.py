"""Tasks of agents over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier.model.node import TaskStatus
from farrier.model.views import TaskView
from farrier.web import operation
from farrier.web.operation import Answer, Call, Operation
from farrier.web.parameter_types import Limit


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    node: Annotated[str | None, Meta(description="Only tasks of this node: its name or ID.")] = None
    status: Annotated[tuple[TaskStatus, ...], Meta(description="Only tasks with one of these.")] = ()
    limit: Limit = 100


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks, newest first."""

    now: datetime
    tasks: tuple[TaskView, ...]


async def list_(call: Call[Listed, None]) -> Response:
    """List tasks of agents, newest first."""
    given = call.given
    page = await call.backend.queries.tasks(given.node, given.status, limit=given.limit)
    return operation.json(Tasks(now=page.now, tasks=page.rows))


OPERATIONS = [
    Operation(path="/tasks", respond=list_, given=Listed, answers={200: Answer(what="The newest tasks.", body=Tasks)}),
]
