"""Derives the bootstrap token in the user data of a deployment, so that it need not be stored.

The stage that issues it stores a digest; any later run derives the same token. The owner of the region's API key could
derive it, but can read the user data anyway.
"""

from __future__ import annotations

import hashlib
import hmac

from farrier.config.sites import Site
from farrier.handlers.node.moves import NodeServices
from farrier.model import bootstrap
from farrier.model.node import Node

# What else may ever be made of the same key is not this.
_LABEL = "farrier bootstrap token 1"


async def token(services: NodeServices, site: Site, node: Node, deploy: int) -> str:
    """The token of this deployment of the node's live workflow. It changes when the API key does: compare its digest
    with the one that was issued. Raises CredentialError."""
    assert site.maas is not None, "deploys only where there is a region"
    assert node.workflow is not None, "only called while a workflow is live"
    key = await services.credentials.token(site.maas.key)
    # Ids begin anew with each database, and the token of an earlier one's node is in some machine's user data.
    said = f"{_LABEL}\n{node.id}\n{node.workflow.id}\n{node.workflow.mark}\n{deploy}"
    return bootstrap.token(hmac.new(key.encode(), said.encode(), hashlib.sha256).hexdigest())


def digest(token: str) -> str:
    """What is stored of a token: the same as `farrier.digest` in the database."""
    return hashlib.sha256(token.encode()).hexdigest()
