"""Which controller runs a resource, in words, and whether one does.

Asked by `why`, `resource_why` and `advice` of what is shown of a node or another resource. A controller owns shards of
resources; what is known of a single resource is its shard's owner, when all of that shard was last run, and the step
that may change something outside, if one has begun.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from farrier.model import duration

PERIOD = timedelta(seconds=30)
"""The default interval of the runs of a resource."""

_PERIODS = 2
# With a very short period, too: a controller reports its sweeps every two seconds, and others see its end after ten.
_AT_LEAST = timedelta(minutes=1)


class Run(Protocol):
    """What is shown of the runs of a resource. Without a controller its shard has no owner."""

    @property
    def controller(self) -> str | None: ...

    @property
    def swept_at(self) -> datetime | None: ...

    @property
    def step(self) -> str | None: ...

    @property
    def step_begun_at(self) -> datetime | None: ...


def late_after(period: timedelta) -> timedelta:
    """A shard that was not swept for so long is neglected: two periods, but a minute at least."""
    return max(_AT_LEAST, _PERIODS * period)


def is_neglected(run: Run, now: datetime, period: timedelta) -> bool:
    """Whether no controller has the resource, or none that keeps up."""
    return run.controller is None or run.swept_at is None or now - run.swept_at > late_after(period)


def in_words(run: Run, now: datetime) -> str:
    """`rack-1, shard swept 2s ago`, or the step under way."""
    step = ""
    if run.step is not None and run.step_begun_at is not None:
        step = f", step {run.step} started {duration.human(now - run.step_begun_at)} ago"
    if run.controller is None or run.swept_at is None:
        return f"no controller{step and f'{step}, without a recorded end'}"
    return f"{run.controller}{step or f', shard swept {duration.human(now - run.swept_at)} ago'}"
