"""Sees by the BMC that a released machine was off before a test, and on during the test.

Only a machine without power loses the content of its memory. MAAS may switch a machine off and on within a second, so
the machine must be off for a while. Only the regular reads of the BMC count; the stage only makes the next one due.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from farrier.handlers.node.changes import StageStep, Waiting, attempt_began_at, with_fields, with_note
from farrier.model.maas.scripts import TestRun
from farrier.model.machine.bmc import PowerState
from farrier.model.node.evidence import PowerCycle
from farrier.model.node.snapshot import Node

OFF_FOR = timedelta(seconds=10)
"""How long the machine must be off. Memory without power keeps its content for some seconds."""

_LOOK_AGAIN_AFTER = timedelta(seconds=15)


def before(node: Node, now: datetime) -> Waiting | StageStep | None:
    """Wait until the BMC has shown the machine off for `OFF_FOR`; None if the test may begin."""
    bmc, began_at = node.bmc, attempt_began_at(node.live)
    off_since = max(began_at, bmc.power_since or began_at)
    if _is_read(node, off_since + OFF_FOR, PowerState.OFF):
        if node.live.memo.off_seen_at == bmc.power_at:
            return None
        to = with_note(node, off_seen_at=bmc.power_at, on_seen_at=None)
        return StageStep(to=to, reason="the BMC shows the machine off")
    due = max(off_since, bmc.power_at or off_since) + OFF_FOR
    return _read_at(node, now, due, f"waits until the BMC has shown the machine off for {OFF_FOR.seconds} s")


def is_left_on(node: Node) -> bool:
    """Return whether the BMC has shown the machine on since the attempt began. The release and each test end with the
    machine off; but a test that hung, or that somebody ended by a forged signal, leaves it on."""
    return _is_read(node, attempt_began_at(node.live), PowerState.ON)


def after(node: Node, now: datetime, run: TestRun) -> Waiting | StageStep | None:
    """While the test runs, wait until the BMC has shown the machine on; None if it has."""
    memo = node.live.memo
    if memo.off_seen_at is None or memo.on_seen_at is not None:
        return None
    if _is_read(node, run.at, PowerState.ON):
        return StageStep(to=with_note(node, on_seen_at=node.bmc.power_at), reason="the BMC shows the machine on")
    due = max(run.at, node.bmc.power_at or run.at) + _LOOK_AGAIN_AFTER
    return _read_at(node, now, due, "MAAS runs the test; waits until the BMC shows the machine on")


def seen(node: Node) -> PowerCycle | None:
    """Return the power cycle that the BMC showed during this attempt."""
    memo = node.live.memo
    if memo.off_seen_at is None or memo.on_seen_at is None or memo.off_seen_at < attempt_began_at(node.live):
        return None
    return PowerCycle(off_seen_at=memo.off_seen_at, on_seen_at=memo.on_seen_at)


def _is_read(node: Node, since: datetime, power: PowerState) -> bool:
    bmc = node.bmc
    return bmc.power is power and bmc.power_at is not None and bmc.power_at >= since


def _read_at(node: Node, now: datetime, due: datetime, reason: str) -> Waiting | StageStep:
    """Wait until the next read of the BMC, which is due at this time."""
    bmc = node.bmc
    if now < due:
        return Waiting(reason=reason, requeue_after=due - now)
    if bmc.sync_failure is not None or (bmc.next_sync_at is not None and bmc.next_sync_at <= now):
        return Waiting(reason=reason)
    return StageStep(to=with_fields(node, bmc=replace(bmc, next_sync_at=now)), reason="farrier reads the BMC now")
