"""Machines with faults, and a simulated operator who repairs them, for `farrier demo`.

The faults exist only in the region: faulty hardware of machines, and machines that should not exist. The operator reads
the database, repairs the cause and submits `retry_stage`, as the runbook instructs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import anyio
import structlog
from msgspec.structs import replace

from farrier.model.intents.actions import Action
from farrier.model.maas.reading import StatusNumber as Status
from farrier.model.node.layers import FAILED, WorkflowStatus
from farrier.model.views.fleet import NodeGlance
from farrier.sim.bmc import SimulatedSystem
from farrier.sim.fleet import SimulatedFleet, name_of
from farrier.sim.maas import CommissionFate, DeployFate, Region
from farrier.sim.maas.records import Interface, Machine

_log = structlog.stdlib.get_logger(__name__)

_LOOK_EVERY = timedelta(seconds=2)
# A fault lasts long enough to be seen on the board before the repair.
_OPERATOR_TAKES = timedelta(seconds=12)

_FATES: Mapping[int, Mapping[str, CommissionFate | DeployFate]] = {
    2: {"commission": CommissionFate.SCRIPT_FAILS},
    4: {"deploy": DeployFate.NO_DATASOURCE},
    8: {"deploy": DeployFate.STORAGE_FAILS},
}
_STRAY = 6


def prepare(region: Region, systems: Sequence[SimulatedSystem], *, after: int) -> None:
    """Give the machines of some nodes a fault, before the nodes are registered. A nature by host name takes precedence
    over that by MAC address."""
    for number, fate in _FATES.items():
        if number <= len(systems):
            region.natures[name_of(after + number)] = replace(region.natures[systems[number - 1].mac], **fate)
    if len(systems) >= _STRAY:
        _enlist_stray(region, name_of(after + _STRAY))


def _enlist_stray(region: Region, hostname: str) -> None:
    """Enlist a machine that is unknown to farrier but has the host name of one of farrier's nodes."""
    nic = Interface(id=region.next_id("interface"), name="eno1", mac_address="52:54:ff:00:00:01")
    stray = Machine(system_id=region.next_system_id(), hostname=hostname, status=Status.NEW, interfaces=[nic])
    region.keep(stray)


class Operator:
    """Finds workflows that wait for an operator, and repairs their causes in `region`."""

    def __init__(self, fleet: SimulatedFleet, region: Region) -> None:
        self._fleet = fleet
        self._region = region
        self._since: dict[int, float] = {}

    async def run(self) -> None:
        """Find and repair faults, until cancelled."""
        while True:
            await anyio.sleep(_LOOK_EVERY.total_seconds())
            for node in self._fleet.seen:
                await self._look_at(node)

    async def _look_at(self, node: NodeGlance) -> None:
        if node.workflow_status not in FAILED:
            self._since.pop(node.id, None)
            return
        since = self._since.setdefault(node.id, anyio.current_time())
        if anyio.current_time() - since < _OPERATOR_TAKES.total_seconds():
            return
        del self._since[node.id]
        self._mend(node)
        if node.workflow_status is WorkflowStatus.FAILED_MANUAL_INTERVENTION:
            await self._fleet.ask(node, Action.RETRY_STAGE)

    def _mend(self, node: NodeGlance) -> None:
        """Replace the faulty part of the node's machine, and remove machines that are unknown to farrier."""
        self._region.natures.pop(node.name, None)
        stray = self._region.machines.get(self._region.hostnames.get(node.name, ""))
        if stray is not None and stray.status is Status.NEW and stray.description == "":
            self._region.forget(stray)
        _log.info("operator.mended", node=node.name, failure=node.failure)
