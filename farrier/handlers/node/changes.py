"""The results of a node's rules and stages, and functions that change a node.

A rule returns a `Decision`; `transition` returns a Transition or an Update for a changed node, depending on the change.
A stage is an idempotent function of the snapshot. A stage checks what is already done, takes at most one step, and
returns a `Done`, a `Waiting`, a `StageStep` or a `Failed`. If a stage needs an outside service first, it returns a
`ServiceCall`; the call then returns one of these results.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from farrier.config import NodeConfig
from farrier.config.sites import MaasSite, Site
from farrier.model.loop import outcome
from farrier.model.loop.outcome import Deleted, DoNothing, EndsBy, Made, Transition, Update, Wait, source_line
from farrier.model.maas.reading import MaasStatus
from farrier.model.machine import health
from farrier.model.machine.bmc import PowerState
from farrier.model.machine.observation import Outage, without
from farrier.model.node import conditions, sla, stages
from farrier.model.node.conditions import Source
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import Layer, Management
from farrier.model.node.snapshot import NO_TIME, Decommission, Node, StopRequest, Workflow
from farrier.model.node.spec import STAGE_LAYERS
from farrier.model.node.writes import Write
from farrier.protocols import BmcClient, Identities, NodeCredentials, Regions


class NodeServices(msgspec.Struct, frozen=True):
    """The services of a node's steps."""

    bmc: BmcClient
    credentials: NodeCredentials
    maas: Regions
    identities: Identities


class Policy(NodeConfig, frozen=True, kw_only=True):
    """The settings of nodes, the limits that differ from the defaults (`model.limits.KEYS`), and the sites by name."""

    sla: Mapping[str, timedelta] = {}
    sites: Mapping[str, Site] = {}

    def site_of(self, node: Node) -> Site | None:
        """Return the configuration of the node's site; None if the site has no configuration."""
        return None if node.site is None else self.sites.get(node.site)

    def maas_of(self, node: Node) -> MaasSite | None:
        """Return the MAAS region of the node's site; None if the settings have no region for this site."""
        site = self.site_of(node)
        return None if site is None else site.maas


Change: TypeAlias = outcome.Change[Node, Write]
Outcome: TypeAlias = Change | Wait[Write] | DoNothing[Write] | Deleted[Write]
NodeStep: TypeAlias = outcome.Step[Node, Write, NodeServices]
Decision: TypeAlias = Outcome | NodeStep


class Done(Made, frozen=True, kw_only=True):
    """The stage is done, and the next stage begins in this commit. `to` is the node after this stage. `skipped` is the
    reason why the stage had nothing to do."""

    reason: str
    to: Node | None = None
    skipped: str | None = None
    writes: tuple[Write, ...] = ()


class Waiting(Made, frozen=True, kw_only=True):
    """The stage is not done yet. `ends_by` is what ends the wait. If `timed` is set, the stage fails when it waits
    longer than its deadline."""

    reason: str
    ends_by: EndsBy = EndsBy.ITSELF
    requeue_after: timedelta | None = None
    timed: bool = True
    writes: tuple[Write, ...] = ()


class StageStep(Made, frozen=True, kw_only=True):
    """A transition of the node while the stage continues."""

    to: Node
    reason: str
    writes: tuple[Write, ...] = ()


class Failed(Made, frozen=True, kw_only=True):
    """This attempt of the stage failed. With `stop`, the stage is not retried, even if the stop takes several
    transitions. `attempt` is the number of this attempt if earlier attempts led through other stages, where the
    workflow's own count begins again."""

    failure: FailureClass
    detail: str
    stop: StopRequest | None = None
    attempt: int | None = None


Settled: TypeAlias = Done | Waiting | StageStep | Failed

# The call waits for a slot of the region, reads the machine and sends one change, during which the region may wait for
# the machine's BMC. A step that changes something is never interrupted, so this limit bounds the wait of an intent.
CALL_DEADLINE = timedelta(seconds=60)


class ServiceCall(Made, frozen=True, kw_only=True):
    """The stage needs an outside service first. The loop awaits `act` with the services, without a database connection.
    `act` returns the result of the stage, and may run again after a crash at any point. If `reads_only` is set, an
    intent that must not wait interrupts the call."""

    name: str
    act: Callable[[NodeServices], Awaitable[Settled]]
    reads_only: bool


