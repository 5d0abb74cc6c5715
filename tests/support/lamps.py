"""A kind whose steps leave traces, for tests of whole processes under chaos: lamps, which intents toggle.

Each intent takes one step and one transition. A step records in `presses` when it begins and, if it may then
still act, when it has acted; so a test sees whether two steps of one lamp ever overlapped.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

import asyncpg
from typing_extensions import override

from farrier.library import (
    Answer,
    Decided,
    Deleted,
    DoNothing,
    Extension,
    Handler,
    KindAction,
    KindEdge,
    KindSpec,
    KindState,
    Outcome,
    Params,
    Resource,
    ServiceContext,
    Step,
    Transition,
    accept,
    require_lease,
)

NAME = "tests.support.lamps:LAMP"
DSN = "LAMPS_DSN"
# Long enough that kills and pauses come in the middle of some steps.
_ACTS_FOR = 0.02

SQL = """
    CREATE SCHEMA farrier_lamps;
    CREATE TABLE farrier_lamps.lamps (LIKE farrier.resources INCLUDING ALL);
"""
# In a separate database, because the traces must not depend on the database under test.
TRACES = """
    CREATE TABLE public.presses (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, lamp bigint NOT NULL, request bigint NOT NULL,
        pid integer NOT NULL, begun_at timestamptz NOT NULL DEFAULT clock_timestamp(), ended_at timestamptz);
"""


class Make(Params, frozen=True, kw_only=True):
    """A lamp is created without parameters."""


SPEC = KindSpec(
    name="lamp",
    what="a lamp",
    relation="farrier_lamps.lamps",
    states={name: KindState(why_none="a lamp may stay so") for name in ("off", "on", "gone")},
    edges=(
        KindEdge("off", "on", "toggle"),
        KindEdge("on", "off", "toggle"),
        KindEdge("off", "gone", "delete"),
        KindEdge("on", "gone", "delete"),
    ),
    initial="off",
    terminal=frozenset({"gone"}),
    create=Make,
    actions={
        "toggle": KindAction(description="switch it"),
        "delete": KindAction(description="have it no more"),
    },
)


class LampHandler(Handler[Resource, asyncpg.Pool]):
    """Carries out the oldest intent first, each by a step of its own."""

    @override
    def handle(self, resource: Resource, _now: datetime) -> Decided[Resource, asyncpg.Pool]:
        if resource.state == "gone":
            return Deleted()
        if not resource.requests:
            return DoNothing()
        first = resource.requests[0]
        to = "gone" if first.action == "delete" else "on" if resource.state == "off" else "off"
        act = partial(
            press,
            resource,
            first.id,
            Transition(to=resource.at(to), reason="asked for", cause=first.action, writes=(accept(first),)),
        )
        return Step(name="press", act=act, deadline=timedelta(seconds=30), reads_only=False)


async def press(
    lamp: Resource, request: int, then: Transition[Resource, Answer], traces: asyncpg.Pool
) -> Outcome[Resource, Answer]:
    require_lease()
    press_ = await traces.fetchval(
        "INSERT INTO public.presses (lamp, request, pid) VALUES ($1, $2, $3) RETURNING id",
        lamp.id,
        request,
        os.getpid(),
    )
    await traces.execute("SELECT pg_sleep($1)", _ACTS_FOR)
    require_lease()
    await traces.execute("UPDATE public.presses SET ended_at = clock_timestamp() WHERE id = $1", press_)
    return then


@asynccontextmanager
async def traces(_context: ServiceContext) -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(os.environ[DSN], min_size=1, max_size=5) as pool:
        yield pool


LAMP = Extension(spec=SPEC, snapshot=Resource, handler=LampHandler(), services=traces, sql=SQL)
