"""Stage `classify_deploy_failure`: finds out why the deployment failed or is stuck, and whether to deploy again.

A workflow enters this stage only after a failed deployment. The stage reads the machine's events and changes nothing.
If the installer did not get its data, another deployment follows at once, as often as the site allows. For any other
cause, the stage fails; its next attempt releases the machine, and another deployment follows.
"""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.changes import Failed, Policy, Settled, StageResult, StageStep, at_stage, with_note
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding import deployment
from farrier.handlers.node.onboarding.deploy_failure import DeployCause, DeployFailure, classify
from farrier.model.maas.reading import Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.model.node.stages import OnboardingStage
from farrier.protocols import MaasClient

# The failed statuses, and the statuses after a release, because the events remain.
_TO_JUDGE = (
    S.FAILED_DEPLOYMENT,
    S.DEPLOYING,
    S.ALLOCATED,
    S.READY,
    S.NEW,
    S.RELEASING,
    S.RELEASING_FAILED,
)


def classify_deploy_failure(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Begin another deployment, or fail with the cause. The result is never `Done`."""
    if deployment.is_another_attempt(node.live):
        # The first attempt after an intent has number one; automatic attempts continue the count.
        base = deployment.with_reset_counters(node) if node.live.attempt == 1 else node
        return StageStep(
            to=at_stage(base, OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY),
            reason="the machine is being deployed again",
        )

    async def decide(machine: Machine, client: MaasClient) -> Settled:
        if machine.status == S.DEPLOYED:
            to = at_stage(node, OnboardingStage.WAIT_FOR_DEPLOYED)
            return StageStep(to=to, reason="the deployment succeeded after all")
        if machine.status not in _TO_JUDGE:
            return deployment.disagrees(machine, "after its deployment failed")
        events = await client.events(system_id=machine.system_id, limit=deployment.MOST_EVENTS)
        scripts = await client.results(machine.system_id, "installation")
        number = node.live.memo.deploys
        failure = classify(machine, events, scripts, comment=deployment.comment(node, number))
        return _judged(node, policy, machine, failure)

    return region.with_machine(node, policy, decide, name="classify", reads_only=True)


def _judged(node: Node, policy: Policy, machine: Machine, failure: DeployFailure) -> Settled:
    if machine.status == S.ALLOCATED and failure.cause is not DeployCause.POWER:
        return deployment.disagrees(machine, "because the deployment was aborted in MAAS")
    if failure.cause is DeployCause.DATASOURCE:
        return _without_datasource(node, policy, failure)
    if machine.status == S.DEPLOYING:
        return Failed(failure=FailureClass.TIMEOUT, detail=f"the deployment is stuck: {failure}")
    return Failed(failure=FailureClass.DEPLOY_FAILED, detail=str(failure))


def _without_datasource(node: Node, policy: Policy, failure: DeployFailure) -> Settled:
    retries = node.live.memo.datasource_retries
    if retries >= region.site_of(node, policy).deploy.max_datasource_retries:
        return Failed(failure=FailureClass.DATASOURCE_FAILED_REPEATEDLY, detail=str(failure))
    again = with_note(node, datasource_retries=retries + 1)
    return StageStep(
        to=at_stage(again, OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY),
        reason=f"the deployment failed; farrier retries it: {failure}",
    )
