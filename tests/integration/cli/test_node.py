"""`farrier node`: registers, lists, shows and explains nodes, as text and as JSON."""

from __future__ import annotations

from datetime import timedelta

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt, force
from tests.support import owners, pg

OFFLINE = """
    UPDATE farrier.nodes SET status = 'offline', status_entered_at = farrier.now(), live_workflow_kind = NULL,
           live_workflow_id = NULL WHERE name = $1
"""


async def names(farrier: Prompt, *options: object) -> list[str]:
    return [node["name"] for node in (await farrier("node", "list", "--json", *options)).json]


async def test_a_registration_stores_all_given_details(farrier: Prompt) -> None:
    said = await farrier(
        *("node", "add", "gpu-1", "--bmc-address", "https://192.0.2.1", "--bmc-credential", "file:/run/creds/1"),
        *("--mac", "52:54:00:00:00:01", "--mac", "52:54:00:00:00:02", "--label", "rack=r1", "--label", "row=a=b"),
        *("--site", "ams1", "--model", "hgx", "--maas-id", "abc", "--agentless", "--no-auto-manage", "--json"),
    )
    shown = (await farrier("node", "show", said.json["id"], "--json")).json
    assert said.json == {"id": shown["id"], "name": "gpu-1"}
    expected = {
        "name": "gpu-1",
        "status": "enrolling",
        "management": "enroll",
        "bmc_address": "https://192.0.2.1",
        "bmc_credential": "file:/run/creds/1",
        "labels": {"rack": "r1", "row": "a=b"},
        "site": "ams1",
        "model": "hgx",
        "maas_id": "abc",
        "agentless": True,
        "auto_manage": False,
    }
    assert {name: shown[name] for name in expected} == expected


async def test_a_bootstrap_token_is_printed_once_and_the_agent_can_enrol_with_it(
    farrier: Prompt, db: pg.Database
) -> None:
    said = (await farrier("node", "add", "gpu-1", "--bootstrap", "--json")).json
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT node FROM farrier.enroll_agent($1)", said["bootstrap_token"]) == said["id"]
    assert said["bootstrap_token"] not in (await farrier("node", "show", "gpu-1", "--json")).out


async def test_a_new_token_revokes_the_earlier_one(farrier: Prompt, db: pg.Database) -> None:
    first = (await farrier("node", "add", "gpu-1", "--bootstrap", "--json")).json["bootstrap_token"]
    second = (await farrier("node", "bootstrap", "gpu-1", "--json")).json["bootstrap_token"]
    async with db.connect() as conn:
        with pytest.raises(pg.PostgresError, match="revoked"):
            await conn.fetchval("SELECT node FROM farrier.enroll_agent($1)", first)
        assert await conn.fetchval("SELECT node FROM farrier.enroll_agent($1)", second)


async def test_an_invalid_registration_is_refused_with_a_message(farrier: Prompt) -> None:
    await farrier(
        *("node", "add", "gpu-1", "--mac", "52:54:00:00:00:01", "--bmc-address", "https://192.0.2.1"),
        *("--maas-id", "abc"),
    )
    for options, code, text in (
        (["no such name"], ExitCode.USAGE, "is not valid"),
        (["gpu-2", "--mac", "nonsense"], ExitCode.USAGE, "macaddr"),
        (["gpu-2", "--label", "rack"], ExitCode.USAGE, "expected KEY=VALUE"),
        (["gpu-1"], ExitCode.REFUSED, "already registered"),
        (["gpu-2", "--mac", "52:54:00:00:00:01"], ExitCode.REFUSED, "belongs to node gpu-1"),
        (["gpu-2", "--bmc-address", "https://192.0.2.1"], ExitCode.REFUSED, "belongs to node gpu-1"),
        (["gpu-2", "--maas-id", "abc"], ExitCode.REFUSED, "another node of this site has the same MAAS ID"),
    ):
        refused = await farrier("node", "add", *options, ends=code)
        assert text in " ".join(refused.err.replace("│", " ").split())
        assert not refused.out
        assert await names(farrier) == ["gpu-1"]


async def test_the_list_is_sorted_by_name_and_can_be_filtered(farrier: Prompt) -> None:
    for name, *options in (("b",), ("a", "--site", "ams1", "--bmc-address", "bmc-a"), ("c", "--bootstrap")):
        await farrier("node", "add", name, *options)
    assert await names(farrier) == ["a", "b", "c"]
    assert await names(farrier, "--status", "bootstrap_issued") == ["c"]
    assert await names(farrier, "--status", "bootstrap_issued", "--status", "enrolling") == ["a", "b", "c"]
    assert await names(farrier, "--management", "enroll") == ["a"]
    assert await names(farrier, "--site", "ams1", "--status", "bootstrap_issued") == []


