"""Whether a node, as a view shows it, would accept an action now. Pure; advice, the command line and pages use it.

The answer is that of the table of actions. The handler also checks conditions that a view does not show.
"""

from __future__ import annotations

from farrier.model import actions
from farrier.model.actions import Action, Answer, Later, Refused
from farrier.model.management import Management
from farrier.model.status import NodeStatus
from farrier.model.views import NodeView


def by_table(action: Action, node: NodeView) -> Answer:
    """The answer of the table of actions. States of a newer release are refused, because this program does not know
    them."""
    if node.management is None:
        return Refused(f"{node.name} is deleted")
    try:
        status, management = NodeStatus(node.status), Management(node.management)
    except ValueError:
        return Refused(f"this program does not know the state {node.status} with management {node.management}")
    return actions.check(action, status, management, node.workflow)


def foreseen(action: Action, node: NodeView) -> Answer:
    """The answer that is to be expected now: that of the table, unless a pause delays it."""
    answer = by_table(action, node)
    if node.paused is not None and action not in actions.ANSWERED_WHILE_PAUSED:
        return Later(f"{action} waits for the end of the pause: {node.paused}")
    return answer
