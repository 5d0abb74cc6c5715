"""`farrier run` as a process: how it starts, what it says, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest

from farrier.io.connections.embedded import EmbeddedServer
from farrier.io.kinds import packages
from farrier.sim.certificates import Authority
from farrier.wiring.kinds import installable
from tests.support import bmc, deaf, pg
from tests.support.process import ANY_PORTS, PATIENCE, Farrier, farrier, replica, serving, until

UP = ["daemon.starting", "http.listening", "database.reached", "schema.current", "daemon.ready"]
DOWN = ["signal.stop", "drain.begun", "drain.done", "database.closed", "daemon.stopped"]
RACK = "SELECT farrier.register_node(format('gpu-%s-%s', $1::integer, n)) FROM generate_series(1, 100) n"
QUARANTINE = """
    INSERT INTO farrier.intents (node, action, params)
    SELECT name, 'quarantine', '{"reason": "a test"}'
      FROM farrier.nodes WHERE name LIKE format('gpu-%s-%%', $1::integer)
"""
ALL_QUARANTINED = "SELECT NOT EXISTS (SELECT FROM farrier.nodes WHERE status <> 'quarantined')"
MOVES = "SELECT count(*) FROM farrier.history WHERE to_value = 'quarantined'"
MOVED_BY = "SELECT DISTINCT controller FROM farrier.history WHERE from_value IS NOT NULL"
NOWHERE = "postgresql://postgres@127.0.0.1:1/farrier"


def phases(daemon: Farrier) -> list[str]:
    """The events of start and end, in the order they came; for events that each loop logs, only those of nodes."""
    own = [event for event in daemon.events if "server" not in event]
    of_nodes = (event["event"] for event in own if event.get("kind", "node") == "node")
    return [name for name in of_nodes if name in (*UP, *DOWN)]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("farrier test", now=datetime.now(UTC))


@pytest.fixture
async def slow_bmc(tmp_path: Path, authority: Authority) -> AsyncIterator[bmc.FakeBmc]:
    async with bmc.fake_bmc(tmp_path, authority) as server:
        yield server


def trusting(server: bmc.FakeBmc) -> dict[str, str]:
    """Settings that let a daemon call the server."""
    return {
        "bmc_ca_file": str(server.ca_file),
        "bmc_allowed_networks": "127.0.0.0/8",
        "credentials_bindings": bmc.BMC_ON_LOOPBACK,
        "secret_bmc": f"{bmc.USERNAME}:{bmc.PASSWORD}",
    }


async def register(db: pg.Database, server: bmc.FakeBmc, *, agentless: bool = False) -> None:
    """Register a node with this BMC, which is due now."""
    async with db.connect() as conn:
        await conn.execute(
            "SELECT farrier.register_node('gpu-1', bmc_address => $1, bmc_credential => $2, agentless => $3)",
            server.url,
            bmc.CREDENTIAL,
            agentless,
        )
        await conn.execute("SELECT farrier.enqueue('node', 1)")


async def management(db: pg.Database) -> str:
    async with db.connect() as conn:
        value: str = await conn.fetchval("SELECT management FROM farrier.nodes WHERE id = 1")
        return value


async def is_asked(server: bmc.FakeBmc) -> bool:
    """Whether the step is under way: the BMC has received the request to which it responds slowly."""
    return any(request.path == bmc.SYSTEM for request in server.requests)


async def is_free(db: pg.Database) -> bool:
    async with db.connect() as conn:
        free: bool = await conn.fetchval(
            """
            SELECT NOT EXISTS (SELECT FROM farrier.controllers)
               AND NOT EXISTS (SELECT FROM farrier.shards WHERE owner IS NOT NULL)
            """
        )
        return free


async def test_an_embedded_database_is_made_served_and_stopped(tmp_path: Path) -> None:
    async with farrier("run", "--embedded", str(tmp_path), "--metrics-port", "0", environment=ANY_PORTS) as daemon:
        await daemon.until("daemon.ready")
        assert (await daemon.get("/readyz")).text == "ready\n"
        assert (await daemon.get("/healthz")).status_code == 200
        assert "farrier_build_info" in (await daemon.get("/metrics")).text
        assert {(await daemon.get(path)).status_code for path in ("/", "/api/v1/nodes", "/style.css")} == {404}
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert phases(daemon) == UP + DOWN
    assert "daemon.stopping" in daemon.names
    assert not EmbeddedServer(tmp_path).is_running()


async def test_a_dry_run_is_answered_by_the_daemon_itself(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute("SELECT farrier.register_node('gpu-1')")
    intents: tuple[tuple[str, dict[str, str]], ...] = (("onboard", {"mode": "deploy"}), ("drain", {}), ("delete", {}))
    asked = {"intents": [{"resource": "gpu-1", "action": action, "params": params} for action, params in intents]}
    secrets = {"http_bearer_token": "env:FARRIER_SECRET_API", "secret_api": "t0k3n-of-the-daemon"}
    async with replica(db.dsn) as daemon, serving(db, **secrets) as server:
        await daemon.until("daemon.ready")
        url = (await server.until("http.listening"))["url"]
        own = {"Authorization": "Bearer t0k3n-of-the-daemon"}
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE, headers=own) as client:
            told = await client.post(f"{url}/api/v1/foreseen", json=asked)
        assert told.status_code == 200, told.text
        onboard, drain, delete = told.json()["answers"]
        assert onboard["verdict"] == "rejected" and "MAAS" in onboard["reason"], "the table of actions accepts it"
        assert drain["verdict"] == "rejected" and "enrolling" in drain["reason"]
        assert delete["verdict"] == "accepted"
        async with farrier("node", "drain", "gpu-1", "--dry-run", "--json", "--dsn", db.dsn) as command:
            assert await command.ended() == 1
        (target,) = msgspec.json.decode(command.printed)
        assert (target["answer"], target["refusal"], target["is_told"]) == ("rejected", drain["reason"], True)
    async with db.connect() as conn:
        assert not await conn.fetchval("SELECT count(*) FROM farrier.intents")


async def test_a_step_that_runs_at_the_stop_is_finished_and_committed(db: pg.Database, slow_bmc: bmc.FakeBmc) -> None:
    slow_bmc.answer(bmc.SYSTEM, bmc.Late(2.0, bmc.system()))
    async with replica(db.dsn, **trusting(slow_bmc)) as daemon:
        await daemon.until("daemon.ready")
        await register(db, slow_bmc)
        await until(lambda: is_asked(slow_bmc))
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert phases(daemon) == UP + DOWN
    assert await management(db) == "manageable"
    assert await is_free(db)


async def test_a_step_that_outlasts_the_drain_is_given_back_without_an_error(
    db: pg.Database, slow_bmc: bmc.FakeBmc
) -> None:
    slow_bmc.answer(bmc.SYSTEM, bmc.Silence())
    async with replica(db.dsn, controller_drain_timeout="0.1", **trusting(slow_bmc)) as daemon:
        await daemon.until("daemon.ready")
        await register(db, slow_bmc)
        await until(lambda: is_asked(slow_bmc))
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert "drain.cut_off" in daemon.names
    assert await management(db) == "verifying"
    assert await is_free(db)
    async with db.connect() as conn:
        assert not await conn.fetchval("SELECT count(*) FROM farrier.outcomes WHERE outcome ? 'error'")


async def test_a_second_signal_does_not_wait_for_the_drain(db: pg.Database, slow_bmc: bmc.FakeBmc) -> None:
    slow_bmc.answer(bmc.SYSTEM, bmc.Silence())
    async with replica(db.dsn, **trusting(slow_bmc)) as daemon:
        await daemon.until("daemon.ready")
        await register(db, slow_bmc)
        await until(lambda: is_asked(slow_bmc))
        daemon.send(signal.SIGTERM)
        await daemon.until("drain.begun")
        daemon.send(signal.SIGINT)
        assert await daemon.ended() == 1
    assert "drain.done" not in phases(daemon)


async def test_a_second_signal_ends_the_process_although_a_step_ignores_its_cancellation(db: pg.Database) -> None:
    async with db.connect() as conn:
        await packages.install(conn, installable(deaf.DEAF))
        await conn.execute("SELECT farrier.resource_intent('deaf', 'thing', 'create', '{}')")
    async with replica(db.dsn, controller_kinds=deaf.NAME, controller_drain_timeout="1s") as daemon:
        await daemon.until("daemon.ready")
        await until(lambda: acts(db))
        daemon.send(signal.SIGTERM)
        await daemon.until("drain.cut_off")
        daemon.send(signal.SIGINT)
        assert await daemon.ended() == 1
    assert "process.abandoned" in daemon.names


async def acts(db: pg.Database) -> bool:
    """Return whether a step has begun."""
    async with db.connect() as conn:
        return bool(await conn.fetchval("SELECT EXISTS (SELECT FROM farrier.effects WHERE kind = 'deaf')"))


@pytest.mark.full
async def test_the_work_of_a_killed_replica_is_done_by_another(db: pg.Database, slow_bmc: bmc.FakeBmc) -> None:
    slow_bmc.answer(bmc.SYSTEM, bmc.Silence(), bmc.system())
    async with replica(db.dsn, **trusting(slow_bmc)) as killed:
        await killed.until("daemon.ready")
        await register(db, slow_bmc)
        await until(lambda: is_asked(slow_bmc))
        async with replica(db.dsn, **trusting(slow_bmc)) as heir:
            inherits = await heir.until("controller.joined")
            await heir.until("daemon.ready")
            killed.send(signal.SIGKILL)
            assert await killed.ended() == -signal.SIGKILL
            assert not await is_free(db)
            await until(lambda: becomes(db, "manageable"))
    async with db.connect() as conn:
        moved_by = await conn.fetchval("SELECT controller FROM farrier.history WHERE to_value = 'manageable'")
    assert str(moved_by) == inherits["controller"]


@pytest.mark.full
async def test_an_adoption_outlives_its_killed_replica_and_the_bmc_sees_nothing_but_reads(
    db: pg.Database, slow_bmc: bmc.FakeBmc
) -> None:
    slow_bmc.answer(bmc.SYSTEM, bmc.system(), bmc.Silence(), bmc.system())
    async with replica(db.dsn, **trusting(slow_bmc)) as killed:
        await killed.until("daemon.ready")
        await register(db, slow_bmc, agentless=True)
        await until(lambda: becomes(db, "manageable"))
        verified = len(slow_bmc.requests)
        async with db.connect() as conn:
            await conn.execute("INSERT INTO farrier.intents (node, action, api_version) VALUES ('gpu-1', 'adopt', 2)")
        await until(lambda: has_more_requests(slow_bmc, verified))
        async with replica(db.dsn, **trusting(slow_bmc)) as heir:
            inherits = await heir.until("controller.joined")
            await heir.until("daemon.ready")
            killed.send(signal.SIGKILL)
            assert await killed.ended() == -signal.SIGKILL
            assert await management(db) == "adopting"
            await until(lambda: becomes(db, "manageable"))
    async with db.connect() as conn:
        ended = await conn.fetch(
            "SELECT layer, to_value, controller::text FROM farrier.history WHERE to_value IN ('reconciled', 'active')"
        )
    assert {tuple(row) for row in ended} == {
        ("onboarding", "reconciled", inherits["controller"]),
        ("status", "active", inherits["controller"]),
    }
    assert {request.method for request in slow_bmc.requests} == {"GET"}


async def has_more_requests(server: bmc.FakeBmc, than: int) -> bool:
    return any(request.path == bmc.SYSTEM for request in server.requests[than:])


async def becomes(db: pg.Database, value: str) -> bool:
    return await management(db) == value


@pytest.mark.full
async def test_replicas_share_the_work(db: pg.Database) -> None:
    """The test adds work until each replica has done some, however much faster one of them is."""
    async with replica(db.dsn, controller_batch="5") as one, replica(db.dsn, controller_batch="5") as other:
        controllers = {(await daemon.until("controller.joined"))["controller"] for daemon in (one, other)}
        moved_by: set[str] = set()
        rack = 0
        with anyio.fail_after(PATIENCE):
            async with db.connect() as conn:
                while moved_by != controllers:
                    rack += 1
                    await conn.execute(RACK, rack)
                    await conn.execute(QUARANTINE, rack)
                    await until(lambda: conn.fetchval(ALL_QUARANTINED))
                    moved_by = {str(record["controller"]) for record in await conn.fetch(MOVED_BY)}
                assert await conn.fetchval(MOVES) == 100 * rack, "each node was moved once"


@pytest.mark.full
async def test_after_a_restart_of_the_database_the_daemon_goes_on(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, settings=pg.FAST)
    dsn = await anyio.to_thread.run_sync(server.start)
    try:
        async with farrier("run", "--embedded", str(tmp_path), "--metrics-port", "0", environment=ANY_PORTS) as daemon:
            await daemon.until("daemon.ready")
            await anyio.to_thread.run_sync(server.stop)
            await until(lambda: answers(daemon, 503))
            assert "not ready: the database has" in (await daemon.get("/readyz")).text
            assert (await daemon.get("/healthz")).status_code == 200
            await anyio.to_thread.run_sync(server.start)
            await until(lambda: answers(daemon, 200))
            async with pg.Database(dsn).connect() as conn:
                await conn.execute("SELECT farrier.register_node('gpu-1', bmc_address => 'https://192.0.2.1')")
                await conn.execute("SELECT farrier.enqueue('node', 1)")
                await until(lambda: conn.fetchval("SELECT count(*) > 0 FROM farrier.outcomes"))
            daemon.send(signal.SIGTERM)
            assert await daemon.ended() == 0
    finally:
        await anyio.to_thread.run_sync(server.stop)


async def answers(daemon: Farrier, status: int) -> bool:
    return (await daemon.get("/readyz")).status_code == status


async def test_a_request_over_http_is_answered_by_the_loop(db: pg.Database) -> None:
    secrets = {"http_bearer_token": "env:FARRIER_SECRET_API", "secret_api": "t0k3n-of-the-daemon"}
    async with replica(db.dsn) as daemon, serving(db, **secrets) as server:
        joined = await daemon.until("controller.joined")
        await daemon.until("daemon.ready")
        async with db.connect() as conn:
            await conn.execute("SELECT farrier.register_node('gpu-1')")
        url = (await server.until("http.listening"))["url"]
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client:
            answer = await client.post(
                "/api/v1/intents?wait=20",
                json={"node": "gpu-1", "action": "quarantine", "params": {"reason": "smoke"}},
                headers={"Authorization": "Bearer t0k3n-of-the-daemon"},
            )
            assert (answer.status_code, answer.json()["status"]) == (200, "accepted")
            changes = (await client.get("/api/v1/nodes/gpu-1/history?layer=status&limit=1")).json()["changes"]
            assert (changes[0]["to"], changes[0]["controller"]) == ("quarantined", joined["controller"])
        metrics = (await daemon.get("/metrics")).text
        assert 'farrier_resources{kind="node",state="quarantined",substate=""} 1.0' in metrics
    assert "t0k3n" not in server.logged


async def test_a_reload_changes_the_log_and_names_settings_that_require_a_restart(
    db: pg.Database, tmp_path: Path
) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text("[metrics]\nport = 0\n")
    async with farrier("run", "--config", str(file), "--dsn", db.dsn) as daemon:
        await daemon.until("daemon.ready")
        file.write_text('[metrics]\nport = 0\n[node]\noffline_after = "5m"\n')
        daemon.send(signal.SIGHUP)
        assert (await daemon.until("config.reloaded"))["needs_restart"] == ["node"]
        file.write_text('[log]\nlevle = "error"\n')
        daemon.send(signal.SIGHUP)
        assert "did you mean 'level'" in (await daemon.until("config.refused"))["error"]
        daemon.send(signal.SIGHUP)  # each SIGHUP has an answer, also if the mistake is the same
        await until(partial(_has_logged, daemon, "config.refused", times=2))
        file.write_text('[log]\nlevel = "error"\n')
        daemon.send(signal.SIGHUP)
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert "daemon.stopped" not in daemon.names, "nothing below the new level is logged"


async def _has_logged(daemon: Farrier, event: str, *, times: int) -> bool:
    return daemon.names.count(event) == times


async def test_a_daemon_keeps_history_as_long_as_its_setting_says(db: pg.Database) -> None:
    async with db.connect() as conn:
        await conn.execute(
            """
            INSERT INTO farrier.history
                   (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
            SELECT 'node', 7, v, 'status', 'active', farrier.now() - v * interval '1 d', '', '', '',
                   gen_random_uuid(), 1
              FROM generate_series(1, 9) v
            """
        )
    async with replica(db.dsn, history_keep_days="5") as daemon:
        await daemon.until("daemon.ready")
        told = await daemon.until("history.pruned")
        daemon.send(signal.SIGTERM)
        assert await daemon.ended() == 0
    assert (told["deleted"], told["kept"]) == (5, 0)
    async with db.connect() as conn:
        assert await conn.fetchval("SELECT count(*) FROM farrier.history") == 4
