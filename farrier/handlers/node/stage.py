"""What a stage may say about itself. A stage is an idempotent function of the snapshot: it looks at what is already
true, does at most one step, and returns one of these. One that has to ask outside first returns a `Call`, whose answer
is one of the others.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from farrier.handlers.node.moves import NodeServices, Policy
from farrier.model.failures import FailureClass
from farrier.model.node import Node, StopRequest
from farrier.model.outcome import Made
from farrier.model.writes import Write


class Done(Made, frozen=True, kw_only=True):
    """Through: the next stage begins in this commit. `to` is the node as this stage leaves it, `skipped` why there was
    nothing to do."""

    reason: str
    to: Node | None = None
    skipped: str | None = None
    writes: tuple[Write, ...] = ()


class Waiting(Made, frozen=True, kw_only=True):
    """Not through yet. `timed`: it fails when it has waited longer than its deadline."""

    reason: str
    requeue_after: timedelta | None = None
    timed: bool = True
    writes: tuple[Write, ...] = ()


class Step(Made, frozen=True, kw_only=True):
    """The node moves, and the stage goes on."""

    to: Node
    reason: str
    writes: tuple[Write, ...] = ()


class Failed(Made, frozen=True, kw_only=True):
    """This attempt failed. With `stop` it is not tried again, although that may take several edges."""

    failure: FailureClass
    detail: str
    stop: StopRequest | None = None


Settled: TypeAlias = Done | Waiting | Step | Failed

# A turn at the region is waited for, then the machine is read and one change is sent, which may take the region as long
# as its BMC takes; a step that changes something is never cut short, so this bounds what waits behind it.
CALL_DEADLINE = timedelta(seconds=60)


class Call(Made, frozen=True, kw_only=True):
    """Needs the outside first: `act` is awaited with the services, holding nothing, and answers what became of it. It
    may run again after a crash at any point. `reads_only` ones are cut short for a request that should not wait."""

    name: str
    act: Callable[[NodeServices], Awaitable[Settled]]
    reads_only: bool


StageResult: TypeAlias = Settled | Call
Stage: TypeAlias = Callable[[Node, datetime, Policy], StageResult]
