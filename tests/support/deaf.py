"""A kind whose steps ignore their cancellation, as a step that waits for a thread does."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import anyio
from typing_extensions import override

from farrier.library import (
    Answer,
    Decided,
    Deleted,
    Extension,
    Handler,
    KindEdge,
    KindSpec,
    KindState,
    Outcome,
    Resource,
    Step,
)

NAME = "tests.support.deaf:DEAF"

SPEC = KindSpec(
    name="deaf",
    what="a deaf thing",
    relation="farrier_deaf.things",
    states={name: KindState(why_none="a test ends it") for name in ("here", "gone")},
    edges=(KindEdge("here", "gone", "never"),),
    initial="here",
    terminal=frozenset({"gone"}),
)


class DeafHandler(Handler[Resource, Any]):
    """Begins a step that never ends."""

    @override
    def handle(self, resource: Resource, _now: datetime) -> Decided[Resource, Any]:
        if resource.state == "gone":
            return Deleted()
        return Step(name="ignore", act=ignore, deadline=timedelta(minutes=1), reads_only=False)


async def ignore(_services: object) -> Outcome[Resource, Answer]:
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()
    raise AssertionError("unreachable")


DEAF: Extension[Resource, Answer, Any] = Extension(
    spec=SPEC,
    snapshot=Resource,
    handler=DeafHandler(),
    sql="CREATE SCHEMA farrier_deaf; CREATE TABLE farrier_deaf.things (LIKE farrier.resources INCLUDING ALL);",
)
