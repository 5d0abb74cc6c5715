"""A BMC in the model: its address, readings, failures and back-off.

Package `farrier.services` creates these values, and handlers read them. Nothing here depends on HTTP. A failure class
is a metric label and a column value, so its spelling never changes.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

import msgspec

from farrier import errors


class BmcFailure(StrEnum):
    """The classes of failed reads of a BMC. Failures that an operator must fix come first, failures that end by
    themselves last."""

    INCOMPLETE = "incomplete"  # the details cannot be used; no login was attempted
    UNREACHABLE = "unreachable"  # no connection, or the BMC reports that it is busy
    TIMEOUT = "timeout"  # no complete response in time, with or without a connection
    TLS = "tls"  # the certificate is not trusted for this address
    AUTH = "auth"  # the BMC refused the credential
    AUTH_SCHEME = "auth_scheme"  # the BMC refused the kind of authentication, not the credential
    REFUSED = "refused"  # the BMC knows the user, but refuses the request: a right, a licence or a state is missing
    PROTOCOL = "protocol"  # a response that is not Redfish, or without a valid power state
    UNSUPPORTED = "unsupported"  # valid Redfish without a resource or property that farrier needs
    IDENTITY_MISMATCH = "identity_mismatch"  # the machine is not the recorded one
    IDENTITY_TAKEN = "identity_taken"  # the machine belongs to another node
    INTERNAL = "internal"  # a bug in farrier


class PowerState(StrEnum):
    """The power state of the host. A machine that is powering on counts as `on`, and a machine that is powering off as
    `off`."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class BmcAuth(StrEnum):
    """A kind of authentication at a BMC."""

    BASIC = "basic"  # with each request; uses no session of the BMC
    SESSION = "session"  # once, with one session that is kept; a BMC has four to eight sessions for all its clients


class BmcTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The address of one host behind a BMC, and the credential for it.

    `address` is an https URL or `host[:port]`. `credential` is a reference such as `file:/run/creds/bmc-1`, never a
    secret. `system_path` is the path of the host's Redfish resource, or None until farrier has discovered it. `site` is
    the site of the node; the credential bindings of this site also apply. If `only_reads` is set, farrier must not even
    open a session.
    """

    address: str
    credential: str
    system_path: str | None = None
    site: str | None = None
    only_reads: bool = False


class BmcReading(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a BMC. Texts from the BMC are cleaned and shortened; a missing text is None. `macs` is set
    only if the caller requested the addresses.
    """

    power: PowerState
    system_path: str
    serial: str | None = None
    uuid: str | None = None
    macs: tuple[str, ...] = ()
    manufacturer: str | None = None
    model: str | None = None
    health: str | None = None
    credential_version: str


class BmcError(errors.ServiceError):
    """A BMC could not be read or switched. `detail` contains no secrets, and its text is always the same for the same
    cause.

    `credential_version` is the version of the credential that farrier tried, or None if no credential could be
    resolved. `dialled` is False if farrier attempted no login, because the details or the secret cannot be used; such a
    failure is not counted. `sent` is True if an action may have reached the BMC; only a read can show whether it did.
    `retry_after` is the time during which a retry is useless, or None if neither the BMC nor the login cap sets such a
    time. `retry_after` can only lengthen the pause that the failure class sets.
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


def raised() -> BmcError:
    """Return the failure of a step that raised an unexpected error: a bug in farrier, and no refused login."""
    return BmcError(BmcFailure.INTERNAL, "a bug in farrier: the step raised an error, which the log contains")


class NotYet(BmcError):
    """No request failed, but the machine does not have the requested power yet. A caller may wait longer."""


LOGIN_CAP = 3
"""Largest number of failed logins at a BMC within `LOGIN_WINDOW`, over all nodes and calls. The strictest default of
common firmware locks the account at the fourth failed login."""
LOGIN_WINDOW = timedelta(minutes=5)
"""The usual length of an account lock, and of the window in which firmware counts failed logins."""


# First pause and longest pause by class. Failures that may end by themselves are retried often. Failures that an
# operator must fix are retried seldom, and refused logins most seldom, because BMCs lock accounts.
_PAUSES: dict[BmcFailure, tuple[timedelta, timedelta] | None] = {
    BmcFailure.INCOMPLETE: None,
    BmcFailure.UNREACHABLE: (timedelta(seconds=30), timedelta(minutes=5)),
    BmcFailure.TIMEOUT: (timedelta(seconds=30), timedelta(minutes=5)),
    BmcFailure.TLS: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.AUTH: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.AUTH_SCHEME: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.REFUSED: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.PROTOCOL: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.UNSUPPORTED: (timedelta(minutes=5), timedelta(minutes=30)),
    BmcFailure.IDENTITY_MISMATCH: None,
    BmcFailure.IDENTITY_TAKEN: None,
    BmcFailure.INTERNAL: (timedelta(seconds=30), timedelta(minutes=5)),
}


def backoff(failure: BmcFailure, consecutive: int) -> timedelta | None:
    """Return the pause after `consecutive` failures of one class in a row (1 after the first failure). Each failure
    doubles the pause, up to the longest pause of the class. The result is None if every retry would fail until the
    details are edited.
    """
    pauses = _PAUSES[failure]
    if pauses is None:
        return None
    first, longest = pauses
    # 2**16 × 30 s exceeds every longest pause; without the cap, a large count would overflow timedelta.
    return min(longest, first * (1 << min(consecutive - 1, 16)))
