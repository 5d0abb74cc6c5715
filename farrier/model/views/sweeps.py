"""Shows which controller runs a resource, and whether this controller runs its resources in time.

A controller owns shards of resources. A view shows the owner of the resource's shard, the last time at which all due
resources of the shard had run, and a step that may be changing an outside service.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.model import duration
from farrier.model.views.nodes import NodeDetail
from farrier.model.views.resources import ResourceView

PERIOD = timedelta(seconds=30)
"""The default interval of the runs of a resource."""

_PERIODS = 2
# The minimum for very short periods: a controller reports its sweeps every two seconds, and other controllers notice
# its end after ten seconds.
_AT_LEAST = timedelta(minutes=1)


def late_after(period: timedelta) -> timedelta:
    """Return how long a shard can be without a sweep before it counts as neglected: two periods, but at least a
    minute."""
    return max(_AT_LEAST, _PERIODS * period)


def is_neglected(shown: NodeDetail | ResourceView, now: datetime, period: timedelta) -> bool:
    """Return whether the resource has no controller, or its controller does not sweep the resource's shard in time."""
    return shown.controller is None or shown.swept_at is None or now - shown.swept_at > late_after(period)


def in_words(shown: NodeDetail | ResourceView, now: datetime) -> str:
    """Describe the controller and its last sweep (`rack-1, shard swept 2s ago`), or the step that runs."""
    step = ""
    if shown.step is not None and shown.step_begun_at is not None:
        step = f", step {shown.step} started {duration.human(now - shown.step_begun_at)} ago"
    if shown.controller is None or shown.swept_at is None:
        return f"no controller{step and f'{step}, without a recorded end'}"
    return f"{shown.controller}{step or f', shard swept {duration.human(now - shown.swept_at)} ago'}"
