"""Detects a new version of a credential and tries it at once.

Before each regular read, farrier compares the current version with the version that is known to be good. If the reads
fail because of the credential, farrier compares the versions even during the back-off. It only resolves the credential
for this, and does not log in at the BMC.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from farrier.errors import CredentialError
from farrier.handlers.node.bmc.logins import counted, target_of
from farrier.handlers.node.changes import Change, Decision, NodeServices, Outcome, Policy, transition, with_fields
from farrier.model.loop.outcome import Step, Update, Wait
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.layers import Management
from farrier.model.node.snapshot import Bmc, Node
from farrier.model.node.writes import Write
from farrier.protocols import NodeCredentials

# The failures that a new secret may fix.
_MENDED = (BmcFailure.AUTH, BmcFailure.INCOMPLETE)

_RESET: dict[str, Any] = {
    "failures": 0,
    "next_try_at": None,
    "sync_failures": 0,
    "sync_failure": None,
    "sync_error": None,
    "next_sync_at": None,
}
"""The fields of failures and back-off, and their values after a reset. A new secret resets these fields."""

# Controllers may see different versions of one secret, because a cache or mirror is outdated. They must not alternately
# start verifications.
AGAIN_AFTER = timedelta(minutes=5)

_NEW_VERSION = "the credential has a new version"
_CAUSE = "rule: credential watch"


async def verify_if_new(node: Node, now: datetime, credentials: NodeCredentials) -> Outcome | None:
    """Start a verification if the version of the credential is new; otherwise return None. Raises `CredentialError`."""
    if node.bmc.good_version is None or node.bmc_credential is None:
        return None
    version = await credentials.version(target_of(node))
    return _verify(node, now) if _is_new(node.bmc, version, now) else None


def watch_sync(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Check the credential of a manageable node whose reads fail because of the credential."""
    bmc = node.bmc
    if bmc.sync_failure not in _MENDED or not _is_due(bmc, now, config):
        return None

    async def look(services: NodeServices) -> Outcome:
        version = await _version(node, services)
        if version is not None and _is_new(bmc, version, now):
            return _verify(node, now)
        seen = replace(bmc, watched_at=now, watched_version=version)
        if version is None or bmc.sync_failure is BmcFailure.AUTH or version == bmc.watched_version:
            return _nothing_new(node, seen)
        return transition(
            node, with_fields(node, bmc=replace(seen, next_sync_at=now)), reason=_NEW_VERSION, cause=_CAUSE
        )

    return _step(look, node, now, config)


def watch_enroll(node: Node, now: datetime, config: Policy) -> Decision | None:
    """Check the credential of a node whose verification failed because of the credential."""
    bmc = node.bmc
    if bmc.failures == 0 or bmc.failure not in _MENDED:
        return None
    # The first check follows after an interval, because the verification has just tried the credential.
    if now < node.management_entered_at + config.power_sync_interval or not _is_due(bmc, now, config):
        return None

    async def look(services: NodeServices) -> Outcome:
        version = await _version(node, services)
        tried = bmc.tried_version or version if bmc.failure is BmcFailure.AUTH else bmc.watched_version
        seen = replace(bmc, watched_at=now, watched_version=version)
        if version is None or version == tried:
            return _nothing_new(node, seen)
        return transition(node, with_fields(node, bmc=replace(seen, **_RESET)), reason=_NEW_VERSION, cause=_CAUSE)

    return _step(look, node, now, config)


def _verify(node: Node, now: datetime) -> Change:
    """Start `verifying` without back-off, or wait like intent `manage` if the login cap is reached."""
    bmc = replace(node.bmc, **_RESET)
    may = counted(bmc, now)
    if isinstance(may, Wait):
        later = with_fields(node, bmc=replace(bmc, asked_at=bmc.asked_at or now))
        return transition(
            node,
            later,
            reason=f"{_NEW_VERSION}; farrier verifies the BMC as soon as the login cap allows it",
            cause=_CAUSE,
        )
    # The node was manageable. `asked_at` makes it verify again after a failure, even without `auto_manage`.
    asked = replace(may, asked_at=bmc.asked_at or now)
    return transition(
        node, with_fields(node, bmc=asked, management=Management.VERIFYING), reason=_NEW_VERSION, cause=_CAUSE
    )


async def _version(node: Node, services: NodeServices) -> str | None:
    """Return the credential's version; None if the credential does not resolve."""
    try:
        return await services.credentials.version(target_of(node))
    except CredentialError:
        return None


def _is_new(bmc: Bmc, version: str, now: datetime) -> bool:
    """Return whether the version is new. The version that is known to be good is not new. Shortly after a verification,
    the version before it is not new either."""
    if version == bmc.good_version:
        return False
    return version != bmc.good_before or bmc.verified_at is None or now - bmc.verified_at >= AGAIN_AFTER


def _is_due(bmc: Bmc, now: datetime, config: Policy) -> bool:
    return bmc.watched_at is None or now - bmc.watched_at >= config.power_sync_interval


def _nothing_new(node: Node, seen: Bmc) -> Update[Node, Write]:
    return Update(
        to=with_fields(node, bmc=seen), reason="the credential is unchanged", requeue_after=timedelta(0), quiet=True
    )


def _step(look: Callable[[NodeServices], Awaitable[Outcome]], node: Node, now: datetime, config: Policy) -> Decision:
    # A check that raises or is interrupted counts as completed, because otherwise every further run would repeat it.
    seen = _nothing_new(node, replace(node.bmc, watched_at=now))
    return Step(name="watch_credential", act=look, deadline=config.probe_deadline, reads_only=True, if_interrupted=seen)
