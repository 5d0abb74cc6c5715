"""Every metric that one process counts: its name, help text, labels and buckets. Dashboards and alert rules use these
definitions.

`wiring` passes a `Vocabulary` of the permitted combinations of label values. Only these have a series at zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from farrier.metrics.families import Definition, Labels
from farrier.model.kinds.spec import KindSpec

# From an idle decision, some ten microseconds, to the longest step that is allowed.
_RUN_SECONDS = (0.00005, 0.0002, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0, 60.0, 180.0)
# The target is under 10 ms for a wake; minutes mean that the loop does not keep up.
_WAIT_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0)
# The limits of the SLA table lie between two minutes and three days.
_STATE_SECONDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 259200.0, 604800.0)
_REQUEST_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

STATE_ENTERED = Definition("farrier_state_entered", "Number of transitions into a state.", ("kind", "state"))
STATE_EXITED = Definition("farrier_state_exited", "Number of transitions out of a state.", ("kind", "state"))
TIME_IN_STATE = Definition(
    "farrier_time_in_state_seconds",
    "Time for which a resource was in a state, recorded when the resource leaves the state.",
    ("kind", "state"),
    _STATE_SECONDS,
)
SHORT_STAY = timedelta(minutes=15)
"""If a resource leaves its normal state earlier than this after entering it, the stay was too short to count as
service."""
SHORT_STAYS = Definition(
    "farrier_short_stays",
    "How often a resource left the normal state of its kind within 15 minutes of entering it, without an intent that "
    "requested it.",
    ("kind", "state"),
)
HANDLER_RUNS = Definition(
    "farrier_handler_runs", "Number of handler runs that were committed or had nothing to commit.", ("kind", "outcome")
)
HANDLER_DURATION = Definition(
    "farrier_handler_duration_seconds",
    "Duration of a run, from the snapshot to the outcome.",
    ("kind",),
    _RUN_SECONDS,
)
HANDLER_ERRORS = Definition(
    "farrier_handler_errors", "Number of handler runs that ended in an error.", ("kind", "error")
)
HANDLER_ERRORS_BY_STATE = Definition(
    "farrier_handler_errors_by_state",
    "Number of handler runs that ended in an error, by the state of the resource. The series of a state exists only"
    " after the first error in this state.",
    ("kind", "state", "substate"),
)
RERUN_LIMITED = Definition(
    "farrier_rerun_limited",
    "How often a resource reached the limit of immediate reruns and was delayed.",
    ("kind",),
)
WAKEUPS = Definition("farrier_wakeups", "Number of times that the loop polled for wakes, by reason.", ("source",))
WAKE_WAIT = Definition(
    "farrier_wake_wait_seconds",
    "Time from the INSERT of a wake to the load that reads it.",
    ("kind",),
    _WAIT_SECONDS,
)
COMMIT_CONFLICTS = Definition(
    "farrier_commit_conflicts",
    "Number of runs whose commit failed or has an unknown result, by verdict. Runs that were deferred do not count.",
    ("kind", "verdict"),
)
COMMITS_DEFERRED = Definition(
    "farrier_commits_deferred",
    "Number of runs that were not committed because they have to wait: the brake of the site or the login cap of the "
    "BMC holds them, or a client is changing a task or a network that they need.",
    ("kind",),
)
STEPS_CANCELLED = Definition(
    "farrier_steps_cancelled", "Number of steps that were cancelled because the controller lost its lease.", ("kind",)
)
WORKFLOW_FAILURES = Definition(
    "farrier_workflow_failures",
    "Number of failures of workflows, by failure class, including failures after which the workflow retries the stage.",
    ("workflow", "stage", "failure_class"),
)
SERVICE_REQUESTS = Definition(
    "farrier_service_requests",
    "Number of requests to outside services, by result. The series of an operation exist only after its first request.",
    ("service", "operation", "result"),
)
SERVICE_DURATION = Definition(
    "farrier_service_request_duration_seconds",
    "Duration of a request to an outside service, with any result. The series of an operation exist only after its "
    "first request.",
    ("service", "operation"),
    _REQUEST_SECONDS,
)


class OwnMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric of one kind: the name `sample` of the samples that it counts, and every series that it may have."""

    sample: str
    definition: Definition
    series: tuple[Labels, ...]


class KindWords(msgspec.Struct, frozen=True, kw_only=True):
    """The label values of one kind: its states, the errors that may end a run, and its own metrics."""

    spec: KindSpec
    errors: tuple[str, ...]
    metrics: tuple[OwnMetric, ...] = ()


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """All permitted label values: the values of each kind, and the results of each operation of a service."""

    kinds: Mapping[str, KindWords]
    services: Mapping[str, Mapping[str, tuple[str, ...]]]
