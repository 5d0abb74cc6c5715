"""Bindings of credential references to hosts and networks: they define which BMC may receive which credential.

`wiring` makes the bindings from the settings; `use_sites` adds the bindings of the site files at the start and on
SIGHUP. farrier checks the bindings before it reads the secret of a reference. Users choose references and addresses
freely, but only an operator can bind them, so farrier refuses a pair without a binding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec

from farrier.config import CredentialBinding
from farrier.config.sites import Sites
from farrier.errors import CredentialError
from farrier.model.machine.bmc import BmcTarget
from farrier.services.bmc.address import BMCS, AllowedNetworks, number
from farrier.services.credentials import forms

_SETTING = "[[credentials.bindings]]"


class Bound(msgspec.Struct, frozen=True):
    """The bindings of a reference that match the host of its BMC. `at` returns only the bindings that also match the
    addresses of the host."""

    reference: str
    host: str
    bindings: tuple[CredentialBinding, ...]

    def at(self, addresses: Sequence[str]) -> Bound:
        """Return the bindings that match each of `addresses`. Raises `CredentialError` if no binding matches."""
        holding = tuple(binding for binding in self.bindings if _has(binding, addresses))
        if holding:
            return Bound(self.reference, self.host, holding)
        raise CredentialError(
            self.reference,
            f"is bound to {self.host}, but not to the network of {', '.join(sorted(addresses))}; correct the address "
            f"of the BMC, or add the network to {_SETTING}",
        )

    def check_for_others(self) -> None:
        """Raise `CredentialError` if the host is a name and the bindings list only networks: MAAS resolves the name
        itself and may get another address. Call this on a result of `at`."""
        if any(binding.hosts for binding in self.bindings) or number(self.host) is not None:
            return
        raise CredentialError(
            self.reference,
            f"is bound only to networks, not to the host {self.host}, whose name MAAS resolves itself; add the host to "
            f"{_SETTING}, or use an IP address",
        )


class Bindings:
    """All bindings in force."""

    def __init__(self, everywhere: Sequence[CredentialBinding] = ()) -> None:
        self._everywhere = tuple(everywhere)
        self._of_site: Mapping[str, tuple[CredentialBinding, ...]] = {}
        self._known: dict[tuple[str | None, str, str], Bound] = {}  # earlier results of `of`
        self._on_change: list[Callable[[], None]] = []

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of the bindings."""
        self._on_change.append(changed)

    def use_sites(self, sites: Sites) -> None:
        """Use the bindings of these sites from now on, in addition to those of the settings."""
        of_site = {name: site.credentials.bindings for name, site in sites.items()}
        if of_site != self._of_site:
            self._of_site = of_site
            self._known.clear()
            for changed in self._on_change:
                changed()

    def of(self, target: BmcTarget, host: str) -> Bound:
        """Return the bindings that allow the target's reference for the target's host. Raises `CredentialError` if
        there are none."""
        place = target.site, target.credential, host
        if (known := self._known.get(place)) is not None:
            return known
        forms.parts(target.credential)
        own = self._of_site.get(target.site, ()) if target.site is not None else ()
        found = tuple(binding for binding in (*self._everywhere, *own) if _fits(binding, target.credential, host))
        if found:
            if len(self._known) >= BMCS:
                self._known.clear()
            return self._known.setdefault(place, Bound(target.credential, host, found))
        file = f", or in the file of site {target.site}" if target.site is not None else ""
        raise CredentialError(
            target.credential,
            f"no binding allows it for {host}, so farrier does not read it; add a binding with this reference and the "
            f"host or its network to {_SETTING} in the settings{file}",
        )


def _fits(binding: CredentialBinding, reference: str, host: str) -> bool:
    if _OTHER_DIRECTORY.fullmatch(reference):
        return False
    fits = any(_compiled(pattern, "[^/]*").fullmatch(reference) for pattern in binding.references)
    return fits and (not binding.hosts or any(_is_host(pattern, host) for pattern in binding.hosts))


def _is_host(pattern: str, host: str) -> bool:
    """Return whether a pattern matches the host. A star matches no part of an address: it could be any digits."""
    if _IN_NUMBERS.fullmatch(host):
        found = number(host)
        return pattern == host if found is None else number(pattern) == found
    return _compiled(pattern, "[^.]*").fullmatch(host) is not None


def _has(binding: CredentialBinding, addresses: Sequence[str]) -> bool:
    return not binding.networks or all(map(_networks(binding.networks).allows, addresses))


# Numeric addresses, and names that the system converts to an address without a name server: 127.1, 0x7f000001.
_IN_NUMBERS = re.compile(r".*:.*|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")

# If a star could match `..`, the reference would lead to another directory.
_OTHER_DIRECTORY = re.compile(r"(?:^|.*[:/])\.{1,2}(?:/.*|$)", re.DOTALL)


@lru_cache(maxsize=2048)
def _compiled(pattern: str, star: str) -> re.Pattern[str]:
    return re.compile(star.join(map(re.escape, pattern.split("*"))))


@lru_cache(maxsize=1024)
def _networks(networks: tuple[str, ...]) -> AllowedNetworks:
    return AllowedNetworks(networks)
