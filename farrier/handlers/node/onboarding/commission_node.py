"""Stage `commission_node`: commissions the machine, unless the machine is already commissioned.

A ready machine that passed its commissioning is not commissioned again, because this would remove its storage and
network configuration. The site decides what a commissioning wipes. A machine marked broken is commissioned only after
intent `retry_stage`. The workflow records the number of requests, because `wait_for_ready` leads back to this stage
after a failure.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from farrier.config.sites import CommissionSite
from farrier.handlers.node.changes import Done, Failed, Policy, Settled, StageResult, Waiting, with_note
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.onboarding.preparation import PASSED, deployed_before, failed_testing, quoted
from farrier.model.maas.changes import Commission
from farrier.model.maas.reading import BEING_RELEASED, BlockDevice, MaasStatus, Machine, StatusNumber
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node, StopRequest
from farrier.protocols import MaasClient

S = StatusNumber
# The statuses from which MAAS commissions a machine, and in which this stage requests it without an operator.
_ASKED_IN = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING})
_LEFT_BEHIND = frozenset({S.ALLOCATED, S.FAILED_DEPLOYMENT})


def commission_node(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Commission the machine. The stage is done when MAAS works on it, or if it needs no commissioning."""
    decide = partial(_decided, node, region.site_of(node, policy).commission)
    return region.with_machine(node, policy, decide, name="commission_node")


async def _decided(node: Node, wanted: CommissionSite, machine: Machine, _client: MaasClient) -> Settled | Send:
    """Return the next change for a machine that no other user owns."""
    stands = (machine.status_name or str(machine.state))[:64]
    if machine.state is MaasStatus.COMMISSIONING:
        return Done(reason=f"MAAS is already working on the machine: {stands}", to=_counted(node))
    passed = machine.state is MaasStatus.READY and machine.commissioning_status_name == PASSED
    if passed and not _to_find_disks(node, machine):
        return _ready(node)
    if machine.status == S.BROKEN and not _is_requested(node):
        return marked_broken(machine)
    if machine.status in _ASKED_IN or machine.status == S.BROKEN:
        taken = Done(reason="MAAS accepted the commissioning", to=_counted(node))
        return Send(change=commission(node, machine, wanted), reason="commission", then=taken)
    if machine.status == S.FAILED_TESTING:
        return failed_testing(machine.system_id, machine.error_description)
    return _beyond(node, machine, stands)


def _disks(machine: Machine) -> list[BlockDevice]:
    return [disk for disk in machine.blockdevice_set if disk.type in {None, "physical"}]


def _to_find_disks(node: Node, machine: Machine) -> bool:
    """Return whether to commission once more to find disks, which MAAS records only together with storage."""
    return not _disks(machine) and node.live.memo.commissions == 0


def commission(node: Node, machine: Machine, wanted: CommissionSite) -> Commission:
    """Return the commissioning request. If a machine is not new and farrier did not create it, an operator may have set
    it up. farrier then keeps the machine's configuration, even if the site removes configurations. If the machine has
    no configuration, later stages lay out its disk and link its network interface."""
    set_up = machine.status != S.NEW and not node.maas_created
    return Commission(
        skip_networking=wanted.keep_networking or set_up,
        skip_storage=(wanted.keep_storage or set_up) and bool(_disks(machine)),
        skip_bmc_config=not wanted.configure_bmc,
        enable_ssh=wanted.enable_ssh,
        testing_scripts=wanted.testing_scripts,
    )


def marked_broken(machine: Machine) -> Failed:
    """Fail for a machine marked broken in MAAS: the reason of the mark may forbid switching it on."""
    detail = (
        f"machine {machine.system_id} was marked broken in MAAS{quoted(machine.error_description)}; farrier "
        "changed nothing: repair the machine, and mark it fixed in MAAS"
    )
    return Failed(failure=FailureClass.COMMISSIONING_FAILED, detail=detail, stop=StopRequest.FAILED)


def _is_requested(node: Node) -> bool:
    """Return whether an operator requested another attempt of this stage. Automatic attempts do not reset the count."""
    workflow = node.live
    return workflow.attempt == 1 and workflow.status_entered_at > workflow.stage_entered_at


def _ready(node: Node) -> Done:
    if node.live.memo.commissions > 0:
        return Done(reason="the machine is commissioned and ready")
    return Done(
        reason="the machine is ready, and was commissioned before", skipped="the machine was already commissioned"
    )


def _beyond(node: Node, machine: Machine, stands: str) -> Settled:
    """Return the result for a machine that this onboarding or another user took past commissioning."""
    deployed = deployed_before(node, machine, left_as=_LEFT_BEHIND)
    if deployed is not None:
        return deployed
    if machine.status in BEING_RELEASED:
        return Waiting(reason=f"waits for MAAS to release the machine: {stands}")
    detail = f"machine {machine.system_id} is {stands} in MAAS, which this onboarding did not request"
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def _counted(node: Node) -> Node:
    """Return the node with one more commissioning. It counts even if its response was lost."""
    return with_note(node, commissions=node.live.memo.commissions + 1)
