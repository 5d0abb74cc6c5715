"""Implements `protocols.Queries` and `Requests` over the HTTP API, so that a command works without
the database.

Limits come from the server's settings. Errors are classes of `farrier.client.errors`; commands print them like errors
of the database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import structlog

from farrier import tls
from farrier.client import calls
from farrier.client.asynchronous import AsyncFarrier
from farrier.client.calls import ApiCall, Filter, Nothing
from farrier.client.errors import NotAccepted
from farrier.config import ClientConfig
from farrier.errors import ConfigError
from farrier.model.intents.preview import Foreseen
from farrier.model.intents.requests import IntentAnswer, IntentRequest, IntentStatus, Registered, Registration
from farrier.model.loop.restores import HoldView, Lift, Lifted
from farrier.model.monitors.monitor import MonitorView, RefusalView
from farrier.model.node.clocks import Overdue, OverduePage
from farrier.model.node.details import DETAILS
from farrier.model.node.layers import NODE
from farrier.model.node.limits import Limits
from farrier.model.views.fleet import BrakeView, ShardOwnership
from farrier.model.views.history import HistoryFilter, HistoryKey, HistoryPage, Order, parse_key
from farrier.model.views.intents import IntentPage, IntentView, WantedIntents
from farrier.model.views.nodes import EvidenceView, NodeDetail, NodeFilter, NodeView, Page, TaskView
from farrier.model.views.resources import (
    AddressView,
    KindView,
    LateResource,
    MemberView,
    ResourceDetail,
    ResourceView,
    WantedResources,
)
from farrier.model.views.responses import (
    Addresses,
    Bootstrap,
    Brakes,
    Breaches,
    Changes,
    Enqueued,
    EvidenceList,
    ForeseenAnswers,
    Holds,
    Kinds,
    LiftedHolds,
    Members,
    Monitors,
    Refusals,
    ShownResource,
    Tasks,
)

_log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def remote(config: ClientConfig) -> AsyncIterator[Remote]:
    """Open a session with the configured server. Raises ConfigError for an invalid URL or an unusable file."""
    verify = tls.verifying(_found(config.ca_file))
    async with AsyncFarrier(config.api, token=token_of(config.token_file), verify=verify) as api:
        yield Remote(api)


def _found(file: str) -> str:
    return str(Path(file).expanduser()) if file else ""


def token_of(file: str) -> str | None:
    """Return the token in the file; None without a file. Raises ConfigError."""
    if not file:
        return None
    try:
        text = Path(file).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"client.token_file: cannot read {file}: {error}") from error
    token = text.removeprefix("\ufeff").strip()
    if not token or not token.isascii() or any(char.isspace() for char in token):
        raise ConfigError(f"client.token_file: {file} must contain only one line, the token")
    if token != text.removesuffix("\n").removesuffix("\r"):
        _log.warning("client.token_trimmed", file=file, ignored="a byte order mark or white space around the token")
    return token


class Remote:
    """Implements both protocols for one server."""

    def __init__(self, api: AsyncFarrier) -> None:
        self._api = api

    # --- Queries

    async def inventory(self, wanted: NodeFilter, *, after: str = "", limit: int = 1000) -> Page[NodeView]:
        page = await self._api.call(calls.nodes(_of_nodes(wanted), after, limit))
        return Page(page.now, page.nodes)

    async def overdue(self, wanted: NodeFilter, _limits: Limits, *, limit: int | None = None) -> OverduePage:
        late = await self._api.call(ApiCall(path="/breaches", type=Breaches, query=calls.query_of(_of_nodes(wanted))))
        rows = tuple(Overdue(each.node, tuple(clock.clock() for clock in each.clocks)) for each in late.nodes)
        return OverduePage(late.now, rows[:limit], more=late.more_nodes + len(rows[limit:] if limit else ()))

    async def node(self, node: str) -> Page[NodeDetail]:
        shown = await self._api.call(calls.node(node))
        return Page(shown.now, (shown.node,))

    async def history(
        self,
        wanted: HistoryFilter,
        *,
        order: Order = Order.NEWEST,
        after: HistoryKey | None = None,
        limit: int = 1000,
    ) -> HistoryPage:
        key = None if after is None else after.text
        query = calls.query_of(_of_history(wanted) | _given({"order": order.value, "limit": limit, "after": key}))
        page = await self._api.call(ApiCall(path="/history", type=Changes, query=query))
        return HistoryPage(page.changes, None if page.next is None else parse_key(page.next))

    async def tasks(self, node: str | None, statuses: Sequence[str] = (), *, limit: int = 1000) -> Page[TaskView]:
        query = calls.query_of(_given({"status": tuple(statuses), "node": node, "limit": limit}))
        page = await self._api.call(ApiCall(path="/tasks", type=Tasks, query=query))
        return Page(page.now, page.tasks)

    async def evidence(self, node: str, *, limit: int = 1000) -> Page[EvidenceView]:
        path = f"/nodes/{calls.quoted(node)}/evidence"
        found = await self._api.call(ApiCall(path=path, type=EvidenceList, query=calls.query_of({"limit": limit})))
        return Page(found.now, found.evidence)

    async def holds(self, kind: str | None = None, site: str | None = None) -> Page[HoldView]:
        query = calls.query_of(_given({"kind": kind, "site": site}))
        page = await self._api.call(ApiCall(path="/restore-holds", type=Holds, query=query))
        return Page(page.now, page.holds)

    async def controllers(self) -> ShardOwnership:
        return await self._api.controllers()

    async def brakes(self) -> Page[BrakeView]:
        found = await self._api.call(ApiCall(path="/brakes", type=Brakes))
        return Page(found.now, found.brakes)

    async def monitors(self, name: str | None = None) -> Page[MonitorView]:
        found = await self._api.call(ApiCall(path="/monitors", type=Monitors))
        return Page(found.now, tuple(each for each in found.monitors if name in (None, each.name)))

    async def refusals(self, monitor: str | None = None, *, limit: int = 1000) -> Page[RefusalView]:
        query = calls.query_of(_given({"monitor": monitor, "limit": limit}))
        found = await self._api.call(ApiCall(path="/monitors/refusals", type=Refusals, query=query))
        return Page(found.now, found.refusals)

    async def kinds(self, kind: str | None = None, *, counted: bool = True) -> tuple[KindView, ...]:
        # Reads all kinds, because the API refuses an unknown kind.
        call = ApiCall(path="/resources", type=Kinds, query=calls.query_of(_given({"counted": counted})))
        return tuple(each for each in (await self._api.call(call)).kinds if kind in (None, each.kind))

    async def resources(
        self, wanted: WantedResources, *, after: tuple[str, int] = ("", 0), limit: int = 1000
    ) -> Page[ResourceView]:
        filters = _given(
            {"name": wanted.names, "state": wanted.states, "site": wanted.sites, "ended": wanted.ended},
        )
        key = f"{after[0]}:{after[1]}" if after[0] else ""
        page = await self._api.call(calls.resources(wanted.kind, filters, key, limit))
        return Page(page.now, page.resources)

    async def resource(self, kind: str, given: str) -> Page[ResourceDetail]:
        path = calls.resource_path(kind, given)
        shown = await self._api.call(ApiCall(path=path, type=ShownResource))
        return Page(shown.now, (ResourceDetail(resource=shown.resource, requests=shown.requests),))

    async def intent(self, kind: str | None, intent: int) -> Page[IntentView]:
        found = await self._api.call(calls.intent(kind or "", intent, 0))
        # The response with one intent lacks the server's time; the response with a list contains it.
        return Page((await self._api.call(calls.intents(kind or "", {}, None, 1))).now, (found,))

    async def intents(
        self, kind: str | None, wanted: WantedIntents, *, before: int | None = None, limit: int = 1000
    ) -> IntentPage:
        name = "node" if kind == NODE else "resource"
        filters = _given(
            {
                name: wanted.resource,
                "status": wanted.statuses,
                "action": wanted.actions,
                "requested_by": wanted.requested_by,
            }
        )
        page = await self._api.call(calls.intents(kind or "", filters, before, limit))
        return IntentPage(page.now, page.intents, page.next)

    async def late(self, _limits: Limits, *, limit: int = 1000) -> Page[LateResource]:
        late = await self._api.call(ApiCall(path="/breaches", type=Breaches))
        return Page(late.now, late.resources[:limit])

    async def addresses(self, segment: str) -> Page[AddressView]:
        path = f"{calls.resource_path('network_segment', segment)}/addresses"
        page = await self._api.call(ApiCall(path=path, type=Addresses))
        return Page(page.now, page.addresses)

    async def members(self, partition: str) -> Page[MemberView]:
        path = f"{calls.resource_path('ib_partition', partition)}/members"
        page = await self._api.call(ApiCall(path=path, type=Members))
        return Page(page.now, page.members)

    # --- Requests

    async def ask(self, request: IntentRequest) -> int:
        """Submit the intent. The response may already contain the intent's answer, which `answer` then returns."""
        try:
            return (await self._api.call(calls.submit(request, 0))).id
        except NotAccepted as answered:
            return answered.intent.id

    async def foresee(
        self, kind: str, asked: Sequence[IntentRequest], patience: timedelta
    ) -> tuple[Foreseen | None, ...]:
        questions = [{"resource": each.resource, "action": each.action, "params": each.params} for each in asked]
        body = {"kind": kind, "intents": questions, "seconds": patience.total_seconds()}
        call = ApiCall(method="POST", path="/foreseen", type=ForeseenAnswers, body=body)
        return (await self._api.call(call)).answers

    async def answer(self, kind: str, intent: int, patience: timedelta) -> IntentAnswer | None:
        found = await self._api.intent(intent, kind=kind, wait=patience.total_seconds())
        if found.status == IntentStatus.PENDING:
            return None
        return IntentAnswer(
            intent=found.id,
            kind=found.kind,
            resource=found.resource,
            status=found.status,
            reason=found.reason,
            answered_at=found.answered_at,
        )

    async def register(self, registrations: Sequence[Registration]) -> tuple[Registered, ...]:
        new = [_new_node(each) for each in registrations]
        return (await self._api.call(calls.register(new))).nodes

    async def issue_bootstrap(self, node: str, _ttl: timedelta) -> str:
        path = f"{calls.node(node).path}/bootstrap"
        return (await self._api.call(ApiCall(method="POST", path=path, type=Bootstrap, again=False))).bootstrap_token

    async def lift_brake(self, site: str, *, reason: str, lasts: timedelta, requested_by: str | None = None) -> None:
        body = {"reason": reason, "seconds": lasts.total_seconds(), "requested_by": requested_by}
        path = f"/sites/{calls.quoted(site)}/brake-lift"
        await self._api.call(ApiCall(method="POST", path=path, type=Nothing, body=body))

    async def lift_holds(self, lift: Lift) -> tuple[Lifted, ...]:
        call = ApiCall(method="POST", path="/restore-holds/lift", type=LiftedHolds, body=msgspec.to_builtins(lift))
        return (await self._api.call(call)).resources

    async def enqueue(self, kind: str, resource: str) -> int:
        path = f"{calls.resource_path(kind, resource)}/enqueue"
        return (await self._api.call(ApiCall(method="POST", path=path, type=Enqueued))).id


