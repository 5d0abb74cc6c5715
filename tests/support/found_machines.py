"""Machines that are in a region before their nodes look for them, and assertions on the result of a stage."""

from __future__ import annotations

from typing import Any, TypeVar

from farrier.handlers.node.changes import Done, Failed, Settled, StageStep, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Memo
from farrier.sim.maas import ADMIN, Status, show
from farrier.sim.maas.records import Disk, Interface, Machine, ScriptSet, ScriptStatus, SetType
from tests.support.stages import MAC, Stand

HOST = "10.0.0.1"
REDFISH = {"power_address": HOST, "power_user": "admin", "power_pass": "secret"}
READS = frozenset({"version", "whoami", "machine", "machines", "power_addresses", "events"})
_S = TypeVar("_S", bound=Settled)


def has(stand: Stand, status: Status = Status.READY, *, macs: tuple[str, ...] = (MAC,), **fields: Any) -> Machine:
    """Put a machine into the region: by default the node's own, ready, commissioned, and with the node's BMC."""
    region = stand.region
    given: dict[str, Any] = {
        "hostname": stand.node.name,
        "power_type": "redfish",
        "power_parameters": dict(REDFISH),
        "interfaces": [
            Interface(id=region.next_id("interface"), name=f"eth{number}", mac_address=mac)
            for number, mac in enumerate(macs)
        ],
    }
    machine = Machine(system_id=region.next_system_id(), status=status, **given | fields)
    if status is not Status.NEW and "disks" not in fields:
        machine.disks.append(a_disk(stand))
    if status is not Status.NEW:
        machine.script_sets.append(round_of_scripts(stand, ScriptStatus.PASSED))
    region.keep(machine)
    return machine


def a_disk(stand: Stand) -> Disk:
    return Disk(
        id=stand.region.next_id("disk"), name="sda", model="DELLBOSS VD", serial="1", id_path="", size=480 * 10**9
    )


def shown(stand: Stand) -> list[dict[str, object]]:
    """All machines, as the region lists them."""
    return [show.machine(stand.region, machine) for machine in stand.region.machines.values()]


def is_held(machine: Machine) -> None:
    """Allocate the machine to the user of farrier's key."""
    machine.owner = ADMIN.username


def enlisted(stand: Stand, **fields: Any) -> Machine:
    """A machine that MAAS found by its network boot: it has run the commissioning scripts, and MAAS made its name."""
    machine = has(stand, Status.NEW, **{"hostname": "eager-whale", **fields})
    machine.script_sets.append(round_of_scripts(stand, ScriptStatus.PASSED))
    return machine


def round_of_scripts(stand: Stand, status: ScriptStatus) -> ScriptSet:
    return ScriptSet(
        id=stand.region.next_id("script set"),
        result_id=stand.region.next_id("script result"),
        type=SetType.COMMISSIONING,
        name="maas-lshw",
        status=status,
        created=stand.region.now,
    )


def changes(stand: Stand) -> list[str]:
    """The changes that were sent to the region, in order."""
    return [operation for operation in stand.world.observed.operations if operation not in READS]


def memo(stand: Stand) -> Memo:
    assert stand.node.workflow is not None
    return stand.node.workflow.memo


def is_done(settled: Settled) -> Done:
    return _is(settled, Done)


def steps(settled: Settled) -> StageStep:
    return _is(settled, StageStep)


def waits(settled: Settled) -> Waiting:
    return _is(settled, Waiting)


def fails(settled: Settled, failure: FailureClass, *texts: str) -> Failed:
    failed = _is(settled, Failed)
    assert failed.failure is failure, failed
    for text in texts:
        assert text in failed.detail, failed.detail
    return failed


def _is(settled: Settled, kind: type[_S]) -> _S:
    assert isinstance(settled, kind), settled
    return settled
