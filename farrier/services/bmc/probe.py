"""Reads the host system of a BMC, its power state and its manager once.

A probe sends only GETs, one at a time: at most three if the system's path is known, and further GETs only to read an
intermediate power state again, or to read the interfaces if the caller requests them. A probe raises the original
errors, and the client converts them to a `BmcError`. A BMC may send a list in pages, and a page links to the next page;
nothing may be concluded from what an incomplete list lacks.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import msgspec

from farrier.model.machine.bmc import BmcError, BmcFailure, PowerState
from farrier.services.bmc import failure as bmc_failure
from farrier.services.bmc import resources
from farrier.services.bmc.exchange import BmcOperation, Exchange
from farrier.services.bmc.resources import Resource

# The paths of the collections on every known BMC; used only if the links to them are missing.
STANDARD_SYSTEMS = "/redfish/v1/Systems"
STANDARD_MANAGERS = "/redfish/v1/Managers"

# The smallest known pages have 10 members, and no list that farrier reads has more than 64; more pages are a loop.
MOST_PAGES = 16
# A BMC has one to three systems and managers, and a system with eight GPUs two dozen interfaces; longer lists are not
# read.
MOST_SYSTEMS = 8
MOST_MANAGERS = 8
MOST_INTERFACES = 64

# After these failures, another manager may respond. A refused login must not be repeated, and a timeout leaves no time.
_OF_ONE_MANAGER = (BmcFailure.UNREACHABLE, BmcFailure.PROTOCOL, BmcFailure.UNSUPPORTED, BmcFailure.REFUSED)

# A BMC with these failures has no usable list of interfaces.
_NO_LIST = (BmcFailure.UNSUPPORTED, BmcFailure.PROTOCOL, BmcFailure.REFUSED)


class FoundSystem(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a read: the system, its path, and the addresses of its interfaces if they were requested."""

    system_path: str
    system: Resource
    macs: tuple[str, ...] = ()


async def read_system(exchange: Exchange, path: str) -> FoundSystem:
    """Read the system at `path` once, in any power state. Call this while the call has a slot."""
    await exchange.log_in()
    system = await exchange.get(BmcOperation.SYSTEM, path)
    if not resources.is_system(system):
        raise BmcError(BmcFailure.PROTOCOL, f"{path} is not a system")
    return FoundSystem(system_path=path, system=system)


