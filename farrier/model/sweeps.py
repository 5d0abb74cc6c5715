"""Shows which controller runs a resource, and whether this controller runs its resources in time.

Modules `why`, `resource_why` and `advice` use this module for views of nodes and other resources. A controller owns
shards of resources. A view shows the owner of the resource's shard, the last time at which all due resources of the
shard had run, and a step that may be changing an outside service.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from farrier.model import duration

PERIOD = timedelta(seconds=30)
"""The default interval of the runs of a resource."""

_PERIODS = 2
# The minimum for very short periods: a controller reports its sweeps every two seconds, and other controllers notice
# its end after ten seconds.
_AT_LEAST = timedelta(minutes=1)


class Run(Protocol):
    """The runs of a resource, as views show them. `controller` is None while the resource's shard has no owner."""

    @property
    def controller(self) -> str | None: ...

    @property
    def swept_at(self) -> datetime | None: ...

    @property
    def step(self) -> str | None: ...

    @property
    def step_begun_at(self) -> datetime | None: ...


def late_after(period: timedelta) -> timedelta:
    """Return the age of the last sweep after which a shard counts as neglected: two periods, but at least a minute."""
    return max(_AT_LEAST, _PERIODS * period)


def is_neglected(run: Run, now: datetime, period: timedelta) -> bool:
    """Return whether the resource has no controller, or its controller does not sweep the resource's shard in time."""
    return run.controller is None or run.swept_at is None or now - run.swept_at > late_after(period)


def in_words(run: Run, now: datetime) -> str:
    """Describe the controller and its last sweep (`rack-1, shard swept 2s ago`), or the step that runs."""
    step = ""
    if run.step is not None and run.step_begun_at is not None:
        step = f", step {run.step} started {duration.human(now - run.step_begun_at)} ago"
    if run.controller is None or run.swept_at is None:
        return f"no controller{step and f'{step}, without a recorded end'}"
    return f"{run.controller}{step or f', shard swept {duration.human(now - run.swept_at)} ago'}"