def _new_node(given: Registration) -> calls.NewNode:
    details = {name: getattr(given, name) for name in DETAILS}
    return calls.NewNode(
        name=given.name,
        bmc_address=given.bmc_address,
        bmc_credential=given.bmc_credential,
        bootstrap=given.bootstrap_token is not None,
        **details,
    )


def _given(filters: Mapping[str, Filter | None]) -> dict[str, Filter]:
    """Return the filters that select something: an empty field of a filter accepts all rows."""
    return {name: value for name, value in filters.items() if value not in (None, ())}


def _of_nodes(wanted: NodeFilter) -> dict[str, Filter]:
    return _given(
        {
            "name": wanted.names,
            "label": tuple(map(str, wanted.labels)),
            "status": wanted.statuses,
            "management": wanted.managements,
            **wanted.details,
            "failed": wanted.failed,
        }
    )


def _of_history(wanted: HistoryFilter) -> dict[str, Filter]:
    return _given(
        {
            "kind": wanted.kinds,
            "layer": wanted.layers,
            "from": wanted.sources,
            "to": wanted.targets,
            "cause": wanted.causes,
            "requested_by": wanted.requested_by,
            "reason": wanted.reason,
            "resource": "/".join(wanted.resource or ()) or None,
            "since": wanted.since,
            "until": wanted.until,
            "at_least": wanted.at_least,
        }
    )
