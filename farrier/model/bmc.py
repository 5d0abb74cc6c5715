"""A BMC as the model sees it: what names it, what a read of it says, how it fails, when to try again.

Handlers decide on these; `farrier.services` produces them. Nothing here knows HTTP. A failure class is a
metric label and a column value, so its spelling never changes.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

from farrier import errors


class BmcFailure(StrEnum):
    """Why a BMC could not be read, from what an operator mends to what mends itself."""

    INCOMPLETE = "incomplete"  # the details cannot be used as they are given; no login was made
    UNREACHABLE = "unreachable"  # no connection, or a BMC that says it is busy
    TIMEOUT = "timeout"  # connected or not, no complete answer in time
    TLS = "tls"  # the certificate is not one that we trust for this address
    AUTH = "auth"  # the BMC refused the credential
    PROTOCOL = "protocol"  # an answer that is not Redfish, or no real power state
    UNSUPPORTED = "unsupported"  # sound Redfish without what we need of it
    IDENTITY_MISMATCH = "identity_mismatch"  # another machine than the recorded one
    IDENTITY_TAKEN = "identity_taken"  # the machine belongs to another node
    INTERNAL = "internal"  # a bug of ours


class PowerState(StrEnum):
    """Power of the host. A machine on its way on is `on`, on its way off `off`."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class BmcAuth(StrEnum):
    """How farrier authenticates at a BMC."""

    BASIC = "basic"  # with each request; nothing on the BMC is used up
    SESSION = "session"  # once, for one session that is kept; BMCs have four to eight of them for everybody


class BmcTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What names one host behind a BMC.

    `address` is an https URL or `host[:port]`. `credential` is a reference such as `file:/run/creds/bmc-1`,
    never a secret. `system_path` is the host's Redfish resource, None while it is not known. `site` is the
    node's, whose bindings hold for it, too. `only_reads`: not even a session is opened.
    """

    address: str
    credential: str
    system_path: str | None = None
    site: str | None = None
    only_reads: bool = False


class BmcReading(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass over a BMC found. Texts are the BMC's own, cleaned and cut; absent ones are None.

    `macs` is filled by a pass that was asked for them, `manager_path` by every verification; a plain read has
    neither. `requests` counts the requests sent.
    """

    power: PowerState
    system_path: str
    manager_path: str | None = None
    serial: str | None = None
    uuid: str | None = None
    macs: tuple[str, ...] = ()
    manufacturer: str | None = None
    model: str | None = None
    health: str | None = None
    credential_version: str
    requests: int


class BmcError(errors.ServiceError):
    """A BMC could not be read or switched. `detail` is free of secrets and the same each time for the same cause.

    `credential_version` is the version that was tried, None when no credential could be resolved. `dialled` is
    false when no login was made, for details or a secret that cannot be used, so that nothing is to be counted. `sent`
    is true when an action may have reached the BMC: whether it did, only reading can tell. `retry_after` is how long
    it is of no use to try again, where the BMC or its limit of logins says so; it comes on top of the class's own.
    """

    label = "bmc"

    def __init__(
        self,
        failure: BmcFailure,
        detail: str,
        *,
        credential_version: str | None = None,
        retry_after: timedelta | None = None,
        dialled: bool = True,
        sent: bool = False,
    ) -> None:
        super().__init__(service="bmc", operation="call", detail=detail)
        self.failure = failure
        self.credential_version = credential_version
        self.retry_after = retry_after
        self.dialled = dialled
        self.sent = sent


LOGIN_CAP = 3
"""Largest number of failed logins at a BMC within `LOGIN_WINDOW`, over all nodes and calls. The strictest default of
common firmware locks the account at the fourth.
"""
LOGIN_WINDOW = timedelta(minutes=5)
"""The usual length of an account lock, and of the window in which firmware counts failed logins."""


# First pause and longest pause by class. What may heal by itself is looked at often; what takes a person is
# not, and a refused login least of all, for BMCs lock accounts.
_PAUSES: dict[BmcFailure, tuple[timedelta, timedelta] | None] = {
    BmcFailure.INCOMPLETE: None,
    BmcFailure.UNREACHABLE: (timedelta(seconds=30), timedelta(minutes=5)),
    BmcFailure.TIMEOUT: (timedelta(seconds=30), timedelta(minutes=5)),
    BmcFailure.TLS: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.AUTH: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.PROTOCOL: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.UNSUPPORTED: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.IDENTITY_MISMATCH: None,
    BmcFailure.IDENTITY_TAKEN: None,
    BmcFailure.INTERNAL: (timedelta(seconds=30), timedelta(minutes=5)),
}


def backoff(failure: BmcFailure, consecutive: int) -> timedelta | None:
    """Pause before the next try after `consecutive` failures of one class in a row (1 for the first).

    Doubles from the class's first pause to its longest. None: no try helps until the details are edited.
    """
    if consecutive < 1:
        raise ValueError(f"consecutive counts failures from 1, not {consecutive}")
    pauses = _PAUSES[failure]
    if pauses is None:
        return None
    first, longest = pauses
    # 2**16 × 30 s is past every longest pause; without the cap a large count would overflow timedelta.
    return min(longest, first * (1 << min(consecutive - 1, 16)))
