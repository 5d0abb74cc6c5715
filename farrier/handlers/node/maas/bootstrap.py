"""Derives the bootstrap token in the user data of a deployment, so that farrier does not have to store the token.

The stage that issues the token stores its digest; any later run derives the same token. The owner of the region's API
key could also derive the token, but this owner can read the user data anyway.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

from farrier.config.sites import Site
from farrier.errors import CredentialError
from farrier.handlers.node.changes import Failed, NodeServices, Waiting
from farrier.model.machine import bootstrap
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node

# Separates this token from any other value derived from the same key.
_LABEL = "farrier bootstrap token 1"
# An unavailable credential store usually responds again within seconds.
_STORE_AGAIN = timedelta(seconds=15)


async def token(services: NodeServices, site: Site, node: Node, deploy: int) -> str:
    """Return the token for this deployment of the node's live workflow. If the API key changes, the token also changes,
    so the caller compares the token's digest with the issued digest. Raises CredentialError."""
    assert site.maas is not None, "a site without a region cannot deploy"
    key = await services.credentials.token(site.maas.key)
    # `mark` distinguishes databases: a new database starts its IDs again, and the user data of a machine may still
    # contain a token from an earlier database.
    said = f"{_LABEL}\n{node.id}\n{node.live.id}\n{node.live.mark}\n{deploy}"
    return bootstrap.token(hmac.new(key.encode(), said.encode(), hashlib.sha256).hexdigest())


def underivable(error: CredentialError) -> Waiting | Failed:
    """Return the result of a stage that could not derive the token."""
    if error.temporary:
        return Waiting(reason=str(error), requeue_after=_STORE_AGAIN)
    return Failed(failure=FailureClass.NO_CREDENTIALS, detail=str(error))


def digest(token: str) -> str:
    """Return the stored digest of a token; the same function as `farrier.digest` in the database."""
    return hashlib.sha256(token.encode()).hexdigest()
