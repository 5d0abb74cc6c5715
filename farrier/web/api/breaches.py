"""Lists nodes and other resources that are above a limit, the worst first, for the API and for the inventory page.

Clocks are in seconds. The list has at most a thousand nodes, and states how many more there are. A longer list would
take CPU time from the loop, and would not help an operator. The list includes paused nodes with the reason of the
pause; alerts omit them.
"""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from farrier.model.node.clocks import StateClock
from farrier.model.views.resources import LateResource, late_clock
from farrier.model.views.responses import MOST_ROWS, Breaches, ClockView, LateNode, LateOther
from farrier.web.api import operation
from farrier.web.api.operation import ApiRequest, reads
from farrier.web.api.parameter_types import Nodes, narrowed
from farrier.web.server.backend import Backend


async def list_(call: ApiRequest[Nodes, None]) -> Response:
    """List nodes and other resources above a limit, those furthest above it first: at most a thousand of each."""
    backend, chosen = call.backend, call.given.wanted()
    late = await backend.queries.overdue(chosen, backend.limits, limit=MOST_ROWS)
    nodes = tuple(LateNode(node=each.node, clocks=tuple(map(ClockView.of, each.clocks))) for each in late.rows)
    resources = tuple(
        LateOther(**msgspec.structs.asdict(each), clocks=(ClockView.of(clock),))
        for each, clock in await late_resources(backend)
        if chosen.fits_site(each.site)
    )
    return operation.json(Breaches(now=late.now, nodes=nodes, more_nodes=late.more, resources=resources))


async def late_resources(backend: Backend) -> list[tuple[LateResource, StateClock]]:
    """Return at most a thousand resources of other kinds, worst first, each with the clock that is above its limit."""
    found = await backend.queries.late(backend.limits, limit=MOST_ROWS)
    return [(each, late_clock(each, found.now)) for each in found.rows]


OPERATIONS = [
    reads("/breaches", list_, "The nodes and other resources above a limit.", Breaches, given=narrowed(Nodes))
]
