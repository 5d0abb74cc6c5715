"""The API's operations on resources of registered kinds: list kinds, list resources, and show one resource.

The module has the same rules for pages as `nodes`.
"""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from farrier.config.reading import nearest
from farrier.model.network import segment
from farrier.model.node.limits import Limits
from farrier.model.partition import partition
from farrier.model.views.resources import ResourceView, WantedResources, clocks_of
from farrier.model.views.responses import (
    Addresses,
    ClockedResource,
    ClockView,
    Kinds,
    Members,
    ResourceList,
    ShownResource,
)
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, reads
from farrier.web.api.parameter_types import Limit, Name, OtherKind
from farrier.web.server.refusals import RefusedRequest


class ResourceQuery(msgspec.Struct, frozen=True, kw_only=True):
    kind: OtherKind
    after: Annotated[
        str | None,
        Meta(description="Return only resources after this resource. For the next page, use `next` of this page."),
    ] = None
    limit: Limit = 100
    name: Annotated[
        tuple[str, ...], Meta(description="Return only resources with one of these names, IDs or globs.")
    ] = ()
    state: Annotated[
        tuple[str, ...], Meta(description="Return only resources in one of these states, or in a substate.")
    ] = ()
    site: Annotated[tuple[str, ...], Meta(description="Return only resources of these sites.")] = ()
    ended: Annotated[bool, Meta(description="Include resources that have ended.")] = False

    def wanted(self) -> WantedResources:
        """Return the filter for the query."""
        return WantedResources(kind=self.kind, names=self.name, states=self.state, sites=self.site, ended=self.ended)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    name: Name


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    kind: OtherKind
    name: Name


class KindFilter(msgspec.Struct, frozen=True, kw_only=True):
    kind: Annotated[str | None, Meta(description="Return only this kind.")] = None
    counted: Annotated[bool, Meta(description="Count the resources in each state.")] = True


def parse_after(given: str | None) -> tuple[str, int]:
    """Parse a key that `key_of` made. The page begins after the resource with this key. Raises Refused."""
    if given is None:
        return "", 0
    name, _, id_ = given.rpartition(":")
    if not (id_.isascii() and id_.isdecimal() and len(id_) <= len(str(2**63 - 1)) - 1):
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"after must be the `next` of an earlier response, not {given!r}")
    return name, int(id_)


def key_of(last: ResourceView) -> str:
    """Return the value of `after` for the next page."""
    return f"{last.name}:{last.id}"


async def list_kinds(call: ApiRequest[KindFilter, None]) -> Response:
    """List all kinds, including nodes, with their states, limits, actions and parameters."""
    given, queries = call.given, call.backend.queries
    found = await queries.kinds(given.kind, counted=given.counted)
    if given.kind is not None and not found:
        known = [each.kind for each in await queries.kinds(counted=False)]
        raise RefusedRequest(
            HTTPStatus.BAD_REQUEST, f"kind: no kind is named {given.kind!r}; {nearest(given.kind, known)}"
        )
    return operation.json(Kinds(kinds=found))


async def list_(call: ApiRequest[ResourceQuery, None]) -> Response:
    """List resources of a kind by name, in pages."""
    given, backend = call.given, call.backend
    page = await backend.queries.resources(given.wanted(), after=parse_after(given.after), limit=given.limit)
    last = key_of(page.rows[-1]) if len(page.rows) == given.limit else None
    rows = tuple(_clocked(each, page.now, backend.limits) for each in page.rows)
    return operation.json(ResourceList(now=page.now, resources=rows, next=last))


async def show(call: ApiRequest[Shown, None]) -> Response:
    """Show all data of one resource, with its running clocks. The resource may have ended."""
    page = await call.backend.queries.resource(call.given.kind, call.given.name)
    (detail,) = page.rows
    resource = _clocked(detail.resource, page.now, call.backend.limits)
    return operation.json(ShownResource(now=page.now, resource=resource, requests=detail.requests))


async def list_addresses(call: ApiRequest[Named, None]) -> Response:
    """List the allocated addresses of a network segment, with their owners."""
    page = await call.backend.queries.addresses(call.given.name)
    return operation.json(Addresses(now=page.now, addresses=page.rows))


async def list_members(call: ApiRequest[Named, None]) -> Response:
    """List the ports in an IB partition, with their nodes."""
    page = await call.backend.queries.members(call.given.name)
    return operation.json(Members(now=page.now, members=page.rows))


def _clocked(resource: ResourceView, now: datetime, limits: Limits) -> ClockedResource:
    clocks = tuple(map(ClockView.of, clocks_of(resource, now, limits)))
    return ClockedResource(**msgspec.structs.asdict(resource), clocks=clocks)


OPERATIONS = [
    reads("/resources", list_kinds, "The kinds.", Kinds, given=KindFilter),
    reads("/resources/{kind}", list_, "A page of resources.", ResourceList, given=ResourceQuery),
    reads("/resources/{kind}/{name}", show, "The resource.", ShownResource, given=Shown),
    reads(f"/resources/{segment.KIND}/{{name}}/addresses", list_addresses, "The addresses.", Addresses, given=Named),
    reads(f"/resources/{partition.KIND}/{{name}}/members", list_members, "The ports.", Members, given=Named),
]
