"""How a node's rules say what they want: the outcome types bound to nodes, and one way to change a node.

`become` makes a Transition or an Update of a changed node, whichever it is; `job` changes fields of its live workflow.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from farrier.config import NodeConfig
from farrier.config.sites import Site
from farrier.handlers.node.kind import NODE_KIND
from farrier.model import health, sla, stages
from farrier.model.edges import Layer
from farrier.model.failures import QuarantineCause
from farrier.model.maas import MaasStatus
from farrier.model.node import NO_TIME, Node, Quarantine, Workflow
from farrier.model.observation import Outage, unread
from farrier.model.outcome import Deleted, DoNothing, Step, Transition, Update, Wait, line_of
from farrier.model.writes import Write
from farrier.protocols import BmcClient, Identities, NodeCredentials, Regions


class NodeServices(msgspec.Struct, frozen=True):
    """What a node's steps may use."""

    bmc: BmcClient
    credentials: NodeCredentials
    maas: Regions
    identities: Identities


class Policy(NodeConfig, frozen=True, kw_only=True):
    """The settings of nodes, the limits that are not the default (`model.sla.KEYS`), and the sites by name."""

    sla: Mapping[str, timedelta] = {}
    sites: Mapping[str, Site] = {}

    def site_of(self, node: Node) -> Site | None:
        """What is configured for the node's site; None if nothing is."""
        return None if node.site is None else self.sites.get(node.site)


Change: TypeAlias = Transition[Node, Write] | Update[Node, Write]
Outcome: TypeAlias = Change | Wait[Write] | DoNothing[Write] | Deleted[Write]
Decision: TypeAlias = Outcome | Step[Node, Write, NodeServices]


def transition(
    node: Node, to: Node, *, reason: str, cause: str, writes: tuple[Write, ...] = (), source: str = ""
) -> Change:
    """The outcome that turns `node` into `to`: a Transition if any layer differs, an Update if only payload does."""
    source = source or line_of(sys._getframe(1))
    if _layers(node) != _layers(to):
        return Transition(to=to, reason=reason, cause=cause, writes=writes, source=source)
    return Update(to=to, reason=reason, requeue_after=timedelta(0), writes=writes, source=source)


def with_fields(node: Node, **fields: Any) -> Node:
    """`node` with some of its own fields changed. No other cause, and no end of a quarantine, replaces a cleanup that
    was not validated: only `unclean.cleared` does."""
    if node.failed_validation and "quarantine" in fields:
        cause: Quarantine | None = fields["quarantine"]
        if cause is None or cause.cause is not QuarantineCause.CLEANUP_VALIDATION_FAILED:
            del fields["quarantine"]
    return msgspec.structs.replace(node, **fields)


def with_workflow(node: Node, **fields: Any) -> Workflow:
    """The node's live workflow with some fields changed."""
    assert node.workflow is not None, "asked for only while a workflow is live"
    return msgspec.structs.replace(node.workflow, **fields)


def attempt_began_at(workflow: Workflow) -> datetime:
    """When the running attempt of the stage began: another attempt does not enter the stage anew."""
    return max(workflow.stage_entered_at, workflow.status_entered_at)


def waits_since(workflow: Workflow) -> datetime:
    """When the deadline of what the running attempt waits for began: a pause does not count against it."""
    return max(attempt_began_at(workflow), workflow.upstream.unpaused_at or NO_TIME)


def is_late(node: Node, now: datetime, policy: Policy) -> bool:
    """Whether the running attempt has waited for longer than its stage may."""
    workflow = node.workflow
    assert workflow is not None and workflow.stage is not None, "only a stage has a deadline"
    deadline = sla.stage_deadline(Layer(workflow.kind), workflow.stage, overrides=policy.sla)
    return waited(node, waits_since(workflow), now) > deadline


def waited(node: Node, since: datetime, now: datetime) -> timedelta:
    """How much of the time since then counts against a stage: not that in which nothing could be read of MAAS."""
    return now - since - unread(outages(node), since, now)


def outages(node: Node) -> tuple[Outage, ...]:
    """The outages of the region that hold the live workflow up: none where its stage has nothing to do with MAAS."""
    workflow = node.workflow
    held_up = workflow is not None and stages.uses_maas(workflow.mode, workflow.stage)
    return node.outages if held_up else ()


def is_unread(node: Node) -> bool:
    """Whether the region of the node's site cannot be read now, so that what fails there is no fault of the node."""
    return any(outage.ended_at is None for outage in outages(node))


def with_note(node: Node, **fields: Any) -> Node:
    """The node with some of what its live workflow remembers of MAAS changed."""
    assert node.workflow is not None, "asked for only while a workflow is live"
    return with_fields(
        node, workflow=with_workflow(node, upstream=msgspec.structs.replace(node.workflow.upstream, **fields))
    )


def vitals(node: Node, now: datetime, config: Policy) -> health.Vitals:
    """What is known of the node's health, gathered from all layers."""
    agent, seen = node.agent, node.maas
    fresh = seen is not None and seen.fresh(now, config.observation_ttl)
    return health.Vitals(
        agentless=node.agentless,
        has_bmc=node.has_bmc,
        has_maas=node.maas_id is not None,
        last_heartbeat_at=None if agent is None else agent.last_heartbeat_at,
        report=None if agent is None else agent.health,
        power=node.bmc.power if has_fresh_power(node, now, config) else None,
        deployed=seen.state is MaasStatus.DEPLOYED if seen is not None and fresh else None,
    )


def proven_healthy(node: Node, now: datetime, config: Policy) -> health.Healthy | health.Unhealthy:
    """Whether the node is healthy by fresh facts."""
    facts = vitals(node, now, config)
    return health.healthy(facts, now, offline_after=config.offline_after)


def has_fresh_power(node: Node, now: datetime, config: Policy) -> bool:
    """Whether the node's power was read so lately that it may be decided on."""
    return node.has_fresh_power(now, ttl=config.observation_ttl, confirmed_every=config.confirmed_every)


def _layers(node: Node) -> dict[str, str]:
    return dict(NODE_KIND.target_layers(node))
