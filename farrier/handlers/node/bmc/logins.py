"""Logins at a node's BMC: addresses, login cap, and the pause after a failure.

Verification, adoption and the regular reads use this module. The commit before a login records a login try, and each
try allows one login. So every login counts for the login cap, even after a crash or an intent. A try is removed only if
it is certain that the BMC did not refuse the login.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from urllib.parse import urlsplit

from msgspec.structs import replace

from farrier.model import duration
from farrier.model.loop.outcome import Wait
from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure, BmcTarget, backoff
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Bmc, Node, Onboarding
from farrier.model.node.writes import Write

# The first two refusals may be temporary; the third in a row counts as definite and backs off like any failure.
SECOND_LOGIN_AFTER = timedelta(seconds=60)
DEFINITE_REFUSALS = 3
# A login takes about a second. A node that waits for the logins of other nodes retries after this time.
OTHERS_TAKE = timedelta(seconds=5)
_OTHERS_LOG_IN = (
    "waits for the results of other logins at this BMC, because another failed login could lock the account"
)

# The longest pause that a BMC may request: as long as the longest pause of any failure class.
LONGEST_PATIENCE = timedelta(minutes=30)


def counted(bmc: Bmc, now: datetime) -> Bmc | Wait[Write]:
    """Add a try for the next login to the BMC; if the login cap is reached, return a wait instead. The cap applies to
    the BMC, so it includes the logins of other nodes at the same BMC, and of nodes that had this BMC earlier."""
    recent = tuple(at for at in bmc.tries if now - at < LOGIN_WINDOW)
    others = [login for login in bmc.others if now - login.at < LOGIN_WINDOW]
    if len(recent) + len(others) < LOGIN_CAP:
        return replace(bmc, tries=(*recent, now), trying=now, next_try_at=None)
    ended = sorted((*recent, *(login.at for login in others if not login.open)))
    if len(ended) < LOGIN_CAP:  # the logins that other nodes make now may succeed
        return Wait(reason=_OTHERS_LOG_IN, requeue_after=OTHERS_TAKE)
    reason = (
        f"waits for a pause in logins: within {duration.human(LOGIN_WINDOW)}, {LOGIN_CAP} logins failed or have an "
        "unknown result, and another failed login could lock the account"
    )
    return Wait(reason=reason, requeue_after=ended[-LOGIN_CAP] + LOGIN_WINDOW - now)


def waits_for_others(wait: Wait[Write]) -> bool:
    """Return whether the cap is reached only because other nodes are logging in now."""
    return wait.reason == _OTHERS_LOG_IN


def has_try(bmc: Bmc) -> bool:
    """Return whether the BMC has a try that no login has used yet. The age of the try does not matter. A step uses up
    its try when it begins, even if the step is interrupted (`if_interrupted`, `recover`), so an unused try has only
    waited for a slot."""
    return bmc.trying is not None


def tries_before(bmc: Bmc) -> tuple[datetime, ...]:
    """Return the recorded tries without the current try, because its login did not fail."""
    return tuple(at for at in bmc.tries if at != bmc.trying)


def tries_after(bmc: Bmc, error: BmcError) -> tuple[datetime, ...]:
    """Return the recorded tries after `error`. The current try stays only if its login was sent and refused."""
    refused = error.failure is BmcFailure.AUTH and error.dialled
    return bmc.tries if refused else tries_before(bmc)


def pause(error: BmcError, failures: int) -> timedelta | None:
    """Return the pause after this number of failures of one class in a row; None if only an edit can help."""
    base = _of_class(error.failure, failures)
    if base is None or error.retry_after is None:
        return base
    return max(base, min(error.retry_after, LONGEST_PATIENCE))


def _of_class(failure: BmcFailure, failures: int) -> timedelta | None:
    if failure is not BmcFailure.AUTH:
        return backoff(failure, failures)
    definite = failures - DEFINITE_REFUSALS + 1
    return SECOND_LOGIN_AFTER if definite < 1 else backoff(failure, definite)


def target_of(node: Node) -> BmcTarget:
    """Return the BMC, and the system of the address or else of the last verification."""
    target = target_of_address(node)
    return target if target.system_path else replace(target, system_path=node.bmc.system_path)


def target_of_address(node: Node) -> BmcTarget:
    """Return the BMC, and the system only if the address names it. An address may contain the path of one of several
    systems behind a BMC. Without a path, the system is discovered again, because new firmware may have renamed it."""
    assert node.bmc_address is not None and node.bmc_credential is not None, "only called with both details"
    address, path = split(node.bmc_address)
    return BmcTarget(
        address=address,
        credential=node.bmc_credential,
        system_path=path or None,
        site=node.site,
        # An adoption sends only GETs, and opening a session needs a POST.
        only_reads=isinstance(node.workflow, Onboarding) and node.workflow.mode is OnboardingMode.ADOPT,
    )


@lru_cache(maxsize=16_384)
def split(address: str) -> tuple[str, str]:
    """Split the URL of a BMC into the URL without a path, and the path of the system, which may be empty. Any other
    address has no path; the BMC client refuses a malformed address."""
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme and "://" in address:
            return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return address, ""


def is_shared(node: Node) -> bool:
    """Return whether other nodes may log in at the BMC: the address names one of its systems, or others did."""
    return bool(node.bmc.others) or bool(split(node.bmc_address or "")[1])


def missing_detail(node: Node) -> str | None:
    """Name the missing BMC detail; None if both details are set."""
    if node.bmc_address is None:
        return "no BMC address is set"
    if node.bmc_credential is None:
        return "no BMC credential is set"
    return None
