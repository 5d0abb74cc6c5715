"""Parameters that several operations of the API share, with their rules and descriptions."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Annotated, TypeAlias, cast

import msgspec
from msgspec import Meta

from farrier.model.intents.actions import API_MAX, API_MIN
from farrier.model.intents.selection import LARGEST_ID, label_tests
from farrier.model.node import details
from farrier.model.node.layers import NODE, Management, NodeStatus
from farrier.model.views.nodes import NodeFilter
from farrier.model.views.responses import LONGEST_WAIT_SECONDS, MOST_ROWS
from farrier.web.server.refusals import RefusedRequest

Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_ROWS, description="Largest number of rows.")]
Wait: TypeAlias = Annotated[
    float, Meta(ge=0, le=LONGEST_WAIT_SECONDS, description="Seconds to wait for the answer to the intent.")
]
Id: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_ID)]
Name: TypeAlias = Annotated[str, Meta(description="Name or ID.")]
Kind: TypeAlias = Annotated[str, Meta(description="Kind of the resource. `GET /resources` lists the kinds.")]
# For the paths that respond with more data for nodes.
OtherKind: TypeAlias = Annotated[Kind, Meta(pattern=rf"\A(?!{NODE}\Z)")]
ApiVersion: TypeAlias = Annotated[
    int,
    Meta(
        ge=API_MIN,
        le=API_MAX,
        description="Version of the intent API for which the client was written. Default: the oldest version. "
        "The headers Farrier-Api-Min-Version and Farrier-Api-Max-Version of each response have the supported versions.",
    ),
]


class OfNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node."""

    node: Name


class OfResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of any kind."""

    kind: Kind
    name: Name


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes to return. If a parameter is given several times, a node has to match one of the values. `narrowed`
    adds a parameter for each detail that is shown in lists."""

    name: Annotated[
        tuple[str, ...], Meta(description="Return only nodes with one of these names, IDs or globs (`gpu-1*`).")
    ] = ()
    label: Annotated[
        tuple[str, ...],
        Meta(description="Return only nodes whose labels pass these tests: KEY, !KEY, KEY=VALUE or KEY!=VALUE."),
    ] = ()
    status: Annotated[tuple[NodeStatus, ...], Meta(description="Return only nodes in one of these statuses.")] = ()
    management: Annotated[tuple[Management, ...], Meta(description="Return only nodes in one of these states.")] = ()
    failed: Annotated[
        bool,
        Meta(
            description="Return only nodes whose workflow failed, whose BMC or power cannot be read, or which a brake "
            "holds."
        ),
    ] = False

    def wanted(self) -> NodeFilter:
        """Return the filter for the query. Raises Refused."""
        try:
            labels = label_tests(self.label)
        except ValueError as wrong:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"label: {wrong}") from None
        chosen = {name: getattr(self, name, ()) for name in details.LISTED}
        return NodeFilter(
            names=self.name,
            labels=labels,
            statuses=self.status,
            managements=self.management,
            details={name: values for name, values in chosen.items() if values},
            failed=self.failed,
        )


@cache
def narrowed(base: type[Nodes]) -> type[Nodes]:
    """Return the type `base` with an additional parameter for each detail that is shown in lists."""
    more = [
        (
            name,
            Annotated[
                tuple[str, ...],
                Meta(description=f"Return only nodes with one of these values ({details.DETAILS[name].help})."),
            ],
            (),
        )
        for name in details.LISTED
    ]
    return cast(
        type[Nodes], msgspec.defstruct(f"{base.__name__}Narrowed", more, bases=(base,), frozen=True, kw_only=True)
    )
