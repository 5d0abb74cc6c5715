"""Shared code of the stages that deploy, and deploy again after a failed deployment.

Pure, except for the functions that read the last deployment. The count of attempts begins at 1 each time a workflow
enters a stage, so this count cannot limit the deployments. The workflow therefore counts failed deployments. The stage
that classifies a failure uses this count as the number of its attempt, so that the limit of attempts and the back-off
apply to deployments.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.handlers.node.changes import Failed, Policy, at_stage, waited, with_note
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.model.maas.reading import Event, MaasStatus, Machine
from farrier.model.machine.observation import MaasObservation
from farrier.model.node import sla
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Layer
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient

MOST_EVENTS = 1000
"""Number of events of a machine that farrier reads at once: the most that a region returns, which covers several
deployments."""

# Each hardware sync of a machine adds a few events, so this many pages cover weeks. A page takes a tenth of a second.
_MOST_PAGES = 10


def to_classification(node: Node) -> Node:
    """Return the node with one more failed deployment, at the stage that classifies the failure."""
    failed = node.live.memo.failed_deploys + 1
    return at_stage(with_note(node, failed_deploys=failed), OnboardingStage.CLASSIFY_DEPLOY_FAILURE, attempt=failed)


def with_reset_counters(node: Node) -> Node:
    """Return the node after an operator requested another attempt, with its counters reset."""
    return with_note(node, failed_deploys=0, datasource_retries=0)


def is_another_attempt(workflow: Workflow) -> bool:
    """Return whether the stage has already failed since the workflow entered it, and now runs again."""
    return workflow.status_entered_at > workflow.stage_entered_at


def comment(node: Node, number: int) -> str:
    """Return the comment that identifies the workflow's deployment with this number."""
    return region.comment(node, f"deploy {number}")


async def last_start(client: MaasClient, system_id: str) -> Event | None:
    """Return the last deployment that was requested for the machine; None if the region no longer lists a deployment.
    Events are read page by page, newest first, because a long-running machine has many later events."""
    before: int | None = None
    for _ in range(_MOST_PAGES):
        page = await client.events(system_id=system_id, before=before, limit=MOST_EVENTS)
        start = max((event for event in page if event.type == START), key=lambda event: event.id, default=None)
        if start is not None or len(page) < MOST_EVENTS:
            return start
        before = min(event.id for event in page)
    return None


async def is_ours(client: MaasClient, node: Node, system_id: str) -> bool:
    """Return whether the machine's last deployment is known to belong to this workflow. If the response to a deployment
    request was lost, the workflow has not recorded this deployment, and the number of the deployment is one higher than
    the last recorded number."""
    known = node.live.memo
    start = await last_start(client, system_id)
    numbers = range(known.disowned + 1, known.deploys + 2)
    return start is not None and any(start.carries(comment(node, number)) for number in numbers)


def deadline(node: Node, policy: Policy) -> timedelta:
    """Return how long a deployment may take: at least twice the `node_timeout` of MAAS."""
    stage = OnboardingStage.WAIT_FOR_DEPLOYED
    limit = sla.stage_deadline(Layer.ONBOARDING, stage, overrides=policy.sla)
    maas = policy.maas_of(node)
    return limit if maas is None else max(limit, maas.node_timeout * 2)


def is_overdue(node: Node, now: datetime, policy: Policy) -> bool:
    """Return whether the last requested deployment takes too long."""
    return waited(node, node.live.memo.asked_at or node.live.stage_entered_at, now) > deadline(node, policy)


def disagrees(seen: Machine | MaasObservation, why: str) -> Failed:
    """Return the failure for a machine in a state that this workflow cannot have caused."""
    detail = f"machine {seen.system_id} is {seen.status_name or 'in a status without a name'} in MAAS, {why}"
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def contradicted(node: Node) -> Failed | None:
    """Return the failure if readings since the stage began show the machine no longer deployed, or None."""
    seen = region.latest(node)
    if seen is None:
        return None
    if seen.status is None:
        return region.gone(node)
    if region.is_foreign(seen):
        return region.foreign(node, seen)
    if seen.state not in (MaasStatus.DEPLOYED, MaasStatus.UNKNOWN):
        return disagrees(seen, "after it was deployed")
    return None
