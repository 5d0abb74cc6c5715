"""One pass over one BMC: the host system, its power state, its manager.

Made by the BMC client for each call and used once. Sends GETs only, one at a time, at most three when the
system's path is known (a power state in between is read again). The public service root is read without the
credential, and nothing is sent after a refusal. Raises what it meets; the client makes a `BmcError` of it.
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus

import anyio
import msgspec
from redfish import aio as redfish

from farrier import protocols
from farrier.model.bmc import BmcError, BmcFailure, PowerState
from farrier.services import bmc_failure, bmc_resources
from farrier.services.bmc_resources import Resource
from farrier.services.bmc_settings import BmcSettings

SERVICE_ROOT = "/redfish/v1/"
# Where every known BMC has them; asked only where the links that should lead there are missing.
STANDARD_SYSTEMS = "/redfish/v1/Systems"
STANDARD_MANAGERS = "/redfish/v1/Managers"

# A machine has one to three systems and up to a dozen interfaces; more are not read one by one.
MOST_SYSTEMS = 8
MOST_INTERFACES = 16


class Operation(StrEnum):
    """What a request was for; a metric label."""

    ROOT = "root"
    SYSTEMS = "systems"
    SYSTEM = "system"
    MANAGERS = "managers"
    MANAGER = "manager"
    INTERFACES = "interfaces"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass read: the resources that decide, and where they are."""

    power: PowerState
    system_path: str
    system: Resource
    manager_path: str
    macs: tuple[str, ...]


class Probe:
    """A pass. `requests` counts the GETs sent so far."""

    def __init__(
        self,
        client: redfish.AsyncRedfishClient,
        settings: BmcSettings,
        *,
        observer: protocols.ServiceObserver,
    ) -> None:
        self._client = client
        self._settings = settings
        self._observer = observer
        self._deadline = anyio.current_time() + settings.deadline.total_seconds()
        self.requests = 0

    async def run(self, system_path: str | None) -> Found:
        """The pass, from the system at `system_path` or from the service root."""
        macs: tuple[str, ...] = ()
        if system_path is None:
            system_path, system = await self._discover()
            macs = await self._macs(system)
        else:
            await self._log_in()
            system = await self._get(Operation.SYSTEM, system_path)
        if not bmc_resources.can_reset(system):
            raise BmcError(BmcFailure.UNSUPPORTED, f"{system_path} has no action to switch its power")
        manager_path = await self._manager(system)
        system = await self._settled(system_path, system)
        return Found(
            power=bmc_resources.power(system),
            system_path=system_path,
            system=system,
            manager_path=manager_path,
            macs=macs,
        )

    async def _discover(self) -> tuple[str, Resource]:
        """The host's path and resource, chosen among all members, each read once."""
        collection = await self._systems_path()
        await self._log_in()
        paths = await self._members(Operation.SYSTEMS, collection)
        if len(paths) > MOST_SYSTEMS:
            raise BmcError(BmcFailure.UNSUPPORTED, f"the BMC lists {len(paths)} systems; set the path of the host's")
        systems = {path: await self._get(Operation.SYSTEM, path) for path in paths}
        host = bmc_resources.host_system(systems)
        return host, systems[host]

    async def _systems_path(self) -> str:
        """Where the systems are listed. The root is public: asking with the credential could cost a login."""
        try:
            root = await self._get(Operation.ROOT, SERVICE_ROOT)
        except BmcError as error:
            if error.failure is BmcFailure.AUTH:  # against the standard, but nothing was refused yet
                return STANDARD_SYSTEMS
            raise
        path = bmc_resources.link(root.get("Systems"))
        if path is None:
            raise BmcError(BmcFailure.UNSUPPORTED, "the service root names no systems")
        return path

    async def _log_in(self) -> None:
        """From here on requests carry the credential. Basic authentication: nothing is sent now and no
        session slot of the BMC is used up."""
        await self._client.login("basic")

    async def _manager(self, system: Resource) -> str:
        """The path of a manager of the system, proven readable: the management interface works."""
        paths = bmc_resources.managers(system)
        if not paths:
            paths = await self._members(Operation.MANAGERS, STANDARD_MANAGERS)
            if len(paths) != 1:
                raise BmcError(BmcFailure.UNSUPPORTED, f"the system names no manager and the BMC lists {len(paths)}")
        # Each that is named manages this very system, so any of them proves it.
        path = paths[0]
        if not bmc_resources.is_manager(await self._get(Operation.MANAGER, path)):
            raise BmcError(BmcFailure.PROTOCOL, f"{path} is not a manager")
        return path

    async def _settled(self, path: str, system: Resource) -> Resource:
        """`system`, read again while its power is neither on nor off."""
        pause = self._settings.power_reread_pause.total_seconds()
        for _ in range(self._settings.power_rereads):
            enough_time = anyio.current_time() + pause < self._deadline
            if bmc_resources.power(system) is not PowerState.UNKNOWN or not enough_time:
                break
            await anyio.sleep(pause)
            system = await self._get(Operation.SYSTEM, path)
        if bmc_resources.power(system) is PowerState.UNKNOWN:
            state = bmc_resources.text(system.get("PowerState")) or "null"
            raise BmcError(BmcFailure.PROTOCOL, f"PowerState of {path} stays {state}, neither on nor off")
        return system

    async def _macs(self, system: Resource) -> tuple[str, ...]:
        """The addresses of the system's interfaces; none where the BMC cannot list them, which is common."""
        collection = bmc_resources.link(system.get("EthernetInterfaces"))
        if collection is None:
            return ()
        try:
            paths = await self._members(Operation.INTERFACES, collection)
            interfaces = [await self._get(Operation.INTERFACES, path) for path in paths[:MOST_INTERFACES]]
        except Exception as error:
            if bmc_failure.of_exception(error)[0] in (BmcFailure.UNSUPPORTED, BmcFailure.PROTOCOL):
                return ()
            raise
        return tuple(sorted({mac for mac in map(bmc_resources.mac, interfaces) if mac}))

    async def _members(self, operation: Operation, path: str) -> tuple[str, ...]:
        return bmc_resources.links((await self._get(operation, path)).get("Members"))

    async def _get(self, operation: Operation, path: str) -> Resource:
        """One GET, reported to the observer however it ends."""
        self.requests += 1
        started = anyio.current_time()
        result = "cancelled"
        try:
            with anyio.fail_after(max(0.0, self._deadline - started)):
                resource = _resource(path, await self._client.get(path))
            result = "ok"
        except Exception as error:
            result = bmc_failure.of_exception(error)[0]
            raise
        finally:
            self._observer.requested("bmc", operation, result, anyio.current_time() - started)
        return resource


def _resource(path: str, response: redfish.AsyncRestResponse) -> Resource:
    """The JSON object in a successful answer. Raises `BmcError` for another status or body."""
    failure = bmc_failure.of_status(response.status)
    if failure is not None:
        raise BmcError(failure, _status_text(path, response))
    body = response.dict
    if not isinstance(body, dict):
        raise BmcError(BmcFailure.PROTOCOL, f"{path} is not a JSON object")
    return body


def _status_text(path: str, response: redfish.AsyncRestResponse) -> str:
    text = f"{path} answered HTTP {response.status}"
    if 300 <= response.status < 400:
        return f"{text}, a redirect; these are not followed"
    if response.status == HTTPStatus.FORBIDDEN and "PasswordChangeRequired" in response.text:
        return f"{text}: the password has to be changed first"
    return text