async def test_nodes_above_an_sla_come_first_and_the_worst_on_top(farrier: Prompt, db: pg.Database) -> None:
    await db.freeze()
    for name in ("a", "b", "c", "d"):
        await farrier("node", "add", name)
    await force(db, OFFLINE, "d")
    await db.advance(timedelta(minutes=5))
    await force(db, OFFLINE, "c")
    await db.advance(timedelta(minutes=40))
    listed = (await farrier("node", "list", "--json")).json
    assert [node["name"] for node in listed] == ["d", "c", "a", "b"]
    assert [clock["layer"] for clock in listed[0]["above_sla"]] == ["status"]
    assert 15 * 60 <= listed[0]["above_sla"][0]["above"] < 16 * 60
    assert listed[2]["above_sla"] == []
    table = (await farrier("node", "list")).out.splitlines()
    assert [line.split()[0] for line in table] == ["NODE", "d", "c", "a", "b"]
    assert "15m (status: offline)" in table[1]


async def test_breaches_name_each_clock_and_its_time_above_the_limit(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "a")
    assert (await farrier("sla", "breaches", "--json")).json == []
    await force(db, OFFLINE, "a")
    await db.advance(timedelta(minutes=31))
    (breach,) = (await farrier("sla", "breaches", "--json")).json
    assert (breach["kind"], breach["name"]) == ("node", "a")
    assert (breach["layer"], breach["state"], breach["limit"]) == ("status", "offline", 1800)
    assert 60 <= breach["above"] < 120
    assert "offline" in (await farrier("sla", "breaches")).out
    assert (await farrier("sla", "breaches", "-o", "name")).out == "a\n"


async def test_why_reports_what_the_node_waits_for_since_when_and_an_advice(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    async with db.connect() as conn:
        await conn.execute(
            """
            INSERT INTO farrier.outcomes (kind, id, at, outcome)
            SELECT 'node', id, farrier.now(), '{"outcome": "wait", "reason": "needs a mode", "source": "x.py:7"}'
              FROM farrier.nodes
            """
        )
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 0.0})
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert (why["reason"], why["source"], why["errors"]) == ("needs a mode", "x.py:7", [])
    assert "onboard" in why["advice"]
    said = (await farrier("node", "why", "gpu-1")).out
    for part in ("needs a mode", "x.py:7", "status enrolling for ", ", no limit", "submit onboard with mode"):
        assert part in said


async def managed(farrier: Prompt, db: pg.Database, power: str) -> None:
    """A node whose BMC is managed, with these fields of its power."""
    details = ("--bmc-address", "https://10.0.0.1", "--bmc-credential", "file:/run/creds/1")
    await farrier("node", "add", "gpu-1", *details)
    known = f"jsonb_build_object('power_at', farrier.now(), {power})"
    await force(db, f"UPDATE farrier.nodes SET management = 'manageable', bmc = {known}")


async def test_power_that_cannot_be_read_is_shown_with_the_age_of_what_is_known(
    farrier: Prompt, db: pg.Database
) -> None:
    await managed(farrier, db, "'power', 'on', 'sync_failure', 'tls', 'sync_error', 'not trusted'")
    await db.advance(timedelta(hours=2))
    shown = (await farrier("node", "show", "gpu-1")).out
    assert "on, read 2h ago" in shown and "tls: not trusted" in shown
    assert "or more recently" not in shown


async def test_power_is_shown_as_read_at_its_stored_time_or_later(farrier: Prompt, db: pg.Database) -> None:
    await db.freeze()
    await managed(farrier, db, "'power', 'on'")
    await db.advance(timedelta(minutes=8))
    assert "on, read 8m ago or more recently" in (await farrier("node", "show", "gpu-1")).out


async def test_a_power_that_cannot_be_enforced_is_shown(farrier: Prompt, db: pg.Database) -> None:
    await managed(farrier, db, "'power', 'off', 'desired_power', 'on', 'enforce_error', 'unsupported: no action'")
    assert "unsupported: no action" in (await farrier("node", "show", "gpu-1")).out
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert why["errors"] == ["power is off, target power is on: unsupported: no action"]


