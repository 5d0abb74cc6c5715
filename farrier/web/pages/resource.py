"""The page of one resource: its state in each layer, the event for which it waits, advice, and its history.

Nodes and resources of other kinds have the same page. The page of a node also shows its workflow, machine and agent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from farrier.bulk import dry_runs
from farrier.model.advice import explanation
from farrier.model.network import segment
from farrier.model.node import details
from farrier.model.node.layers import NODE
from farrier.model.partition import partition
from farrier.model.views import timeline
from farrier.model.views.history import HistoryEntry, HistoryFilter
from farrier.model.views.nodes import NodeDetail, WorkflowView
from farrier.model.views.resources import AddressView, MemberView, ResourceView
from farrier.web.pages import actions, render
from farrier.web.server.backend import Backend, backend_of

# The refresh interval of a page that is open in a browser.
LIVE_SECONDS = 5
_RECENT = 50
# The number of changes of a workflow that a timeline can show: a hundred attempts.
_MOST_BARS = 500
_TASKS = 20
# Reports of cleanings on a page; the API has all of them.
_EVIDENCE = 3
# A workflow ends in the same commit as its last change.
_JUST_AFTER = timedelta(seconds=1)

_LINKED = frozenset({"http", "https"})
_HOST = re.compile(r"[A-Za-z0-9.\-:\[\]]+")


async def node(request: Request) -> Response:
    """GET /nodes/{name}"""
    backend = backend_of(request)
    found = await backend.queries.node(request.path_params["node"])
    (shown,) = found.rows
    tasks = await backend.queries.tasks(str(shown.id), limit=_TASKS)
    evidence = await backend.queries.evidence(str(shown.id), limit=_EVIDENCE)
    explained = await dry_runs.explained(backend.requests, found, backend.limits, backend.patience, backend.period)
    recent = await _recent(backend, NODE, shown.id)
    workflow = shown.last_workflow
    if workflow is None:
        course, title = timeline.of_changes(recent, explained.clocks, found.now), "all layers"
    else:
        changes = await _during(backend, shown.id, workflow)
        course, title = timeline.of_workflow(workflow, changes, explained.clocks, found.now), _title(workflow)
    values = {
        "at": "nodes",
        "now": found.now,
        "resource": shown,
        "details": details.shown(shown),
        "flags": tuple(details.flags(shown)),
        "bmc_url": bmc_url(shown),
        "maas_url": maas_url(shown),
        "tasks": tasks.rows,
        "evidence": evidence.rows,
        "choices": await actions.of_node(request, shown),
        "why": explained,
        "timeline": course,
        "title": title,
    }
    common = _common(NODE, shown.id, shown.requests, recent)
    return render.page(request, "node.html", values | common | _dashboard(backend, NODE, shown))


async def resource(request: Request) -> Response:
    """GET /resources/{kind}/{name}"""
    backend = backend_of(request)
    found = await backend.queries.resource(request.path_params["kind"], request.path_params["name"])
    (detail,) = found.rows
    shown = detail.resource
    explained = explanation.explain_resource(detail, found.now, backend.limits, period=backend.period)
    recent = await _recent(backend, shown.kind, shown.id)
    values = {
        "at": "resources",
        "now": found.now,
        "resource": shown,
        "choices": await actions.of_resource(request, shown),
        "why": explained,
        "timeline": timeline.of_changes(recent, explained.clocks, shown.ended_at or found.now),
        "title": "all layers",
        "allocated": await _allocated(backend, shown),
    }
    common = _common(shown.kind, shown.id, detail.requests, recent)
    return render.page(request, "resource.html", values | common | _dashboard(backend, shown.kind, shown))


async def _allocated(backend: Backend, shown: ResourceView) -> Sequence[AddressView | MemberView]:
    """Return the addresses of a segment, or the ports of a partition; nothing for other kinds."""
    if shown.kind == segment.KIND:
        return (await backend.queries.addresses(str(shown.id))).rows
    if shown.kind == partition.KIND:
        return (await backend.queries.members(str(shown.id))).rows
    return ()


def _common(kind: str, id_: int, requests: Sequence[Any], recent: Sequence[HistoryEntry]) -> dict[str, Any]:
    past = f"/history?{urlencode({'resource': f'{kind}/{id_}'})}"
    return {"every": LIVE_SECONDS, "requests": requests, "changes": recent, "past": past}


def _dashboard(backend: Backend, kind: str, shown: NodeDetail | ResourceView) -> dict[str, str]:
    given = {"kind": kind, "name": shown.name, "site": shown.site or ""}
    return {"dashboard_url": dashboard_url(backend.dashboards_url, given)}


async def _recent(backend: Backend, kind: str, id_: int) -> tuple[HistoryEntry, ...]:
    return (await backend.queries.history(HistoryFilter(resource=(kind, str(id_))), limit=_RECENT)).changes


async def _during(backend: Backend, id_: int, workflow: WorkflowView) -> tuple[HistoryEntry, ...]:
    """Return the changes of a node during a workflow."""
    wanted = HistoryFilter(
        resource=(NODE, str(id_)),
        since=workflow.created_at,
        until=None if workflow.ended_at is None else workflow.ended_at + _JUST_AFTER,
    )
    return (await backend.queries.history(wanted, limit=_MOST_BARS)).changes


def _title(workflow: WorkflowView) -> str:
    mode = f" ({workflow.mode})" if workflow.mode else ""
    return f"{workflow.kind} {workflow.id}{mode}, {workflow.status}"


def dashboard_url(template: str, given: Mapping[str, str]) -> str:
    """Return the URL of a resource's dashboard; empty without a template. No value can change the rest of it."""
    for name, value in given.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template


def bmc_url(shown: NodeDetail) -> str | None:
    """Return the URL of the BMC; None if the address is no plain host, so that no link leads to another server."""
    address = shown.bmc_address or ""
    if "://" not in address:
        address = f"https://{address}"
    try:
        parts = urlsplit(address)
        known = parts.scheme in _LINKED and "@" not in parts.netloc and _HOST.fullmatch(parts.netloc)
    except ValueError:
        return None
    return f"{parts.scheme}://{parts.netloc}/" if known else None


def maas_url(shown: NodeDetail) -> str | None:
    """Return the URL of the node's machine in MAAS. None if the node has no region or no machine in MAAS."""
    if shown.maas is None or shown.region is None or not shown.region.url:
        return None
    if urlsplit(shown.region.url).scheme not in _LINKED:
        return None
    return f"{shown.region.url}/r/machine/{quote(shown.maas.system_id, safe='')}/summary"
