"""Guarantees for clients that insert intents: immediate refusals, and when and in which order intents are answered."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.intents import actions
from farrier.model.node.snapshot import TaskType
from tests.support import pg
from tests.support.site import MINUTE, SECOND, Answer, Site, as_json

INSERT = "INSERT INTO farrier.intents (node, action, params, api_version) VALUES ($1, $2, $3::jsonb, $4) RETURNING id"
KEYED = "INSERT INTO farrier.intents (node, action, idempotency_key) VALUES ('gpu-1', 'drain', $1) RETURNING id"
INTENT = "SELECT farrier.intent('gpu-1', 'drain', $2::jsonb, idempotency_key => $1)"
ACCEPTED = "accepted"


async def insert(
    conn: Connection, action: str = "drain", params: str | None = "{}", node: str = "gpu-1", version: int | None = 2
) -> Any:
    return await conn.fetchval(INSERT, node, action, params, version)


LAN = """'{"site": "ams", "mtu_limit": 4, "rate_limit": "200"}'"""
AUTHORS = f"""
    INSERT INTO farrier.intents (node, action) VALUES ('gpu-1', 'drain');
    INSERT INTO farrier.intents (node, action, requested_by) VALUES ('gpu-1', 'drain', 'ann');
    SELECT farrier.intent('gpu-1', 'drain');
    SELECT farrier.intent('gpu-1', 'drain', requested_by => 'ann');
    INSERT INTO farrier.resource_intents (kind, resource, action, params)
    VALUES ('ib_partition', 'one', 'create', {LAN});
    INSERT INTO farrier.resource_intents (kind, resource, action, params, requested_by)
    VALUES ('ib_partition', 'two', 'create', {LAN}, 'ann');
    SELECT farrier.resource_intent('ib_partition', 'three', 'create', {LAN});
    SELECT farrier.resource_intent('ib_partition', 'four', 'create', {LAN}, requested_by => 'ann');
