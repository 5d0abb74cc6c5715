"""Bootstrap tokens and heartbeats: which agents may act for a node, and which calls are refused or enqueue the node."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from farrier.model.machine import bootstrap
from farrier.model.machine.health import Health
from tests.support import pg, tokens
from tests.support import woken as wakes_of
from tests.support.site import HOUR, MINUTE, SECOND, Machine, Site, as_json

TOKEN = tokens.named("token")

ENROLL = "SELECT * FROM farrier.enroll_agent($1, $2::jsonb)"
BEAT = "SELECT farrier.heartbeat($1, $2::jsonb, $3)"


async def refusal(site: Site, statement: str, *arguments: Any) -> tuple[str | None, str]:
    """SQLSTATE and text of the statement's refusal."""
    with pytest.raises(pg.PostgresError) as refused:
        await site.conn.fetch(statement, *arguments)
    return refused.value.sqlstate, str(refused.value)


# --- tokens


async def test_a_generated_token_has_the_documented_form(site: Site) -> None:
    machine = await site.register()
    token = await site.conn.fetchval("SELECT farrier.issue_bootstrap($1)", machine.name)
    assert re.fullmatch("fbt_[0-9a-f]{72}", token) and token == bootstrap.token(token[4:68])
    await machine.enroll(token)


@pytest.mark.parametrize(
    "spoil", [str.upper, lambda t: t[:-1], lambda t: t + "0", lambda t: t[4:], lambda t: t[:9] + "z" + t[10:]]
)
async def test_a_cut_or_mistyped_token_is_refused_without_a_lookup(site: Site, spoil: Any) -> None:
    machine = await site.register(bootstrap_token="token")
    spoilt = spoil(tokens.named("token"))
    mistyped = tokens.named("token")[:-1] + ("1" if tokens.named("token")[-1] == "0" else "0")
    # The call does not look for a stored token, so it does not wait for the lock.
    async with site.db.connect() as holder, holder.transaction():
        await holder.execute("LOCK TABLE farrier.bootstrap_tokens")
        for given in (spoilt, mistyped, ""):
            sqlstate, text = await refusal(site, ENROLL, given, "{}")
            assert sqlstate == "FR400" and f"got {len(given)} characters" in text and (not given or given not in text)
        sqlstate, _ = await refusal(site, "SELECT farrier.register_node('x', bootstrap_token => $1)", spoilt)
        assert sqlstate == "FR400"
    await machine.enroll("token")


async def test_a_token_is_not_stored(site: Site) -> None:
    await site.register(bootstrap_token="open-sesame")
    rows = await site.conn.fetch("SELECT t::text AS row FROM farrier.bootstrap_tokens t")
    assert len(rows) == 1 and tokens.named("open-sesame")[4:68] not in rows[0]["row"]


async def test_a_token_expires_after_three_days(site: Site) -> None:
    await site.register(bootstrap_token="early")
    await site.register(bootstrap_token="late")
    await site.wait(72 * HOUR - SECOND)
    await site.conn.fetch(ENROLL, tokens.named("early"), "{}")
    await site.wait(SECOND)
    sqlstate, text = await refusal(site, ENROLL, tokens.named("late"), "{}")
    assert sqlstate == "FR403" and "expired at" in text


async def test_a_revoked_or_unknown_token_is_refused(site: Site) -> None:
    machine = await site.register(bootstrap_token="token")
    await site.conn.execute("SELECT farrier.revoke_bootstrap($1)", machine.name)
    assert "was revoked at" in (await refusal(site, ENROLL, tokens.named("token"), "{}"))[1]
    assert "unknown bootstrap token" in (await refusal(site, ENROLL, tokens.named("other"), "{}"))[1]
    assert (await machine.state())[0] == "bootstrap_issued"


