"""The dashboard of stuck resources: their states, for how long, and links to more details."""

from __future__ import annotations

from farrier.metrics import gauges
from farrier.metrics.dashboards import DEFAULTS, PAGES, RUNBOOKS
from tools.dashboards.frame import Board, Panels, Part, address
from tools.dashboards.panels import FATAL, SOME, About, Column, Query, Steps, bars, lines, number, rows, timeline
from tools.dashboards.promql import fleet, total

_HOUR = 3600.0
_ABOVE: Steps = {None: "yellow", _HOUR: "orange", 24 * _HOUR: "red"}

# The value is zero if the fleet was counted lately; otherwise there is no value. A constant zero would hide that the
# fleet was not counted.
_NONE = f"0 * {fleet(gauges.NODES_PAUSED)}"

# `raw`, because Grafana would escape the slashes of an address.
_PAGE = f"${{{PAGES}:raw}}/resources/${{__data.fields.Kind:percentencode}}/${{__data.fields.Name:percentencode}}"
_STUCK = f"${{{RUNBOOKS}:raw}}/operate/alerts/FarrierResourceStuck.md"
_FAILURE = f"${{{RUNBOOKS}:raw}}/reference/failures.md#failure-${{__data.fields.Failure}}"


def board() -> Board:
    """Return the dashboard for an operator who was paged."""
    return Board(
        name="stuck",
        title="Stuck resources",
        answers="Resources above a limit or waiting for an operator, the worst first, each with a link.",
        parts=(
            Part("Now", _now()),
            Part("Which", _which()),
            Part("Where", _where()),
        ),
        variables=(
            address(
                PAGES, "Pages", "Base URL of farrier's own pages. Links to resources begin with it.", DEFAULTS[PAGES]
            ),
            address(RUNBOOKS, "Runbooks", "Base URL of docs/. Links to runbooks begin with it.", DEFAULTS[RUNBOOKS]),
        ),
    )


def _now() -> Panels:
    return (
        number(
            About(
                "Resources above a limit",
                "Nodes and other resources above a limit. Only the worst of each state and the worst of the fleet "
                "are counted.",
                6,
                4,
            ),
            f"count({fleet(gauges.RESOURCE_ABOVE_SLA, 'name', 'resource_kind')}) or {_NONE}",
            steps=SOME,
        ),
        number(
            About("Worst excess", "How far the worst clock is above its limit.", 6, 4),
            f"max({fleet(gauges.RESOURCE_ABOVE_SLA)}) or {_NONE}",
            "s",
            {None: "green", 1: "orange", 24 * _HOUR: "red"},
        ),
        number(
            About("Workflows above their limit", "Above the limit for the whole workflow, in any stage.", 6, 4),
            total(gauges.ABOVE_SLA, where='state="end_to_end"'),
            steps=SOME,
        ),
        number(
            About("Wait for an operator", "Nodes whose workflow needs an operator to continue.", 6, 4),
            total(gauges.MANUAL_INTERVENTION),
            steps=FATAL,
        ),
    )


def _which() -> Panels:
    return (
        rows(
            About(
                "Stuck resources",
                "The worst clocks of each state, and the worst of the fleet. A click on a resource opens its page, "
                "which shows what the resource waits for and what to do. If the table is empty while resources are "
                "above a limit, metrics.name_resources is off.",
                24,
                11,
            ),
            [fleet(gauges.RESOURCE_ABOVE_SLA)],
            [
                Column("name", "Name", links={"What it waits for": _PAGE}),
                Column("resource_kind", "Kind"),
                Column("kind", "Layer"),
                Column("state", "State", links={"Runbook": _STUCK}),
                Column("substate", "Stage", links={"Runbook": _STUCK}),
                Column("Value", "Above its limit by", "s", _ABOVE),
            ],
            worst="Above its limit by",
        ),
        timeline(
            About(
                "History",
                "How far each resource is above a limit: yellow at first, orange after an hour, red after a day.",
                24,
                10,
            ),
            Query(fleet(gauges.RESOURCE_ABOVE_SLA), "{{name}} {{kind}} {{state}} {{substate}}"),
            "s",
            _ABOVE,
            zero="in time",
        ),
    )


def _where() -> Panels:
    return (
        rows(
            About(
                "Failures that need an operator",
                "Nodes by failure class. A click opens the advice for the class.",
                8,
                9,
            ),
            [f"{fleet(gauges.MANUAL_INTERVENTION)} > 0"],
            [
                Column("failure_class", "Failure", links={"What to do": _FAILURE}),
                Column("Value", "Nodes", steps=FATAL),
            ],
            worst="Nodes",
        ),
        bars(
            About("States above their limit", "Clocks above the limit, by state and stage.", 8, 9),
            Query(f"topk(10, {fleet(gauges.ABOVE_SLA)} > 0)", "{{kind}} {{state}} {{substate}}"),
            steps={None: "orange"},
        ),
        lines(
            About("Above the limit over time", "Clocks above their limit, by layer.", 8, 9),
            [Query(total(gauges.ABOVE_SLA, "kind"), "{{kind}}")],
        ),
    )
