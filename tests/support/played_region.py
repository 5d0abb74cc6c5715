"""A fake region with one machine, for walks over more states than a simulated region could be taken through.

It responds at once or not at all, and stores only those fields of the machine that handlers decide on. It is stricter
than a real region: a request that must never be sent fails the test.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import NoReturn, cast

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from farrier.model.maas import Identity, MaasError, MaasFailure, Machine, StatusNumber
from farrier.model.maas_changes import Abort, Change, Delete, PowerOff, Release, Unlock
from farrier.model.observation import MaasObservation
from farrier.protocols import MaasClient, Regions
from tests.support.maas import state_of

S = StatusNumber
SYSTEM_ID = "abc123"
OURS = "farrier"
SOMEBODY = "ann"

RELEASABLE = (S.ALLOCATED, S.DEPLOYED, S.DEPLOYING, S.FAILED_DEPLOYMENT, S.RELEASING_FAILED, S.BROKEN)
FREE = (S.NEW, S.READY)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the machine that the region shows."""

    status: StatusNumber
    owner: str | None = None
    locked: bool = False
    power: str = "on"


DEPLOYED = Shown(status=S.DEPLOYED, owner=OURS)


def seen(shown: Shown | None, now: datetime, before: MaasObservation | None) -> MaasObservation:
    """The observation that the region's observer records now."""
    state = "absent" if shown is None else state_of(shown.status)
    told = {} if shown is None else {"status": shown.status.value, "owner": shown.owner, "power_state": shown.power}
    since = before.since if before is not None and before.state == state else now
    fields = {"system_id": SYSTEM_ID, "state": state, "since": since, "read_at": now, "fresh_at": now}
    ours = shown is not None and shown.owner == OURS
    return msgspec.convert({**fields, **told, "ours": ours}, MaasObservation, strict=False)


class PlayedClient:
    """The calls of a `MaasClient` that decommissions make. Any other call raises an error."""

    def __init__(self, region: PlayedRegion) -> None:
        self._region = region

    def __getattr__(self, name: str) -> NoReturn:
        raise MaasError(MaasFailure.UNREACHABLE, "this call is not simulated", operation=name)

    async def whoami(self) -> Identity:
        return Identity(username=OURS, is_superuser=True)

    async def machine(self, system_id: str) -> Machine:
        shown = self._region.machine
        if shown is None:
            raise MaasError(MaasFailure.ABSENT, "No Machine matches the given query.", operation="machine")
        return Machine(
            system_id=system_id,
            hostname="gpu-1",
            status=shown.status,
            status_name=shown.status.name,
            owner=shown.owner,
            locked=shown.locked,
            power_state=shown.power,
            power_type="redfish",
            osystem="ubuntu" if shown.status is S.DEPLOYED else "",
        )

    async def holds(self, machine: Machine) -> bool:
        return machine.owner == OURS

    async def do(self, machine: Machine, change: Change) -> None:
        shown = self._region.machine
        assert shown is not None and machine.system_id == SYSTEM_ID
        assert shown.owner in (None, OURS), "a change of another user's machine was sent"
        self._region.machine = changed(shown, change)


def changed(shown: Shown, change: Change) -> Shown | None:
    """The machine after MAAS has accepted a change."""
    match change:
        case Unlock():
            return replace(shown, locked=False)
        case Abort():
            assert shown.status is S.DEPLOYING and not shown.locked
            return replace(shown, status=S.ALLOCATED)
        case Release():
            assert shown.status in RELEASABLE and not shown.locked
            return replace(shown, status=S.RELEASING)
        case PowerOff():
            assert shown.status in FREE, "a machine in use was switched off"
            return replace(shown, power="off")
        case Delete():
            assert shown.status in FREE, "a machine in use was deleted"
            return None
        case _:
            raise AssertionError(f"no decommission asks for {change}")


def gone_on(shown: Shown) -> Shown:
    """The machine once the operation under way has ended."""
    match shown.status:
        case S.RELEASING:
            return Shown(status=S.READY)
        case S.DEPLOYING:
            return replace(shown, status=S.DEPLOYED)
        case _:
            return shown


class PlayedRegion(Regions):
    """The region of every site. `machine` is the machine as the last change left it; None: it was deleted."""

    def __init__(self, machine: Shown | None, *, answers: bool) -> None:
        self.machine = machine
        self._answers = answers

    @override
    def client(self, site: str) -> MaasClient | None:
        return cast(MaasClient, PlayedClient(self))

    @override
    @asynccontextmanager
    async def slot(self, site: str, caller: Hashable) -> AsyncIterator[MaasClient]:
        if not self._answers:
            raise MaasError(MaasFailure.UNREACHABLE, "no route", operation="turn")
        yield cast(MaasClient, PlayedClient(self))
