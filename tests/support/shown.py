"""A node as `farrier node why` reads it, made from a snapshot of its handler."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from farrier.model.loop.outcome import Record
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.conditions import quarantining
from farrier.model.node.layers import LIVE
from farrier.model.node.snapshot import Node, Workflow
from farrier.model.views.nodes import MaasView, NodeDetail, RegionView, WorkflowView

REST = Record("do_nothing", "", "x.py:1")


def workflow_view(job: Workflow) -> WorkflowView:
    fields = {name: getattr(job, name) for name in WorkflowView.__struct_fields__ if hasattr(job, name)}
    return WorkflowView(
        **{
            "mode": None,
            "stage": None,
            "created_at": job.stage_entered_at,
            "leave_out": job.options.leave_out,
            "cleaned_by": job.options.cleaned_by,
            **fields,
            "kind": job.kind,
        }
    )


def maas_view(seen: MaasObservation) -> MaasView:
    fields = {name: getattr(seen, name) for name in MaasView.__struct_fields__ if hasattr(seen, name)}
    return MaasView(**{"stale_since": None, **fields})


def detail(it: Node, now: datetime, *, outcome: Record = REST, **fields: Any) -> NodeDetail:
    """The view of a node in a site whose region belongs to farrier's user."""
    live = workflow_view(it.workflow) if it.workflow is not None and it.workflow.status in LIVE else None
    region = None
    if it.site is not None:
        region = RegionView(
            site=it.site, state="observing", since=now, username="farrier", complete_at=now, last_error=None
        )
    own: dict[str, Any] = {
        name: getattr(it, name)
        for name in NodeDetail.__struct_fields__
        if name in Node.__struct_fields__ and name not in ("workflow", "maas", "paused", "region", "unreachable")
    }
    standing = quarantining(it.conditions)
    causes = [f"{each.source}/{each.id}" for each in standing]
    reasons = [each.message or each.id for each in standing]
    own |= {
        "created_at": it.status_entered_at,
        "verify_pending_at": it.bmc.asked_at,
        "schedulable": it.status == "active",
        "paused": it.paused and it.paused.reason,
        "quarantine_cause": ", ".join(causes) or None,
        "quarantine_reason": "; ".join(reasons) or None,
        "last_heartbeat_at": it.agent and it.agent.last_heartbeat_at,
        "enrolled_at": it.agent and it.agent.enrolled_at,
        "alerts": it.agent.health.alerts if it.agent else (),
        "workflow": live,
        "last_workflow": live,
        "last_onboarding": None,
        "maas": maas_view(it.maas) if it.maas is not None else None,
        "region": region,
        "held_here": it.onboarded_by is not None,
        "outcome": outcome,
        "outcome_at": now,
        "controller": "rack-1",
        "swept_at": now - timedelta(seconds=1),
        "step": None,
        "step_begun_at": None,
        "requests": (),
    }
    return NodeDetail(**own | fields)
