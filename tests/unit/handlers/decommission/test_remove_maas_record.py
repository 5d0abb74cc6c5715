"""Stage `remove_maas_record`: the machine is deleted from MAAS, unless another user still uses it."""

from __future__ import annotations

from typing import Any

import pytest

from farrier.config.sites import ReleaseSite
from farrier.handlers.node.changes import StageStep, with_fields
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import DecommissionMode
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import WorkflowOptions
from farrier.model.node.stages import DecommissionStage as D
from farrier.sim.maas import Broken, Fault, Status
from farrier.sim.maas.records import Machine
from tests.support.decommissions import FORCED, asked, fails, given, is_through, sent, skips, waits
from tests.support.stages import Stand

STAGE = D.REMOVE_MAAS_RECORD
S = Status
FREE = (S.READY, S.NEW, S.FAILED_COMMISSIONING, S.FAILED_TESTING, S.BROKEN)
USED = (S.DEPLOYED, S.DEPLOYING, S.ALLOCATED, S.RESERVED, S.FAILED_DEPLOYMENT, S.COMMISSIONING, S.RESCUE_MODE)
REMOVES = ReleaseSite(remove_record=True)
STORAGE: dict[str, Any] = {"mode": DecommissionMode.STORAGE_CLEANUP}
WALK: dict[str, Any] = {"options": WorkflowOptions(untouched="not_applicable", retire=True)}


async def removing(stand: Stand, status: Status, *, owner: str | None = None, **fields: Any) -> Machine:
    """A node in removal whose machine is off."""
    machine = await given(stand, STAGE, status, owner=owner, power="off", **fields)
    if "mode" not in fields:
        stand.node = with_fields(stand.node, status=N.REMOVING)
    return machine


def kept_or_not(stand: Stand, machine: Machine, *, kept: bool) -> None:
    assert (machine.system_id in stand.region.machines) is kept


# --- a full decommission


@pytest.mark.parametrize("status", FREE, ids=lambda status: status.name)
async def test_a_machine_that_is_not_in_use_is_deleted_once(stand: Stand, status: Status) -> None:
    machine = await removing(stand, status)
    is_through(await stand.settle())
    kept_or_not(stand, machine, kept=False)
    assert stand.node.maas_id == machine.system_id, "the node keeps the id for its history"
    is_through(await stand.settle())
    assert sent(stand) == ["delete"]


@pytest.mark.parametrize("status", USED, ids=lambda status: status.name)
@pytest.mark.parametrize("walk", [{}, WALK], ids=["full", "delete"])
async def test_a_machine_in_use_is_never_deleted(stand: Stand, status: Status, walk: dict[str, Any]) -> None:
    machine = await removing(stand, status, owner="admin", **walk)
    stand.use(release=REMOVES)
    stand.node = with_fields(stand.node, maas_created=True)
    fails(await stand.settle(), F.STATE_DISAGREEMENT, status.label)
    kept_or_not(stand, machine, kept=True)
    assert sent(stand) == []


async def test_a_locked_machine_is_not_deleted_without_force(stand: Stand) -> None:
    machine = await removing(stand, S.READY)
    machine.locked = True
    fails(await stand.settle(), F.UPSTREAM_REFUSED, "locked", "force")
    kept_or_not(stand, machine, kept=True)
    assert sent(stand) == []


async def test_force_unlocks_a_locked_machine_before_the_deletion(stand: Stand) -> None:
    machine = await removing(stand, S.READY, options=FORCED)
    machine.locked = True
    is_through(await stand.settle())
    assert sent(stand) == ["unlock", "delete"]


@pytest.mark.parametrize("status", [S.RELEASING, S.DISK_ERASING], ids=lambda status: status.name)
async def test_the_stage_waits_while_the_machine_is_being_released(stand: Stand, status: Status) -> None:
    await removing(stand, status)
    waits(await stand.settle(), status.label)
    stand.observe()
    before = asked(stand)
    waits(await stand.settle(), status.label)
    assert asked(stand) == before and sent(stand) == []


async def test_a_machine_that_is_absent_from_maas_counts_as_deleted(stand: Stand) -> None:
    machine = await removing(stand, S.READY)
    stand.region.forget(machine)
    is_through(await stand.settle())
    assert sent(stand) == []


async def test_a_machine_that_disappears_before_the_deletion_counts_as_deleted(stand: Stand) -> None:
    await removing(stand, S.READY)
    absent = b"No Machine matches the given query."
    stand.region.faults.add(Fault(method="DELETE", status=404, body=absent, content_type="text/plain"))
    is_through(await stand.settle())


async def test_a_deletion_whose_response_was_lost_is_recognised(stand: Stand) -> None:
    machine = await removing(stand, S.READY)
    stand.region.faults.add(Fault(method="DELETE", broken=Broken.DROP))
    waits(await stand.settle(), "unreachable")
    is_through(await stand.settle())
    kept_or_not(stand, machine, kept=False)
    assert sent(stand) == ["delete"]


async def test_a_node_that_was_stopped_in_this_stage_first_returns_to_removing(stand: Stand) -> None:
    """An edge to `deleted` exists only from `removing`."""
    await removing(stand, S.READY)
    stand.node = with_fields(stand.node, status=N.RETIRED)
    step = await stand.once()
    assert isinstance(step, StageStep) and step.to.status is N.REMOVING
    is_through(await stand.settle())


# --- after a storage cleanup


async def test_after_a_storage_cleanup_the_node_has_no_machine(stand: Stand) -> None:
    machine = await removing(stand, S.READY, **STORAGE)
    stand.use(release=REMOVES)
    stand.node = with_fields(stand.node, maas_created=True)
    is_through(await stand.settle())
    kept_or_not(stand, machine, kept=False)
    assert (stand.node.maas_id, stand.node.maas_created) == (None, False)
    assert stand.node.status is N.RETIRED


async def test_a_site_that_keeps_records_skips_the_stage(stand: Stand) -> None:
    machine = await removing(stand, S.READY, **STORAGE)
    skips(await stand.settle(), "keeps records")
    kept_or_not(stand, machine, kept=True)
    assert asked(stand) == 0


@pytest.mark.parametrize("status", USED, ids=lambda status: status.name)
async def test_after_a_storage_cleanup_a_machine_in_use_is_kept(stand: Stand, status: Status) -> None:
    machine = await removing(stand, status, owner="admin", **STORAGE)
    stand.use(release=REMOVES)
    skips(await stand.settle(), status.label)
    kept_or_not(stand, machine, kept=True)
    assert stand.node.maas_id == machine.system_id


# --- a deletion


@pytest.mark.parametrize(
    ("made_here", "policy", "removed"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
async def test_a_deletion_deletes_a_machine_that_farrier_made_if_the_site_removes_records(
    stand: Stand, made_here: bool, policy: bool, removed: bool
) -> None:
    machine = await removing(stand, S.READY, **WALK)
    stand.use(release=ReleaseSite(remove_record=policy))
    stand.node = with_fields(stand.node, maas_created=made_here)
    settled = await stand.settle()
    kept_or_not(stand, machine, kept=not removed)
    if removed:
        is_through(settled)
    else:
        skips(settled, "not_applicable")
        assert asked(stand) == 0


async def test_a_deletion_needs_no_site(stand: Stand) -> None:
    await removing(stand, S.READY, **WALK)
    stand.node = with_fields(stand.node, site=None, maas_created=True)
    skips(await stand.settle(), "not_applicable")
