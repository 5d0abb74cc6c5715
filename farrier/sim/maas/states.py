"""The operations that change a machine's status: commission, allocate, deploy, release, abort, fix, rescue, power.

Each operation depends only on the status, and uses the recorded texts and codes of MAAS. An operation changes the
record at once. It adds the switching of power and the work to `call.later`, so the response shows the state before
power is switched and work begins. If the BMC then fails, the operation reverts its change as MAAS does, and the
response is an error.
"""

from __future__ import annotations

from collections.abc import Callable

from farrier.model.maas.reading import RESCUE
from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import testing, work
from farrier.sim.maas.events import Level
from farrier.sim.maas.http.call import Call, Refused
from farrier.sim.maas.records import Machine, ScriptStatus, SetType
from farrier.sim.maas.region import Region
from farrier.sim.maas.scripts import selected
from farrier.sim.maas.statuses import COMMISSIONABLE, RELEASABLE, RESCUABLE, TESTABLE


def commission(region: Region, call: Call, machine: Machine) -> None:
    if machine.status not in COMMISSIONABLE:
        reason = "Commission is not available because of the current state of the node."
        raise Refused(400, {"__all__": [reason]})
    if not machine.power_type:
        raise Refused(400, {"__all__": ["Unconfigured power type."]})
    before = machine.status
    machine.owner = call.user.username
    machine.skip_storage = call.flag("skip_storage")
    machine.skip_networking = call.flag("skip_networking")
    region.requested(machine, "User starting node commissioning", call.user, None)
    region.open_scripts(machine, SetType.COMMISSIONING, "maas-lshw")
    region.note(machine, "Commissioning")
    region.move(machine, Status.COMMISSIONING)

    def revert() -> None:
        machine.script_sets.pop()
        region.move(machine, before)

    _switch_later(region, call, machine, on=True, revert=revert, then=lambda: work.commission(region, machine))


def test(region: Region, call: Call, machine: Machine) -> None:
    """Run the chosen scripts on the machine (maasserver/models/node.py:2582). A machine of any user may be tested."""
    problems: dict[str, object] = {}
    if machine.status not in TESTABLE:
        problems["__all__"] = ["Test is not available because of the current state of the node."]
    scripts = selected(region, call, problems)
    if problems:
        raise Refused(400, problems)
    if not scripts:
        raise Refused(400, "No testing scripts found!")
    before = machine.status
    region.requested(machine, "User starting node testing", call.user, None)
    region.note(machine, "Testing")
    running = testing.opened(region, machine, scripts)
    machine.owner = machine.owner or call.user.username
    region.move(machine, Status.TESTING)

    def revert() -> None:
        region.move(machine, before)

    _switch_later(region, call, machine, on=True, revert=revert, then=lambda: testing.run(region, machine, running))


def mark_broken(region: Region, call: Call, machine: Machine) -> None:
    """Only the owner may do this, even among administrators (maasserver/api/machines.py:1506)."""
    if machine.owner != call.user.username:
        raise Refused(403)
    region.requested(machine, "User marking node broken", call.user, call.one("comment"))
    if machine.status in RELEASABLE:  # without erasing; only a machine that is off loses its owner
        _start_release(region, machine)
        if machine.power_state == "off":
            work.finish_release(region, machine)
        else:
            _switch_later(region, call, machine, on=False)
    machine.error_description = call.one("comment") or ""
    region.move(machine, Status.BROKEN)


def _switch_later(
    region: Region,
    call: Call,
    machine: Machine,
    *,
    on: bool,
    then: Callable[[], None] | None = None,
    revert: Callable[[], None] | None = None,
) -> None:
    def switch() -> None:
        try:
            work.switch(region, machine, on=on, then=then)
        except Refused:
            if revert is not None:
                revert()
            raise

    if not (on and region.nature_of(machine).never_on):
        call.later.append(switch)


def acquire(region: Region, call: Call, machine: Machine) -> None:
    """Allocate a machine to the user; its status is already checked."""
    machine.owner = call.user.username
    machine.agent_name = call.one("agent_name") or ""
    region.requested(machine, "User acquiring node", call.user, call.one("comment"))
    region.move(machine, Status.ALLOCATED)


