"""Nodes: status, management, workflows and the answers to intents.

`NodeHandler.handle` looks at one snapshot and returns one decision. The layers have a module each and are asked in a
fixed order: requests first, then what must be finished, then health, the running workflow, the BMC.
"""

from __future__ import annotations

from farrier.handlers.node.handler import NodeHandler
from farrier.handlers.node.kind import NODE_KIND
from farrier.handlers.node.moves import NodeServices

__all__ = ["NODE_KIND", "NodeHandler", "NodeServices"]
