"""The dashboard of onboardings and decommissions: their stages, and which stage is slow."""

from __future__ import annotations

from collections.abc import Sequence

from farrier.metrics import definitions, gauges
from farrier.model.node.layers import WorkflowKind, WorkflowStatus
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import FATAL, GREEN, SOME, About, Column, Query, Steps, bars, lines, number, rows
from tools.dashboards.promql import fleet, last_hour, quantile, total

_SHOWN: Sequence[tuple[WorkflowStatus, str, str, Steps]] = (
    (WorkflowStatus.PENDING, "Pending", "Not begun.", GREEN),
    (WorkflowStatus.RUNNING, "Running", "Nodes in one of the stages below.", GREEN),
    (WorkflowStatus.COMPENSATING, "Undoing", "Compensating: farrier undoes the work of the workflow.", SOME),
    (WorkflowStatus.FAILED_RETRYABLE, "Retrying", "Failed, and retried automatically.", SOME),
    (WorkflowStatus.FAILED_MANUAL_INTERVENTION, "Wait for an operator", "Failed, and needs an operator.", FATAL),
)


def board() -> Board:
    """Return the dashboard for operators who wait for machines."""
    return Board(
        name="workflows",
        title="Workflows",
        answers="Which stages nodes are in, how long stages take, and how workflows end.",
        parts=[part for kind in WorkflowKind for part in _workflow(kind)],
    )


def _workflow(kind: WorkflowKind) -> Sequence[Part]:
    return (
        Part(kind.capitalize(), _statuses(kind)),
        Part(f"{kind.capitalize()}: stages", _stages(kind)),
        Part(f"{kind.capitalize()}: speed and ends", _speed(kind)),
    )


def _statuses(kind: WorkflowKind) -> Panels:
    return (
        *(
            number(
                About(title, says, 4, 4),
                total(gauges.RESOURCES, where=f'kind="{kind}", state="{status}"'),
                steps=steps,
            )
            for status, title, says, steps in _SHOWN
        ),
        number(
            About("Above the total limit", "Above the limit for the whole workflow, in any stage.", 4, 4),
            total(gauges.ABOVE_SLA, where=f'kind="{kind}", state="end_to_end"'),
            steps=SOME,
        ),
    )


def _stages(kind: WorkflowKind) -> Panels:
    running = f'kind="{kind}", state="{WorkflowStatus.RUNNING}"'
    return (
        bars(
            About("Nodes by stage", "Running workflows, by their current stage.", 8, 10),
            Query(f"{fleet(gauges.RESOURCES, 'substate', where=running)} > 0", "{{substate}}"),
        ),
        rows(
            About(
                "Stages",
                "Current nodes, and how long the stage takes: the median and the 95th percentile of the range "
                "shown above. Limit is the general limit; sites and models may have others.",
                16,
                10,
            ),
            [
                fleet(gauges.RESOURCES, "substate", where=running),
                fleet(gauges.ABOVE_SLA, "substate", where=running),
                fleet(gauges.OLDEST_IN_STATE, "substate", where=running),
                fleet(gauges.STATE_SLA, "substate", where=running),
                _as_substate(quantile(0.5, definitions.TIME_IN_STATE, "state", where=_stage(kind), span="$__range")),
                _as_substate(quantile(0.95, definitions.TIME_IN_STATE, "state", where=_stage(kind), span="$__range")),
            ],
            [
                Column("substate", "Stage"),
                Column("Value #A", "There"),
                Column("Value #B", "Above limit", steps=SOME),
                Column("Value #C", "Oldest", "s"),
                Column("Value #D", "Limit", "s"),
                Column("Value #E", "Half within", "s"),
                Column("Value #F", "95 % within", "s"),
            ],
            worst="There",
        ),
    )


def _speed(kind: WorkflowKind) -> Panels:
    ends = (
        WorkflowStatus.COMPLETED,
        WorkflowStatus.RECONCILED,
        WorkflowStatus.CANCELLED,
        WorkflowStatus.FAILED_RETRYABLE,
        WorkflowStatus.FAILED_MANUAL_INTERVENTION,
    )
    ended = f'kind="{kind}", state=~"{"|".join(ends)}"'
    late = f'kind="{kind}", state="{WorkflowStatus.RUNNING}"'
    failed = f'workflow="{kind}"'
    slow = quantile(0.95, definitions.TIME_IN_STATE, "state", where=_stage(kind))
    return (
        lines(
            About(
                "Failures in the last hour",
                "Failed attempts of a stage and stops for an operator in the hour before each time; failures that did "
                "not occur are omitted.",
                24,
                8,
            ),
            [
                Query(
                    f"{last_hour(definitions.WORKFLOW_FAILURES, 'stage', 'failure_class', where=failed)} > 0",
                    "{{stage}}: {{failure_class}}",
                )
            ],
        ),
        lines(
            About("Ends in the last hour", "Workflows that ended or failed in the hour before each time.", 8, 8),
            [Query(last_hour(definitions.STATE_ENTERED, "state", where=ended), "{{state}}")],
        ),
        lines(
            About("Slowest stages", "95th percentile of the time in a stage, for the five slowest stages.", 8, 8),
            # A stage that no node left in this range has the value NaN, which `> 0` omits.
            [Query(f"topk(5, {slow} > 0)", "{{state}}")],
            "s",
        ),
        lines(
            About("Stages above their limit", "Nodes above their own limit.", 8, 8),
            [Query(f"{fleet(gauges.ABOVE_SLA, 'substate', where=late)} > 0", "{{substate}}")],
        ),
    )


def _stage(kind: WorkflowKind) -> str:
    """Return the selector of a workflow's stages. When a stage is left, it is counted as a state of a separate kind."""
    return f'kind="{kind}_stage"'


def _as_substate(expr: str) -> str:
    """Return the expression with the stage in the label that the fleet's figures use."""
    return f'max by (substate) (label_replace({expr}, "substate", "$1", "state", "(.+)"))'
