"""What simple kinds share: takes the spec of a kind and its handler, and returns a `protocols.Kind`.

The spec of a kind defines which states accept an action; `ResourceKind.guarded` rejects intents in all other states.
Pure.
"""

from __future__ import annotations

from farrier.handlers.resource.extension import Decided, Extension, Handler, ServiceContext
from farrier.handlers.resource.kind import LayeredKind, ResourceKind
from farrier.handlers.resource.requests import AnsweredResource, accept, params_of, reject, settle

__all__ = [
    "AnsweredResource",
    "Decided",
    "Extension",
    "Handler",
    "LayeredKind",
    "ResourceKind",
    "ServiceContext",
    "accept",
    "params_of",
    "reject",
    "settle",
]
