"""Resolves the user and password with which MAAS switches the node's power.

One stage checks whether the credential resolves, and another stage sends it; neither stores the credential.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.errors import CredentialError
from farrier.handlers.node.bmc.logins import missing_detail, target_of
from farrier.handlers.node.changes import Failed, NodeServices, Waiting
from farrier.model.credential import Credential
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node

# A credential store is usually unavailable only while it restarts. A retry needs no login at a BMC.
_RESOLVE_AGAIN = timedelta(seconds=30)


async def power_credential(node: Node, services: NodeServices) -> Credential | Waiting | Failed:
    """Return the credential with which MAAS logs in at the node's BMC, or the reason why the credential does not
    resolve."""
    missing = missing_detail(node)
    if missing is not None:
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=missing)
    try:
        return await services.credentials.for_region(target_of(node))
    except CredentialError as error:
        if error.temporary:
            return Waiting(reason=str(error), requeue_after=_RESOLVE_AGAIN)
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=str(error))
