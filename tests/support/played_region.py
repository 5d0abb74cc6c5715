"""A fake region with one machine, for walks over more states than a simulated region could be taken through.

It responds at once or not at all, and stores only those fields of the machine that handlers decide on. The disk and the
boot interface of the machine are always as the site wants them. The region is stricter than a real one: a request that
must never be sent fails the test.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import NoReturn, cast

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from farrier.agent import CLEAN_CHECK, clean_check
from farrier.handlers.node.onboarding.deploy_failure import START
from farrier.model.maas.changes import (
    Abort,
    Change,
    Commission,
    Delete,
    Deploy,
    LookUp,
    MarkBroken,
    NewMachine,
    PowerOff,
    Release,
    TestMachine,
    Unlock,
    UpdateMachine,
)
from farrier.model.maas.reading import (
    BlockDevice,
    Event,
    Filesystem,
    Interface,
    Link,
    MaasError,
    MaasFailure,
    MaasUser,
    Machine,
    PowerAddress,
    StatusNumber,
    Subnet,
    Vlan,
)
from farrier.model.maas.scripts import TESTING, Revision, Script, ScriptResult, ScriptSet
from farrier.model.machine.observation import MaasObservation
from farrier.protocols import MaasClient, Regions
from tests.support.maas import state_of

S = StatusNumber
SYSTEM_ID = "abc123"
OURS = "farrier"
SOMEBODY = "ann"

NAME = "gpu-1"
MAC = "52:54:00:00:00:01"
ADDRESS = "10.0.0.1"

_DISK = BlockDevice(id=1, name="sda", type="physical", model="DELL BOSS", filesystem=Filesystem(mount_point="/"))
_SUBNET = Subnet(id=1, cidr="10.1.0.0/24", vlan=Vlan(id=1, vid=1))
_LINK = Link(id=1, mode="auto", subnet=_SUBNET)
_NIC = Interface(id=1, name="eth0", type="physical", mac_address=MAC, vlan=_SUBNET.vlan, links=(_LINK,))

RELEASABLE = (
    *(S.ALLOCATED, S.DEPLOYED, S.DEPLOYING, S.FAILED_DEPLOYMENT, S.RELEASING_FAILED, S.BROKEN),
    S.FAILED_DISK_ERASING,
)
FREE = (S.NEW, S.READY, S.FAILED_TESTING)
ABORTED = {
    S.COMMISSIONING: S.NEW,
    S.TESTING: S.FAILED_TESTING,
    S.DISK_ERASING: S.FAILED_DISK_ERASING,
    S.DEPLOYING: S.ALLOCATED,
}
"""What an abort makes of a status."""
SCRIPT = Script(
    name=CLEAN_CHECK, type=TESTING, history=(Revision(id=1, data=b64encode(clean_check().encode()).decode()),)
)


class Disks(StrEnum):
    """What is on the disks of a machine whose node has left service."""

    USED = "used"  # data of its users
    ERASED = "erased"
    CHECKED = "checked"  # erased, and a test found no data


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the machine that the region shows."""

    status: StatusNumber
    owner: str | None = None
    locked: bool = False
    power: str = "on"
    comment: str | None = None
    """The comment of the last request to deploy the machine."""
    disks: Disks | None = None
    """What is on the disks; None in a walk that does not follow this."""
    rounds: int = 0
    """How many rounds of tests the machine ran."""


DEPLOYED = Shown(status=S.DEPLOYED, owner=OURS)


def seen(shown: Shown | None, now: datetime, before: MaasObservation | None) -> MaasObservation:
    """The observation that the region's observer records now."""
    state = "absent" if shown is None else state_of(shown.status)
    told: dict[str, object] = {}
    if shown is not None:
        told = {
            "status": shown.status.value,
            "status_name": shown.status.label,
            "owner": shown.owner,
            "power_state": shown.power,
            "commissioning_status_name": passed(shown),
        }
    since = before.since if before is not None and before.state == state else now
    fields = {"system_id": SYSTEM_ID, "state": state, "since": since, "read_at": now, "fresh_at": now}
    ours = shown is not None and shown.owner == OURS
    return msgspec.convert({**fields, **told, "ours": ours}, MaasObservation, strict=False)


