"""What a process knows about logins at each BMC: the kind of authentication that works, and the failed logins.

Firmware locks an account after three to five failed logins. So `Logins` limits failed logins per BMC to `LOGIN_CAP`
within `LOGIN_WINDOW`, over all nodes and calls; an unknown result counts as failed, unless the credential is known to
be good. It counts in memory; after a crash, the records of the nodes apply.

A BMC that refuses one kind of authentication gets the other from then on (`Schemes`), unless the settings force a kind
for its host. A refusal that may also mean a wrong password is a failed login, so the other kind is tried only in the
next call, and only one time for each secret.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, assert_never

import msgspec
from yarl import URL

from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcAuth, BmcError, BmcFailure
from farrier.protocols import Clock
from farrier.services.bmc import failure


class Secret(NamedTuple):
    """The secret of a login: its reference and version."""

    reference: str
    version: str


class _Login(msgspec.Struct):
    """A login that failed, or whose result is unknown."""

    secret: Secret
    at: float
    refused: bool = False


class Logins:
    """The results of the latest logins at each BMC. Calls for one BMC must not overlap."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counted: dict[URL, list[_Login]] = {}
        self._good: dict[URL, Secret] = {}

    def admit(self, bmc: URL) -> None:
        """Raise `BmcError` if the login cap is reached; its `retry_after` is the time to wait."""
        now = self._clock.monotonic()
        recent = [login for login in self._counted.pop(bmc, ()) if now - login.at < LOGIN_WINDOW.total_seconds()]
        if not recent:
            return
        self._counted[bmc] = recent
        if len(recent) < LOGIN_CAP:
            return
        wait = timedelta(seconds=math.ceil(recent[-LOGIN_CAP].at + LOGIN_WINDOW.total_seconds() - now))
        refused = any(login.refused for login in recent)
        what = "refused" if refused else "did not respond to"
        raise BmcError(
            BmcFailure.AUTH if refused else BmcFailure.TIMEOUT,
            f"the BMC {what} {LOGIN_CAP} logins within {LOGIN_WINDOW // timedelta(minutes=1)} min, so farrier sent no "
            "further login",
            retry_after=wait,
            dialled=False,
        )

    def is_good(self, bmc: URL, secret: Secret) -> bool:
        """Return whether the BMC has accepted the secret, and has not refused it since."""
        return self._good.get(bmc) == secret

    def forgive(self, bmc: URL, secret: Secret) -> None:
        """Forget the failed logins with the secret, because the BMC refused the kind of authentication instead."""
        self._counted[bmc] = [login for login in self._counted.get(bmc, ()) if login.secret != secret]

    @contextmanager
    def attempt(self, bmc: URL, secret: Secret) -> Iterator[None]:
        """Run the block, which sends a request with the secret, and record whether this login succeeded."""
        login = _Login(secret, self._clock.monotonic())
        # A login counts as failed until it has succeeded; otherwise interrupted calls could log in without limit.
        counted = self._counted.setdefault(bmc, [])
        if self._good.get(bmc) != secret:
            counted.append(login)
        try:
            yield
        except Exception as error:
            if failure.of_exception(error)[0] is BmcFailure.AUTH:
                self._refused(bmc, login)
            elif not failure.may_have_arrived(error):
                self._forget(bmc, login)
            raise
        else:
            self._good[bmc] = secret
            self._counted[bmc] = [other for other in counted if other.refused or other.secret != secret]
        finally:
            # The BMC may have counted the login at any time up to now.
            login.at = self._clock.monotonic()

    def _refused(self, bmc: URL, login: _Login) -> None:
        login.refused = True
        if self._good.get(bmc) == login.secret:
            del self._good[bmc]
            self._counted[bmc].append(login)

    def _forget(self, bmc: URL, login: _Login) -> None:
        self._counted[bmc] = [other for other in self._counted[bmc] if other is not login]


class Schemes:
    """The kinds of authentication by BMC. Calls for one BMC must not overlap."""

    def __init__(self, first: BmcAuth, forced: Mapping[str, BmcAuth]) -> None:
        self._first = first
        self._forced = {host.lower(): auth for host, auth in forced.items()}
        self._known: dict[URL, BmcAuth] = {}
        self._proven: set[URL] = set()
        self._tried: dict[URL, Secret] = {}

    def of(self, bmc: URL) -> BmcAuth:
        return self._forced.get(bmc.host or "") or self._known.get(bmc) or self._first

    def is_forced(self, bmc: URL) -> bool:
        return (bmc.host or "") in self._forced

    def is_proven(self, bmc: URL) -> bool:
        """Return whether the BMC has accepted a login of this kind."""
        return bmc in self._proven

    def accepted(self, bmc: URL) -> None:
        """Record that the BMC accepted a login of the kind that `of` returns."""
        self._proven.add(bmc)

    def use_other(self, bmc: URL) -> bool:
        """Use the other kind from now on. Returns whether the settings allow this."""
        if self.is_forced(bmc):
            return False
        self._known[bmc] = _other(self.of(bmc))
        self._proven.discard(bmc)
        return True

    def login_failed(self, bmc: URL, secret: Secret) -> None:
        """Record that the BMC refused a login, and did not say whether it refused the kind or the password."""
        if bmc in self._proven or self.is_forced(bmc):
            return
        if self._tried.get(bmc) != secret:
            self._tried[bmc] = secret
            self.use_other(bmc)
        else:  # both kinds have failed, so the password is wrong
            self._known.pop(bmc, None)


def _other(auth: BmcAuth) -> BmcAuth:
    match auth:
        case BmcAuth.BASIC:
            return BmcAuth.SESSION
        case BmcAuth.SESSION:
            return BmcAuth.BASIC
        case _ as never:
            assert_never(never)
