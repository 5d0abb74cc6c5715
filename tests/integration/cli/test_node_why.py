"""`farrier node why` reports what is slow, silent or unanswered, with what to do about it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt, force
from tests.support import owners, pg

# A deployment that waits for MAAS, whose region stopped answering two minutes ago.
DEPLOYING = """
    WITH region AS (
        INSERT INTO farrier.maas_regions (name, site, url, state, state_entered_at, complete_at, last_error)
        VALUES ('demo-1', 'demo-1', 'http://maas', 'failing', farrier.now() - interval '2 min',
                farrier.now() - interval '2 min', 'events: unreachable: connection refused')),
    onboarding AS (
        UPDATE farrier.node_onboardings o
           SET mode = 'deploy', status = 'running', stage = 'wait_for_deployed',
               stage_entered_at = farrier.now() - interval '3 h', mode_given_at = farrier.now() - interval '3 h'
          FROM farrier.nodes n WHERE n.id = o.node_id),
    seen AS (
        UPDATE farrier.node_observations
           SET state = 'deploying', since = farrier.now() - interval '3 h', stale_since = NULL,
               read_at = farrier.now() - interval '12 min',
               detail = '{"status": 9, "status_name": "Deploying"}'),
    said AS (
        INSERT INTO farrier.outcomes (kind, id, at, outcome)
        SELECT 'node', n.id, farrier.now() - interval '3 h', '{"outcome": "wait", "source": "farrier/x.py:52",
               "reason": "waits for MAAS to deploy the machine: starting the machine"}'
          FROM farrier.nodes n)
    SELECT
"""
PAUSED = "UPDATE farrier.nodes SET paused = jsonb_build_object('reason', 'hands in it', 'at', farrier.now())"
ACCEPTED = "UPDATE farrier.intents SET status = 'accepted', answered_at = farrier.now() WHERE status = 'pending'"


async def run(db: pg.Database) -> None:
    """Register a live controller of nodes that has no lag."""
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 0.0})


@pytest.fixture
async def _deploying(farrier: Prompt, db: pg.Database) -> None:
    await db.freeze()
    await farrier("node", "add", "gpu-1", "--site", "demo-1", "--maas-id", "abc123")
    await force(db, DEPLOYING)
    await run(db)


@pytest.mark.usefixtures("_deploying")
async def test_why_of_a_slow_deployment_names_the_failing_region(farrier: Prompt) -> None:
    said = (await farrier("node", "why", "gpu-1")).out
    for part in (
        "reason      waits for MAAS to deploy the machine: starting the machine",
        "2h above its limit of 1h",
        "MAAS of site demo-1, failing for 2m: events: unreachable: connection refused",
        "deploying (Deploying), read 12m ago",
        "the MAAS region of site demo-1 has failed for 2m; farrier site list shows its error",
    ):
        assert part in said
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert (why["maas"]["state"], why["command"]) == ("deploying", None)


@pytest.mark.usefixtures("_deploying")
async def test_an_observation_counts_as_fresh_while_the_events_are_complete(farrier: Prompt, db: pg.Database) -> None:
    await force(
        db, "UPDATE farrier.node_onboardings SET stage_entered_at = farrier.now(), mode_given_at = farrier.now()"
    )
    await force(db, "UPDATE farrier.maas_regions SET state = 'observing'")
    assert (await farrier("node", "why", "gpu-1", "--json")).json["advice"] == "no action is needed"
    await force(db, "UPDATE farrier.maas_regions SET complete_at = farrier.now() - interval '7 min'")
    assert "in MAAS 7m ago" in (await farrier("node", "why", "gpu-1", "--json")).json["advice"]


@pytest.mark.usefixtures("_deploying")
async def test_a_setting_defines_when_an_observation_is_too_old(
    farrier: Prompt, db: pg.Database, tmp_path: Path
) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text('[node]\nobservation_ttl = "90s"\n')
    await force(db, "UPDATE farrier.maas_regions SET state = 'observing'")
    why = (await farrier("node", "why", "gpu-1", "--json", "--config", file)).json
    assert "in MAAS 2m ago" in why["advice"]


async def test_an_unanswered_intent_is_reported_with_the_missing_controller(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    await run(db)
    await farrier("intent", "submit", "gpu-1", "quarantine", "reason=fans", "--requested-by", "root")
    await db.advance(timedelta(seconds=25))
    early = (await farrier("node", "why", "gpu-1")).out
    assert re.search(r"\(quarantine by root\) unanswered for \d\ds\b", early) and "farrier run" not in early
    await db.advance(timedelta(seconds=40))
    late = (await farrier("node", "why", "gpu-1")).out
    assert re.search(r"\(quarantine by root\) unanswered for 1m \d+s\b", late)
    assert "no controller runs its handler: check that farrier run is up" in late
    (request,) = (await farrier("node", "why", "gpu-1", "--json")).json["unanswered"]
    assert (request["action"], request["requested_by"]) == ("quarantine", "root")


async def test_why_names_the_client_of_a_pause_and_the_command_that_ends_it(farrier: Prompt, db: pg.Database) -> None:
    await farrier("node", "add", "gpu-1")
    for who, reason in (("bob", "earlier"), ("alice", "hands in it"), ("carol", "hands in it")):
        await farrier("intent", "submit", "gpu-1", "pause", f"reason={reason}", "--requested-by", who)
        if who == "alice":
            await force(db, PAUSED)
        await force(db, ACCEPTED)
        await db.advance(timedelta(minutes=1))
    await run(db)
    said = (await farrier("node", "why", "gpu-1")).out
    assert "unpause: hands in it" in said and "paused by" in said and "alice" in said
    assert said.splitlines()[-1].split() == ["command", "farrier", "node", "unpause", "gpu-1"]


async def test_why_names_the_client_of_a_quarantine_only_while_it_is_the_cause(
    farrier: Prompt, db: pg.Database
) -> None:
    await farrier("node", "add", "gpu-1")
    await farrier("intent", "submit", "gpu-1", "quarantine", "reason=fans", "--requested-by", "alice")
    await force(db, ACCEPTED)
    await force(db, "UPDATE farrier.nodes SET status = 'quarantined'")
    await force(
        db,
        "INSERT INTO farrier.node_conditions (node, source, id, requested, effect) "
        "VALUES (1, 'operator', 'a', 'quarantine', 'quarantine')",
    )
    assert (await farrier("node", "why", "gpu-1", "--json")).json["quarantined_by"] == "alice"
    await force(db, "UPDATE farrier.node_conditions SET source = 'agent'")
    assert (await farrier("node", "why", "gpu-1", "--json")).json["quarantined_by"] is None


async def test_a_timeout_without_a_controller_refers_to_why_which_advises_farrier_run(
    farrier: Prompt, db: pg.Database
) -> None:
    await farrier("node", "add", "gpu-1")
    late = await farrier("intent", "submit", "gpu-1", "delete", "--wait", "--timeout", "1s", ends=ExitCode.FAILED)
    assert "run farrier resource why node NAME" in late.err
    assert "check that farrier run is up" in (await farrier("node", "why", "gpu-1")).out