async def test_a_token_lives_for_a_sensible_time(site: Site) -> None:
    machine = await site.register()
    register = f"SELECT farrier.register_node('gpu-x', bootstrap_token => '{TOKEN}', bootstrap_ttl => $1)"
    for ttl in (timedelta(0), -SECOND, timedelta(days=31), None):
        assert (await refusal(site, "SELECT farrier.issue_bootstrap($1, $2)", machine.name, ttl))[0] == "FR400"
        assert (await refusal(site, register, ttl))[0] == "FR400"


async def test_a_new_agent_of_a_node_ends_the_old_one(site: Site) -> None:
    machine = await site.active()
    old = machine.key
    await machine.enroll()
    sqlstate, text = await refusal(site, BEAT, machine.name, "{}", old)
    assert sqlstate == "FR403" and "wrong agent key" in text
    await machine.beat()


async def test_malformed_facts_are_refused_and_the_token_stays_good(site: Site) -> None:
    machine = await site.register(bootstrap_token="token")
    for facts in ("[]", None, as_json({"dmi": "x" * 70_000})):
        assert (await refusal(site, ENROLL, tokens.named("token"), facts))[0] == "FR400"
    await machine.enroll("token")


# --- registration


async def test_a_name_that_is_not_usable_is_refused(site: Site) -> None:
    for name in ("", "12", "-gpu", "gpu 1", "x" * 254, None):
        sqlstate, text = await refusal(site, "SELECT farrier.register_node($1)", name)
        assert sqlstate == "FR400" and "is not valid" in text, name


ONE_OF = "INSERT INTO farrier.nodes (name, status, management) VALUES ($1, 'enrolling', 'unmanaged') RETURNING name"
OF_NAMES = """
    SELECT DISTINCT pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
     WHERE t.relnamespace = 'farrier'::regnamespace AND c.conname IN ('node_name_form', 'resources_name_check')
"""


async def test_the_form_of_names_is_checked_in_every_table_for_every_writer(every_db: pg.Database) -> None:
    usable = ("a", "Z9", "0a", "1.2", "a._-b", "1" * 252 + "x", "x" * 253)
    unusable = ("", "0", "0123456789", "1" * 253, "x" * 254, "1" * 253 + "x", "-a", "a.", "_", "7-", "a b", "a/b")
    lines = ("a\n", "\na", "a\nb", "1\n", "1\n2", "a\r", "a\t")
    letters = ("\u00e4", "a\u00e4a", "a\u00e4", "\u0661\u0662", "x" * 252 + "\u00e9")
    async with every_db.connect() as conn:
        assert len(await conn.fetch(OF_NAMES)) == 1
        for name in usable:
            assert await conn.fetchval(ONE_OF, name) == name
        for name in (*unusable, *lines, *letters):
            with pytest.raises(pg.PostgresError) as refused:
                await conn.fetchval(ONE_OF, name)
            assert refused.value.sqlstate == "23514" and "node_name_form" in str(refused.value), name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("labels => '[]'", "labels must be a JSON object"),
        ("labels => NULL", "labels must be a JSON object"),
        ("agentless => NULL", "true or false"),
        ("bmc_address => ' '", "without blanks"),
        ("bmc_credential => ''", "without blanks"),
        ("bootstrap_token => ''", "this is not a bootstrap token"),
    ],
)
async def test_a_detail_that_makes_no_sense_is_refused(site: Site, given: str, told: str) -> None:
    with pytest.raises(pg.PostgresError) as refused:
        await site.conn.execute(f"SELECT farrier.register_node('gpu-1', {given})")
    assert refused.value.sqlstate == "FR400"
    assert told in f"{refused.value} {getattr(refused.value, 'hint', '')}"


async def test_name_mac_bmc_and_token_belong_to_one_node(site: Site) -> None:
    await site.register(
        "gpu-1",
        macs=["02:00:00:00:00:01"],
        bmc_address="https://10.0.0.1",
        bmc_credential="env:B",
        bootstrap_token="token",
    )
    for statement, told in (
        ("SELECT farrier.register_node('gpu-1')", "gpu-1 is already registered"),
        ("SELECT farrier.register_node('x', macs => '{02-00-00-00-00-01}')", "already belongs to node gpu-1"),
        (f"SELECT farrier.register_node('x', bootstrap_token => '{TOKEN}')", "was used before"),
        ("SELECT farrier.register_node('x', bmc_address => 'https://10.0.0.1')", "already belongs to node gpu-1"),
    ):
        sqlstate, text = await refusal(site, statement)
        assert sqlstate == "23505" and told in text


