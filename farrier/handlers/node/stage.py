"""What a stage may say about itself. A stage is an idempotent function of the snapshot: it looks at what is already
true, does at most one step, and returns one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias

from farrier.config import NodeConfig
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
    look_again: timedelta | None = None
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
    writes: tuple[Write, ...] = ()


StageResult: TypeAlias = Done | Waiting | Step | Failed
Stage: TypeAlias = Callable[[Node, datetime, NodeConfig], StageResult]
