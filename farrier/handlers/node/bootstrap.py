"""Derives the bootstrap token in the user data of a deployment, so that farrier does not have to store the token.

The stage that issues the token stores its digest; any later run derives the same token. The owner of the region's API
key could also derive the token, but this owner can read the user data anyway.
"""

from __future__ import annotations

import hashlib
import hmac

from farrier.config.sites import Site
from farrier.handlers.node.moves import NodeServices
from farrier.model import bootstrap
from farrier.model.node import Node

# Separates this token from any other value derived from the same key.
_LABEL = "farrier bootstrap token 1"


async def token(services: NodeServices, site: Site, node: Node, deploy: int) -> str:
    """Return the token for this deployment of the node's live workflow. If the API key changes, the token also changes,
    so the caller compares the token's digest with the issued digest. Raises CredentialError."""
    assert site.maas is not None, "a site without a region cannot deploy"
    key = await services.credentials.token(site.maas.key)
    # `mark` distinguishes databases: a new database starts its IDs again, and the user data of a machine may still
    # contain a token from an earlier database.
    said = f"{_LABEL}\n{node.id}\n{node.live.id}\n{node.live.mark}\n{deploy}"
    return bootstrap.token(hmac.new(key.encode(), said.encode(), hashlib.sha256).hexdigest())


def digest(token: str) -> str:
    """Return the stored digest of a token; the same function as `farrier.digest` in the database."""
    return hashlib.sha256(token.encode()).hexdigest()
