"""A test of a machine: the region boots its ephemeral system, and the machine runs scripts there and reports results.

farrier's own check sees the disks as the real script sees them, and prints what `farrier/agent/clean-check` prints; a
test sets other programs in the `Nature` of a machine. MAAS believes everybody who has the machine's token, and gives
the token to everybody who can reach its metadata service; so tests call `stored` and `signal` to forge a result.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from farrier.agent import CLEAN_CHECK
from farrier.model.maas.reading import StatusNumber as Status
from farrier.sim.maas import work
from farrier.sim.maas.events import Level
from farrier.sim.maas.hardware import DiskModel, Nature, Printed, RunFate
from farrier.sim.maas.records import Machine, Remains, Script, ScriptRun, ScriptSet, ScriptStatus, SetType
from farrier.sim.maas.region import Region
from farrier.sim.maas.statuses import READY_AFTER_TESTING

_SAMPLES = 1000
_RESTING = frozenset({Status.READY, Status.NEW})
# The order in which a status of one script becomes the status of all (maasserver/models/scriptset.py:54).
_PRECEDENCE = (
    ScriptStatus.RUNNING,
    ScriptStatus.PENDING,
    ScriptStatus.ABORTED,
    ScriptStatus.FAILED,
    ScriptStatus.TIMED_OUT,
)


def opened(region: Region, machine: Machine, scripts: Sequence[Script]) -> ScriptSet:
    """Add the set of scripts that the machine will run."""
    region.open_scripts(machine, SetType.TESTING, "")
    running = machine.script_sets[-1]
    running.runs = [
        ScriptRun(id=region.next_id("script result"), script=script, created=region.now)
        for script in sorted(scripts, key=lambda script: script.name)
    ]
    return running


def run(region: Region, machine: Machine, running: ScriptSet) -> None:
    """Boot the machine, and run the scripts in their texts of that moment, after the power was switched on."""
    fate, total = region.nature_of(machine).test, region.durations.test

    def late() -> None:
        for each in running.runs:
            each.status = ScriptStatus.ABORTED if each.started is None else ScriptStatus.TIMED_OUT
        _sum_up(running)
        work.fail(region, machine, "Node operation 'Testing' timed out after 30 minutes.")

    def start() -> None:
        for each in running.runs:
            each.status, each.started = ScriptStatus.RUNNING, region.now
            region.note(machine, "Running test", each.script.name)
        _sum_up(running)
        revisions = {each.id: each.script.history[0].id for each in running.runs}
        if fate is not RunFate.HANGS:
            region.plan(machine, total * 0.5, lambda: _end(region, machine, running, revisions))

    if fate is not RunFate.NEVER_BOOTS:
        region.plan(machine, total * 0.5, start)
    if fate is not RunFate.RUNS:
        region.plan(machine, region.durations.node_timeout, late)


def _end(region: Region, machine: Machine, running: ScriptSet, revisions: dict[int, int]) -> None:
    bad = 0
    for each in running.runs:
        printed = _printed(machine, region.nature_of(machine), each.script.name)
        stored(region, machine, each, printed, revision=revisions[each.id])
        bad += printed.exit_status != 0
    signal(region, machine, passed=not bad)
    region.plan(machine, region.durations.power, lambda: work.halt(machine))


def stored(region: Region, machine: Machine, result: ScriptRun, printed: Printed, *, revision: int) -> None:
    """Store a result that somebody reports with the machine's token. A revision that the script does not have is not
    stored (maasserver/models/scriptresult.py:349)."""
    before = result.status
    result.exit_status, result.stdout = printed.exit_status, printed.stdout
    result.status = ScriptStatus.FAILED if printed.exit_status else ScriptStatus.PASSED
    result.started, result.ended = result.started or region.now, region.now
    if revision in {known.id for known in result.script.history}:
        result.revision = revision
    text = f"{result.script.name} changed status from '{before.label}' to '{result.status.label}'"
    region.note(machine, "Script result", text, level=Level.DEBUG)
    newest = machine.newest_set(SetType.TESTING)
    if newest is not None:
        _sum_up(newest)


def signal(region: Region, machine: Machine, *, passed: bool) -> None:
    """End the test, as somebody says who has the machine's token (metadataserver/api.py:652). Scripts that have not run
    keep their status, and the machine is not switched off."""
    if machine.status is not Status.TESTING:
        return
    if not passed:
        region.note(machine, "Failed testing")
        region.move(machine, Status.FAILED_TESTING)
        return
    before = machine.previous_status
    after = Status.READY if before in READY_AFTER_TESTING else before
    after = Status.NEW if before is Status.FAILED_COMMISSIONING else after
    if after is Status.READY:
        region.note(machine, "Ready")
    if after in _RESTING:  # maasserver/models/signals/nodes.py:120
        machine.owner = None
    region.move(machine, after)


def _sum_up(running: ScriptSet) -> None:
    """Derive the status and the times of a set from its scripts."""
    statuses = {each.status for each in running.runs}
    found = next((status for status in _PRECEDENCE if status in statuses), ScriptStatus.PASSED)
    running.status = ScriptStatus.FAILED if found is ScriptStatus.TIMED_OUT else found
    running.started = min((each.started for each in running.runs if each.started), default=None)
    ended = [each.ended for each in running.runs]
    running.ended = max((end for end in ended if end), default=None) if None not in ended else None


def _printed(machine: Machine, nature: Nature, script: str) -> Printed:
    """Run the script with this name on the machine."""
    program = nature.programs.get(script)
    if program is not None:
        return program()
    return _clean_check(machine, nature) if script == CLEAN_CHECK else Printed()


def _clean_check(machine: Machine, nature: Nature) -> Printed:
    """Return what farrier's check of erased disks prints on this machine."""
    devices = [_checked(disk, machine.data.get(disk.serial)) for disk in nature.hardware.disks]
    said = {"format": 1, "seed": "0", "uptime": 60.0, "gpus": 0, "devices": devices}
    is_erased = all(device["result"] == "erased" for device in devices)
    return Printed(b"Checks the disks.\n" + msgspec.json.encode(said) + b"\n", 0 if is_erased else 1)


def _checked(disk: DiskModel, remains: Remains | None) -> dict[str, object]:
    bad = {None: 0, Remains.BETWEEN_THE_ENDS: _SAMPLES - 2, Remains.EVERYWHERE: _SAMPLES}[remains]
    found = {"kind": "disk", "serial": disk.serial, "model": disk.model, "size": disk.size, "method": "zero-samples"}
    message = {"message": "data at byte 4194304"} if bad else {}
    result = "failed" if bad else "erased"
    return {**found, "samples": _SAMPLES, "bad_samples": bad, **message, "result": result, "seconds": 1.0}
