"""Reads secrets for the regular reads of BMCs: a secret in a file is read at most once a minute.

The BMC client and the steps of nodes share it, so a read of a BMC uses the version that its step has compared. A
refused login makes the next call read the secret again.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import NamedTuple

from farrier import protocols
from farrier.model.credential import Credential, Scheme
from farrier.services.credentials import forms

READ_EVERY = timedelta(minutes=1)
"""How long a secret from a file is used: the usual interval of the reads of a BMC."""


class _ReadSecret(NamedTuple):
    at: float
    credential: Credential


class RecentCredentials:
    """The secrets that were read within the last minute, and the store behind them."""

    def __init__(self, store: protocols.CredentialStore, clock: protocols.Clock) -> None:
        self.store = store
        self._clock = clock
        self._read: OrderedDict[str, _ReadSecret] = OrderedDict()  # the oldest first

    async def resolve(self, reference: str) -> Credential:
        """Read the secret now. Raises `CredentialError`."""
        scheme, _ = forms.parts(reference)
        self._read.pop(reference, None)
        credential, now = await self.store.resolve(reference), self._clock.monotonic()
        # Variables are in memory, and the client of Vault keeps its secrets itself.
        if scheme in (Scheme.FILE, Scheme.SYSTEMD):
            self._read.pop(reference, None)
            self._read[reference] = _ReadSecret(now, credential)
        self._drop_old(now)
        return credential

    async def recent(self, reference: str) -> Credential:
        """Return the secret as it was within the last minute. Raises `CredentialError`."""
        return self._known(reference) or await self.resolve(reference)

    def known_version(self, reference: str) -> str | None:
        """Return the version of the secret if it was read within the last minute."""
        known = self._known(reference)
        return None if known is None else known.version

    def forget(self, reference: str) -> None:
        """Read this secret again at the next call, because a BMC has refused it."""
        self._read.pop(reference, None)

    def _known(self, reference: str) -> Credential | None:
        self._drop_old(self._clock.monotonic())
        known = self._read.get(reference)
        return None if known is None else known.credential

    def _drop_old(self, now: float) -> None:
        """Forget the secrets that no call may use any more."""
        while self._read:
            reference, oldest = next(iter(self._read.items()))
            if now - oldest.at < READ_EVERY.total_seconds():
                return
            del self._read[reference]
