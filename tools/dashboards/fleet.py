"""The dashboard of the fleet: the number of nodes in each state, for how long they have been there, and which are
late."""

from __future__ import annotations

from farrier.metrics import definitions, gauges
from farrier.model.maas import region
from farrier.model.node.layers import LAYER_KIND, NodeStatus
from tools.dashboards.frame import Board, Panels, Part
from tools.dashboards.panels import FATAL, SOME, STALE, About, Column, Query, Steps, heat, layers, lines, number, rows
from tools.dashboards.promql import fleet, last_hour, total

_NODE = 'kind="node"'
_OTHERS = f'kind!~"{"|".join([*dict.fromkeys(LAYER_KIND.values()), region.KIND])}"'
"""Kinds that are neither nodes, in any of their layers, nor regions: farrier's own and those of other packages."""
_PLACE = "{{kind}} {{state}} {{substate}}"
_SHARE: Steps = {None: "green", 0.0001: "yellow", 0.1: "orange", 0.5: "red"}


def board() -> Board:
    """Return the dashboard that operators read first."""
    return Board(
        name="fleet",
        title="Fleet",
        answers="How many nodes and other resources are in each state, for how long, and which are above a limit.",
        parts=(
            Part("Now", _now()),
            Part("Over time", _over_time()),
            Part("Occupied states and stages", _states()),
            Part("Health of nodes", _known()),
            Part("Resources of other kinds", _others()),
        ),
    )


def _now() -> Panels:
    active = total(gauges.RESOURCES, where=f'{_NODE}, state="{NodeStatus.ACTIVE}"')
    return (
        number(
            About("Nodes", "All registered nodes, including retired nodes.", 4, 4),
            total(gauges.RESOURCES, where=_NODE),
        ),
        number(About("Active", "Nodes in service.", 4, 4), active),
        number(
            About(
                "Above a limit",
                "Clocks above the limit that applies to their node. A node may have several clocks.",
                4,
                4,
            ),
            total(gauges.ABOVE_SLA),
            steps=SOME,
        ),
        number(
            About("Wait for an operator", "Nodes whose workflow needs an operator to continue.", 4, 4),
            total(gauges.MANUAL_INTERVENTION),
            steps=FATAL,
        ),
        number(
            About("Paused", "Nodes that an operator has paused. The clocks of these nodes do not count.", 4, 4),
            fleet(gauges.NODES_PAUSED),
            steps={None: "blue"},
        ),
        number(
            About("Age of these figures", "The figures grow older while no replica reaches the database.", 4, 4),
            f'time() - max({gauges.COLLECTED.name}{{job="$job"}})',
            "s",
            STALE,
        ),
    )


def _over_time() -> Panels:
    late = fleet(gauges.ABOVE_SLA)
    taken = f"({fleet(gauges.RESOURCES)} > 0)"
    return (
        layers(
            About("Nodes by state", "The status of every node."),
            Query(total(gauges.RESOURCES, "state", where=_NODE), "{{state}}"),
        ),
        lines(
            About("Transitions in the last hour", "How many times nodes entered a state in the hour before each time."),
            [Query(last_hour(definitions.STATE_ENTERED, "state", where=_NODE), "{{state}}")],
        ),
        heat(
            About(
                "Share above the limit",
                "Share of the nodes in a state or stage that are above their own limit. Green: none, yellow: some, "
                "orange: a tenth, red: half. Without nodes, there is no cell.",
                24,
                12,
            ),
            Query(f"{late} / {taken}", _PLACE),
            _SHARE,
        ),
    )


def _states() -> Panels:
    there = f"and on (kind, state, substate) ({fleet(gauges.RESOURCES)} > 0)"
    return (
        rows(
            About(
                "States",
                "Oldest: the longest time for which a node has been in the state. Limit: the general limit; sites "
                "and models may have others.",
                24,
                10,
            ),
            [
                f"{fleet(gauges.RESOURCES)} > 0",
                f"{fleet(gauges.ABOVE_SLA)} {there}",
                f"{fleet(gauges.OLDEST_IN_STATE)} {there}",
                f"{fleet(gauges.STATE_SLA)} {there}",
            ],
            [
                Column("kind", "Layer"),
                Column("state", "State"),
                Column("substate", "Stage"),
                Column("Value #A", "There"),
                Column("Value #B", "Above limit", steps=SOME),
                Column("Value #C", "Oldest", "s"),
                Column("Value #D", "Limit", "s"),
            ],
            worst="Above limit",
        ),
    )


def _known() -> Panels:
    return (
        layers(
            About(
                "Health",
                (
                    "Nodes by the last report of their agent. blocked: an alert blocks scheduling. silent: the "
                    "heartbeat is late."
                ),
            ),
            Query(fleet(gauges.NODES_BY_HEALTH), "{{health}}"),
        ),
        layers(
            About("Power", "Nodes by the last power reading of their BMC. unknown: nodes that are not manageable."),
            Query(fleet(gauges.NODES_BY_POWER), "{{power}}"),
        ),
        lines(
            About("Alerts of agents", "Nodes by the IDs of the alerts that their agents report.", 24, 8),
            [Query(f"{fleet(gauges.NODES_BY_ALERT)} > 0", "{{alert}}")],
        ),
        lines(
            About(
                "Outdated observations", ("Nodes whose last heartbeat, power reading or reading from MAAS is too old.")
            ),
            [
                Query(fleet(gauges.HEARTBEATS_STALE), "heartbeat"),
                Query(fleet(gauges.OBSERVATIONS_STALE), "{{source}}"),
            ],
        ),
        lines(
            About("BMCs that cannot be read", "Manageable nodes whose BMC cannot be read, by failure."),
            [Query(f"{fleet(gauges.POWER_SYNC_FAILING)} > 0", "{{failure}}")],
        ),
        lines(
            About("Doors", "Servers of pages and of agents. silent: a server has not pulsed for 10 s."),
            [Query(fleet(gauges.DOORS, "kind", "state"), "{{kind}}, {{state}}")],
        ),
        lines(
            About(
                "Seconds since a door reached an agent",
                "agent: since an agent last reported by a door. dead: for how long the silence of agents that use "
                "doors has not counted, by the lost pulse.",
            ),
            [
                Query(fleet(gauges.AGENT_REACHED), "agent"),
                Query(fleet(gauges.DOORS_DEAD, "pulse"), "dead: {{pulse}}"),
            ],
        ),
    )


def _others() -> Panels:
    return (
        layers(
            About("Other resources by state", "Network segments, IB partitions, and kinds of other packages."),
            Query(f"{total(gauges.RESOURCES, 'kind', 'state', 'substate', where=_OTHERS)} > 0", _PLACE),
        ),
        lines(
            About("Other resources above their limit", "Resources above their own limit."),
            [Query(total(gauges.ABOVE_SLA, "kind", "state", "substate", where=_OTHERS), _PLACE)],
        ),
    )
