"""Nodes for tests that need no database: builders, and one call that returns the handler's decision.

The defaults make a node without anything special; a test names only the fields that it is about. `NOW` is the time of
every decision unless a test moves it.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from msgspec.structs import replace
from typing_extensions import override

from farrier.config import NodeConfig
from farrier.errors import CredentialError
from farrier.handlers.node.changes import Decision
from farrier.handlers.node.handler import NodeHandler
from farrier.model.credential import Credential
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Transition, Update
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.model.machine.bmc import BmcTarget
from farrier.model.machine.health import Alert, Health
from farrier.model.machine.identity import Holder, Identity
from farrier.model.node.conditions import NOT_OK, Condition, Effect, Source, stated
from farrier.model.node.layers import DecommissionMode, Management, NodeStatus, OnboardingMode, WorkflowStatus
from farrier.model.node.snapshot import Agent, Bmc, Decommission, Intent, Node, Onboarding, Task, TaskStatus, TaskType
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.node.writes import AnswerIntent, Write
from farrier.protocols import Identities, MaasClient, NodeCredentials, Regions

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
# The mark by which the workflows of these nodes are recognised in MAAS.
MARK = "5ac0ffee12345678"

HANDLER = NodeHandler(NodeConfig())


class Secrets(NodeCredentials):
    """A store with one secret at some version. If the version is None, the secret does not resolve; the error is
    temporary if `temporary`. `looks` counts the calls."""

    def __init__(self, version: str | None = "v1", *, temporary: bool = False) -> None:
        self.current = version
        self._temporary = temporary
        self.looks = 0

    @override
    async def for_region(self, target: BmcTarget) -> Credential:
        return Credential(username="admin", password="secret", version=await self.version(target))

    @override
    async def token(self, reference: str) -> str:
        self._look(reference)
        return f"secret of {reference}"

    @override
    async def version(self, target: BmcTarget) -> str:
        return self._look(target.credential)

    def _look(self, reference: str) -> str:
        self.looks += 1
        if self.current is None:
            raise CredentialError(reference, "is gone", temporary=self._temporary)
        return self.current


class NoRegions(Regions):
    """No site has a MAAS region."""

    @override
    def client(self, site: str) -> MaasClient | None:
        return None

    @override
    def slot(self, site: str, caller: Hashable) -> AbstractAsyncContextManager[MaasClient]:
        raise MaasError(MaasFailure.UNREACHABLE, f"site {site} has no region in this controller's settings")


class Alone(Identities):
    """No other node has the machine."""

    @override
    async def holder(self, node: int, machine: Identity) -> Holder | None:
        return None


_ids = count(1)


def node(status: NodeStatus = NodeStatus.ENROLLING, **fields: Any) -> Node:
    """A node that entered its current states an hour ago."""
    given: dict[str, Any] = {
        "id": 1,
        "name": "gpu-1",
        "version": 7,
        "management": Management.UNMANAGED,
        "status_entered_at": LONG_AGO,
        "management_entered_at": LONG_AGO,
        "ever_onboarded": status not in (NodeStatus.BOOTSTRAP_ISSUED, NodeStatus.ENROLLING),
        "ever_active": status not in (NodeStatus.BOOTSTRAP_ISSUED, NodeStatus.ENROLLING),
    }
    given |= fields
    given.setdefault("conditions", told(given.get("agent")))
    return Node(status=status, **given)


def told(by: Agent | None) -> tuple[Condition, ...]:
    """The conditions that the database keeps for the last report of an agent."""
    if by is None:
        return ()
    alerts = tuple(
        stated(Source.AGENT, alert.id, alert.message, Effect.QUARANTINE if alert.blocks_scheduling else Effect.NOTE)
        for alert in by.health.alerts or ()
    )
    if by.health.ok or any(alert.effect is Effect.QUARANTINE for alert in alerts):
        return alerts
    return (*alerts, stated(Source.AGENT, NOT_OK))


def reporting(node: Node, by: Agent | None) -> Node:
    """The node after a report of this agent."""
    others = tuple(each for each in node.conditions if each.source != Source.AGENT)
    return replace(node, agent=by, conditions=(*others, *told(by)))


def hold(key: str = "default", reason: str = "it") -> Condition:
    """An operator's hold."""
    return stated(Source.OPERATOR, key, reason)


def unclean(id_: str, message: str = "it") -> Condition:
    """The condition of an incomplete cleaning."""
    return stated(Source.CLEANING, id_, message)


def onboarding(status: WorkflowStatus = WorkflowStatus.RUNNING, **fields: Any) -> Onboarding:
    """A manual onboarding that waits for its agent."""
    given: dict[str, Any] = {
        "id": 11,
        "mark": MARK,
        "mode": OnboardingMode.MANUAL,
        "stage": OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT,
        "status_entered_at": NOW - MINUTE,
        "stage_entered_at": NOW - MINUTE,
        "mode_given_at": NOW - MINUTE,
    }
    return Onboarding(status=status, **given | fields)


def decommission(
    stage: DecommissionStage | None = None, status: WorkflowStatus = WorkflowStatus.RUNNING, **fields: Any
) -> Decommission:
    """A full decommission at a stage."""
    given: dict[str, Any] = {
        "id": 12,
        "mark": MARK,
        "mode": DecommissionMode.FULL_DECOMMISSION,
        "status_entered_at": NOW - MINUTE,
        "stage_entered_at": NOW - MINUTE,
        "mode_given_at": NOW - MINUTE,
    }
    return Decommission(status=status, stage=stage, **given | fields)


def agent(*alerts: str, heard: datetime | None = NOW, **fields: Any) -> Agent:
    """An agent whose last report had these alerts, all of which block scheduling."""
    health = Health(ok=not alerts, alerts=tuple(Alert(alert, blocks_scheduling=True) for alert in alerts))
    return Agent(enrolled_at=LONG_AGO, last_heartbeat_at=heard, health=health, **fields)


def task(type_: TaskType, status: TaskStatus = TaskStatus.QUEUED, **fields: Any) -> Task:
    return Task(id=next(_ids), type=type_, status=status, **{"created_at": NOW - SECOND} | fields)


def with_bmc(management: Management, bmc: Bmc | None = None, **fields: Any) -> Node:
    """A node with both details of a BMC."""
    return node(
        management=management,
        bmc_address="https://10.0.0.1",
        bmc_credential="env:BMC",
        bmc=bmc or Bmc(),
        **fields,
    )


def intent(action: Action, **params: Any) -> Intent:
    return Intent(id=next(_ids), action=action, params=params, requested_by="an operator")


def decide(node: Node, now: datetime = NOW) -> Decision:
    """The handler's decision about the node."""
    return HANDLER.handle(node, now)


def moved(decision: Decision) -> Node:
    """The node after the decision, which must change it."""
    assert isinstance(decision, Transition | Update), decision
    return decision.to


def answers(decision: Decision) -> list[tuple[str, str]]:
    """(verdict, reason) of each answer that a decision commits."""
    return [(w.status.value, w.reason) for w in writes(decision) if isinstance(w, AnswerIntent)]


def writes(decision: Decision) -> tuple[Write, ...]:
    """The writes that a decision commits beside the node."""
    return getattr(decision, "writes", ())
