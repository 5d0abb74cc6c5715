"""The API's list of controllers, with their shards and their lag, and of the shards without a controller."""

from __future__ import annotations

from starlette.responses import Response

from farrier.model.controller_views import Ownership
from farrier.web import operation
from farrier.web.operation import Answer, Call, NoParameters, Operation


async def list_(call: Call[NoParameters, None]) -> Response:
    """List the controllers, expired ones first, with their shards and their lag, and the shards without a
    controller."""
    return operation.json(await call.backend.queries.controllers())


OPERATIONS = [
    Operation(
        path="/controllers",
        respond=list_,
        answers={200: Answer(what="The controllers.", body=Ownership)},
    )
]
