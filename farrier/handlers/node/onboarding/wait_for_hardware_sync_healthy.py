"""Stage `wait_for_hardware_sync_healthy`: waits until the installed system reports its hardware to MAAS in time.

MAAS itself sets the time of the last sync when it reports the machine as deployed, and changes this time again on
signals of the first boot. So only a sync after these signals is a proof. To find such a sync, the stage compares only
times of the region, because the clock of the database may differ by minutes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from farrier.handlers.node.changes import Done, Failed, Policy, StageResult, Waiting, is_late
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding import deployment
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.failures import MAX_ATTEMPTS, FailureClass
from farrier.model.node.snapshot import Node

# The number of intervals after which a machine is out of sync, the same as in MAAS: one interval, and half an interval
# for a late report.
_LATE = 1.5
# The number of intervals after which a sync cannot be a signal of the first boot. Such signals arrive within minutes;
# the first regular sync follows after a whole interval.
_FIRST_BOOT = 0.5
# The default of MAAS, for a machine without an interval.
_INTERVAL = timedelta(minutes=15)


def wait_for_hardware_sync_healthy(node: Node, now: datetime, policy: Policy) -> StageResult:
    site = region.site_of(node, policy)
    if not site.deploy.hardware_sync:
        return Done(
            reason="the site does not use hardware sync", skipped=f"site {site.name} has deploy.hardware_sync off"
        )
    contradiction = deployment.contradicted(node)
    if contradiction is not None:
        return contradiction
    seen = region.latest(node)
    missing = "MAAS was not read yet" if seen is None else _missing(node, now, seen)
    if missing is None:
        return Done(reason="the node syncs its hardware")
    if _is_last(node, now, policy):
        detail = f"the node did not sync its hardware in {MAX_ATTEMPTS} attempts: {missing}"
        return Failed(failure=FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY, detail=detail)
    return Waiting(reason=f"waits for the node's hardware sync: {missing}")


def _missing(node: Node, now: datetime, seen: MaasObservation) -> str | None:
    """Return why the machine is not proven to be in sync; None if it is proven to be in sync."""
    known = node.live.memo
    interval = timedelta(seconds=seen.sync_interval) if seen.sync_interval else _INTERVAL
    first = known.synced_at or known.deployed_at
    if not seen.enable_hw_sync:
        return "MAAS does not expect a sync"
    if seen.last_sync is None:
        return "no sync was recorded"
    if first is not None and seen.last_sync <= first + interval * _FIRST_BOOT:
        return "no sync was recorded after the first boot"
    if now > seen.last_sync + interval * _LATE:
        return "the last sync is too old"
    return None


def _is_last(node: Node, now: datetime, policy: Policy) -> bool:
    """Return whether the last attempt has passed its deadline."""
    return node.live.attempt >= MAX_ATTEMPTS and is_late(node, now, policy)
