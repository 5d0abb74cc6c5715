"""The steps of a deployment, with the events from which a client reads its progress and its failure.

`work` starts a deployment. Each `DeployFate` writes the events by which its class of failure is recognised: the steps
before the end, and the last events. If MAAS does not notice a failure, the deployment ends at MAAS's limit of two node
timeouts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import components
from farrier.sim.maas.events import Level
from farrier.sim.maas.hardware import DeployFate
from farrier.sim.maas.records import Machine, ScriptStatus, SetType
from farrier.sim.maas.region import Region

Fail = Callable[[str], None]
LOG = "/tmp/install.log"
"""The name of the script set that is created at the beginning of a deployment."""
_FAILED = "Installation failed (refer to the installation log for more information)."
_TIMED_OUT = "time-out during deployment"


def start(region: Region, machine: Machine, fail: Fail) -> None:
    """Plan all steps of a deployment. `fail` ends the deployment with a reason."""
    steps = _Steps(region, machine)
    fate, total = region.nature_of(machine).deploy, region.durations.deploy
    late = region.durations.node_timeout * 2
    for interface in machine.interfaces:
        region.claim_address(interface)

    def at(share: float, step: Callable[[], None]) -> None:
        region.plan(machine, total * share, step)

    if fate is DeployFate.NEVER_NETBOOTS:
        region.plan(machine, late, lambda: fail(_TIMED_OUT))
        return
    at(0.1, steps.netboot)
    if fate is DeployFate.NO_DATASOURCE:
        at(0.3, steps.search_datasource)
        region.plan(machine, late, lambda: fail(_TIMED_OUT))
        return
    at(0.3, steps.begin_curtin)
    if fate is DeployFate.STORAGE_FAILS:
        at(0.4, lambda: steps.break_curtin("configuring storage", "cmd-install/stage-partitioning", fail))
        return
    at(0.4, lambda: steps.tell("Configuring storage", "configuring storage", "cmd-install/stage-partitioning"))
    if fate is DeployFate.IMAGE_FAILS:
        at(0.5, lambda: steps.break_curtin("writing install sources to disk", "cmd-install/stage-extract", fail))
        return
    at(0.5, lambda: steps.tell("Installing OS", "writing install sources to disk", "cmd-install/stage-extract"))
    at(0.7, lambda: steps.tell("Configuring OS", "configuring installed system", "cmd-install/stage-curthooks"))
    at(0.8, steps.end_curtin)
    if fate is DeployFate.NEVER_REPORTS:
        region.plan(machine, late, lambda: fail(_TIMED_OUT))
        return
    at(1.0, lambda: report(region, machine))


class _Steps:
    """Writes the events of one deployment."""

    def __init__(self, region: Region, machine: Machine) -> None:
        self._region = region
        self._machine = machine

    def _debug(self, kind: str, description: str) -> None:
        self._region.note(self._machine, kind, description, level=Level.DEBUG)

    def netboot(self) -> None:
        self._debug("PXE Request", "")
        self._region.note(self._machine, "Performing PXE boot")
        self._region.note(self._machine, "Loading ephemeral")

    def search_datasource(self) -> None:
        self._debug("Node installation", "'cloudinit' searching for network data from DataSourceMAAS")

    def begin_curtin(self) -> None:
        self._debug("Node installation", "'curtin' curtin command install")
        self._log(ScriptStatus.RUNNING, was="Pending", name=LOG)

    def tell(self, message: str, stage: str, action: str) -> None:
        self._region.note(self._machine, message, action=action)
        self._debug("Node installation", f"'curtin' {stage}")

    def break_curtin(self, stage: str, action: str, fail: Fail) -> None:
        for failed, where in ((stage, action), ("curtin command install", "cmd-install")):
            text = f"'curtin' {failed}"
            self._region.note(self._machine, "Node installation failure", text, level=Level.ERROR, action=where)
        self._log(ScriptStatus.FAILED, was="Running", name="install.log")
        fail(_FAILED)

    def end_curtin(self) -> None:
        self._log(ScriptStatus.PASSED, was="Running", name="install.log")
        self._machine.netboot = False
        self._region.note(self._machine, "Rebooting")

    def _log(self, status: ScriptStatus, *, was: str, name: str) -> None:
        kept = self._machine.newest_set(SetType.INSTALLATION)
        if kept is not None:
            kept.status = status
            kept.started = kept.started or self._region.now
            if status is not ScriptStatus.RUNNING:
                kept.ended = self._region.now
        self._debug("Script result", f"{name} changed status from '{was}' to '{status.label}'")


def report(region: Region, machine: Machine) -> None:
    """Report Deployed as MAAS does after the installed system has fetched its user data. cloud-init may still fail."""
    image = f"{machine.osystem}/{machine.distro_series}/{machine.architecture}"
    region.note(machine, "Image Deployed", f"deployed {image}")
    components.use(machine, region.nature_of(machine))
    region.move(machine, Status.DEPLOYED)
    region.note(machine, "Deployed")
    if machine.enable_hw_sync:
        machine.last_sync = region.now
        _sync_later(region, machine)
    if region.nature_of(machine).deploy is DeployFate.CLOUD_INIT_FAILS:
        text = "'cloudinit' running modules for final"
        step = timedelta(seconds=30)
        region.plan(
            machine, step, lambda: region.note(machine, "Node post-installation failure", text, level=Level.ERROR)
        )


def _sync_later(region: Region, machine: Machine) -> None:
    if machine.sync_interval:
        region.plan(machine, timedelta(seconds=machine.sync_interval), lambda: _sync(region, machine))


def _sync(region: Region, machine: Machine) -> None:
    if machine.enable_hw_sync:
        machine.last_sync = region.now
    _sync_later(region, machine)