StageResult: TypeAlias = Settled | ServiceCall


def step_of(node: Node, call: ServiceCall, settle: Callable[[Settled], Outcome]) -> NodeStep:
    """Return the step that awaits the call; `settle` turns the call's result into an outcome. If the call raises or
    misses its deadline, it has no result. Such a call is counted, because otherwise its stage would repeat it without
    end."""
    workflow = node.live

    async def act(services: NodeServices) -> Outcome:
        return settle(await call.act(services))

    interrupted = Update[Node, Write](
        to=with_note(node, interruptions=workflow.memo.interruptions + 1),
        reason=f"{call.name} was interrupted",
        quiet=True,
    )
    return outcome.Step(
        name=call.name, act=act, deadline=CALL_DEADLINE, reads_only=call.reads_only, if_interrupted=interrupted
    )


Stage: TypeAlias = Callable[[Node, datetime, Policy], StageResult]


def transition(
    node: Node, to: Node, *, reason: str, cause: str, writes: tuple[Write, ...] = (), source: str = ""
) -> Change:
    """Return the outcome that changes `node` to `to`: a Transition if any layer differs, otherwise an Update."""
    if not source:
        at = sys._getframe(1)
        source = source_line(at.f_globals.get("__name__", ""), at.f_code.co_filename, at.f_lineno)
    if layers(node) != layers(to):
        return Transition(to=to, reason=reason, cause=cause, writes=writes, source=source)
    return Update(to=to, reason=reason, requeue_after=timedelta(0), writes=writes, source=source)


def with_fields(node: Node, **fields: Any) -> Node:
    """Return the node with these fields changed."""
    return msgspec.structs.replace(node, **fields)


def with_workflow(node: Node, **fields: Any) -> Node:
    """Return the node with these fields changed in its live workflow."""
    return msgspec.structs.replace(node, workflow=msgspec.structs.replace(node.live, **fields))


def own(node: Node) -> Decommission:
    """Return the decommission to which the running stage belongs."""
    assert isinstance(node.workflow, Decommission), "the node's workflow is a decommission"
    return node.workflow


def attempt_began_at(workflow: Workflow) -> datetime:
    """Return when the running attempt of the stage began. A new attempt does not change `stage_entered_at`."""
    return max(workflow.stage_entered_at, workflow.status_entered_at)


def waits_since(workflow: Workflow) -> datetime:
    """Return the time from which the deadline of the running attempt counts: its beginning, or a later unpause."""
    return max(attempt_began_at(workflow), workflow.memo.unpaused_at or NO_TIME)


def is_late(node: Node, now: datetime, policy: Policy, *, since: datetime | None = None) -> bool:
    """Return whether the running attempt has waited longer than the deadline of its stage. With `since`, the work that
    began then counts instead of the attempt."""
    workflow = node.live
    assert workflow.stage is not None, "only a stage has a deadline"
    deadline = sla.stage_deadline(Layer(workflow.kind), workflow.stage, overrides=policy.sla)
    return waited(node, waits_since(workflow) if since is None else since, now) > deadline


def waited(node: Node, since: datetime, now: datetime) -> timedelta:
    """Return how much of the time from `since` to `now` counts against the deadline of a stage: all time except outages
    of farrier and of MAAS and, if the stage waits for the agent, of all doors."""
    for_agent = node.workflow is not None and node.workflow.stage is stages.OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT
    return without((*node.gaps, *outages(node), *(node.unreachable if for_agent else ())), since, now)


def attended(node: Node, since: datetime, now: datetime) -> timedelta:
    """Return the time from `since` to `now` without outages of farrier, for limits that do not depend on MAAS."""
    return without(node.gaps, since, now)


def reachable(node: Node, since: datetime, now: datetime) -> timedelta:
    """Return the time from `since` to `now` in which the node's agent could report: without outages of farrier and, if
    the agent uses doors, of all doors."""
    return without((*node.gaps, *node.unreachable), since, now)


def outages(node: Node) -> tuple[Outage, ...]:
    """Return the outages of the region that delay the live workflow; none if its stage does not use MAAS."""
    workflow = node.workflow
    held_up = workflow is not None and uses_maas(workflow)
    return node.outages if held_up else ()


