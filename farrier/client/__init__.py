"""The Python client of farrier's HTTP API: takes calls, and returns structs of `farrier.model` or errors of its own.

`Farrier` and `AsyncFarrier` have the same methods. Responses are structs of `farrier.model`; errors are classes of
`farrier.client.errors`.
"""

from __future__ import annotations

from farrier.client.asynchronous import AsyncFarrier
from farrier.client.calls import NewNode
from farrier.client.errors import AccessDenied, ApiError, ApiUnreachable, NotAccepted, ServerFault
from farrier.client.synchronous import Farrier
from farrier.model.views.intents import IntentView
from farrier.model.views.nodes import NodeDetail, NodeView
from farrier.model.views.responses import Change, ShownNode

__all__ = [
    "AccessDenied",
    "ApiError",
    "ApiUnreachable",
    "AsyncFarrier",
    "Change",
    "Farrier",
    "IntentView",
    "NewNode",
    "NodeDetail",
    "NodeView",
    "NotAccepted",
    "ServerFault",
    "ShownNode",
]
