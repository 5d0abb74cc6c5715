"""Stage `cleanup_storage`: the disks are erased.

If the region cleans the machine, MAAS erased the disks at the release. The stage then waits until the BMC shows the
machine off, runs farrier's check in the system that MAAS boots for tests, and records the evidence of all cleaning. The
stages `scrub_gpu` and `validate_clean_node` judge this evidence.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from farrier import agent
from farrier.config.sites import LEAVES_DATA, Erase
from farrier.handlers.node.changes import (
    Done,
    Failed,
    Policy,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    at_stage,
    attempt_began_at,
    own,
    with_note,
)
from farrier.handlers.node.decommission import by_bmc, machine, power_cycle, region_check
from farrier.handlers.node.maas import ready_test, region
from farrier.handlers.node.maas.ready_test import Ran, Test
from farrier.handlers.node.maas.region import Send
from farrier.handlers.node.workflow import cleaning_conditions, proof, tasks
from farrier.model.maas.changes import PowerOff
from farrier.model.maas.reading import Machine
from farrier.model.node.evidence import Contradicted, DeviceKind, Evidence, judge
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Node, TaskType
from farrier.model.node.stages import DecommissionStage
from farrier.protocols import MaasClient

_OFF = "switch the machine off before its test"


def cleanup_storage(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Run the task, or check the disks that MAAS erased at the release."""
    if not region_check.by_region(node):
        is_expected = own(node).options.cleaned_by is CleaningBy.REGION
        why = proof.never_from_outside(node, policy) if is_expected else None
        return region_check.unclean(why) if why else tasks.work(node, now, policy, TaskType.CLEANUP_STORAGE)
    return (
        machine.left_alone(node)
        or _not_erased(node, policy)
        or _judged(node, policy)
        or _erased_again(node)
        or _switched_off(node, now, policy)
        or _cold(node, now)
        or _test(node, now, policy)
    )


def _not_erased(node: Node, policy: Policy) -> Done | None:
    erase = machine.erase_of(node, policy)
    if erase not in LEAVES_DATA:
        return None
    why = f"release.erase of site {node.site} is {erase}, which leaves data on the disks"
    return Done(reason=why, skipped=why, to=cleaning_conditions.skipped(node, TaskType.CLEANUP_STORAGE, why))


def _judged(node: Node, policy: Policy) -> Done | Failed | None:
    """Judge the disks by the evidence of this attempt; None if there is none yet."""
    evidence = _evidence(node, of_attempt=True)
    if evidence is None:
        return None
    verdict = judge(evidence, region_check.expected_of(evidence), (DeviceKind.DISK,))
    if isinstance(verdict, Contradicted):
        return region_check.unclean(verdict.why)
    done = Done(reason=f"the check read samples of {len(evidence.devices)} disks")
    return proof.settled(node, policy, done, verdict)


def _erased_again(node: Node) -> StageStep | None:
    """Go back to the release if an earlier check found data, and an operator requests another attempt."""
    evidence = _evidence(node, of_attempt=False)
    if evidence is None or not any(device.bad_samples for device in evidence.devices):
        return None
    back = with_note(at_stage(node, DecommissionStage.RELEASE_MAAS_NODE), evidence=None, erases_again=True)
    return StageStep(to=back, reason="the last check found data, so MAAS erases the disks again")


def _evidence(node: Node, *, of_attempt: bool) -> Evidence | None:
    memo = own(node).memo
    is_new = memo.checked_at is not None and memo.checked_at >= attempt_began_at(node.live)
    return memo.evidence if is_new is of_attempt else None


def _switched_off(node: Node, now: datetime, policy: Policy) -> StageResult | None:
    """Let MAAS switch off a machine that is on before its test, because nothing else would."""
    is_under_way = ready_test.ordered(node, agent.CLEAN_CHECK) is not None or ready_test.is_running(node)
    if is_under_way or region.was_asked(node, _OFF) or not power_cycle.is_left_on(node):
        return None

    async def decide(found: Machine, _: MaasClient) -> Settled | Send:
        off = PowerOff(comment=region.comment(node, _OFF))
        return ready_test.hindrance(node, now, found) or region.asking(node, now, off, _OFF, record=_OFF)

    return region.with_machine(node, policy, decide, name="power_off")


def _cold(node: Node, now: datetime) -> Waiting | StageStep | None:
    """See the machine off before the test, and on during it. Without a usable BMC, the power cycle stays unproven."""
    if by_bmc.why_not(node) is not None:
        return None
    run, runs = ready_test.ordered(node, agent.CLEAN_CHECK), ready_test.is_running(node)
    if run is None:
        return None if runs else power_cycle.before(node, now)
    return power_cycle.after(node, now, run) if runs else None


def _test(node: Node, now: datetime, policy: Policy) -> StageResult:
    test = Test(
        script=agent.CLEAN_CHECK,
        text=agent.clean_check(),
        judge=partial(_recorded, node, now, machine.erase_of(node, policy)),
        prepare=f"an administrator runs: farrier site prepare {node.site}",
    )
    return ready_test.tested(node, now, policy, test)


def _recorded(node: Node, now: datetime, erase: Erase, ran: Ran) -> Settled:
    cycle = power_cycle.seen(node)
    evidence = region_check.reported(ran.run, ran.results[0], ran.machine, erase=erase, power_cycle=cycle)
    if isinstance(evidence, str):
        return region_check.unclean(f"test {ran.run.script}: {evidence}")
    return StageStep(
        to=with_note(node, evidence=evidence, checked_at=now), reason="farrier has the result of the check"
    )
