"""Agent tasks: leases and their tokens, counted failures, force, and nodes whose agent fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import anyio
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.node.snapshot import TaskType
from tests.support import pg, woken
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site

DRAIN, UNINSTALL = TaskType.DRAIN, TaskType.UNINSTALL
RENEW = "SELECT farrier.renew_task($1, $2, $3, $4, $5)"
FINISH = "SELECT farrier.finish_task($1, $2, $3, $4, $5)"
STALE = "FR410"


async def refusal(conn: Connection, statement: str, *arguments: Any) -> str | None:
    with pytest.raises(pg.PostgresError) as refused:
        await conn.fetch(statement, *arguments)
    return refused.value.sqlstate


async def statuses(machine: Machine, type_: TaskType | None = None) -> list[str]:
    return [task["status"] for task in await machine.tasks(type_)]


# --- leases


async def test_a_queued_task_is_claimed_once(site: Site) -> None:
    machine = await site.draining()
    assert await machine.claim(DRAIN) is not None
    assert await machine.claim(DRAIN) is None
    assert await machine.claim(UNINSTALL) is None


async def test_claiming_a_task_enqueues_its_node(site: Site) -> None:
    machine = await site.draining()
    await woken.count(site.conn)
    assert await machine.claim(DRAIN) is not None
    assert await woken.times(site.conn, "node", machine.id) == 1


async def test_a_lease_is_extended_by_its_holder_only(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN, 10 * SECOND)
    assert lease is not None
    until = await site.conn.fetchval(RENEW, machine.name, lease.task, lease.token, machine.key, HOUR)
    assert until - await site.db.now() > 59 * MINUTE
    assert await refusal(site.conn, RENEW, machine.name, lease.task, uuid4(), machine.key, HOUR) == STALE
    assert await refusal(site.conn, RENEW, machine.name, 999, lease.token, machine.key, HOUR) == STALE
    await site.wait(2 * MINUTE)
    assert await statuses(machine) == ["dispatched"]


@pytest.mark.parametrize("lease", [timedelta(0), timedelta(days=2), None])
async def test_a_lease_length_out_of_bounds_is_refused(site: Site, lease: timedelta | None) -> None:
    machine = await site.active()
    claim = "SELECT farrier.claim_task($1, '{node.drain}', $2, lease => $3)"
    assert await refusal(site.conn, claim, machine.name, machine.key, lease) == "FR400"


async def test_a_task_is_reissued_after_every_expired_lease_and_the_old_token_is_refused(site: Site) -> None:
    machine = await site.draining()
    for attempt in range(1, 9):
        lease = await machine.claim(DRAIN, 10 * SECOND)
        assert lease is not None and lease.attempt == attempt
        await site.wait(MINUTE)
        given = (machine.name, lease.task, lease.token, machine.key)
        for call in ((RENEW, *given, HOUR), (FINISH, *given, True)):
            assert await refusal(site.conn, *call) == STALE
    assert await statuses(machine) == ["expired"] * 8 + ["queued"]
    assert await machine.state() == ("draining", "running", "drain_node")


async def test_a_task_that_no_agent_claims_waits_for_ever(site: Site) -> None:
    machine = await site.draining()
    await site.wait(100 * HOUR)
    assert await machine.state() == ("draining", "running", "drain_node")
    assert await statuses(machine) == ["queued"]


async def test_a_repeated_finish_changes_nothing(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN)
    assert lease is not None
    await machine.end(lease)
    await machine.end(lease)
    assert await refusal(site.conn, FINISH, machine.name, lease.task, lease.token, machine.key, False) == STALE
    assert (await machine.state())[0] == "retired"


async def test_a_finish_that_waited_for_the_same_call_succeeds(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN)
    assert lease is not None
    given = machine.name, lease.task, lease.token, machine.key
    async with (
        site.db.connect() as first,
        site.db.connect() as again,
        anyio.create_task_group() as group,
        first.transaction(),
    ):
        await first.execute(FINISH, *given, True)
        group.start_soon(again.execute, FINISH, *given, True)
        await site.db.until_blocked()
    assert await refusal(site.conn, FINISH, *given, False) == STALE
    assert await statuses(machine) == ["succeeded"]


async def test_a_late_result_counts_until_the_task_is_issued_again(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN, 10 * SECOND)
    assert lease is not None
    async with site.conn.transaction():
        await site.conn.execute(pg.ADVANCE, MINUTE)
        await site.conn.execute(FINISH, machine.name, lease.task, lease.token, machine.key, True)
    await site.settled()
    assert (await machine.state())[0] == "retired"


async def test_a_result_under_way_is_not_lost_to_a_lease_that_ran_out(site: Site) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN, 10 * SECOND)
    assert lease is not None
    async with site.conn.transaction():
        await site.conn.execute(FINISH, machine.name, lease.task, lease.token, machine.key, True)
        await site.db.advance(MINUTE)
        await site.ledger.until(lambda: "deferred" in site.ledger.verdicts)
    await site.settled()
    assert (await machine.state())[0] == "retired"
    assert await statuses(machine) == ["succeeded"]


async def test_the_commit_that_enters_draining_or_removing_carries_the_task(site: Site) -> None:
    for machine, status, type_ in (
        (await site.draining(), "draining", DRAIN),
        (await site.removing(), "removing", UNINSTALL),
    ):
        together = await site.conn.fetchval(
            "SELECT t.xmin = h.xmin FROM farrier.history h JOIN farrier.node_tasks t ON t.node_id = h.id"
            " WHERE h.id = $1 AND h.to_value = $2 AND t.type = $3",
            machine.id,
            status,
            type_.value,
        )
        assert together, status


# --- failures


async def test_a_drain_that_failed_five_times_has_failed_for_good(site: Site) -> None:
    machine = await (await site.draining()).finish(DRAIN, succeeded=False, times=4)
    assert await machine.state() == ("draining", "running", "drain_node")
    await machine.finish(DRAIN, succeeded=False)
    row = await machine.look()
    assert (row["status"], row["workflow_status"]) == ("quarantined", "failed_manual_intervention")
    assert row["failure_class"] == "task_failed"
    assert await machine.quarantine() == "workflow/drain_failed"
    assert (await machine.path())[-3:] == ["draining", "offline", "quarantined"]
    assert set(await statuses(machine)) == {"failed"}


async def test_expired_leases_are_no_failures(site: Site) -> None:
    machine = await site.draining()
    for _ in range(4):
        await machine.finish(DRAIN, succeeded=False)
        assert await machine.claim(DRAIN, 10 * SECOND) is not None
        await site.wait(MINUTE)
    assert await machine.state() == ("draining", "running", "drain_node")


async def test_an_uninstall_that_failed_leaves_removing_and_is_tried_again(site: Site) -> None:
    machine = await (await site.removing()).finish(UNINSTALL, succeeded=False, times=5)
    assert await machine.state() == ("retired", "failed_retryable", "remove_gpuaas_node_record")
    await site.wait(31 * SECOND)
    assert (await machine.state())[0] == "removing"
    await machine.finish(UNINSTALL)
    assert (await machine.state())[0] == "deleted"


async def test_after_five_attempts_a_removal_waits_for_an_operator(site: Site) -> None:
    machine = await site.removing()
    for _ in range(5):
        await machine.finish(UNINSTALL, succeeded=False, times=5)
        await site.wait(16 * MINUTE)
    assert await machine.state() == ("retired", "failed_manual_intervention", "remove_gpuaas_node_record")
    await (await machine.asked("retry_stage")).finish(UNINSTALL)
    assert (await machine.state())[0] == "deleted"


async def test_a_failed_stage_does_not_end_the_drain_under_way(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="soft_reset")
    await machine.finish(TaskType.RELEASE_ALLOCATIONS, succeeded=False, times=5)
    assert await machine.state() == ("draining", "failed_retryable", "force_release_allocations")
    assert await statuses(machine, DRAIN) == ["queued"]


async def test_agents_work_while_their_node_is_retired(site: Site) -> None:
    machine = await (await site.retired()).asked("decommission", mode="soft_reset")
    for type_ in (TaskType.RELEASE_ALLOCATIONS, TaskType.SCRUB_GPU, TaskType.VALIDATE_CLEAN):
        assert (await machine.state())[0] == "retired"
        await machine.finish(type_)
    assert (await machine.path())[-2:] == ["offline", "active"]


# --- force


async def test_force_gives_up_unfinished_tasks_after_ten_minutes_and_records_it(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="soft_reset", force=True, reason="dead")
    await machine.claim(TaskType.RELEASE_ALLOCATIONS, HOUR)
    await site.wait(9 * MINUTE)
    assert (await machine.state())[0] == "draining"
    for _ in range(4):
        await site.wait(11 * MINUTE)
    row = await machine.look()
    assert (row["status"], row["workflow_status"]) == ("retired", "completed")
    assert set(await machine.conditions()) == {"cleaning/not_scrubbed", "cleaning/validation_failed"}
    ends = {(task["status"], task["result"]) for task in await machine.tasks()}
    assert ends == {("cancelled", '"forced"')}
    skipped = msgspec.json.decode(await site.conn.fetchval("SELECT skipped::text FROM farrier.node_decommissions"))
    assert {s["why"] for s in skipped} == {"forced by an operator: dead"}


async def test_each_forced_task_has_its_own_ten_minutes(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="soft_reset", force=True, reason="dead")
    await site.wait(11 * MINUTE)
    assert await machine.state() == ("draining", "running", "drain_node")
    await machine.finish(DRAIN)
    assert await machine.state() == ("retired", "running", "scrub_gpu")


async def test_an_unscrubbed_node_stays_out_of_service_until_a_scrub_is_finished(site: Site) -> None:
    machine = await (await site.active()).asked("decommission", mode="soft_reset", force=True, reason="dead")
    for _ in range(5):
        await site.wait(11 * MINUTE)
    answer = await machine.ask("reactivate")
    assert answer.status == "rejected" and "not scrubbed" in str(answer.reason)
    await machine.beat()
    await machine.asked("decommission", mode="soft_reset")
    for type_ in (TaskType.RELEASE_ALLOCATIONS, TaskType.SCRUB_GPU, TaskType.VALIDATE_CLEAN):
        await machine.finish(type_)
    row = await machine.look()
    assert (row["status"], await machine.conditions()) == ("active", {"cleaning/unproven": "note"})


async def test_a_forced_drain_cleans_nothing_and_leaves_no_mark(site: Site) -> None:
    machine = await (await site.active()).asked("drain", force=True, reason="dead")
    await site.wait(11 * MINUTE)
    assert ((await machine.state())[0], await machine.conditions()) == ("retired", {})
    await (await machine.asked("reactivate")).beat()
    assert (await machine.state())[0] == "active"


# --- stops


@pytest.mark.parametrize(
    ("action", "ends_as"), [("cancel", "offline"), ("mark_manual_intervention_required", "quarantined")]
)
async def test_a_stopped_drain_takes_its_task_from_the_agent(site: Site, action: str, ends_as: str) -> None:
    machine = await site.draining()
    lease = await machine.claim(DRAIN, HOUR)
    assert lease is not None
    await site.wait(4 * MINUTE)  # so that the node is not healthy at once after the drain
    await machine.asked(action)
    assert (await machine.state())[0] == ends_as
    assert await refusal(site.conn, RENEW, machine.name, lease.task, lease.token, machine.key, HOUR) == STALE
    assert await statuses(machine) == ["cancelled"]


async def test_mark_manual_intervention_required_is_carried_out_first_and_once(site: Site) -> None:
    machine = await site.draining()
    answers = await machine.ask_together(("mark_manual_intervention_required", {}), ("resume", {}), beat=True)
    assert [answer.status for answer in answers] == ["accepted", "rejected"]
    assert await machine.path("decommission") == ["pending", "running", "failed_manual_intervention"]
    assert (await machine.state())[0] == "quarantined"
    assert await machine.quarantine() == "workflow/frozen"


async def test_a_drain_begun_anew_has_a_new_task(site: Site) -> None:
    machine = await (await site.draining()).asked("restart_clean")
    assert (await machine.path())[-3:] == ["draining", "offline", "draining"]
    assert await statuses(machine) == ["cancelled", "queued"]
    await machine.finish(DRAIN)
    assert (await machine.state())[0] == "retired"
