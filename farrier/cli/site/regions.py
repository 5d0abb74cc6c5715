"""The configured sites and the clients of their MAAS regions, for commands that send requests to a region: asks whether
farrier can use a region, and stores farrier's check of erased disks there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import TypeVar

import anyio
import msgspec
from typing_extensions import override

from farrier import agent
from farrier.clock import MonotonicClock
from farrier.config import Config, site_files
from farrier.config.sites import Site, Sites
from farrier.errors import ConfigError, FarrierError
from farrier.model.maas.scripts import Text, fault
from farrier.model.node.layers import CleaningBy
from farrier.protocols import MaasClient, ServiceObserver
from farrier.services.http.client import Times
from farrier.services.maas.regions import Regions, settings_of
from farrier.wiring.secrets import credentials

_ERASES_ALWAYS = "enable_disk_erasing_on_release"
_T = TypeVar("_T")


class Unobserved(ServiceObserver):
    """An observer that ignores requests, because a command does not count them."""

    @override
    def requested(self, service: str, operation: str, result: str, seconds: float) -> None:
        return None


def configured(settings: Config) -> Sites:
    """Return the sites that the daemon would use."""
    if not settings.sites.directory:
        raise ConfigError(
            "no directory of sites is configured; set sites.directory in the file that --config names, or "
            "FARRIER_SITES_DIRECTORY"
        )
    return site_files.load(settings.sites.directory, settings.agents)


@asynccontextmanager
async def opened(settings: Config, sites: Sites) -> AsyncIterator[Regions]:
    """Open the clients of the regions of these sites."""
    observer = Unobserved()
    async with (
        credentials(settings, observer=observer) as store,
        Regions.open(credentials=store, times=Times(clock=MonotonicClock()), observer=observer) as regions,
    ):
        await regions.use(settings_of(sites))
        yield regions


class RegionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The response of a region to `check --ask`, or the `error` if the region did not respond or is not prepared."""

    site: str
    version: str | None = None
    username: str | None = None
    administrator: bool = False
    error: str | None = None


class Stored(StrEnum):
    """What `prepare` did to the script in a region."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The state of farrier's check in a region, or the `error`."""

    site: str
    script: str = agent.CLEAN_CHECK
    result: Stored | None = None
    revision: int | None = None
    error: str | None = None


async def ask(settings: Config, sites: Sites) -> tuple[RegionAnswer, ...]:
    """Return the response of each region. All regions are requested concurrently."""
    return await _of_each(settings, sites, _asked)


async def prepare(settings: Config, sites: Sites) -> tuple[Prepared, ...]:
    """Store farrier's check in each region, unless it is there. May be repeated."""
    return await _of_each(settings, sites, _prepared)


def cleans(site: Site) -> bool:
    """Return whether the region of the site cleans machines."""
    return site.maas is not None and site.cleaning.by in (None, CleaningBy.REGION)


async def _of_each(settings: Config, sites: Sites, of: Callable[[Site, MaasClient], Awaitable[_T]]) -> tuple[_T, ...]:
    answers: dict[str, _T] = {}
    async with opened(settings, sites) as clients:

        async def one(site: Site, region: MaasClient) -> None:
            answers[site.name] = await of(site, region)

        async with anyio.create_task_group() as group:
            for site in sites.values():
                region = clients.client(site.name)
                if region is not None:
                    group.start_soon(one, site, region)
    return tuple(answers[name] for name in sites if name in answers)


async def _asked(site: Site, region: MaasClient) -> RegionAnswer:
    try:
        version, identity = await region.version(), await region.whoami()
        error = await _unprepared(site, region) if identity.is_superuser else None
    except FarrierError as failure:
        return RegionAnswer(site=site.name, error=str(failure))
    return RegionAnswer(
        site=site.name, version=version, username=identity.username, administrator=identity.is_superuser, error=error
    )


async def _unprepared(site: Site, region: MaasClient) -> str | None:
    """Return why the region cannot clean machines as the site's file says; None if it can, or need not."""
    if await region.setting(_ERASES_ALWAYS) is True:
        return (
            f"the MAAS setting {_ERASES_ALWAYS} is on, so MAAS ignores release.erase of the site's file; switch it off"
        )
    if not cleans(site):
        return None
    wrong = fault(agent.CLEAN_CHECK, agent.clean_check(), await region.scripts(agent.CLEAN_CHECK))
    return None if wrong is None else f"{wrong}; run: farrier site prepare {site.name}"


async def _prepared(site: Site, region: MaasClient) -> Prepared:
    name, text = agent.CLEAN_CHECK, agent.clean_check()
    try:
        before = next((each for each in await region.scripts(name) if each.name == name), None)
        result = Stored.UNCHANGED
        if before is None or not before.has(text):
            result = Stored.CREATED if before is None else Stored.UPDATED
            script = Text(name=name, text=text, tags=(agent.CLEAN_TAG,), comment="farrier site prepare")
            await region.save_script(script, is_new=before is None)
        after = await region.scripts(name)
    except FarrierError as error:
        return Prepared(site=site.name, error=str(error))
    revision = next((each.revision for each in after if each.name == name), None)
    return Prepared(site=site.name, result=result, revision=revision, error=fault(name, text, after))
