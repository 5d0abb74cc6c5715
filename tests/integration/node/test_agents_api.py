"""The agents' API: each call, and each bad input, which is one line and loses nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from hashlib import sha256
from typing import Any
from uuid import uuid4

import anyio
import httpx
import pytest
from typing_extensions import override

from farrier import agent as shipped
from farrier.io.calls.agents import PostgresAgentCalls
from farrier.io.connections.pool import Pool
from farrier.model.machine.agent import Beat, Enrolment
from farrier.model.node.snapshot import TaskType
from farrier.web.agents import batches, rest
from farrier.web.agents.operations import OPERATIONS, document
from tests.support import tokens
from tests.support.clock import HandClock
from tests.support.door import Agent, Door, door_on, door_pool, enrolled, registered
from tests.support.site import Machine, Site


@pytest.fixture
async def connections(site: Site) -> AsyncIterator[Pool]:
    """The connections of a server for agents, which have the rights of farrier_agent alone."""
    async with door_pool(site.db) as pool:
        yield pool


@pytest.fixture
async def door(connections: Pool) -> AsyncIterator[Door]:
    async with door_on(connections) as opened:
        yield opened


async def token_of(machine: Machine, ttl: timedelta = timedelta(hours=1)) -> str:
    token: str = await machine.site.conn.fetchval("SELECT farrier.issue_bootstrap($1, $2)", machine.name, ttl)
    return token


async def heard(machine: Machine) -> Any:
    return await machine.site.conn.fetchval(
        "SELECT last_heartbeat_at FROM farrier.node_agents WHERE node_id = $1", machine.id
    )


def problem_of(answer: httpx.Response, status: int) -> str:
    """The text of a refusal, which is one line of problem details."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert "\n" not in body["detail"] and "Traceback" not in answer.text
    detail: str = body["detail"]
    return detail


# --- each call


async def test_an_agent_enrolls_beats_and_does_a_task(site: Site, door: Door) -> None:
    machine, token = await registered(site)
    agent = Agent(door)
    answer = await agent.enroll(token, identity={"serial": "SN-7"}, facts={"kernel": "6.8"})
    assert (answer.status_code, answer.json()) == (200, {"node": machine.name, "interval": 1})
    answer = await agent.beat(uptime=12.5, version="0.1.0", facts_digest="1" * 64)
    assert (answer.status_code, answer.json()) == (200, {"interval": 30, "wants": ["facts"]})
    await site.settled()
    assert (await machine.state())[0] == "active"
    facts = {"serial": "SN-7", "gpus": [{"serial": "GPU-1"}]}
    assert (await agent.call("PUT", "facts", {"digest": "1" * 64, "facts": facts})).json() == {}
    assert json.loads(await site.conn.fetchval("SELECT facts FROM farrier.node_agents")) == facts

    await machine.asked("drain")
    answer = await agent.beat(facts_digest="1" * 64)
    assert answer.json()["wants"] == ["claim"] and answer.json()["interval"] <= 5
    claim = {"idempotency_key": str(uuid4()), "types": [TaskType.DRAIN], "lease": 60}
    task = (await agent.call("POST", "claim", claim)).json()["task"]
    assert (task["type"], task["attempt"]) == (TaskType.DRAIN, 1)
    assert (await agent.call("POST", "claim", claim)).json()["task"] == task, "a lost reply loses no task"
    lease = {"lease_token": task["lease_token"]}
    answer = await agent.call("POST", f"task/{task['id']}/renew", {**lease, "lease": 600})
    assert answer.json()["lease_until"] > task["lease_until"]
    evidence = {"by": "agent", "devices": [{"serial": "S1", "kind": "disk", "result": "erased"}]}
    finish = {**lease, "succeeded": True, "result": {"log": "done"}, "evidence": evidence}
    for _ in range(2):
        assert (await agent.call("POST", f"task/{task['id']}/finish", finish)).json() == {}
    await site.settled()
    assert (await machine.state())[0] == "retired"
    assert json.loads(await site.conn.fetchval("SELECT evidence FROM farrier.node_tasks")) == evidence
    assert (await agent.call("POST", "claim", {**claim, "idempotency_key": str(uuid4())})).json() == {"task": None}
    assert door.pulse.times > 0