class PlayedClient:
    """The calls of a `MaasClient` that onboardings and decommissions make. Any other call raises an error."""

    def __init__(self, region: PlayedRegion) -> None:
        self._region = region

    def __getattr__(self, name: str) -> NoReturn:
        raise MaasError(MaasFailure.UNREACHABLE, "this call is not simulated", operation=name)

    async def whoami(self) -> MaasUser:
        return MaasUser(username=OURS, is_superuser=True)

    async def machine(self, system_id: str) -> Machine:
        shown = self._region.machine
        if shown is None:
            raise MaasError(MaasFailure.ABSENT, "No Machine matches the given query.", operation="machine")
        return Machine(
            system_id=system_id,
            hostname=NAME,
            status=shown.status,
            status_name=shown.status.label,
            owner=shown.owner,
            locked=shown.locked,
            power_state=shown.power,
            power_type="redfish",
            osystem="ubuntu" if shown.status is S.DEPLOYED else "",
            commissioning_status_name=passed(shown),
            boot_disk=_DISK,
            blockdevice_set=(_DISK,),
            boot_interface=_NIC,
            interface_set=(_NIC,),
        )

    async def machines(self, _by: LookUp, values: Sequence[str]) -> tuple[Machine, ...]:
        there = self._region.machine is not None and {SYSTEM_ID, NAME, MAC}.intersection(values)
        return (await self.machine(SYSTEM_ID),) if there else ()

    async def power_addresses(self, _ids: Sequence[str] = ()) -> Mapping[str, PowerAddress]:
        return {} if self._region.machine is None else {SYSTEM_ID: PowerAddress(power_address=ADDRESS)}

    async def events(self, **_page: object) -> tuple[Event, ...]:
        shown = self._region.machine
        if shown is None or shown.comment is None:
            return ()
        said = f"({OURS}) - {shown.comment}"
        return (Event(id=1, node=SYSTEM_ID, type=START, description=said),)

    async def results(self, _system_id: str, _kind: str) -> tuple[ScriptSet, ...]:
        rounds = 0 if self._region.machine is None else self._region.machine.rounds
        return tuple(ScriptSet(id=number) for number in range(1, rounds + 1))

    async def result(self, _system_id: str, number: int) -> ScriptSet:
        """The last round: the check of the disks, which have not changed since."""
        shown = self._region.machine
        assert shown is not None and shown.rounds == number
        found = ScriptResult(
            name=SCRIPT.name,
            status_name="Passed" if shown.disks is Disks.CHECKED else "Failed",
            script_revision_id=SCRIPT.revision,
            stdout=b64encode(printed(shown)).decode(),
        )
        return ScriptSet(id=number, results=(found,))

    async def scripts(self, name: str) -> tuple[Script, ...]:
        return (SCRIPT,) if name == SCRIPT.name else ()

    async def create(self, new: NewMachine) -> Machine:
        assert self._region.machine is None, "a second machine was created"
        self._region.machine = Shown(status=S.NEW, power="off")
        return replace(await self.machine(SYSTEM_ID), description=new.description)

    async def holds(self, machine: Machine) -> bool:
        return machine.owner == OURS

    async def do(self, machine: Machine, change: Change) -> None:
        shown = self._region.machine
        assert shown is not None and machine.system_id == SYSTEM_ID
        assert shown.owner in (None, OURS), "a change of another user's machine was sent"
        if isinstance(change, TestMachine | MarkBroken):
            self._region.machine = tested(shown, change)
        else:
            self._region.machine = changed(shown, change)


def printed(shown: Shown) -> bytes:
    """What farrier's check prints on this machine."""
    bad = 0 if shown.disks is Disks.CHECKED else 9
    disk = {"kind": "disk", "serial": str(_DISK.id), "result": "erased", "samples": 9, "bad_samples": bad}
    return msgspec.json.encode({"format": 1, "devices": [disk]})


def tested(shown: Shown, change: TestMachine | MarkBroken) -> Shown:
    """The machine after MAAS has accepted a test, or has marked a machine whose test failed."""
    if isinstance(change, MarkBroken):
        assert shown.owner == OURS, "only the owner marks a machine as broken"
        return replace(shown, status=S.BROKEN)
    assert shown.status in FREE, "a machine in use was tested"
    return replace(shown, status=S.TESTING, owner=OURS, power="on", rounds=shown.rounds + 1)


def changed(shown: Shown, change: Change) -> Shown | None:
    """The machine after MAAS has accepted a change."""
    match change:
        case UpdateMachine():
            return shown
        case Commission():
            assert shown.status in (S.NEW, S.READY, S.FAILED_COMMISSIONING), "a machine in use was commissioned"
            return replace(shown, status=S.COMMISSIONING, power="on")
        case Deploy():
            assert shown.status in (S.READY, S.ALLOCATED)
            return replace(shown, status=S.DEPLOYING, owner=OURS, locked=False, power="on", comment=change.comment)
        case Unlock():
            return replace(shown, locked=False)
        case Abort():
            assert shown.status in ABORTED and not shown.locked
            power = shown.power if shown.status is S.DEPLOYING else "off"
            return replace(shown, status=ABORTED[shown.status], power=power)
        case Release():
            assert shown.status in RELEASABLE and not shown.locked
            return replace(shown, status=S.DISK_ERASING if change.erase else S.RELEASING)
        case PowerOff():
            assert shown.status in FREE, "a machine in use was switched off"
            return replace(shown, power="off")
        case Delete():
            assert shown.status in FREE, "a machine in use was deleted"
            return None
        case _:
            raise AssertionError(f"no workflow asks for {change}")


def passed(shown: Shown) -> str:
    """The result of the last commissioning, as the region names it."""
    return "Unknown" if shown.status in (S.NEW, S.COMMISSIONING) else "Passed"


def gone_on(shown: Shown) -> Shown:
    """The machine once the operation under way has ended."""
    match shown.status:
        case S.RELEASING:
            return replace(shown, status=S.READY, owner=None, power="on", comment=None)
        case S.DISK_ERASING:
            erased = None if shown.disks is None else Disks.ERASED
            return replace(shown, status=S.READY, owner=None, power="off", comment=None, disks=erased)
        case S.TESTING if shown.disks is Disks.USED:
            return replace(shown, status=S.FAILED_TESTING, power="off")
        case S.TESTING:
            return replace(shown, status=S.READY, owner=None, power="off", disks=shown.disks and Disks.CHECKED)
        case S.COMMISSIONING:
            return replace(shown, status=S.READY, power="off")
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