def deploy(region: Region, call: Call, machine: Machine) -> None:
    if machine.status not in {Status.READY, Status.ALLOCATED}:
        raise Refused(409, f"Can't deploy a machine that is in the '{machine.status.label}' state")
    series = _series(region, call)
    _check_deployable(machine)
    if machine.status is Status.READY:
        acquire(region, call, machine)
    elif call.one("agent_name"):
        machine.agent_name = call.one("agent_name") or ""
    machine.osystem, machine.distro_series = region.site.osystem, series
    machine.hwe_kernel = call.one("hwe_kernel") or "ga-24.04"
    machine.user_data = call.one("user_data")
    machine.enable_hw_sync = call.flag("enable_hw_sync")
    machine.sync_interval = round(region.durations.sync.total_seconds()) if machine.enable_hw_sync else None
    _begin_deployment(region, call, machine)


def _series(region: Region, call: Call) -> str:
    given = (call.one("distro_series") or region.site.series[0]).removeprefix("ubuntu/")
    series = {"24.04": "noble", "22.04": "jammy"}.get(given, given)
    if series not in region.site.series:
        text = f"'{given}' is not a valid distro_series.  It should be one of: '', "
        raise Refused(400, {"distro_series": [text + ", ".join(f"'{one}'" for one in region.site.series) + "."]})
    return series


def _check_deployable(machine: Machine) -> None:
    if not any(link.mode != "link_up" for interface in machine.interfaces for link in interface.links):
        raise Refused(400, {"network": ["Node must be configured to use a network"]})
    if not any(disk.partition for disk in machine.disks):
        raise Refused(400, {"storage": ["Mount the root '/' filesystem to be able to deploy this node."]})


def _begin_deployment(region: Region, call: Call, machine: Machine) -> None:
    region.requested(machine, "User starting deployment", call.user, call.one("comment"))
    region.open_scripts(machine, SetType.INSTALLATION, work.LOG)
    machine.netboot = True
    region.move(machine, Status.DEPLOYING)
    region.note(machine, "Deploying")

    def revert() -> None:
        text = "Aborting DEPLOYING and reverting to ALLOCATED"
        region.note(machine, "Failed to query node's BMC", text, level=Level.WARNING)
        region.move(machine, Status.ALLOCATED)

    # A workflow of MAAS switches power and installs the machine; it starts shortly after the response.
    def start() -> None:
        try:
            for interface in machine.interfaces:
                region.claim_address(interface)
            work.switch_in_workflow(region, machine, lambda: work.deploy(region, machine))
        except Refused:
            region.release_addresses(machine)
            revert()
            raise

    if not region.nature_of(machine).never_on:
        call.later.append(start)


def release(region: Region, call: Call, machine: Machine) -> None:
    if machine.status in {Status.READY, Status.RELEASING}:
        return
    if machine.status not in RELEASABLE:
        raise Refused(409, f"Machine cannot be released in its current state ('{machine.status.label}').")
    asked = any(call.flag(name) for name in ("erase", "quick_erase", "secure_erase"))
    # The region's own setting adds the same script again, and MAAS then counts two (maasserver/models/node.py:3774,
    # 3807): the status is Releasing, which the next reading of a power that is off ends as if all were done.
    twice = asked and region.site.erases_on_release
    erases = (asked or region.site.erases_on_release) and not twice
    quick = call.flag("quick_erase") and not call.flag("secure_erase")
    _refuse_without_a_bmc(region, machine, erases=erases)
    if erases:  # maasserver/models/node.py:3807
        region.requested(machine, "User erasing disk", call.user, call.one("comment"))
        region.move(machine, Status.DISK_ERASING)
        _switch_later(region, call, machine, on=True, then=lambda: work.erase(region, machine, quick=quick))
        return
    region.requested(machine, "User releasing node", call.user, call.one("comment"))
    _start_release(region, machine)
    _switch_later(region, call, machine, on=False, then=lambda: work.finish_release(region, machine))


def _refuse_without_a_bmc(region: Region, machine: Machine, *, erases: bool) -> None:
    """Refuse a release while the BMC fails. As in the recordings, a release without erasing then changes nothing. If
    the release erases disks, the machine gets the status Failed disk erasing."""
    problem = region.nature_of(machine).bmc_error
    if problem is None:
        return
    before = machine.status
    if erases and before is not Status.FAILED_DISK_ERASING:
        region.move(machine, Status.DISK_ERASING)
        region.move(machine, Status.FAILED_DISK_ERASING)
        raise Refused(409, f"Invalid transition: Disk erasing -> {before.label}.")
    raise Refused(500, f"Failed to connect to BMC: {problem}")


