"""The work on machines. This work takes simulated time: power, commissioning, deploying, erasing, rescue.

Operations start the work, and the region's clock runs its steps. The work writes the same events as the real MAAS, in
the same order; those of a failed deployment show its class of failure. The machine's `Nature` determines how the work
ends. A step is cancelled if another operation has changed the status in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import components
from farrier.sim.maas.events import Level
from farrier.sim.maas.hardware import CommissionFate, DeployFate, EraseFate
from farrier.sim.maas.http.call import Refused
from farrier.sim.maas.records import Machine, ScriptStatus, SetType
from farrier.sim.maas.region import Region
from farrier.sim.maas.statuses import FAILS_AS

_SCRIPTS = (
    "20-maas-01-install-lldpd",
    "20-maas-02-dhcp-unconfigured-ifaces",
    "30-maas-01-bmc-config",
    "20-maas-03-machine-resources",
    "40-maas-01-machine-config-hints",
    "50-maas-01-commissioning",
    "maas-support-info",
    "maas-lshw",
    "maas-list-modaliases",
    "maas-get-fruid-api-data",
    "maas-kernel-cmdline",
    "maas-serial-ports",
    "maas-capture-lldpd",
)
LOG = "/tmp/install.log"
"""The name of the script set that is created at the beginning of a deployment."""
_FAILED = "Installation failed (refer to the installation log for more information)."
_TIMED_OUT = "time-out during deployment"
# MAAS starts a workflow a short time after the response.
_WORKFLOW_STARTS = timedelta(milliseconds=1)


def switch(region: Region, machine: Machine, *, on: bool, then: Callable[[], None] | None = None) -> None:
    """Switch the power, then run `then`. Raises Refused 500 if the BMC does not respond, and 503 if it has never
    responded (maasserver/models/node.py:5869); in both cases, nothing changes."""
    problem = region.nature_of(machine).bmc_error
    if problem is not None and machine.power_state == "unknown":
        text = f"No rack controllers can access the BMC of node {machine.hostname}"
        region.note(machine, "Failed to query node's BMC", text, level=Level.WARNING)
        raise Refused(503, text)
    if problem is not None:
        kind = "Failed to power on node" if on else "Failed to power off node"
        region.note(machine, kind, f"Power could not be switched: {problem}", level=Level.ERROR)
        raise Refused(500, f"Failed to connect to BMC: {problem}")

    def switched() -> None:
        machine.power_state = "on" if on else "off"
        if then is not None:
            then()

    region.plan(machine, region.durations.power, switched)


def fail(region: Region, machine: Machine, reason: str) -> None:
    """End running work with a failure: set the failed status and the error description, and switch the machine off."""
    machine.error_description = reason
    machine.power_state = "off"
    region.note(machine, "Marking node failed", reason, level=Level.ERROR, action="mark_failed")
    region.move(machine, FAILS_AS[machine.status])


def commission(region: Region, machine: Machine) -> None:
    """Commission the machine, after its power was switched on. The machine's `Nature` determines whether the machine
    becomes Ready or fails."""
    total, fate = region.durations.commission, region.nature_of(machine).commission
    if fate is CommissionFate.NEVER_BOOTS:
        reason = "Node operation 'Commissioning' timed out after 30 minutes."
        region.plan(machine, region.durations.node_timeout, lambda: _commissioning_failed(region, machine, reason))
        return
    region.plan(machine, total * 0.3, lambda: region.note(machine, "Performing PXE boot"))
    region.plan(machine, total * 0.5, lambda: region.note(machine, "Gathering information"))
    region.plan(machine, total, lambda: _commissioned(region, machine, fate))


def _commissioning_failed(region: Region, machine: Machine, reason: str) -> None:
    _finish_scripts(region, machine, SetType.COMMISSIONING, ScriptStatus.FAILED)
    fail(region, machine, reason)


def _commissioned(region: Region, machine: Machine, fate: CommissionFate) -> None:
    if fate is CommissionFate.SCRIPT_FAILS:
        text = f"{_SCRIPTS[-1]} changed status from 'Running' to 'Failed'"
        region.note(machine, "Script result", text, level=Level.DEBUG)
        _commissioning_failed(region, machine, f"1 script has failed: {_SCRIPTS[-1]}")
        return
    for script in _SCRIPTS:
        text = f"{script} changed status from 'Pending' to 'Passed'"
        region.note(machine, "Script result", text, level=Level.DEBUG)
    _finish_scripts(region, machine, SetType.COMMISSIONING, ScriptStatus.PASSED)
    components.look(region, machine)
    if fate is CommissionFate.TESTS_FAIL:
        region.move(machine, Status.TESTING)
        fail(region, machine, "1 test has failed.")
    else:
        _ready(region, machine)


def _ready(region: Region, machine: Machine) -> None:
    machine.owner = None
    region.note(machine, "Ready")
    region.move(machine, Status.READY)
    region.plan(machine, region.durations.power, lambda: halt(machine))


def halt(machine: Machine) -> None:
    machine.power_state = "off"


def notice_power(region: Region, machine: Machine, power: str) -> None:
    """Store the power that a rack controller read at the BMC. If it is off, a release ends (`update_power_state` in
    maasserver/models/node.py)."""
    machine.power_state = power
    if machine.status is Status.RELEASING and power == "off":
        finish_release(region, machine)


def _finish_scripts(region: Region, machine: Machine, kind: SetType, status: ScriptStatus) -> None:
    running = machine.newest_set(kind)
    if running is not None:
        running.status, running.ended = status, region.now


def deploy(region: Region, machine: Machine) -> None:
    """Deploy the machine, after its power was switched on. The machine's `Nature` determines whether the machine
    becomes Deployed or fails. If MAAS does not notice a failure, the deployment ends at its limit of two node
    timeouts."""
    steps = _Deployment(region, machine)
    fate, total = region.nature_of(machine).deploy, region.durations.deploy

    def time_out() -> None:
        region.plan(machine, region.durations.node_timeout * 2, lambda: fail(region, machine, _TIMED_OUT))

    def at(share: float, step: Callable[[], None]) -> None:
        region.plan(machine, total * share, step)

    if fate is DeployFate.NEVER_NETBOOTS:
        time_out()
        return
    at(0.1, steps.netboot)
    if fate is DeployFate.NO_DATASOURCE:
        at(0.3, steps.search_datasource)
        time_out()
        return
    at(0.3, steps.begin_curtin)
    if fate is DeployFate.STORAGE_FAILS:
        at(0.4, lambda: steps.break_curtin("configuring storage", "cmd-install/stage-partitioning"))
        return
    at(0.4, lambda: steps.tell("Configuring storage", "configuring storage", "cmd-install/stage-partitioning"))
    if fate is DeployFate.IMAGE_FAILS:
        at(0.5, lambda: steps.break_curtin("writing install sources to disk", "cmd-install/stage-extract"))
        return
    at(0.5, lambda: steps.tell("Installing OS", "writing install sources to disk", "cmd-install/stage-extract"))
    at(0.7, lambda: steps.tell("Configuring OS", "configuring installed system", "cmd-install/stage-curthooks"))
    at(0.8, steps.end_curtin)
    if fate is DeployFate.NEVER_REPORTS:
        time_out()
        return
    at(1.0, lambda: report(region, machine))


class _Deployment:
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

    def break_curtin(self, stage: str, action: str) -> None:
        for failed, where in ((stage, action), ("curtin command install", "cmd-install")):
            text = f"'curtin' {failed}"
            self._region.note(self._machine, "Node installation failure", text, level=Level.ERROR, action=where)
        self._log(ScriptStatus.FAILED, was="Running", name="install.log")
        fail(self._region, self._machine, _FAILED)

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
    def sync() -> None:
        if machine.enable_hw_sync:
            machine.last_sync = region.now
        _sync_later(region, machine)

    if machine.sync_interval:
        region.plan(machine, timedelta(seconds=machine.sync_interval), sync)


def finish_release(region: Region, machine: Machine) -> None:
    """Finish the status Releasing: remove the owner, and become Ready if commissioning passed, otherwise New."""
    commissioned = machine.newest_set(SetType.COMMISSIONING)
    passed = commissioned is not None and commissioned.status is ScriptStatus.PASSED
    region.release_addresses(machine)
    machine.annotations = {}
    machine.owner = None
    region.move(machine, Status.READY if passed else Status.NEW)
    region.note(machine, "Released")


def erase(region: Region, machine: Machine, *, quick: bool) -> None:
    """Erase the disks, after the power was switched on. Then release the machine, or set the status Failed disk
    erasing. Nothing ends an erasure that hangs (maasserver/node_status.py:275)."""
    fate = region.nature_of(machine).erase
    if fate is EraseFate.HANGS:
        return
    if fate is EraseFate.FAILS:
        region.plan(machine, region.durations.erase, lambda: fail(region, machine, "Failed to erase disks."))
        return

    def erased() -> None:
        components.wipe(machine, region.nature_of(machine), quick=quick)
        region.note(machine, "Disks erased")
        region.note(machine, "User releasing node", level=Level.DEBUG)  # maasserver/models/node.py:3897, without a user
        forget_deployment(machine)
        region.move(machine, Status.RELEASING)
        region.note(machine, "Releasing")
        switch(region, machine, on=False, then=lambda: finish_release(region, machine))

    region.plan(machine, region.durations.erase, erased)


def forget_deployment(machine: Machine) -> None:
    """Clear the fields that MAAS clears at the beginning of a release. Layout, links, tags, pool and error text
    stay."""
    machine.osystem = machine.distro_series = machine.agent_name = ""
    machine.hwe_kernel = machine.user_data = machine.sync_interval = machine.last_sync = None
    machine.enable_hw_sync = False
    machine.netboot = True


def enter_rescue(region: Region, machine: Machine) -> None:
    """Boot the rescue system, which runs after `durations.rescue`."""
    region.plan(machine, region.durations.rescue, lambda: region.move(machine, Status.RESCUE_MODE))


def leave_rescue(region: Region, machine: Machine) -> None:
    """Return to the status before the rescue. A deployed machine starts again; any other machine is switched off."""
    before = machine.previous_status
    deployed = before is Status.DEPLOYED

    def left() -> None:
        if before in {Status.READY, Status.NEW, Status.BROKEN, Status.FAILED_COMMISSIONING}:
            machine.owner = None
        region.move(machine, before)

    switch(region, machine, on=deployed, then=left)


def switch_in_workflow(region: Region, machine: Machine, then: Callable[[], None]) -> None:
    """Switch power on for a deployment. As in MAAS, where a workflow does this, the power changes after the response.
    Raises Refused 500 if no rack controller reaches the BMC (maastemporalworker/workflow/power.py:296)."""
    if region.nature_of(machine).bmc_error is not None:
        raise Refused(500, f"Error determining BMC task queue for machine {machine.system_id}")

    def switched() -> None:
        machine.power_state = "on"
        then()

    region.plan(machine, max(region.durations.power, _WORKFLOW_STARTS), switched)