async def test_ports_addresses_and_memberships_of_a_node_are_shown(farrier: Prompt, db: pg.Database) -> None:
    id_ = (await farrier("node", "add", "gpu-1", "--json")).json["id"]
    assert "IB ports" not in (await farrier("node", "show", "gpu-1")).out
    prefixes = '{"site": "ams", "prefixes": ["10.9.0.0/24"]}'
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.set_ib_ports('gpu-1', '{}')")
        assert "none" in (await farrier("node", "show", "gpu-1")).out
        await conn.execute("SELECT farrier.set_ib_ports('gpu-1', '{0002c903000e0001}')")
        await conn.execute(
            "SELECT farrier.resource_intent('network_segment', 'lan', 'create', $1::text::jsonb)", prefixes
        )
        await conn.execute("UPDATE farrier.network_segments SET state = 'ready'")
        await conn.execute("SELECT farrier.allocate_address('lan', 'gpu-1', node => $1)", id_)
        await conn.execute("SELECT farrier.set_pool('pkey:ams', 1, 9)")
        await conn.execute("SELECT farrier.resource_intent('ib_partition', 'ib', 'create', '{\"site\": \"ams\"}')")
        await conn.execute("SELECT farrier.join_partition('ib', '0002c903000e0001', 'gpu-1', $1)", id_)
    said = (await farrier("node", "show", "gpu-1")).out
    for part in ("0002c903000e0001", "10.9.0.1 of lan", "ib: 0002c903000e0001 pending"):
        assert part in said


async def test_an_error_without_a_class_is_shown_without_one(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    await force(db, """UPDATE farrier.nodes SET management = 'error', bmc = '{"last_error": "details were removed"}'""")
    shown = (await farrier("node", "show", "gpu-1")).out
    assert "details were removed" in shown
    assert "None" not in shown


async def test_why_of_a_node_without_a_controller_names_the_missing_controller(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1")
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert (why["reason"], why["run_by"]) == ("waits for its first run", "no controller")
    assert "farrier run" in why["advice"]


async def test_why_of_a_node_with_a_lagging_controller_names_the_lag(farrier: Prompt, db: pg.Database) -> None:
    await db.freeze()
    await farrier("node", "add", "gpu-1")
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 600.0})
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert why["run_by"] == "rack-1, shard swept 10m ago"
    assert "farrier run" in why["advice"]
    assert "rack-1, shard swept 10m ago" in (await farrier("node", "why", "gpu-1")).out


async def test_an_unknown_node_is_refused_by_every_command(farrier: Prompt) -> None:
    for command in (["node", "show"], ["node", "why"], ["node", "history"], ["task", "list"], ["node", "bootstrap"]):
        refused = await farrier(*command, "gpu-9", ends=ExitCode.REFUSED)
        assert "no node is named 'gpu-9'" in refused.err
        assert "hint: " in refused.err


async def test_escape_sequences_in_stored_text_are_not_printed(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    async with db.connect() as conn:
        await conn.execute("UPDATE farrier.nodes SET site = $1", "\x1b[31mred[bold]")
    assert "\x1b" not in (await farrier("node", "list")).out
    assert "[31mred[bold]" in (await farrier("node", "show", "gpu-1")).out


async def test_a_limit_of_one_site_applies_to_this_site_and_is_listed_last(
    farrier: Prompt, db: pg.Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name, site in (("a", "north"), ("b", "south")):
        await farrier("node", "add", name, "--site", site)
        await force(db, OFFLINE, name)
    await db.advance(timedelta(minutes=31))
    file = tmp_path_factory.mktemp("config") / "farrier.toml"
    file.write_text('[sla.site.north]\nstatus.offline = "1h"\n')
    breaches = (await farrier("sla", "breaches", "--json", "--config", file)).json
    assert [breach["name"] for breach in breaches] == ["b"]
    limits = (await farrier("sla", "list", "--json", "--config", file)).json
    assert limits[-1] == {
        "section": "sla.site.north",
        "key": "status.offline",
        "limit": 3600,
        "changed": True,
        "note": "",
    }
    assert "site north" in (await farrier("sla", "list", "--config", file)).out


async def test_a_node_is_shown_with_the_recommended_next_action(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    await force(db, """UPDATE farrier.nodes SET paused = '{"reason": "mine", "at": "2026-01-01T00:00:00Z"}'""")
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 2.0})
    following = (await farrier("node", "show", "gpu-1", "--json")).json["next_action"]
    assert following["command"] == "farrier node unpause gpu-1"
    shown = " ".join((await farrier("node", "show", "gpu-1")).out.split())
    assert f"what to do {following['advice']} command {following['command']}" in shown