# --- heartbeats


MALFORMED = (
    "[]",
    "null",
    '{"ok": "yes"}',
    '{"ok": null}',
    '{"alerts": {}}',
    '{"alerts": null}',
    '{"alerts": ["hot"]}',
    '{"alerts": [{"message": "no id"}]}',
    '{"alerts": [{"id": 5}]}',
    '{"alerts": [{"id": "hot", "message": null}]}',
    '{"alerts": [{"id": "hot", "blocks_scheduling": "yes"}]}',
    '{"ssh_seed": "perhaps"}',
    '{"ssh_seed": null}',
    '{"ssh_seed": 1}',
    as_json({"alerts": [{"id": "x" * 70_000}]}),
)
WELL_FORMED: tuple[dict[str, Any], ...] = (
    {},
    {"ok": False},
    {"ok": True, "alerts": []},
    {"alerts": [{"id": "hot"}, {"id": "hot", "message": "85 °C", "blocks_scheduling": False}]},
    {"ssh_seed": "ok"},
    {"ssh_seed": "unknown", "of_a_later_agent": [1, None]},
)


async def test_a_malformed_health_is_refused(site: Site) -> None:
    machine = await site.enrolled()
    for health in MALFORMED:
        assert (await refusal(site, BEAT, machine.name, health, machine.key))[0] == "FR400", health
    assert (await machine.state())[0] == "enrolling"


async def test_every_health_report_that_the_database_accepts_is_decoded_by_the_handler(site: Site) -> None:
    for health in WELL_FORMED:
        machine = await site.enrolled()
        await machine.report(health)
        healthy = health.get("ok", True)
        assert (await machine.state())[0] == ("active" if healthy else "enrolling"), health


def test_every_field_of_a_health_report_is_tested() -> None:
    assert set(Health.__struct_fields__) == {"ok", "alerts", "ssh_seed"}


async def test_a_heartbeat_needs_an_agent_and_its_key(site: Site) -> None:
    stranger, machine = await site.register(), await site.active()
    assert "has no enrolled agent" in (await refusal(site, BEAT, stranger.name, "{}", "key"))[1]
    for key in ("wrong", "", None):
        assert (await refusal(site, BEAT, machine.name, "{}", key))[0] == "FR403"


async def woken(machine: Machine) -> int:
    """How often the node was enqueued."""
    await wakes_of.count(machine.site.conn)
    return await wakes_of.times(machine.site.conn, "node", machine.id)


async def test_a_heartbeat_enqueues_its_node_only_if_it_reports_a_change(site: Site) -> None:
    machine = await site.enrolled()

    async def wakes(**health: Any) -> bool:
        before = await woken(machine)
        await machine.report(health)
        return await woken(machine) > before

    assert await wakes(ok=True), "the first heartbeat"
    assert not await wakes(ok=True)
    await site.db.advance(2 * MINUTE)
    assert not await wakes(ok=True), "a heartbeat on time"
    assert await wakes(ok=True, alerts=[{"id": "hot"}]), "another health"
    assert not await wakes(ok=True, alerts=[{"id": "hot"}])
    await site.db.advance(3 * MINUTE + SECOND)
    assert await wakes(ok=True, alerts=[{"id": "hot"}]), "back after a silence"


async def test_only_the_first_three_failed_ssh_seeds_enqueue_the_node(site: Site) -> None:
    machine = await site.enrolled()
    seen = []
    for _ in range(5):
        before = await woken(machine)
        await machine.report({"ssh_seed": "failed"})
        seen.append(await woken(machine) > before)
    assert seen == [True, True, True, False, False]
