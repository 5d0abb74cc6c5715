"""`farrier.protocols.MaasClient` over one MAAS region.

Before a change, the client checks that no other user owns the machine, because the region itself lets an administrator
change any machine. If the reading of the machine is older than `FRESH`, the client reads the machine again for this
check. The client shares the lists of BMC addresses and networks among its callers. Otherwise it stores only the user of
its key, and the number of deployments in progress.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

import anyio
import httpx
import msgspec
import structlog

from farrier import protocols
from farrier.log import mask_urls
from farrier.model.maas.changes import Change, Deploy, LookUp, NewMachine
from farrier.model.maas.reading import Event, MaasError, MaasFailure, MaasUser, Machine, PowerAddress, Subnet, Vlan
from farrier.model.maas.scripts import Script, ScriptSet, Text
from farrier.services.http.client import Endpoint, HttpClient, SendFunction, SentCredential, Times, open_client
from farrier.services.http.messages import HttpRequest
from farrier.services.maas import answers, requests
from farrier.services.maas.requests import MaasOperation
from farrier.services.maas.service import FAILURES, MAAS, ApiKey, MaasSettings, api_key

_log = structlog.stdlib.get_logger(__name__)
_T = TypeVar("_T")

# The age up to which a reading of a machine is used for a change. An older reading is repeated.
FRESH = timedelta(seconds=10)
# Each machine costs 41 kB and 18 ms of the region's time: a request for more machines would occupy a worker of the
# region for too long.
MOST_MACHINES = 50
MOST_EVENTS = 1000
DEPLOY_AGAIN = timedelta(seconds=5)
# After a request has timed out here, the region still processes it for an unknown time; a deployment takes minutes.
UNANSWERED_HOLDS = timedelta(minutes=5)
# A region needs 1.2 ms per machine to list all BMC addresses, and every node that searches for its machine needs the
# list. If a machine is newer than the list, it is found by its other identities. farrier reads a machine by its ID
# before it uses the machine.
ADDRESSES_KEPT = timedelta(seconds=60)
# The lists of networks are long, and the same for every node. If an operator creates a network to fix a node's failure,
# the second attempt finds the network at the latest.
NETWORKS_KEPT = timedelta(seconds=30)
_WHOAMI = HttpRequest(operation=MaasOperation.WHOAMI, path="users/", query=(("op", "whoami"),))


class SharedReading(Generic[_T]):
    """The last result of `read`, which is reused until its age reaches `kept`. If `read` fails, the next waiting caller
    repeats it."""

    def __init__(self, read: Callable[[], Awaitable[_T]], *, kept: timedelta, clock: protocols.Clock) -> None:
        self._read = read
        self._kept = kept.total_seconds()
        self._now = clock.monotonic
        self._one_at_a_time = anyio.Lock()
        self._last: tuple[float, _T] | None = None

    async def get(self) -> _T:
        async with self._one_at_a_time:
            asked = self._now()
            if self._last is None or asked - self._last[0] >= self._kept:
                self._last = asked, await self._read()
            return self._last[1]


class Maas:
    """The implementation of `MaasClient`."""

    def __init__(self, http: HttpClient[MaasError], *, clock: protocols.Clock, settings: MaasSettings) -> None:
        self._http = http
        self._clock = clock
        self._settings = settings
        self._user: tuple[SentCredential, str] | None = None
        self._deploying = 0
        self._unanswered: list[float] = []  # for each request without a response, the time until which it counts
        self._addresses = SharedReading(self._read_addresses, kept=ADDRESSES_KEPT, clock=clock)
        self._subnets = SharedReading(self._read_subnets, kept=NETWORKS_KEPT, clock=clock)
        self._vlans = SharedReading(self._read_vlans, kept=NETWORKS_KEPT, clock=clock)

    async def version(self) -> str:
        request = HttpRequest(operation=MaasOperation.VERSION, path="version/")
        return (await self._http.send(request, answers.shaped(answers.Version))).version

    async def whoami(self) -> MaasUser:
        return await self._http.send(_WHOAMI, answers.shaped(MaasUser))

    async def machines(self, by: LookUp, values: Sequence[str]) -> tuple[Machine, ...]:
        if not values:
            return ()
        found: dict[str, Machine] = {}
        wanted = tuple(dict.fromkeys(values))
        for start in range(0, len(wanted), MOST_MACHINES):
            chunk = wanted[start : start + MOST_MACHINES]
            query = tuple((by.value, value) for value in chunk)
            request = HttpRequest(operation=MaasOperation.MACHINES, path="machines/", query=query)
            ids = frozenset(chunk) if by is LookUp.ID else None
            found |= await self._http.send(request, partial(answers.machines, ids))
        now = self._clock.monotonic()
        return tuple(msgspec.structs.replace(machine, read_at=now) for machine in found.values())

    async def machine(self, system_id: str, *, send: SendFunction | None = None) -> Machine:
        """Read one machine. With `send`, the request uses the slot that the caller has."""
        request = HttpRequest(operation=MaasOperation.MACHINE, path=requests.path("machines", system_id))
        found = await (send or self._http.send)(request, partial(answers.machine, system_id))
        return msgspec.structs.replace(found, read_at=self._clock.monotonic())

    async def power_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        return await self._read_addresses(ids) if ids else await self._addresses.get()

    async def _read_addresses(self, ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        query = (("op", "power_parameters"), *(("id", system_id) for system_id in ids))
        request = HttpRequest(operation=MaasOperation.POWER_ADDRESSES, path="machines/", query=query)
        return await self._http.send(request, answers.shaped(dict[str, PowerAddress]))

    async def subnets(self) -> tuple[Subnet, ...]:
        return await self._subnets.get()

    async def _read_subnets(self) -> tuple[Subnet, ...]:
        request = HttpRequest(operation=MaasOperation.SUBNETS, path="subnets/")
        return await self._http.send(request, answers.shaped(tuple[Subnet, ...]))

    async def vlans(self) -> tuple[Vlan, ...]:
        return await self._vlans.get()

    async def _read_vlans(self) -> tuple[Vlan, ...]:
        request = HttpRequest(operation=MaasOperation.FABRICS, path="fabrics/")
        return await self._http.send(request, answers.vlans)

    async def events(
        self,
        *,
        after: int | None = None,
        before: int | None = None,
        system_id: str | None = None,
        limit: int = MOST_EVENTS,
    ) -> tuple[Event, ...]:
        query = [("op", "query"), ("level", "DEBUG"), ("limit", str(limit))]
        query += [("after", str(after))] if after is not None else []
        query += [("before", str(before))] if before is not None else []
        query += [("id", system_id)] if system_id is not None else []
        request = HttpRequest(operation=MaasOperation.EVENTS, path="events/", query=tuple(query))
        return await self._http.send(request, answers.events)

    async def results(self, system_id: str, kind: str) -> tuple[ScriptSet, ...]:
        path = requests.path("nodes", system_id, "results")
        request = HttpRequest(operation=MaasOperation.RESULTS, path=path, query=(("type", kind),))
        return await self._http.send(request, answers.shaped(tuple[ScriptSet, ...]))

    async def result(self, system_id: str, number: int) -> ScriptSet:
        path, query = requests.path("nodes", system_id, "results", number), (("include_output", "true"),)
        request = HttpRequest(operation=MaasOperation.RESULTS, path=path, query=query)
        return await self._http.send(request, answers.shaped(ScriptSet))

    async def scripts(self, name: str) -> tuple[Script, ...]:
        query = (("type", "testing"), ("include_script", "true"), ("filters", name))
        request = HttpRequest(operation=MaasOperation.SCRIPTS, path="scripts/", query=query)
        return await self._http.send(request, answers.shaped(tuple[Script, ...]))

    async def save_script(self, script: Text, *, is_new: bool) -> None:
        await self._http.send(requests.saving(script, is_new=is_new), answers.done)

    async def setting(self, name: str) -> object:
        query = (("op", "get_config"), ("name", name))
        request = HttpRequest(operation=MaasOperation.SETTING, path="maas/", query=query)
        return await self._http.send(request, answers.shaped(object))

    async def create(self, new: NewMachine) -> Machine:
        made = await self._http.send(requests.creation(new), answers.shaped(Machine))
        return msgspec.structs.replace(made, read_at=self._clock.monotonic())

    async def holds(self, machine: Machine) -> bool:
        return bool(machine.owner) and machine.owner == await self._ourselves(self._http.send)

    async def do(self, machine: Machine, change: Change) -> None:
        request = requests.of_change(machine.system_id, change, agent_name=self._settings.agent_name)
        with self._one_of_few_deployments() if isinstance(change, Deploy) else nullcontext():
            async with self._http.slots:  # a reading may become too old during the wait for a slot
                send = self._http.send_once
                if self._clock.monotonic() - machine.read_at > FRESH.total_seconds():
                    again = await self.machine(machine.system_id, send=send)
                    machine = self._unchanged(machine, again, request.operation)
                if machine.owner and machine.owner != (ours := await self._ourselves(send)):
                    detail = (
                        f"machine {machine.system_id} is owned by {machine.owner[:64]!r}, not by {ours!r}; farrier "
                        "changed nothing"
                    )
                    raise MaasError(MaasFailure.FOREIGN_OWNER, detail, operation=request.operation)
                await send(request, answers.done)

    @contextmanager
    def _one_of_few_deployments(self) -> Iterator[None]:
        """Refuse a deployment too many: while it waits, it would occupy a slot that a read could use."""
        most, now = self._settings.deploys_at_once, self._clock.monotonic()
        self._unanswered = [until for until in self._unanswered if until > now]
        if self._deploying + len(self._unanswered) >= most:
            detail = (
                f"this replica already has {most} deployment requests in progress, which is the site's limit "
                "deploys_at_once"
            )
            raise MaasError(MaasFailure.BUSY, detail, operation=MaasOperation.DEPLOY, retry_after=DEPLOY_AGAIN)
        self._deploying += 1
        try:
            yield
        except MaasError as error:
            if error.ambiguous and error.failure in (MaasFailure.TIMEOUT, MaasFailure.UNREACHABLE):
                self._unanswered.append(self._clock.monotonic() + UNANSWERED_HOLDS.total_seconds())
            raise
        finally:
            self._deploying -= 1

    def _unchanged(self, old: Machine, new: Machine, operation: str) -> Machine:
        """Refuse the change if the machine has changed since the older reading on which the change is based."""
        if (old.status, old.owner, old.locked) != (new.status, new.owner, new.locked):
            detail = f"machine {new.system_id} has changed to {new.state} since it was read; farrier changed nothing"
            raise MaasError(MaasFailure.CONFLICT, detail, operation=operation)
        return new

    async def _ourselves(self, send: SendFunction) -> str:
        """Return the user of the API key, which is requested once for each key."""
        key = await self._http.credential(MaasOperation.WHOAMI)
        if self._user is None or self._user[0] != key:
            self._user = key, (await send(_WHOAMI, answers.shaped(MaasUser))).username
        return self._user[1]


@asynccontextmanager
async def open_maas(
    settings: MaasSettings,
    *,
    site: str,
    credentials: protocols.CredentialStore,
    times: Times,
    observer: protocols.ServiceObserver,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[Maas]:
    """Open the client. The client connects at its first request, and is closed when the context ends. The client reads
    the API key at most once in each period of `KEY_KEPT`; the key has the form in which MAAS prints it. Errors name the
    site and the URL. Raises `ConfigError` for an unusable CA file."""

    async def credential() -> ApiKey:
        return api_key(await credentials.token(settings.key))

    if not settings.url.startswith("https://"):
        _log.warning("maas.not_encrypted", url=settings.url)
    failures = msgspec.structs.replace(FAILURES, where=f"site {site} ({mask_urls(settings.url)})")
    service = msgspec.structs.replace(MAAS, failures=failures)
    endpoint = Endpoint(
        root=f"{settings.url}/api/2.0/",
        ca_file=settings.ca_file,
        read_timeout=settings.read_timeout,
        change_timeout=settings.change_timeout,
    )
    async with open_client(
        service, endpoint, credential=credential, times=times, observer=observer, transport=transport
    ) as http:
        yield Maas(http, clock=times.clock, settings=settings)
