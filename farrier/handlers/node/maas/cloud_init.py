"""Renders the user data of a node: the cloud-init template of the node's site, filled with data about the node.

One stage checks that the user data can be rendered, and another sends it. Rendering is pure, so both stages get the
same result. The result contains the bootstrap token; errors never contain it.

farrier does not store the token. The stage that issues it stores its digest, and any later run derives the same token.
The owner of the region's API key could also derive it, but this owner can read the user data anyway.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import jinja2

from farrier.config import templates
from farrier.config.sites import Site
from farrier.errors import ConfigError, CredentialError
from farrier.handlers.node.changes import Failed, NodeServices, Waiting
from farrier.model.machine import bootstrap
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import CleaningBy
from farrier.model.node.snapshot import Node

# The first characters by which cloud-init recognises user data. cloud-init ignores other data without an error.
HEADERS = (
    "#cloud-config",
    "#!",
    "## template: jinja",
    "#cloud-boothook",
    "#include",
    "#part-handler",
    "Content-Type:",
    "MIME-Version:",
)

# Exceptions of Python that an expression of a template may raise.
_RAISED = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_SHOWN = 40

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


def render(site: Site, node: Node, *, token: str) -> str:
    """Render the user data; empty for a site without a template. Raises ConfigError."""
    if not site.cloud_init.template:
        return ""
    try:
        return _rendered(site, node, token)
    except ConfigError:
        pass  # the exception's text may contain the token
    _rendered(site, node, "x" * len(token))
    raise ConfigError(
        f"{_which(site, node)} fails with some bootstrap tokens; insert the token unchanged, as {{{{ "
        f"{templates.TOKEN} }}}}"
    )


def of_node(node: Node) -> Mapping[str, Any]:
    """Return the data about a node that a template may use (`templates.NODE`)."""
    return {
        "id": node.id,
        "name": node.name,
        "site": node.site,
        "model": node.model,
        "labels": node.labels,
        "macs": node.macs,
        "maas_id": node.maas_id,
        "agentless": node.agentless,
        "bmc": {
            "address": node.bmc_address,
            "serial": node.bmc.serial,
            "uuid": node.bmc.uuid,
            "manufacturer": node.bmc.manufacturer,
            "product": node.bmc.product,
        },
    }


def of_segments(node: Node) -> Mapping[str, Mapping[str, Any]]:
    """Return the data for `templates.SEGMENT`, for each segment from which the node has an address."""
    used = node.networks.segments if node.networks is not None else ()
    return {
        segment.name: {name: getattr(segment, name) for name in templates.SEGMENT}
        for segment in used
        if segment.address is not None
    }


def _rendered(site: Site, node: Node, token: str) -> str:
    most = site.cloud_init.max_bytes
    parts: list[str] = []
    size = 0
    given = {
        **site.cloud_init.variables,
        "node": of_node(node),
        templates.TOKEN: token,
        "distro_series": site.deploy.distro_series,
        "segments": of_segments(node),
        "agents": {name: getattr(site.agents, name) for name in templates.AGENTS},
        "cleaning_by": _cleaning_by(site),
    }
    try:
        for part in templates.compiled(site.cloud_init.template).generate(given):
            parts.append(part)
            size += len(part.encode())
            if size > most:
                break
    except _RAISED as error:
        line = templates.line_of(error)
        where = "" if line is None else f"line {line}: "
        raise ConfigError(
            f"{_which(site, node)} fails: {where}{_described(error)}; correct the template, "
            "or cancel the onboarding, set the missing value of the node, and onboard the node again"
        ) from None
    if size > most:
        raise ConfigError(
            f"{_which(site, node)} produces more than the {most} bytes of cloud_init.max_bytes; shorten it, or let "
            "the machine download the larger parts"
        )
    return _headed("".join(parts), site, node)


def _cleaning_by(site: Site) -> str:
    """Return who cleans the machine by tasks. Where the region cleans, the agent does what the region cannot."""
    by = site.cleaning.by
    return CleaningBy.AGENT if by is CleaningBy.REGION else by or ""


def _headed(text: str, site: Site, node: Node) -> str:
    if text.startswith(HEADERS):
        return text
    raise ConfigError(
        f"{_which(site, node)} produces user data that begins with {text[:_SHOWN]!r}; cloud-init requires that user "
        f"data begins with one of {', '.join(HEADERS)}"
    )


def _described(error: BaseException) -> str:
    return str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"


def _which(site: Site, node: Node) -> str:
    return f"the cloud-init template of site {site.name}, for node {node.name},"
