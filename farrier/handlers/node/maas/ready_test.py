"""Runs one test on a machine that is ready in MAAS, and passes the result to its caller.

A stage that needs a test calls `tested` in each run. MAAS boots the machine into its ephemeral system, runs the script,
and switches the machine off. Before the request, the workflow records the revision of the script and the newest round
of scripts of the machine (`TestRun`). So the stage recognises its own round after a lost response or a crash. Exactly
one later round may exist, and it must have results of this script and this revision only. Otherwise, another user of
MAAS may have changed the machine or the script after the check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeAlias

import msgspec

from farrier.handlers.node.changes import (
    Failed,
    Policy,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    attempt_began_at,
    listed,
    with_note,
)
from farrier.handlers.node.maas import region
from farrier.handlers.node.maas.region import Send
from farrier.model.maas.changes import Abort
from farrier.model.maas.changes import TestMachine as Ask
from farrier.model.maas.reading import Machine
from farrier.model.maas.reading import StatusNumber as S
from farrier.model.maas.scripts import Script, ScriptResult, ScriptSet, TestRun, fault, newest
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient

_TESTABLE = frozenset({S.READY, S.NEW, S.FAILED_TESTING})
# The names of MAAS for results of scripts that ran to their end (metadataserver/enum.py:88).
_PASSED, _FAILED = "Passed", "Failed"
_ABORT = "abort test"


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A test that ran to its end on this machine."""

    machine: Machine
    run: TestRun
    results: tuple[ScriptResult, ...]
    """One result; a script with a parameter, such as a disk, has one for each value."""

    @property
    def passed(self) -> bool:
        return all(each.status_name == _PASSED for each in self.results)


Judge: TypeAlias = Callable[[Ran], Settled]


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """A testing script of the region. With `text`, the region's script must have this text. `prepare` tells how an
    operator makes the script right. Without `timed`, only MAAS limits the time of the test."""

    script: str
    judge: Judge
    text: str | None = None
    prepare: str = "correct it in MAAS"
    timed: bool = True


def tested(node: Node, now: datetime, policy: Policy, test: Test) -> StageResult:
    """Return the result of `test.judge` for the test that this attempt of the stage ran, or what comes before it."""
    decide = partial(_decide, node, now, test)
    return _under_way(node, test) or region.with_machine(node, policy, decide, name="test")


def ordered(node: Node, script: str) -> TestRun | None:
    """Return the run of this script that the running attempt of the stage has prepared; otherwise None."""
    run = node.live.memo.test
    is_of_attempt = run is not None and run.at >= attempt_began_at(node.live)
    return run if is_of_attempt and run is not None and run.script == script else None


def hindrance(node: Node, now: datetime, machine: Machine) -> Settled | Send | None:
    """Return what has to happen before farrier can test the machine or switch it off; None if the machine is at rest.
    Only an earlier attempt of the stage may have begun a test that still runs."""
    if machine.status == S.TESTING:
        abort = Abort(comment=region.comment(node, _ABORT))
        return region.asking(node, now, abort, "abort the test of an earlier attempt", record=_ABORT)
    if machine.status in _TESTABLE:
        return None
    shown = machine.status_name or str(machine.status)
    detail = f"machine {machine.system_id} is {shown!r} in MAAS; farrier tests only a released machine"
    return Failed(failure=FailureClass.STATE_DISAGREEMENT, detail=detail)


def is_running(node: Node) -> bool:
    """Return whether the last reading of the machine shows that a test runs."""
    seen = region.latest(node)
    return seen is not None and seen.status == S.TESTING


def _under_way(node: Node, test: Test) -> Waiting | None:
    """Wait while the observations show that the requested test, or its abort, is not over."""
    asked_at, seen, run = node.live.memo.asked_at, region.latest(node), ordered(node, test.script)
    was_asked = (run is not None and region.was_asked(node, _record(run))) or region.was_asked(node, _ABORT)
    if was_asked and asked_at is not None and (seen is None or not seen.tells_of(asked_at)):
        return Waiting(reason="waits until farrier has read the machine in MAAS")
    return _running(test) if was_asked and is_running(node) else None


def _running(test: Test) -> Waiting:
    return Waiting(reason=f"MAAS runs test {test.script} on the machine", timed=test.timed)


def _record(run: TestRun) -> str:
    return f"test {run.script} after round {run.after}"


async def _decide(node: Node, now: datetime, test: Test, machine: Machine, client: MaasClient) -> Settled | Send:
    run = ordered(node, test.script)
    if machine.status == S.TESTING and run is not None:  # the response to the request was lost
        return _running(test)
    if (first := hindrance(node, now, machine)) is not None:
        return first
    rounds = await client.results(machine.system_id, "testing")
    if run is None:
        return _prepared(node, now, test, rounds, await client.scripts(test.script))
    later = [each for each in rounds if each.id > run.after]
    if not later:
        return region.asking(node, now, Ask(script=test.script), f"test {test.script}", record=_record(run))
    if len(later) > 1:
        detail = f"{len(later)} rounds of tests ran on the machine; expected only farrier's"
        return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=f"{detail}; farrier tests it again")
    return judged(test, run, machine, await client.result(machine.system_id, later[0].id))


def _prepared(
    node: Node, now: datetime, test: Test, rounds: tuple[ScriptSet, ...], scripts: tuple[Script, ...]
) -> Settled:
    """Record the test before its request, if the region's script is right."""
    wrong = fault(test.script, test.text, scripts)
    if wrong is not None:
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=f"{wrong}; {test.prepare}")
    (script,) = scripts
    assert script.revision is not None, "a script without a revision is a fault"
    digest = hashlib.sha256(script.text or b"").hexdigest()
    run = TestRun(script=script.name, revision=script.revision, sha256=digest, after=newest(rounds), at=now)
    return StageStep(
        to=with_note(node, test=run), reason=f"farrier will run test {script.name}, revision {run.revision}"
    )


def judged(test: Test, run: TestRun, machine: Machine, round_: ScriptSet) -> Settled:
    """Return the verdict about a round of scripts that is over."""
    names = [each.name for each in round_.results]
    if set(names) != {run.script} or (test.text is not None and len(names) > 1):
        detail = f"MAAS ran {listed(names)} instead of only {run.script}; {test.prepare}"
        return Failed(failure=FailureClass.INVALID_CONFIG, detail=detail)
    for result in round_.results:
        if result.status_name not in (_PASSED, _FAILED):
            detail = f"test {run.script} did not run to its end: {result.status_name}"
            return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)
        if result.script_revision_id != run.revision:
            detail = (
                f"MAAS has a result of revision {result.script_revision_id} of script {run.script}; farrier requested "
                f"revision {run.revision}, so the script was edited meanwhile; {test.prepare}"
            )
            return Failed(failure=FailureClass.INVALID_CONFIG, detail=detail)
    return test.judge(Ran(machine=machine, run=run, results=round_.results))
