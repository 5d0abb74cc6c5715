"""The user and password that MAAS switches the node's power with.

Used by the stage that looks whether they can be had and by the one that sends them; they are kept nowhere.
"""

from __future__ import annotations

from datetime import timedelta

from farrier.errors import CredentialError
from farrier.handlers.node.logins import missing_detail, target_of
from farrier.handlers.node.moves import Failed, NodeServices, Waiting
from farrier.model.credential import Credential
from farrier.model.failures import FailureClass
from farrier.model.node import Node

# Where secrets are kept is away for a restart, mostly; asking costs nobody a login.
_RESOLVE_AGAIN = timedelta(seconds=30)


async def power_credential(node: Node, services: NodeServices) -> Credential | Waiting | Failed:
    """What MAAS is to log in at the node's BMC with; or why it cannot be had."""
    missing = missing_detail(node)
    if node.bmc_credential is None or missing is not None:
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=missing or "no BMC credential is set")
    try:
        found = await services.credentials.for_region(target_of(node))
    except CredentialError as error:
        if error.temporary:
            return Waiting(reason=str(error), requeue_after=_RESOLVE_AGAIN)
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=str(error))
    if not found.username or not found.password:
        lacks = "user name" if not found.username else "password"
        return Failed(failure=FailureClass.NO_CREDENTIALS, detail=f"credential {node.bmc_credential} has no {lacks}")
    return found