"""


async def test_the_author_of_an_intent_without_a_name_is_the_login_that_inserts_it(site: Site) -> None:
    await site.register("gpu-1")
    await site.conn.execute("SELECT farrier.set_pool('pkey:ams', 1, 100)")
    login = f"portal_{await site.conn.fetchval('SELECT current_database()')}"
    await site.conn.execute(f"CREATE ROLE {login} LOGIN IN ROLE farrier_intents")
    try:
        async with site.db.connect() as conn:
            await conn.execute(f"SET SESSION AUTHORIZATION {login}")
            await conn.execute(AUTHORS)
        for table in ("intents", "resource_intents"):
            rows = await site.conn.fetch(f"SELECT requested_by FROM farrier.{table} ORDER BY id")
            assert [row["requested_by"] for row in rows] == [login, "ann"] * 2
    finally:
        await site.conn.execute(f"DROP ROLE {login}")


# --- refused by the INSERT


async def test_a_mode_that_cannot_clean_from_outside_is_refused_where_no_controller_answers(db: pg.Database) -> None:
    async with db.connect() as conn:
        sites = [
            {"site": "ams", "url": "http://maas", "motion_seconds": 30, "sweep_seconds": 600, "requires": "outside"}
        ]
        await conn.execute("SELECT farrier.set_sites($1::jsonb)", as_json(sites))
        await conn.execute("SELECT farrier.register_node('gpu-1', site => 'ams')")
        for mode in ("soft_reset", "storage_cleanup"):
            with pytest.raises(asyncpg.PostgresError, match=f"mode {mode} gives no evidence from outside") as refusal:
                await insert(conn, "decommission", as_json({"mode": mode}))
            assert refusal.value.sqlstate == "FR409"
        assert await insert(conn, "decommission", as_json({"mode": "reimage"}))
        assert await insert(conn, "drain"), "a drain is no cleaning"
        await conn.execute("SELECT farrier.set_sites($1::jsonb)", as_json([{**sites[0], "requires": "evidence"}]))
        assert await insert(conn, "decommission", as_json({"mode": "soft_reset"}))


MALFORMED = [
    ("explode", "{}", "unknown action 'explode'"),
    ("drain", "[]", "params must be a JSON object"),
    ("drain", None, "params must be a JSON object"),
    ("drain", '{"fast": true}', "parameter fast is unknown; expected: force, reason"),
    ("drain", '{"force": "yes"}', "parameter force must be true or false"),
    ("drain", '{"force": null}', "parameter force must be true or false"),
    ("drain", '{"force": true}', "force: true requires reason"),
    ("quarantine", "{}", "parameter reason is missing"),
    ("quarantine", '{"reason": null}', "parameter reason must be a string"),
    ("quarantine", '{"reason": 5}', "parameter reason must be a string"),
    ("quarantine", '{"reason": "  "}', "parameter reason is blank"),
    ("quarantine", as_json({"reason": "x" * 501}), "parameter reason is longer than 500"),
    ("onboard", '{"mode": "magic"}', "parameter mode must be one of deploy, adopt, manual"),
    ("set_bmc", "{}", "needs at least one of: address, credential, replace"),
    ("set_bmc", '{"address": "10.0.0.1", "force": true}', "force: true requires replace"),
    ("set_bmc", '{"address": "10.0.0.1 "}', "parameter address must be .*, without blanks"),
    ("reactivate", '{"why": "x"}', "parameter why is unknown; expected: none"),
    ("quarantine", as_json({"reason": "x" * 20_000}), "16384 are allowed"),
]


async def test_a_malformed_intent_is_refused_by_its_insert(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        for action, params, told in MALFORMED:
            with pytest.raises(pg.PostgresError, match=told) as refused:
                await insert(conn, action, params)
            assert refused.value.sqlstate == "FR400"
            assert not await conn.fetchval("SELECT count(*) FROM farrier.intents")


async def test_an_unsupported_api_version_is_refused_with_the_supported_range(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        for version, action, told in (
            (actions.API_MIN - 1, "drain", f"supports versions {actions.API_MIN} to {actions.API_MAX}"),
            (actions.API_MAX + 1, "drain", f"supports versions {actions.API_MIN} to {actions.API_MAX}"),
            (1, "unpause", "requires api_version 2 or later; this intent has 1"),
            (None, "unpause", "requires api_version 2 or later; this intent has none, which means 1"),
            (None, "adopt", "requires api_version 2 or later; this intent has none, which means 1"),
            (1, "adopt", "requires api_version 2 or later; this intent has 1"),
        ):
            with pytest.raises(pg.PostgresError, match=told) as refused:
                await insert(conn, action, version=version)
            assert refused.value.sqlstate == "FR406"


@pytest.mark.parametrize("action", [action for action, spec in actions.ACTIONS.items() if spec.since > 1])
async def test_the_hint_is_a_statement_that_is_accepted(db: pg.Database, action: str) -> None:
    """Tested for every action that is newer than version 1, with all columns of the refused INSERT."""
    params = {"set": {"site": "ams1"}, "pause": {"reason": "it's \\ loud"}}.get(action, {})
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        with pytest.raises(pg.PostgresError) as refused:
            await conn.execute(
                "INSERT INTO farrier.intents (node, action, params, idempotency_key, requested_by)"
                " VALUES ('gpu-1', $1, $2::jsonb, 'k''1', 'ann')",
                action,
                as_json(params),
            )
        assert refused.value.sqlstate == "FR406"
        assert isinstance(refused.value.hint, str)
        await conn.execute(refused.value.hint)
        (stored,) = await conn.fetch(
            "SELECT action, params::text, idempotency_key, requested_by, api_version FROM farrier.intents"
        )
        assert msgspec.json.decode(stored["params"]) == params
        asked = (stored["action"], stored["idempotency_key"], stored["requested_by"], stored["api_version"])
        assert asked == (action, "k'1", "ann", 2)


@pytest.mark.parametrize(
    ("params", "key", "by"),
    [({"reason": "x" * 16_384}, "k", "ann"), ({"reason": "x"}, "k" * 256, "ann"), ({"reason": "x"}, "k", "a" * 256)],
)
async def test_an_intent_that_is_too_long_for_a_hint_is_refused_for_its_size(
    db: pg.Database, params: dict[str, str], key: str, by: str
) -> None:
    """The hint would have to be truncated, and would then not be a valid statement."""
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        with pytest.raises(pg.PostgresError) as refused:
            await conn.execute(
                "INSERT INTO farrier.intents (node, action, params, idempotency_key, requested_by)"
                " VALUES ('gpu-1', 'pause', $1::jsonb, $2, $3)",
                as_json(params),
                key,
                by,
            )
        assert (refused.value.sqlstate, refused.value.hint) == ("FR400", None)


async def test_a_client_newer_than_the_database_is_refused_with_the_supported_versions(db: pg.Database) -> None:
    newer = actions.API_MAX + 1
    async with db.connect() as conn:
        for ask in (
            f"SELECT farrier.register_node('gpu-1', api_version => {newer})",
            f"SELECT farrier.intent('gpu-1', 'drain', api_version => {newer})",
            f"INSERT INTO farrier.intents (node, action, api_version) VALUES ('gpu-1', 'drain', {newer})",
        ):
            with pytest.raises(
                pg.PostgresError, match=f"supports versions {actions.API_MIN} to {actions.API_MAX}"
            ) as refused:
                await conn.execute(ask)
            assert refused.value.sqlstate == "FR406"
            assert f"newer than this database, which supports at most version {actions.API_MAX}" in str(
                refused.value.hint
            )
        for version in ("NULL", actions.API_MIN, actions.API_MAX):
            await conn.execute(f"SELECT farrier.register_node('of-{version}', api_version => {version})")
        await conn.execute("SELECT farrier.register_node('without')")


async def test_a_version_inside_the_range_is_accepted(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        for version in (None, *range(actions.API_MIN, actions.API_MAX + 1)):
            await insert(conn, version=version)
        (told,) = await conn.fetch("SELECT * FROM farrier.api_version()")
        assert tuple(told) == (actions.API_MIN, actions.API_MAX)


@pytest.mark.parametrize("node", ["gpu-2", "", "999", "99999999999999999999"])
async def test_an_unknown_node_is_refused(db: pg.Database, node: str) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        with pytest.raises(pg.PostgresError, match="no node is named") as refused:
            await insert(conn, node=node)
        assert refused.value.sqlstate == "FR404"


async def test_a_node_is_addressed_by_its_name_or_its_id(site: Site) -> None:
    machine = await site.active()
    for name in (machine.name, str(machine.id)):
        id_ = await insert(site.conn, "quarantine", '{"reason": "x"}', name)
        await site.settled()
        assert (await site.answer(id_)).status == ACCEPTED


async def test_a_client_cannot_answer_its_own_intent(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        (stored,) = await conn.fetch(
            "INSERT INTO farrier.intents (node, action, status, reason, answered_at, node_id)"
            " VALUES ('gpu-1', 'drain', 'accepted', 'because', farrier.now(), 99)"
            " RETURNING status, reason, answered_at, node_id"
        )
        assert tuple(stored) == ("pending", None, None, 1)


# --- idempotency


async def test_a_known_key_is_a_unique_violation_that_names_the_first_intent(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        first = await conn.fetchval(KEYED, "job-7")
        with pytest.raises(pg.PostgresError, match=f"intent {first}") as refused:
            await conn.fetchval(KEYED, "job-7")
        assert refused.value.sqlstate == "23505"
        assert await conn.fetchval(KEYED, "job-8") != first


async def test_the_function_returns_the_first_intent_for_a_known_key(every_db: pg.Database) -> None:
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        first = await conn.fetchval(INTENT, "job-7", "{}")
        assert await conn.fetchval(INTENT, "job-7", "{}") == first
        with pytest.raises(pg.PostgresError, match=f"belongs to intent {first}, which requests drain"):
            await conn.fetchval(INTENT, "job-7", '{"reason": "other"}')
        assert await conn.fetchval("SELECT count(*) FROM farrier.intents") == 1


async def test_a_repeated_delete_returns_the_first_intent_and_spares_the_next_node_of_the_name(
    every_db: pg.Database,
) -> None:
    delete = "SELECT farrier.intent('gpu-1', 'delete', idempotency_key => 'job-7')"
    async with every_db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        first = await conn.fetchval(delete)
        async with conn.transaction():
            await conn.execute("SET LOCAL session_replication_role = replica")
            await conn.execute("UPDATE farrier.nodes SET status = 'deleted'")
        assert await conn.fetchval(delete) == first
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        assert await conn.fetchval(delete) == first
        assert await conn.fetchval("SELECT count(*) FROM farrier.intents") == 1


@pytest.mark.parametrize("isolation", ["repeatable_read", "serializable"])
async def test_a_transaction_whose_snapshot_may_lack_the_first_intent_has_to_be_repeated(
    db: pg.Database, isolation: Any
) -> None:
    async with db.connect() as conn, db.connect() as other:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
        transaction = conn.transaction(isolation=isolation)
        await transaction.start()
        await conn.fetchval("SELECT count(*) FROM farrier.nodes")
        first = await other.fetchval(INTENT, "job-7", "{}")
        with pytest.raises(pg.PostgresError, match="was committed after this transaction began") as refused:
            await conn.fetchval(INTENT, "job-7", "{}")
        assert (refused.value.sqlstate, refused.value.hint) == ("40001", "Repeat the transaction.")
        await transaction.rollback()
        assert await conn.fetchval(INTENT, "job-7", "{}") == first


async def test_a_key_belongs_to_one_node(db: pg.Database) -> None:
    async with db.connect() as conn:
        ids = set()
        for name in ("gpu-1", "gpu-2"):
            await conn.execute("SELECT farrier.register_node($1)", name)
            ids.add(await conn.fetchval("SELECT farrier.intent($1, 'drain', idempotency_key => 'job-7')", name))
        assert len(ids) == 2


# --- answered


async def test_one_run_answers_intents_in_order_of_id_up_to_the_first_that_moves_the_node(site: Site) -> None:
    machine = await site.active()
    answers = await machine.ask_together(
        ("reactivate", {}), ("release", {}), ("drain", {}), ("drain", {}), ("remove", {})
    )
    assert [answer.status for answer in answers] == ["rejected", "rejected", ACCEPTED, ACCEPTED, "rejected"]
    assert answers[3].reason == "drain is already in progress"
    assert answers[4].reason is not None and "decommission 1 of this node is live" in answers[4].reason
    rows = await site.conn.fetch("SELECT answered_at FROM farrier.intents ORDER BY id")
    times = [row["answered_at"] for row in rows]
    assert times[0] == times[1] == times[2] < times[3] <= times[4]


async def test_more_intents_than_one_run_loads_are_all_answered_now(site: Site) -> None:
    machine = await site.active()
    resume: tuple[str, dict[str, Any]] = ("resume", {})
    hold = "quarantine", {"reason": "a fan"}
    answers = await machine.ask_together(*[resume] * 99, hold, *[resume] * 150)  # a run loads a hundred
    assert [answer.status for answer in answers] == ["rejected"] * 99 + [ACCEPTED] + ["rejected"] * 150


async def test_many_intents_for_a_node_that_is_deleted_are_all_answered(site: Site) -> None:
    machine = await site.register(bootstrap_token="token")
    answers = await machine.ask_together(("delete", {}), *[("quarantine", {"reason": "x"})] * 250)
    assert [answer.status for answer in answers] == [ACCEPTED] + ["rejected"] * 250
    assert not await site.conn.fetchval("SELECT count(*) FROM farrier.wakes")


REJECTED: list[tuple[str, dict[str, Any], str]] = [
    ("release", {}, "no hold and no condition keeps the node out of service"),
    ("remove", {}, "remove is accepted in status retired; this node is active"),
    ("delete", {}, "this node is active; submit drain to retire the node"),
    ("onboard", {"mode": "manual"}, "in status bootstrap_issued, enrolling, quarantined, retired; this node is active"),
    ("resume", {}, "this node has no live workflow"),
    ("manage", {}, "while management is enroll, manageable, adopt_failed; the management of this node is unmanaged"),
    ("decommission", {"mode": "reimage"}, "needs a machine in MAAS"),
]


async def test_a_rejection_names_the_states_in_which_it_would_be_accepted(site: Site) -> None:
    machine = await site.active()
    before = await machine.moves()
    answers = await machine.ask_together(*((action, params) for action, params, _ in REJECTED))
    for answer, (action, _, told) in zip(answers, REJECTED, strict=True):
        assert answer.status == "rejected" and told in (answer.reason or ""), action
    assert await machine.moves() == before


async def test_a_removal_that_is_repeated_with_remove_maas_also_deletes_the_machine(site: Site) -> None:
    machine = await site.retired()
    answers = await machine.ask_together(("remove", {}), ("remove", {"remove_maas": True}), ("remove", {}))
    assert [answer.status for answer in answers] == [ACCEPTED] * 3
    assert answers[1].reason == "remove: the options of the live decommission were extended"
    assert answers[2].reason == "remove is already in progress"
    left_out = await site.conn.fetchval(
        "SELECT options -> 'leave_out' FROM farrier.node_decommissions ORDER BY id DESC"
    )
    assert "remove_maas_record" not in left_out


async def test_while_a_workflow_is_live_other_workflows_are_rejected_with_its_id(site: Site) -> None:
    machine = await site.draining()
    for action, params in (("remove", {}), ("decommission", {"mode": "soft_reset"})):
        answer = await machine.ask(action, **params)
        assert answer.status == "rejected", answer
    machine = await (await site.retired()).asked("remove", force=True, reason="dead")
    await machine.asked("cancel")
    await machine.asked("onboard", mode="manual")
    for action in ("reactivate", "remove"):
        answer = await machine.ask(action)
        assert answer.reason is not None and "onboarding" in answer.reason and "is live" in answer.reason


async def test_of_two_set_bmc_intents_the_newer_supersedes_the_older(site: Site) -> None:
    machine = await site.register()
    older, newer = await machine.ask_together(
        ("set_bmc", {"address": "https://10.0.0.1"}), ("set_bmc", {"address": "https://10.0.0.2"})
    )
    assert (older.status, newer.status) == ("superseded", ACCEPTED)
    assert (await machine.look())["bmc_address"] == "https://10.0.0.2"


async def test_an_intent_that_only_verifying_forbids_waits_for_its_end(site: Site) -> None:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    waiting = await machine.tell("manage")
    site.wake()
    calls = len(site.bmc.calls)
    assert (await site.answer(waiting)).status == "pending"
    site.bmc.let_go()
    await site.settled()
    assert (await site.answer(waiting)).status == ACCEPTED
    assert len(site.bmc.calls) == calls + 1, "it was verified once more"


async def test_a_delete_does_not_wait_for_a_bmc(site: Site) -> None:
    machine = await site.verifying(await site.with_bmc(auto_manage=False))
    asked = await machine.tell("delete")
    await site.cut_short()
    assert (await site.answer(asked)).status == ACCEPTED
    assert (await machine.look())["status"] == "deleted"
    assert len(site.bmc.calls) == 1, "nothing was read again"


# --- resume


async def test_resume_issues_no_second_task_while_one_is_queued_or_leased(site: Site) -> None:
    machine = await site.draining()
    assert (await machine.ask("resume")).reason == "task node.drain is in progress"
    lease = await machine.claim(TaskType.DRAIN)
    assert (await machine.ask("resume")).reason == "task node.drain is in progress"
    assert [task["status"] for task in await machine.tasks()] == ["dispatched"]
    assert lease is not None
    await machine.end(lease)
    assert (await machine.state())[0] == "retired"


async def test_resume_issues_a_task_again_whose_lease_ran_out(site: Site) -> None:
    machine = await site.draining()
    await machine.claim(TaskType.DRAIN, lease=10 * SECOND)
    answers = await machine.ask_together(("resume", {}), ("resume", {}), later=11 * SECOND)
    assert answers[0] == Answer(ACCEPTED, "task node.drain was issued again")
    assert [(t["status"], t["attempt"]) for t in await machine.tasks()] == [("expired", 1), ("queued", 2)]


async def test_an_insert_without_a_version_has_the_oldest_and_learns_the_newest(site: Site) -> None:
    machine = await site.active()
    notices: list[str] = []
    site.conn.add_log_listener(lambda _conn, notice: notices.append(notice.message))
    given = "INSERT INTO farrier.intents (node, action, params, api_version) VALUES ($1, $2, $3::jsonb, $4)"
    await site.conn.execute(given, machine.name, "quarantine", '{"reason": "x"}', 1)
    await site.conn.execute(given, machine.name, "release", "{}", None)
    await site.settled()  # the driver reports a notice a moment after the statement
    assert notices == ["without api_version, an intent has version 1; the newest version is 2"]
    with pytest.raises(pg.PostgresError, match="this intent has none, which means 1") as refused:
        await site.conn.execute(given, machine.name, "pause", '{"reason": "x"}', None)
    assert "api_version" in (refused.value.hint or "")


# --- at the wrong moment


async def test_two_clients_that_name_the_same_nodes_in_opposite_order_both_commit(site: Site) -> None:
    one, other = await site.active(), await site.active()
    async with site.db.connect() as second:
        mine, theirs = site.conn.transaction(), second.transaction()
        await mine.start()
        await theirs.start()
        for conn, first, then in ((site.conn, one, other), (second, other, one)):
            await insert(conn, "release", node=first.name)
            await insert(conn, "release", node=then.name)
        await mine.commit()
        await theirs.commit()
    await site.settled()
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.intents WHERE status = 'rejected'") == 4


async def test_a_client_that_idles_delays_nothing_but_its_own_intent(site: Site) -> None:
    machine = await site.active()
    async with site.db.connect() as client:
        idle = client.transaction()
        await idle.start()
        id_ = await insert(client, "quarantine", '{"reason": "x"}', machine.name)
        await site.wait(4 * MINUTE)
        await machine.beat()
        await machine.asked("drain")
        assert await machine.path() == ["bootstrap_issued", "enrolling", "active", "offline", "active", "draining"]
        await idle.commit()
    await site.settled()
    assert (await site.answer(id_)).status == "rejected"
