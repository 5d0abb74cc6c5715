"""Shared code of the stages that prepare a machine for its deployment.

One stage checks whether the credential for the machine's BMC resolves, and another stage sends it to MAAS; neither
stores it. One stage requests the commissioning, and another waits for it. `configure_storage`, `apply_roce_phase2` and
`ensure_pxe_interface_auto` change a machine only in status ready. If this onboarding already deploys the machine, the
machine counts as prepared. If MAAS accepted a change but does not show the change, the stage does not send it again;
the attempt fails, and a back-off follows.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.errors import CredentialError
from farrier.handlers.node.bmc.logins import missing_detail, target_of
from farrier.handlers.node.changes import Done, Failed, NodeServices, Settled, StageStep, Waiting, at_stage
from farrier.model.credential import Credential
from farrier.model.maas.reading import MaasStatus, Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node, StopRequest
from farrier.model.node.stages import OnboardingStage

# Statuses after a deployment and during a release, which stage `recover_for_datasource_retry` handles.
_GIVEN_BACK = frozenset(
    {S.ALLOCATED, S.FAILED_DEPLOYMENT, S.RELEASING, S.RELEASING_FAILED, S.DISK_ERASING, S.FAILED_DISK_ERASING}
)

# A credential store is usually unavailable only while it restarts. A retry needs no login at a BMC.
_RESOLVE_AGAIN = timedelta(seconds=30)

PASSED = "Passed"
"""MAAS's status of a commissioning that passed."""


async def power_credential(node: Node, services: NodeServices) -> Credential | Waiting | Failed:
    """Return the credential with which MAAS logs in at the node's BMC, or why it does not resolve."""
    missing = missing_detail(node)
    if missing is not None:
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=missing)
    try:
        return await services.credentials.for_region(target_of(node))
    except CredentialError as error:
        if error.temporary:
            return Waiting(reason=str(error), requeue_after=_RESOLVE_AGAIN)
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=str(error))


def failed_testing(system_id: str, said: str | None) -> Failed:
    """Return the failure for failed tests, for good: MAAS does not commission such a machine."""
    detail = (
        f"machine {system_id} failed its tests{quoted(said)}; test the machine again, or override the result in MAAS"
    )
    return Failed(failure=FailureClass.COMMISSIONING_FAILED, detail=detail, stop=StopRequest.FAILED)


def quoted(said: str | None) -> str:
    """Return MAAS's text about a failure, as the end of a sentence."""
    return f": {said[:300]}" if said else ""


def deployed_before(node: Node, machine: Machine, *, left_as: frozenset[S]) -> Done | StageStep | None:
    """Return the result of the stage if this onboarding already deploys the machine, or if its last deployment left the
    machine in one of the statuses `left_as`; otherwise None."""
    if not (node.live.memo.has_deployed and machine.owner):
        return None
    stands = (machine.status_name or str(machine.state))[:64]
    if machine.state in {MaasStatus.DEPLOYING, MaasStatus.DEPLOYED}:
        return Done(reason=f"this onboarding already deploys the machine: {stands}")
    if machine.status not in left_as:
        return None
    return StageStep(
        to=at_stage(node, OnboardingStage.RECOVER_FOR_DATASOURCE_RETRY),
        reason=f"an earlier deployment of this onboarding left the machine as {stands}; MAAS must release the machine "
        "first",
    )


def unready(node: Node, machine: Machine) -> Settled:
    """Return the result of the stage for a machine that is not ready."""
    stands = machine.status_name or machine.state
    deployed = deployed_before(node, machine, left_as=_GIVEN_BACK)
    if deployed is not None:
        return deployed
    detail = (
        f"machine {machine.system_id} is {stands} in MAAS, but was Ready earlier in this onboarding; farrier "
        "changed nothing"
    )
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)
