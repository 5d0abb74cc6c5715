"""The answer that an intent would get now.

A controller gives this answer: `farrier.controller.dry_runs` asks the handler. The functions of this module only use
the kind's table of actions, for a program that cannot reach a controller. Pure.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from farrier.model.intents import acceptance, actions
from farrier.model.intents.acceptance import Answer, Later, Refused
from farrier.model.intents.actions import Action
from farrier.model.loop import restores
from farrier.model.node.layers import Management, NodeStatus
from farrier.model.views.nodes import NodeView
from farrier.model.views.resources import ActionView, ResourceView


class PreviewVerdict(StrEnum):
    """The answer that an intent would get now."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DEPENDS = "depends"  # on a reading, or on the end of a wait; only the intent itself finds out


class Question(msgspec.Struct, frozen=True):
    """How would the handler answer this intent? `params` is JSON."""

    id: int
    resource_id: int
    action: str
    params: str


class Posed(msgspec.Struct, frozen=True):
    """A question with what the handler needs to answer it: the snapshot as if the intent was pending, the ID of this
    intent, and the database's time. `held_since` is set while the resource is held after a restore."""

    resource: Any
    intent: int
    now: datetime
    held_since: datetime | None


class Foreseen(msgspec.Struct, frozen=True):
    """The verdict, with the reason that the handler gave."""

    verdict: PreviewVerdict
    reason: str = ""


def by_table(action: Action, node: NodeView) -> Answer:
    """Return the answer of the table of actions. If the state belongs to a newer release, the answer is a refusal,
    because this program does not know the state."""
    if node.management is None:
        return Refused(f"{node.name} is deleted")
    try:
        status, management = NodeStatus(node.status), Management(node.management)
    except ValueError:
        return Refused(f"this program does not know the state {node.status} with management {node.management}")
    return actions.check(action, status, management, node.workflow)


def of_node(action: Action, node: NodeView) -> Answer:
    """Return the expected answer of a node: the answer of the table, unless a restore or a pause delays the answer."""
    if node.restored_at is not None:
        return Later(restores.until_lifted(node.restored_at))
    answer = by_table(action, node)
    if node.paused is not None and action not in actions.ANSWERED_WHILE_PAUSED:
        return Later(f"{action} waits for the end of the pause: {node.paused}")
    return answer


def of_resource(action: ActionView, resource: ResourceView) -> Answer:
    """Return the expected answer of a resource of a kind other than `node`."""
    if resource.restored_at is not None:
        return Later(restores.until_lifted(resource.restored_at))
    noun = resource.kind.replace("_", " ")
    if resource.ended_at is not None:
        return acceptance.ended(noun)
    return acceptance.in_state(action.action, resource.state, action.states, noun=noun, instead=action.instead)
