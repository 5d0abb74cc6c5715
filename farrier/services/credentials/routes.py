"""Determines, from a BMC's address and credential reference, the only route on which its secret may be sent.

A node's steps have `BoundCredentials` instead of the store, so they can use a reference only with an address to which
the reference is bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override
from yarl import URL

from farrier import protocols
from farrier.errors import CredentialError
from farrier.model.credential import Credential
from farrier.model.machine.bmc import BmcError, BmcTarget
from farrier.services.bmc import address
from farrier.services.bmc.address import AllowedNetworks
from farrier.services.bmc.transport import Lookup, Route, look_up
from farrier.services.credentials.bindings import Bindings, Bound
from farrier.services.credentials.recent import RecentCredentials


class Ways:
    """The routes to BMCs that the bindings and the networks allow."""

    def __init__(self, bindings: Bindings, networks: Sequence[str], *, lookup: Lookup = look_up) -> None:
        self._bindings = bindings
        self._networks = AllowedNetworks(networks)
        self._lookup = lookup

    def to(self, target: BmcTarget) -> tuple[URL, Route]:
        """Return the BMC and its route, whose name is not resolved yet. Raises `BmcError` for an invalid address, and
        `CredentialError` if no binding covers the reference and its host."""
        bmc, bound = self.bound(target)
        return bmc, self.route(bound)

    def bound(self, target: BmcTarget) -> tuple[URL, Bound]:
        """Return the BMC, and the bindings that allow the reference for the BMC's host. Raises the same errors as
        `to`."""
        bmc = address.parse(target.address)
        return bmc, self._bindings.of(target, bmc.raw_host or "")

    def route(self, bound: Bound) -> Route:
        """Return the route to a host that has a binding."""

        def check(addresses: Sequence[str]) -> None:
            self._networks.check(addresses)
            bound.at(addresses)

        return Route(bound.host, check, lookup=self._lookup)


class BoundCredentials(protocols.NodeCredentials):
    """Implements `NodeCredentials`: reads secrets, but only of references that are bound to the BMC's address."""

    def __init__(self, recent: RecentCredentials, ways: Ways) -> None:
        self._recent = recent
        self._ways = ways

    @override
    async def version(self, target: BmcTarget) -> str:
        bound = self._bound(target)
        known = self._recent.known_version(target.credential)
        if known is not None:
            return known
        await self._at_addresses(target, bound)
        return (await self._recent.resolve(target.credential)).version

    @override
    async def for_region(self, target: BmcTarget) -> Credential:
        (await self._at_addresses(target, self._bound(target))).check_for_others()
        return await self._recent.resolve(target.credential)

    @override
    async def token(self, reference: str) -> str:
        return await self._recent.store.token(reference)

    def _bound(self, target: BmcTarget) -> Bound:
        try:
            return self._ways.bound(target)[1]
        except BmcError as error:
            raise CredentialError(target.credential, error.detail) from None

    async def _at_addresses(self, target: BmcTarget, bound: Bound) -> Bound:
        """Resolve the host, and return the bindings that match its addresses."""
        try:
            return bound.at(await self._ways.route(bound).resolve())
        except BmcError as error:
            raise CredentialError(target.credential, error.detail) from None
        except OSError:
            reason = "the host name of the BMC does not resolve, so the credential is not read"
            raise CredentialError(target.credential, reason, temporary=True) from None
