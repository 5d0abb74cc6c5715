"""Paths through the model, by intents, agents and time: how a node comes to take each edge of its status.

`takes` records for each path which edges it takes, and the cause of each; paths of workflows and management are in
`paths_of_jobs` and `paths_of_adoption`. A path receives a site and returns the node that took the path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias
from uuid import uuid4

from farrier.model.node.layers import Layer
from farrier.model.node.snapshot import TaskType
from tests.support.site import MINUTE, Machine, Site

Path: TypeAlias = Callable[[Site], Awaitable[Machine]]


class Taken(NamedTuple):
    """An edge, and the beginning of the cause that the history records for it."""

    layer: Layer
    source: str
    target: str
    cause: str


SCENARIOS: dict[Path, list[Taken]] = {}


def takes(layer: Layer, source: str, target: str, cause: str) -> Callable[[Path], Path]:
    """Record that the decorated path takes this edge because of `cause`."""

    def note(path: Path) -> Path:
        SCENARIOS.setdefault(path, []).append(Taken(layer, source, target, cause))
        return path

    return note


STATUS, MANAGEMENT, ONBOARDING, DECOMMISSION = Layer


@takes(STATUS, "bootstrap_issued", "enrolling", "signal: agent enrolled")
@takes(ONBOARDING, "pending", "running", "rule: onboarding")
async def agent_enrols(site: Site) -> Machine:
    return await site.enrolled()


@takes(STATUS, "bootstrap_issued", "enrolling", "intent")
@takes(STATUS, "enrolling", "quarantined", "rule: delete")
@takes(STATUS, "removing", "deleted", "stage: remove_maas_record")
async def delete_before_the_agent_enrols(site: Site) -> Machine:
    return await (await site.register(bootstrap_token=str(uuid4()))).asked("delete")


@takes(STATUS, "enrolling", "active", "stage: wait_for_agent_enrollment")
@takes(ONBOARDING, "running", "completed", "stage: wait_for_agent_enrollment")
async def first_heartbeat(site: Site) -> Machine:
    return await site.active()


@takes(STATUS, "enrolling", "quarantined", "intent")
@takes(ONBOARDING, "running", "failed_manual_intervention", "intent")
async def quarantine_while_onboarding(site: Site) -> Machine:
    return await (await site.enrolled()).asked("quarantine", reason="wrong rack")


@takes(STATUS, "active", "offline", "timer: heartbeat")
async def silence(site: Site) -> Machine:
    machine = await site.active()
    await site.wait(4 * MINUTE)
    return machine


@takes(STATUS, "offline", "active", "signal: health")
async def heartbeat_after_silence(site: Site) -> Machine:
    return await (await silence(site)).beat()


@takes(STATUS, "active", "quarantined", "signal: health")
async def alert_that_blocks(site: Site) -> Machine:
    return await (await site.active()).beat("xid-79")


@takes(STATUS, "active", "quarantined", "intent")
async def quarantine_of_an_active_node(site: Site) -> Machine:
    return await (await site.active()).asked("quarantine", reason="being looked at")


@takes(STATUS, "offline", "quarantined", "signal: health")
async def back_with_an_alert(site: Site) -> Machine:
    return await (await silence(site)).beat("xid-79")


@takes(STATUS, "offline", "quarantined", "intent")
async def quarantine_of_an_offline_node(site: Site) -> Machine:
    return await (await silence(site)).asked("quarantine", reason="being looked at")


@takes(STATUS, "offline", "quarantined", "rule: stop requested (drain_failed)")
@takes(STATUS, "draining", "offline", "stage: drain_node")
@takes(DECOMMISSION, "running", "failed_manual_intervention", "rule: stop requested (drain_failed)")
async def drain_that_fails_for_good(site: Site) -> Machine:
    return await (await site.draining()).finish(TaskType.DRAIN, succeeded=False, times=5)


@takes(STATUS, "offline", "quarantined", "rule: stop requested (frozen)")
@takes(STATUS, "draining", "offline", "intent")
async def drain_that_an_operator_freezes(site: Site) -> Machine:
    return await (await site.draining()).asked("mark_manual_intervention_required", reason="tenant is on holiday")


@takes(STATUS, "offline", "quarantined", "rule: condition")
@takes(STATUS, "draining", "offline", "intent")
async def cancelled_drain_of_a_quarantined_node(site: Site) -> Machine:
    return await (await drain_of_a_quarantined_node(site)).asked("cancel")


@takes(STATUS, "quarantined", "active", "intent")
async def release(site: Site) -> Machine:
    machine = await (await quarantine_of_an_active_node(site)).beat()
    return await machine.asked("release")


@takes(STATUS, "quarantined", "active", "signal: health")
async def alert_is_gone(site: Site) -> Machine:
    return await (await alert_that_blocks(site)).beat()


@takes(STATUS, "quarantined", "active", "stage: wait_for_agent_enrollment")
async def quarantined_onboarding_ends(site: Site) -> Machine:
    machine = await (await quarantine_while_onboarding(site)).asked("resume")
    return await (await machine.asked("release")).beat()


@takes(STATUS, "active", "draining", "stage: disable_node")
@takes(DECOMMISSION, "pending", "running", "rule: decommission")
async def drain(site: Site) -> Machine:
    return await site.draining()


@takes(STATUS, "active", "draining", "stage: disable_node")
async def decommission(site: Site) -> Machine:
    return await (await site.active()).asked("decommission", mode="soft_reset")


@takes(STATUS, "offline", "draining", "stage: disable_node")
async def drain_of_an_offline_node(site: Site) -> Machine:
    return await (await silence(site)).asked("drain")


@takes(STATUS, "quarantined", "draining", "stage: disable_node")
async def drain_of_a_quarantined_node(site: Site) -> Machine:
    return await (await quarantine_of_an_active_node(site)).asked("drain")


@takes(STATUS, "quarantined", "draining", "stage: drain_node")
@takes(DECOMMISSION, "failed_manual_intervention", "running", "intent")
async def drain_that_failed_is_resumed(site: Site) -> Machine:
    return await (await drain_that_fails_for_good(site)).asked("resume")


@takes(STATUS, "draining", "retired", "stage: drain_node")
@takes(DECOMMISSION, "running", "completed", "stage: retire_gpuaas_node")
async def drained(site: Site) -> Machine:
    return await site.retired()


@takes(STATUS, "draining", "offline", "intent")
@takes(DECOMMISSION, "running", "cancelled", "intent")
async def cancelled_drain(site: Site) -> Machine:
    return await (await site.draining()).asked("cancel")


@takes(STATUS, "retired", "offline", "intent")
async def reactivate(site: Site) -> Machine:
    return await (await site.retired()).asked("reactivate")


@takes(STATUS, "retired", "offline", "stage: retire_gpuaas_node")
async def soft_reset(site: Site) -> Machine:
    machine = await decommission(site)
    for type_ in (TaskType.RELEASE_ALLOCATIONS, TaskType.DRAIN, TaskType.SCRUB_GPU, TaskType.VALIDATE_CLEAN):
        await machine.finish(type_)
    return machine


@takes(STATUS, "retired", "offline", "stage: wait_for_agent_enrollment")
async def installed_anew(site: Site) -> Machine:
    machine = await (await site.retired()).asked("onboard", mode="manual")
    return await (await machine.enroll()).beat()


@takes(STATUS, "retired", "removing", "stage: remove_gpuaas_node_record")
async def remove(site: Site) -> Machine:
    return await site.removing()


@takes(STATUS, "removing", "retired", "stage: remove_gpuaas_node_record")
@takes(DECOMMISSION, "running", "failed_retryable", "stage: remove_gpuaas_node_record")
async def uninstall_that_fails(site: Site) -> Machine:
    return await (await site.removing()).finish(TaskType.UNINSTALL, succeeded=False, times=5)


@takes(STATUS, "removing", "retired", "intent")
async def cancelled_removal(site: Site) -> Machine:
    return await (await site.removing()).asked("cancel")


@takes(STATUS, "removing", "deleted", "stage: cleanup_secrets")
async def removed(site: Site) -> Machine:
    return await (await site.removing()).finish(TaskType.UNINSTALL)