def uses_maas(workflow: Workflow) -> bool:
    """Return whether the current stage of the workflow uses MAAS."""
    return stages.uses_maas(workflow.mode, workflow.stage, workflow.options.cleaned_by)


def is_unread(node: Node) -> bool:
    """Return whether farrier cannot read the node's region now, so that a failure is not the node's fault."""
    return any(outage.ended_at is None for outage in outages(node))


def ended_with_the_workflow(node: Node) -> Node:
    """Return the node without the conditions that end when it is retired or when its onboarding is complete."""
    return with_fields(node, conditions=conditions.without_source(node.conditions, *conditions.ENDS_WITH_A_WORKFLOW))


def with_note(node: Node, **fields: Any) -> Node:
    """Return the node with these fields changed in the `memo` of its live workflow."""
    workflow, replace = node.live, msgspec.structs.replace
    return replace(node, workflow=replace(workflow, memo=replace(workflow.memo, **fields)))


def vitals(node: Node, now: datetime, config: Policy) -> health.Vitals:
    """Return the facts about the node's health, from its agent or else from reads of its BMC and of MAAS."""
    if not node.agentless:
        agent = node.agent
        if agent is None:
            return health.Vitals(agentless=False)
        heard_at, told = agent.last_heartbeat_at, node.conditions
        heard = heard_at is not None and now - heard_at <= config.offline_after
        return health.Vitals(
            agentless=False,
            heard=heard,
            awaited=heard or (heard_at is not None and reachable(node, heard_at, now) <= config.offline_after),
            blocking=tuple(each for each in conditions.quarantining(told) if each.source == Source.AGENT)
            if told
            else (),
            is_off=node.bmc.power is PowerState.OFF
            and _is_newer(node, heard_at)
            and has_fresh_power(node, now, config),
        )
    seen = node.maas
    fresh = seen is not None and seen.fresh(now, config.observation_ttl)
    return health.Vitals(
        agentless=True,
        has_bmc=node.has_bmc,
        has_maas=node.maas_id is not None,
        power=node.bmc.power if has_fresh_power(node, now, config) else None,
        deployed=seen.state is MaasStatus.DEPLOYED if seen is not None and fresh else None,
    )


def _is_newer(node: Node, heard_at: datetime | None) -> bool:
    """Return whether the present power was first read after the last heartbeat. Later readings of the same power do not
    count: after a heartbeat, they show that the BMC is wrong."""
    read_at = node.bmc.power_since or node.bmc.power_at
    return read_at is not None and (heard_at is None or read_at >= heard_at)


def unproven_health(node: Node, now: datetime, config: Policy) -> str | None:
    """Return why fresh facts do not prove that the node is healthy, or None."""
    return health.unproven(vitals(node, now, config))


def has_fresh_power(node: Node, now: datetime, config: Policy) -> bool:
    """Return whether the last read of the node's power is recent enough for decisions. While reads succeed without a
    change, the time of the last read is stored only every `confirmed_every`. When reads stop or fail, the time of the
    last successful read is stored."""
    bmc = node.bmc
    is_read = node.management is Management.MANAGEABLE and node.paused is None and not node.deleting
    goes_on = is_read and bmc.sync_failure is None
    known_for = config.observation_ttl + config.confirmed_every if goes_on else config.observation_ttl
    return bmc.power_at is not None and now - bmc.power_at <= known_for


def at_stage(node: Node, stage: stages.Stage, *, attempt: int = 1) -> Node:
    """Return the node at another stage of its live workflow."""
    return with_workflow(node, stage=stage, attempt=attempt)


def layers(node: Node) -> dict[str, str]:
    """Return the node's state in each layer."""
    values: dict[str, str] = {"status": node.status, "management": node.management}
    workflow = node.workflow
    if workflow is not None:
        values[workflow.kind] = workflow.status
        if workflow.stage is not None:
            values[STAGE_LAYERS[workflow.kind]] = workflow.stage
    return values


# Limits of the names in a reason.
_MOST_NAMES = 12
_LONGEST_NAME = 60


def listed(names: Iterable[str]) -> str:
    """List names for a detail. The number of names and the length of each are limited."""
    known = [name[:_LONGEST_NAME] for name in names]
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return (", ".join(known[:_MOST_NAMES]) or "none") + more
