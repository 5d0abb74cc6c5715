"""Remembers how farrier authenticates at each BMC: with basic authentication, or with a session.

The exchange of a call asks here before it logs in, and reports what the BMC accepts. A BMC that refuses one kind gets
the other from then on, unless the settings force a kind for its host. A refusal that may also mean a wrong password is
a failed login, so the other kind is tried only in the next call, and only one time for each secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from yarl import URL

from farrier.model.machine.bmc import BmcAuth
from farrier.services.bmc.logins import Secret


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
