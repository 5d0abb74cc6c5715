"""Checks that this process can read the secrets of the settings and of the sites, for `config check` and `site check`.

A message names the setting and the reference, and never a part of a secret.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import msgspec
from typing_extensions import override

from farrier.cli.site.regions import Unobserved
from farrier.config import Config
from farrier.config.sites import Sites
from farrier.errors import FarrierError
from farrier.services.credentials.resolver import Credentials
from farrier.services.maas.service import api_key
from farrier.wiring.secrets import credentials

_Read: TypeAlias = Callable[[str], Awaitable[object]]


class Unreadable(msgspec.Struct, frozen=True):
    """A setting whose secret cannot be read, or has the wrong form."""

    setting: str
    error: str

    @override
    def __str__(self) -> str:
        return f"{self.setting}: {self.error}"


async def unreadable(settings: Config, sites: Sites, *, of_settings: bool) -> tuple[Unreadable, ...]:
    """Return the secrets that cannot be read. The secrets of the settings themselves are included on request."""
    async with credentials(settings, observer=Unobserved()) as store:
        faults = [fault async for fault in _of_sites(store, sites)]
        if of_settings:
            faults += [fault async for fault in _of_settings(store, settings)]
    return tuple(faults)


async def _of_sites(store: Credentials, sites: Sites) -> AsyncIterator[Unreadable]:
    async def key(reference: str) -> object:
        return api_key(await store.token(reference))

    for name, site in sites.items():
        reads: list[tuple[str, str, _Read]] = []
        if site.maas is not None:
            reads.append(("maas.key", site.maas.key, key))
        if site.ufm is not None:
            reads += [
                ("ufm.token", site.ufm.token, store.token),
                ("ufm.credential", site.ufm.credential, store.resolve),
            ]
        for setting, reference, read in reads:
            fault = await _fault(f"{setting} of site {name}", reference, read)
            if fault is not None:
                yield fault


async def _of_settings(store: Credentials, settings: Config) -> AsyncIterator[Unreadable]:
    references = {
        "http.bearer_token": settings.http.bearer_token,
        "vault.token": settings.vault.token if settings.vault.address else "",
    }
    for setting, reference in references.items():
        fault = await _fault(setting, reference, store.token)
        if fault is not None:
            yield fault


async def _fault(setting: str, reference: str, read: _Read) -> Unreadable | None:
    if not reference:
        return None
    try:
        await read(reference)
    except FarrierError as error:
        return Unreadable(setting, str(error))
    return None
