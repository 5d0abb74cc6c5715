"""Where onboarding and decommissioning nodes are on their way, and which stage is slow."""

from __future__ import annotations

from collections.abc import Sequence

from farrier.metrics import definitions, gauges
from farrier.model.workflow import WorkflowKind, WorkflowStatus
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import FATAL, GREEN, SOME, About, Column, Query, Steps, bars, lines, number, rows
from tools.dashboards.promql import fleet, quantile, rate, rate_of_seen, total

_SHOWN: Sequence[tuple[WorkflowStatus, str, str, Steps]] = (
    (WorkflowStatus.PENDING, "Pending", "Not begun.", GREEN),
    (WorkflowStatus.RUNNING, "Running", "In one of the stages below.", GREEN),
    (WorkflowStatus.COMPENSATING, "Undoing", "Compensating: what was done is undone.", SOME),
    (WorkflowStatus.FAILED_RETRYABLE, "To be tried again", "Failed, and tried again by itself.", SOME),
    (WorkflowStatus.FAILED_MANUAL_INTERVENTION, "Wait for an operator", "Failed, and only a person can go on.", FATAL),
)


def board() -> Board:
    """For whoever waits for machines."""
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
            About("Too long in all", "Above the end-to-end limit, whatever stage they are in.", 4, 4),
            total(gauges.ABOVE_SLA, where=f'kind="{kind}", state="end_to_end"'),
            steps=SOME,
        ),
    )


def _stages(kind: WorkflowKind) -> Panels:
    running = f'kind="{kind}", state="{WorkflowStatus.RUNNING}"'
    return (
        bars(
            About("Nodes by stage", "Running workflows, by the stage they are in.", 8, 10),
            Query(f"{fleet(gauges.RESOURCES, 'substate', where=running)} > 0", "{{substate}}"),
        ),
        rows(
            About(
                "Stages",
                "What is there now beside how long the stage takes: half of the nodes, and 95 of 100, were through in "
                "that time within the range shown above. Limit is the one where neither site nor model has its own.",
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
    return (
        lines(
            About(
                "What fails",
                "Failed attempts of a stage and stops for an operator, an hour; what did not happen is left out.",
                24,
                8,
            ),
            [
                Query(
                    f"({rate_of_seen(definitions.WORKFLOW_FAILURES, 'stage', 'failure_class', where=failed)}) * 3600",
                    "{{stage}}: {{failure_class}}",
                )
            ],
        ),
        lines(
            About("Ends and failures", "Workflows that came to an end or failed, an hour.", 8, 8),
            [Query(f"{rate(definitions.STATE_ENTERED, 'state', where=ended)} * 3600", "{{state}}")],
        ),
        lines(
            About("Slowest stages", "What 95 of 100 stays in a stage were at most; the five slowest.", 8, 8),
            [Query(f"topk(5, {quantile(0.95, definitions.TIME_IN_STATE, 'state', where=_stage(kind))})", "{{state}}")],
            "s",
        ),
        lines(
            About("Stages above their limit", "Nodes above the limit that holds for themselves.", 8, 8),
            [Query(f"{fleet(gauges.ABOVE_SLA, 'substate', where=late)} > 0", "{{substate}}")],
        ),
    )


def _stage(kind: WorkflowKind) -> str:
    """Stages are counted as states of a kind of their own when they are left."""
    return f'kind="{kind}_stage"'


def _as_substate(expr: str) -> str:
    """With the stage in the label that the figures of the fleet have it in."""
    return f'max by (substate) (label_replace({expr}, "substate", "$1", "state", "(.+)"))'
