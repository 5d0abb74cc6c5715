"""The way of a deployment that failed: through which stages it leads, and what ends it.

Used by the stages of a deployment; pure, but for what reads the last deployment. Each stage that is entered begins its
count of attempts anew, so a detour would never come to an end by it. What failed is therefore counted in what the
workflow remembers, and is the attempt at which judging it begins: the limit of attempts and the back-off are those of
deployments.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.handlers.node import region
from farrier.handlers.node.moves import Failed, Policy, at_stage, waited, with_note
from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.model import sla
from farrier.model.edges import Layer
from farrier.model.failures import FailureClass
from farrier.model.maas import Event, MaasStatus
from farrier.model.node import Node, Upstream, Workflow
from farrier.model.stages import OnboardingStage
from farrier.protocols import MaasClient

MOST_EVENTS = 1000
"""Number of events of a machine that farrier reads. It is the most that a region returns at once, and covers several
deployments."""

# A machine that syncs its hardware leaves a few events with each sync: weeks of them, a tenth of a second a page.
_MOST_PAGES = 10


def upstream(node: Node) -> Upstream:
    """What the live workflow remembers."""
    assert node.workflow is not None, "a stage runs in a workflow"
    return node.workflow.upstream


def to_judgement(node: Node) -> Node:
    """The node once its deployment failed, which counts as one."""
    failed = upstream(node).failed_deploys + 1
    return at_stage(with_note(node, failed_deploys=failed), OnboardingStage.CLASSIFY_DEPLOY_FAILURE, attempt=failed)


def afresh(node: Node) -> Node:
    """The node after an operator requested another attempt, with its counters reset."""
    return with_note(node, failed_deploys=0, datasource_retries=0)


def is_another_attempt(workflow: Workflow) -> bool:
    """Whether the stage was in failure since it was entered, and was taken up again."""
    return workflow.status_entered_at > workflow.stage_entered_at


def comment(node: Node, number: int) -> str:
    """What the workflow's deployment of this number is recognised by."""
    return region.comment(node, f"deploy {number}")


async def last_start(client: MaasClient, system_id: str) -> Event | None:
    """The last requested deployment of the machine; None if the region no longer lists one. Events are read back page
    by page, because a long-running machine has many since.
    """
    before: int | None = None
    for _ in range(_MOST_PAGES):
        page = await client.events(system_id=system_id, before=before, limit=MOST_EVENTS)
        start = max((event for event in page if event.type == START), key=lambda event: event.id, default=None)
        if start is not None or len(page) < MOST_EVENTS:
            return start
        before = min(event.id for event in page)
    return None


async def is_ours(client: MaasClient, node: Node, system_id: str) -> bool:
    """Whether the machine's last deployment is known to be this workflow's. A deployment whose response was lost has
    the next number, which only the region knows.
    """
    known = upstream(node)
    start = await last_start(client, system_id)
    numbers = range(known.disowned + 1, known.deploys + 2)
    return start is not None and any(start.carries(comment(node, number)) for number in numbers)


def deadline(node: Node, policy: Policy) -> timedelta:
    """How long a deployment may take: never less than MAAS itself gives it."""
    stage = OnboardingStage.WAIT_FOR_DEPLOYED
    limit = sla.stage_deadline(Layer.ONBOARDING, stage, overrides=policy.sla)
    site = policy.site_of(node)
    return limit if site is None or site.maas is None else max(limit, site.maas.node_timeout * 2)


def is_overdue(node: Node, now: datetime, policy: Policy) -> bool:
    """Whether the last requested deployment takes too long."""
    assert node.workflow is not None, "a stage runs in a workflow"
    return waited(node, upstream(node).asked_at or node.workflow.stage_entered_at, now) > deadline(node, policy)


def disagrees(system_id: str, status_name: str | None, why: str) -> Failed:
    """The machine is where nothing of ours can have taken it."""
    detail = f"machine {system_id} is {status_name or 'in a status without a name'} in MAAS, {why}"
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def contradicted(node: Node) -> Failed | None:
    """Why a node that was deployed is so no more, by what was read since the stage began; None if nothing says so."""
    seen = region.latest(node)
    if seen is None:
        return None
    if seen.status is None:
        return region.gone(node)
    if region.is_foreign(seen):
        return region.foreign(node, seen)
    if seen.state is not MaasStatus.DEPLOYED:
        return disagrees(seen.system_id, seen.status_name, "after it was deployed")
    return None
