"""Intents that refusals of several actions recommend. `dispatch` leaves out those that the node would reject, too."""

from __future__ import annotations

from datetime import datetime

from farrier.model.advice.recommended import Recommended
from farrier.model.intents.actions import Action
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Effect, Source
from farrier.model.node.snapshot import Node


def ends(node: Node) -> tuple[Recommended, ...]:
    """Return the intents that end a node which was in service."""
    forced, because = ({"force": True}, ("reason",)) if node.agentless else ({}, ())
    drain = Recommended(Action.DRAIN, forced, because, "to retire the node")
    return drain, Recommended(Action.REMOVE, forced, because)


def releases(node: Node, now: datetime) -> tuple[Recommended, ...]:
    """Return the intents that lift what keeps the node out of service."""
    return tuple(release_of(each) for each in conditions.quarantining(node.conditions) if is_lifted(node, each, now))


def release_of(condition: Condition) -> Recommended:
    """Return the intent that lifts the condition. What no operator stated is only lifted with a reason."""
    because = () if condition.source == Source.OPERATOR else ("reason",)
    return Recommended(Action.RELEASE, {"key": condition.name}, because)


def is_lifted(node: Node, condition: Condition, now: datetime) -> bool:
    """Return whether the intent may lift the condition: it keeps the node out of service, it is a note about a refused
    agent, or its monitor has not stated it again in time. A condition that ends with a workflow is not lifted while a
    workflow is live, or before the first successful onboarding."""
    if condition.source in conditions.ENDS_WITH_A_WORKFLOW and (node.workflow is not None or not node.ever_onboarded):
        return False
    ids = (conditions.ENROLMENT, conditions.AGENT_KEY)
    about_an_agent = condition.source == Source.IDENTITY and condition.id in ids
    return condition.effect is Effect.QUARANTINE or about_an_agent or condition.is_expired(now)
