"""Limits failed logins per BMC to `LOGIN_CAP` within `LOGIN_WINDOW`, over all nodes and calls.

Firmware locks an account after three to five failed logins. The BMC client checks the limit before it connects, and
reports the result of each login. An unknown result counts as failed, unless the credential is known to be good.
`Logins` counts per BMC and process, in memory; after a crash, the records of the nodes apply.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from yarl import URL

from farrier.model.machine.bmc import LOGIN_CAP, LOGIN_WINDOW, BmcError, BmcFailure
from farrier.protocols import Clock
from farrier.services.bmc import failure


class Secret(NamedTuple):
    """The secret of a login: its reference and version."""

    reference: str
    version: str


class _Login:
    """A login that failed, or whose result is unknown."""

    def __init__(self, secret: Secret, at: float, *, refused: bool) -> None:
        self.secret = secret
        self.at = at
        self.refused = refused


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
            f"the BMC {what} {LOGIN_CAP} logins within {_minutes(LOGIN_WINDOW)} min, so farrier sent no further login",
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
        login = _Login(secret, self._clock.monotonic(), refused=False)
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


def _minutes(time: timedelta) -> int:
    return math.ceil(time / timedelta(minutes=1))