async def test_a_condition_of_a_part_takes_the_node_out_of_service_and_back(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    conditions = [
        {"id": "gpu_lost", "target": "GPU-1", "message": "fell off the bus", "effect": "quarantine"},
        {"id": "fan", "target": "2", "message": "slow", "effect": "note"},
    ]
    for stated, status in (([], "active"), (conditions, "quarantined"), ([], "active")):
        assert (await agent.beat(conditions=stated)).status_code == 200
        await site.settled()
        assert (await machine.state())[0] == status
        names = {f"agent/{each['id']}": each["effect"] for each in stated}
        assert await machine.conditions() == names


async def test_a_repeated_finish_succeeds_after_an_uninstall_has_removed_the_key(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    await agent.beat()
    await site.settled()
    await machine.asked("drain")
    for type_ in (TaskType.DRAIN, TaskType.UNINSTALL):
        claim = {"idempotency_key": str(uuid4()), "types": [type_]}
        task = (await agent.call("POST", "claim", claim)).json()["task"]
        finish = {"lease_token": task["lease_token"], "succeeded": True}
        assert (await agent.call("POST", f"task/{task['id']}/finish", finish)).status_code == 200
        await site.settled()
        if type_ is TaskType.DRAIN:
            await machine.asked("remove")
    assert await site.conn.fetchval("SELECT count(*) FROM farrier.node_agents") == 0
    assert (await agent.call("POST", f"task/{task['id']}/finish", finish)).status_code == 200
    assert "the node was deleted" in problem_of(await agent.beat(), 401)


async def test_the_agents_file_is_served_with_its_digest(door: Door) -> None:
    answer = await door.client.get("/farrier-agent.pyz")
    assert (answer.status_code, answer.content) == (200, shipped.content())
    etag = answer.headers["etag"]
    assert etag == f'"{shipped.sha256()}"'
    again = await door.client.get("/farrier-agent.pyz", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")
    head = await door.client.head("/farrier-agent.pyz")
    assert (head.status_code, head.headers["etag"], head.content) == (200, etag, b"")


async def test_the_document_describes_each_operation(door: Door) -> None:
    described = (await door.client.get("/agent/v1/openapi.json")).json()
    assert described == json.loads(document())
    served = {(path, method) for path, methods in described["paths"].items() for method in methods}
    assert served == {(each.path, each.method.lower()) for each in OPERATIONS}
    for each in OPERATIONS:
        operation = described["paths"][each.path][each.method.lower()]
        assert operation["security"] == ([{"bearer": []}] if each.has_key else [{}])


# --- bad input


async def test_a_wrong_spent_revoked_or_expired_token_is_one_line(site: Site, door: Door) -> None:
    machine = await site.register()
    revoked = await token_of(machine)
    spent = await token_of(machine)
    assert (await Agent(door).enroll(spent)).status_code == 200
    expired = await token_of(machine, timedelta(seconds=1))
    await site.db.advance(timedelta(seconds=2))
    for token, text in (
        ("fbt_short", "this is not a bootstrap token"),
        (tokens.named("nobody's"), "unknown bootstrap token"),
        (spent, "this bootstrap token was used at"),
        (revoked, "this bootstrap token was revoked at"),
        (expired, "this bootstrap token expired at"),
    ):
        answer = await Agent(door).enroll(token)
        assert text in problem_of(answer, 400 if token == "fbt_short" else 403)
        assert token not in answer.text


async def test_another_machines_serial_is_refused_with_a_note_and_takes_nothing_out_of_service(
    site: Site, door: Door
) -> None:
    machine = await (await site.active()).asked("set_bmc", address="https://10.0.9.1", credential="env:BMC")
    await machine.asked("manage")
    token, agent = await token_of(machine), Agent(door)
    refused = await agent.enroll(token, identity={"serial": "SN-9", "macs": ["02:00:00:00:00:01"]})
    assert "sn-9 instead of sn-1" in problem_of(refused, 409)
    await site.settled()
    assert (await machine.state())[0] == "active"
    assert await machine.conditions() == {"identity/enrolment": "note"}
    assert (await agent.enroll(token, identity={"serial": "SN-1"})).status_code == 200, "the token stays valid"
    assert await machine.conditions() == {}


BAD_BODIES: dict[str, tuple[bytes, int, str]] = {
    "too large": (b'{"x": "' + b"x" * 65536 + b'"}', 413, "a request body has at most 65536 bytes"),
    "too deep": (b'{"x": ' + b"[" * 40 + b"]" * 40 + b"}", 400, "more than 32 levels"),
    "far too deep": (b"[" * 30000, 400, "not valid JSON"),
    "not JSON": (b"boot_id=1", 400, "not valid JSON"),
    "not UTF-8": (b'{"boot_id": "\xff"}', 400, "not valid JSON"),
    "half a character": (b'{"boot_id": "\\ud800"}', 400, "not valid JSON"),
    "a NUL": (b'{"boot_id": "\\u0000"}', 400, "NUL"),
    "an array": (b"[]", 400, "expected a JSON object"),
    "no boot_id": (b"{}", 400, "boot_id"),
    "a wrong boot_id": (b'{"boot_id": "first"}', 400, "boot_id"),
    "a wrong type": (b'{"boot_id": "%s", "ok": "perhaps"}', 400, "ok must be true or false"),
    "a wrong effect": (
        b'{"boot_id": "%s", "conditions": [{"id": "x", "effect": "delete"}]}',
        400,
        "conditions[0].effect must be one of note, quarantine",
    ),
    "a long message": (
        b'{"boot_id": "%s", "conditions": [{"id": "x", "message": "' + b"m" * 501 + b'"}]}',
        400,
        "conditions[0].message must be a text of 0 to 500 characters",
    ),
    "a number beyond a double": (b'{"boot_id": "%s", "clock": 1e999}', 400, "not valid JSON"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
async def test_a_bad_body_is_one_line_and_the_next_heartbeat_is_taken(site: Site, door: Door, case: str) -> None:
    body, status, text = BAD_BODIES[case]
    machine, agent = await enrolled(door, site)
    body = body.replace(b"%s", agent.boot_id.encode())
    answer = await door.client.post(
        "/agent/v1/heartbeat", content=body, headers={"Authorization": f"Bearer {agent.key}"}
    )
    assert text in problem_of(answer, status)
    assert await heard(machine) is None
    assert (await agent.beat()).status_code == 200


async def test_a_clock_a_day_off_is_a_note_and_the_heartbeat_counts(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    answer = await agent.beat(clock=(await site.db.now()).timestamp() - 90000)
    assert answer.status_code == 200
    await site.settled()
    assert (await machine.state())[0] == "active"
    assert await machine.conditions() == {"agent/clock_offset": "note"}


async def test_of_two_agents_with_one_key_the_later_boot_is_served(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    await agent.beat()
    copied = Agent(door)
    copied.key = agent.key
    assert (await copied.beat()).status_code == 200
    assert problem_of(await agent.beat(), 409) == "another machine uses the key of this agent, and booted later"
    assert (await copied.beat()).status_code == 200
    await site.settled()
    assert await machine.conditions() == {"identity/agent": "note"}


async def test_a_heartbeat_for_a_deleted_node_is_refused(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    async with site.conn.transaction():
        await site.conn.execute("SET LOCAL session_replication_role = replica")
        await site.conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE id = $1", machine.id)
    assert "the node was deleted, or another agent has enrolled" in problem_of(await agent.beat(), 401)


async def test_a_held_node_is_409_for_each_call(site: Site, door: Door) -> None:
    machine, agent = await enrolled(door, site)
    await site.conn.execute(
        "INSERT INTO farrier.restore_holds (kind, id, since) VALUES ('node', $1, now())", machine.id
    )
    lease = {"lease_token": str(uuid4())}
    for method, path, body in (
        ("POST", "heartbeat", {"boot_id": agent.boot_id}),
        ("PUT", "facts", {"digest": "1" * 64, "facts": {}}),
        ("POST", "claim", {"idempotency_key": str(uuid4()), "types": []}),
        ("POST", "task/1/renew", lease),
        ("POST", "task/1/finish", {**lease, "succeeded": True}),
    ):
        assert "restored from a backup" in problem_of(await agent.call(method, path, body), 409)


async def test_a_lost_task_is_410(site: Site, door: Door) -> None:
    _, agent = await enrolled(door, site)
    lease = {"lease_token": str(uuid4())}
    for path, body in (("task/7/renew", lease), ("task/7/finish", {**lease, "succeeded": True})):
        assert "not the current one of task 7" in problem_of(await agent.call("POST", path, body), 410)


@pytest.mark.parametrize("header", [None, "Basic eDp5", "Bearer"])
async def test_a_call_without_a_key_is_refused_before_the_body_is_read(door: Door, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = await door.client.post("/agent/v1/heartbeat", content=b"{", headers=headers)
    assert "a key is required" in problem_of(answer, 401)


async def test_a_path_or_method_that_is_not_in_the_api_is_a_problem(door: Door) -> None:
    for path in ("/", "/api/v1/nodes", "/agent/v1", "/agent/v1/task/x/y/finish", "/agent/v1/enroll/"):
        assert path in problem_of(await door.client.get(path), 404)
    wrong = await door.client.get("/agent/v1/heartbeat")
    assert "GET is not a method" in problem_of(wrong, 405)
    assert wrong.headers["allow"] == "POST"
    assert "id" in problem_of(await door.send("POST", "task/x/renew", {"lease_token": str(uuid4())}, "k"), 400)


async def test_an_agent_that_sends_too_many_requests_waits_and_no_other_does(site: Site, connections: Pool) -> None:
    clock = HandClock()
    async with door_on(connections, clock=clock) as door:
        (_, loud), (_, calm) = await enrolled(door, site), await enrolled(door, site)
        answers = [await loud.beat() for _ in range(32)]
        assert "too many requests from this agent" in problem_of(answers[-1], 429)
        assert int(answers[-1].headers["retry-after"]) == 1
        assert (await calm.beat()).status_code == 200
        clock.advance(timedelta(seconds=1))
        assert (await loud.beat()).status_code == 200


async def test_without_its_database_the_server_says_when_to_try_again(
    site: Site, door: Door, connections: Pool
) -> None:
    _, agent = await enrolled(door, site)
    await connections.close()
    for answer in (await agent.beat(), await Agent(door).enroll(tokens.named("any"))):
        assert problem_of(answer, 503) == "the database cannot be reached now"
        assert int(answer.headers["retry-after"]) > 0


# --- several servers, and a locked node


async def test_a_locked_node_delays_no_other_at_two_servers_and_its_own_heartbeats_are_not_lost(
    site: Site, connections: Pool
) -> None:
    async with door_on(connections) as first, door_on(connections) as second, site.db.connect() as holder:
        enrolled_agents = [await enrolled(first, site) for _ in range(4)]
        locked, *others = enrolled_agents
        elsewhere = [at(second, agent) for _, agent in reversed(enrolled_agents)]
        held = holder.transaction()
        await held.start()
        await holder.execute("SELECT FROM farrier.node_agents WHERE node_id = $1 FOR UPDATE", locked[0].id)
        late: list[int] = []

        async def beat_late(agent: Agent) -> None:
            late.append((await agent.beat()).status_code)

        async with anyio.create_task_group() as tasks:
            for agent in (locked[1], elsewhere[-1]):
                tasks.start_soon(beat_late, agent)
            for agent in [*(agent for _, agent in others), *elsewhere[:-1]]:
                assert (await agent.beat()).status_code == 200
            assert late == []
            await held.commit()
        assert late == [200, 200]


async def test_a_heartbeat_does_not_hold_up_an_enrolment(site: Site, connections: Pool) -> None:
    rests: list[float] = []
    collected = batches.Batches(PostgresAgentCalls(connections), sleep=rests.append)
    _, token = await registered(site)
    enrolment = Enrolment(token=token, key_digest=sha256(token.encode()).hexdigest(), facts={})
    heartbeat = Beat(key=enrolment.key_digest, boot=uuid4(), health={"ok": True})
    async with anyio.create_task_group() as running:
        running.start_soon(collected.run)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(collected.enrolments.add, enrolment)
            tasks.start_soon(collected.beat, heartbeat)
        assert rests == []
        await anyio.wait_all_tasks_blocked()
        await collected.beat(heartbeat)
        assert rests == [rest.SECONDS]
        running.cancel_scope.cancel()


async def test_enrolments_of_a_moment_are_one_statement_and_a_locked_one_delays_no_other(
    site: Site, connections: Pool
) -> None:
    sizes: list[int] = []
    enrolled: list[str | None] = []

    class Counted(PostgresAgentCalls):
        @override
        async def enroll(self, batch: Sequence[Enrolment], *, patient: bool = False) -> Any:
            sizes.append(len(batch))
            return await super().enroll(batch, patient=patient)

    async def enroll(token: str) -> None:
        enrolment = Enrolment(token=token, key_digest=sha256(token.encode()).hexdigest(), facts={})
        enrolled.append((await collected.enrolments.add(enrolment)).node)

    collected = batches.Batches(Counted(connections))
    (locked, token), *others = [await registered(site) for _ in range(4)]
    async with site.db.connect() as holder, anyio.create_task_group() as running:
        running.start_soon(collected.run)
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as late, holder.transaction():
            await holder.execute("SELECT FROM farrier.bootstrap_tokens WHERE node_id = $1 FOR UPDATE", locked.id)
            late.start_soon(enroll, token)
            async with anyio.create_task_group() as at_once:
                for _, other in others:
                    at_once.start_soon(enroll, other)
            assert enrolled == [machine.name for machine, _ in others]
        running.cancel_scope.cancel()
    assert (sizes, enrolled[-1]) == ([4, 1], locked.name)


def at(door: Door, agent: Agent) -> Agent:
    """The same agent, which calls another server."""
    moved = Agent(door)
    moved.key, moved.boot_id = agent.key, agent.boot_id
    return moved


async def test_a_server_with_too_many_heartbeats_says_when_to_try_again(
    site: Site, connections: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "MOST_WAITING", 0)
    async with door_on(connections) as door:
        _, agent = await enrolled(door, site)
        answer = await agent.beat()
    assert problem_of(answer, 503) == "this server has too many requests"
    assert int(answer.headers["retry-after"]) > 0