class Probe:
    """A read of a BMC, by a call that has a slot."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._times = exchange.times

    async def run(self, system_path: str | None, *, macs: bool) -> FoundSystem:
        """Read the BMC, beginning with the system at `system_path` or with the service root."""
        if system_path is None:
            system_path, system = await self._discover()
        else:
            await self._exchange.log_in()
            system = await self._exchange.get(BmcOperation.SYSTEM, system_path)
        addresses = await self._macs(system) if macs else ()
        if not resources.can_reset(system):
            raise BmcError(BmcFailure.UNSUPPORTED, f"{system_path} has no action that switches its power")
        await self._check_manager(system)
        system = await self._settled(system_path, system)
        return FoundSystem(system_path=system_path, system=system, macs=addresses)

    async def _discover(self) -> tuple[str, Resource]:
        """Return the host's path and resource. Each system that may be the host is read once."""
        collection = await self._systems_path()
        await self._exchange.log_in()
        listed = await members(self._exchange, BmcOperation.SYSTEMS, collection)
        if listed.lacks is not None and listed.paths:
            raise BmcError(
                BmcFailure.UNSUPPORTED,
                f"the BMC's list of systems is incomplete ({listed.lacks}), so farrier cannot tell which system is the "
                "host; add the path of the host's system to the BMC address",
            )
        paths = resources.possible_hosts(listed.paths)
        if len(paths) > MOST_SYSTEMS:
            raise BmcError(
                BmcFailure.UNSUPPORTED,
                f"the BMC lists {len(paths)} systems; add the path of the host's system to the BMC address",
            )
        systems = {path: await self._exchange.get(BmcOperation.SYSTEM, path) for path in paths}
        host = resources.host_system(systems)
        return host, systems[host]

    async def _systems_path(self) -> str:
        root = await self._exchange.root()
        if root is None:
            return STANDARD_SYSTEMS
        path = resources.link(root.get("Systems"))
        if path is None:
            raise BmcError(BmcFailure.UNSUPPORTED, "the service root lists no systems")
        return path

    async def _check_manager(self, system: Resource) -> None:
        """Read a manager of the system, which proves that the management interface works. One manager that responds is
        enough: while the host is off, others may not. Raises `BmcError` without such a manager."""
        paths = resources.managers(system)
        if not paths:
            paths = (await members(self._exchange, BmcOperation.MANAGERS, STANDARD_MANAGERS)).paths
        if not paths:
            raise BmcError(BmcFailure.UNSUPPORTED, "neither the system nor the BMC lists a manager")
        first: BmcError | None = None
        for path in paths[:MOST_MANAGERS]:
            try:
                await self._read_manager(path)
            except BmcError as error:
                if error.failure not in _OF_ONE_MANAGER:
                    raise
                first = first or error
            else:
                return
        assert first is not None, "there is at least one path"
        raise first

    async def _read_manager(self, path: str) -> None:
        """Read one manager. Raises `BmcError`."""
        try:
            manager = await self._exchange.get(BmcOperation.MANAGER, path)
        except bmc_failure.FORESEEN as error:
            if isinstance(error, BmcError):
                raise
            failure, text = bmc_failure.of_exception(error)
            raise BmcError(failure, text) from error
        if not resources.is_manager(manager):
            raise BmcError(BmcFailure.PROTOCOL, f"{path} is not a manager")

    async def _settled(self, path: str, system: Resource) -> Resource:
        """Return `system`, read again while its power state is neither on nor off."""
        pause = self._times.power_reread_pause.total_seconds()
        for _ in range(self._times.power_rereads):
            enough_time = anyio.current_time() + pause < self._exchange.deadline
            if resources.power(system) is not PowerState.UNKNOWN or not enough_time:
                break
            await anyio.sleep(pause)
            system = await self._exchange.get(BmcOperation.SYSTEM, path)
        if resources.power(system) is PowerState.UNKNOWN:
            state = resources.power_text(system)
            raise BmcError(BmcFailure.PROTOCOL, f"PowerState of {path} remains {state}, which is neither on nor off")
        return system

    async def _macs(self, system: Resource) -> tuple[str, ...]:
        """Return the addresses of all of the system's interfaces; none if the BMC cannot list all of them, which is
        common. A part of them could lack the registered addresses, and the machine would look like another one."""
        collection = resources.link(system.get("EthernetInterfaces"))
        if collection is None:
            return ()
        try:
            listed = await members(self._exchange, BmcOperation.INTERFACES, collection)
            if listed.lacks is not None or len(listed.paths) > MOST_INTERFACES:
                return ()
            interfaces = [await self._exchange.get(BmcOperation.INTERFACES, path) for path in listed.paths]
            return tuple(sorted({mac for interface in interfaces for mac in resources.macs(interface)}))
        except bmc_failure.FORESEEN as error:
            if bmc_failure.of_exception(error)[0] in _NO_LIST:
                return ()
            raise


class ListMembers(msgspec.Struct, frozen=True):
    """The paths of the members in the order of the list. `lacks` is why the list is incomplete; None if it is
    complete."""

    paths: tuple[str, ...]
    lacks: str | None = None


async def members(exchange: Exchange, operation: BmcOperation, path: str) -> ListMembers:
    """Read the list at `path`, page by page."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    lacks: str | None = None
    page: str | None = path
    while page is not None:
        if page in seen or len(seen) == MOST_PAGES:
            lacks = "its pages are a loop" if page in seen else f"it has more than {MOST_PAGES} pages"
            break
        seen.add(page)
        resource = await exchange.get(operation, page)
        listed = resource.get("Members")
        entries = listed if isinstance(listed, list) else []
        paths = resources.links(entries)
        found.update(dict.fromkeys(paths))
        if len(paths) < len(entries) or (listed is not None and not isinstance(listed, list)):
            lacks = "it has members without a usable link"
        page = _next(resource)
        if page == "":
            lacks, page = "the link to its next page cannot be used", None
    count = resource.get("Members@odata.count")
    if lacks is None and isinstance(count, int) and count > len(found):
        lacks = f"it has {len(found)} of {count} members"
    return ListMembers(tuple(found), lacks)


def _next(page: Resource) -> str | None:
    """Return the path of the next page, empty if it cannot be used, and None after the last page."""
    for field in ("Members@odata.nextLink", "@odata.nextLink", "Members@nextLink"):
        if page.get(field):
            link = page[field]
            path = resources.link(link if isinstance(link, Mapping) else {"@odata.id": link}) or ""
            return "" if path.startswith("//") else path
    return None