def _start_release(region: Region, machine: Machine) -> None:
    work.forget_deployment(machine)
    region.move(machine, Status.RELEASING)
    region.note(machine, "Releasing")


def abort(region: Region, call: Call, machine: Machine) -> None:
    """End running work. The response still shows the work as running."""
    status = machine.status
    before = machine.previous_status if machine.previous_status is Status.DEPLOYED else Status.READY
    ends = {
        Status.COMMISSIONING: ("User aborting node commissioning", "Aborted commissioning", Status.NEW),
        Status.DEPLOYING: ("User aborting deployment", "Aborted deployment", Status.ALLOCATED),
        Status.DISK_ERASING: ("User aborting disk erase", "Aborted disk erasing", Status.FAILED_DISK_ERASING),
        Status.TESTING: ("User aborting node testing", "Aborted testing", before),
    }
    if status not in ends:
        text = f"Cannot abort in current state: node {machine.system_id} is in state {status.label}."
        raise Refused(409, text)
    kind, aborted, end = ends[status]
    region.requested(machine, kind, call.user, call.one("comment"))
    region.note(machine, aborted)  # maasserver/models/node.py:2792, 2877, 2966, 3674

    def ended() -> None:
        if end in {Status.NEW, Status.READY}:
            machine.owner = None
        if status is Status.DEPLOYING:  # the system stays named, as maasserver/models/node.py:3070 leaves it
            region.release_addresses(machine)
        _abort_scripts(machine)
        region.move(machine, end)

    _switch_later(region, call, machine, on=False, then=ended)


def _abort_scripts(machine: Machine) -> None:
    running = {ScriptStatus.PENDING, ScriptStatus.RUNNING}
    for kept in machine.script_sets:
        kept.status = ScriptStatus.ABORTED if kept.status in running else kept.status
        for run in kept.runs:
            run.status = ScriptStatus.ABORTED if run.status in running else run.status


def mark_fixed(region: Region, call: Call, machine: Machine) -> None:
    if machine.status is not Status.BROKEN:
        raise Refused(409, "Can't mark a non-broken node as 'Ready'.")
    region.requested(machine, "User marking node fixed", call.user, call.one("comment"))
    deployed = machine.previous_status is Status.DEPLOYED
    machine.error_description = machine.osystem = machine.distro_series = ""
    if not deployed:
        machine.owner = None
    region.move(machine, Status.DEPLOYED if deployed else Status.READY)


def lock(region: Region, call: Call, machine: Machine) -> None:
    if machine.locked:
        raise Refused(409, "Machine is already locked")
    if machine.status not in {Status.DEPLOYED, Status.DEPLOYING}:
        raise Refused(409, "Can't lock, node is not deployed or deploying")
    region.requested(machine, "User locking node", call.user, call.one("comment"))
    machine.locked = True


def unlock(region: Region, call: Call, machine: Machine) -> None:
    if not machine.locked:
        raise Refused(409, "Machine is not locked")
    region.requested(machine, "User unlocking node", call.user, call.one("comment"))
    machine.locked = False


def power_off(region: Region, call: Call, machine: Machine) -> None:
    releasing = machine.status is Status.RELEASING

    def settled() -> None:
        if releasing:
            work.finish_release(region, machine)

    _switch_later(region, call, machine, on=False, then=settled)


def rescue_mode(region: Region, call: Call, machine: Machine) -> None:
    if machine.status not in RESCUABLE:
        raise Refused(409, f"Invalid transition: {machine.status.label} -> Entering rescue mode.")
    machine.owner = call.user.username  # and this owner stays afterwards: maasserver/models/node.py:6537
    region.requested(machine, "User starting rescue mode", call.user, None)
    region.move(machine, Status.ENTERING_RESCUE_MODE)
    _switch_later(region, call, machine, on=True, then=lambda: work.enter_rescue(region, machine))


def exit_rescue_mode(region: Region, call: Call, machine: Machine) -> None:
    if machine.status not in RESCUE:
        raise Refused(409, f"Invalid transition: {machine.status.label} -> Exiting rescue mode.")
    region.requested(machine, "User stopping rescue mode", call.user, None)
    region.move(machine, Status.EXITING_RESCUE_MODE)
    call.later.append(lambda: work.leave_rescue(region, machine))
