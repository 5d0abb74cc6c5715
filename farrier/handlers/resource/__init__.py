"""What the handlers of simple kinds share: the kind as the loop needs it, and answers to requests; and an `Extension`.

A handler says in which states it accepts which action; `sort` answers the rest. Pure.
"""

from __future__ import annotations

from farrier.handlers.resource.extension import Decided, Extension, Handler, Surroundings
from farrier.handlers.resource.kind import LayeredKind, ResourceKind
from farrier.handlers.resource.requests import accept, params_of, reject, sort

__all__ = [
    "Decided",
    "Extension",
    "Handler",
    "LayeredKind",
    "ResourceKind",
    "Surroundings",
    "accept",
    "params_of",
    "reject",
    "sort",
]
