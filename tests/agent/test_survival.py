"""What the agent does when the door, the network, its key, its clock or its disk fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from farrier.sim.certificates import Authority
from farrier_agent.client import Backoff
from farrier_agent.client import Door as Client
from farrier_agent.host import AgentError, Config, Host
from tests.contract.test_bmc_tls import Chain
from tests.support.agent_machine import Machine
from tests.support.agents_door import Answer, Door, serving

Start = Callable[[Machine], subprocess.Popen[str]]
MONITOR = "/run/farrier-agent/conditions.d/fans.json"
FAN = {"id": "fan", "message": "fan 3 stands still", "effect": "quarantine"}
KEY = "/var/lib/farrier-agent/key"


def line(process: subprocess.Popen[str], said: str) -> str:
    """Wait for a line of the agent with this text. Every line before it is one of the agent's own."""
    assert process.stderr is not None
    for each in process.stderr:
        assert each.startswith("farrier-agent: "), each
        if said in each:
            return each
    raise AssertionError(f"the agent ended without saying {said!r}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_a_door_that_is_down_is_said_once_and_tried_again_and_conditions_are_kept(
    machine: Machine, start: Start
) -> None:
    port = free_port()
    machine.write(MONITOR, json.dumps({"conditions": [FAN]}))
    machine.configure(f"http://127.0.0.1:{port}")
    process = start(machine)
    line(process, "Connection refused; it will be tried again")

    with serving(Door(), port=port) as door:
        beat = door.wait("heartbeat")

    assert [each["id"] for each in beat.body["conditions"] if each["id"].startswith("fans/")] == ["fans/fan"]


def test_a_door_that_comes_back_after_a_restart_is_used_with_the_same_key(machine: Machine, start: Start) -> None:
    port = free_port()
    machine.configure(f"http://127.0.0.1:{port}")
    with serving(Door(), port=port) as door:
        start(machine)
        key = door.wait("heartbeat").key

    with serving(Door(), port=port) as second:
        assert second.wait("heartbeat").key == key
        assert not second.named("enroll")


def test_the_pauses_grow_to_a_minute_with_jitter_and_respect_retry_after() -> None:
    backoff = Backoff()

    pauses = [backoff.pause() for _ in range(12)]

    assert all(low / 2 <= pause <= low for low, pause in zip([1, 2, 4, 8, 16, 32, 60, 60], pauses, strict=False))
    assert len(set(pauses[6:])) == 6
    assert 120 <= backoff.pause(120) <= 180


@pytest.mark.parametrize("status", [400, 413, 429, 503])
def test_a_heartbeat_that_was_refused_is_sent_again_soon(
    machine: Machine, door: Door, start: Start, status: int
) -> None:
    door.refusals["heartbeat"] = [Answer(status, "too many calls", {"Retry-After": "1"})]
    machine.configure(door.url)

    process = start(machine)

    line(process, f"the door answered {status}: too many calls")
    door.wait("heartbeat", count=2)


def test_an_unknown_key_is_replaced_with_the_help_of_a_token_that_was_not_used(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url, token="fbt_old")
    start(machine)
    old = door.wait("heartbeat").key
    machine.configure(door.url, token="fbt_new")
    door.refusals["heartbeat"] = [Answer(401, "no node has this key")]

    new = door.wait("heartbeat", lambda call: call.key != old)

    assert [call.body["token"] for call in door.named("enroll")] == ["fbt_old", "fbt_new"]
    assert machine.path(KEY).read_text() == new.key


def test_an_unknown_key_without_a_fresh_token_is_said_and_not_tried_at_once(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)
    process = start(machine)
    door.wait("heartbeat")
    door.refusals["heartbeat"] = [Answer(401, "no node has this key")]

    said = line(process, "has no token that was not used")

    assert "write one into it" in said
    assert len(door.named("enroll")) == 1
    assert door.refusals["heartbeat"] == []


def test_a_key_that_another_machine_uses_stops_the_task(machine: Machine, door: Door, start: Start) -> None:
    machine.write("/etc/farrier-agent/drain.d/waits", "#!/bin/sh\nexec sleep 60\n", 0o755)
    machine.configure(door.url)
    door.give("node.drain")
    process = start(machine)
    line(process, "begins task 7 (node.drain)")
    door.refusals["heartbeat"] = [Answer(409, "another machine uses this key")]

    said = line(process, "stops task")

    assert said == ("farrier-agent: stops task 7 (node.drain): the door answered 409: another machine uses this key\n")
    assert not door.named("finish")


def test_a_lost_lease_stops_the_task(machine: Machine, door: Door) -> None:
    machine.write("/etc/farrier-agent/drain.d/waits", "#!/bin/sh\nexec sleep 60\n", 0o755)
    machine.configure(door.url)
    door.give("node.drain")
    door.refusals["renew"] = [Answer(410, "the lease is lost")]

    said = machine.script(LOST, str(machine.root))

    assert "stops task 7 (node.drain): the door answered 410: the lease is lost" in said


def test_more_conditions_than_a_heartbeat_holds_cause_no_further_heartbeats(machine: Machine, door: Door) -> None:
    machine.write(MONITOR, json.dumps({"conditions": [{**FAN, "id": f"fan-{number}"} for number in range(150)]}))
    machine.configure(door.url)
    door.interval = 3600

    machine.script(STEPS, str(machine.root))

    (beat,) = door.named("heartbeat")
    assert len(beat.body["conditions"]) == 100


# The agent works for five minutes of its clock, which runs a hundred times faster.
STEPS = """
import sys, time
from farrier_agent import loop, host
real, began_at = time.monotonic, time.monotonic()
time.monotonic = lambda: began_at + (real() - began_at) * 100
agent = loop.Agent(host.Host(sys.argv[1]), [])
while real() - began_at < 3:
    agent.step()
agent._door.close()
"""


# The lease is renewed after 20 s, so the clock of the agent runs a hundred times faster.
LOST = """
import sys, time
from farrier_agent import loop, host
real, began_at = time.monotonic, time.monotonic()
time.monotonic = lambda: began_at + (real() - began_at) * 100
said = []
loop.say = lambda text: said.append(text)
agent = loop.Agent(host.Host(sys.argv[1]), [])
while not any("stops task" in each for each in said) and real() - began_at < 50:
    agent.step()
print("\\n".join(said))
agent._door.close()
"""


@pytest.mark.parametrize(
    ("status", "detail"),
    [(403, "the token has expired; issue a new one"), (409, "the token is that of another machine")],
)
def test_an_enrolment_that_is_refused_is_said_and_not_tried_at_once(
    machine: Machine, door: Door, start: Start, status: int, detail: str
) -> None:
    door.refusals["enroll"] = [Answer(status, detail)]
    machine.configure(door.url)

    process = start(machine)

    line(process, f"the door answered {status}: {detail}")
    assert len(door.named("enroll")) == 1


def test_a_key_that_cannot_be_written_is_said_and_no_token_is_spent(machine: Machine, door: Door, start: Start) -> None:
    place = machine.write("/var/lib/farrier-agent", "a file where the directory has to be")
    machine.configure(door.url)
    process = start(machine)
    line(process, "/var/lib/farrier-agent/key cannot be written")
    assert not door.named("enroll")

    place.unlink()

    door.wait("heartbeat")


def client_of(machine: Machine, door: Door, pem: Path) -> Client:
    machine.write("/etc/farrier-agent/ca.pem", pem.read_bytes())
    return Client(Host(str(machine.root)), Config(url=door.url, ca="/etc/farrier-agent/ca.pem"))


@pytest.mark.parametrize(
    ("ahead", "other", "said"),
    [
        (timedelta(0), True, "the certificate is not accepted: unable to get local issuer certificate"),
        (timedelta(days=-40), False, "correct the clock of this machine"),
        (timedelta(days=1), False, "correct the clock of this machine"),
    ],
)
def test_a_certificate_that_is_not_accepted_is_one_line_and_names_the_clock_if_it_may_be_wrong(
    machine: Machine, tmp_path: Path, ahead: timedelta, other: bool, said: str
) -> None:
    authority = Authority("agents", now=datetime.now(UTC) + ahead)
    issued = authority.issue(tmp_path, hosts=("127.0.0.1",))
    trusted = Authority("other", now=datetime.now(UTC)) if other else authority
    with serving(Door(), (issued.certificate, issued.key)) as door:
        client = client_of(machine, door, trusted.write(tmp_path / "ca.pem"))
        with pytest.raises(AgentError) as failure:
            client.call("POST", "/agent/v1/enroll", {})

    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize("ca", ["root", "intermediate"])
def test_calls_share_one_connection_over_tls_with_the_ca_of_an_old_site(
    machine: Machine, tmp_path: Path, ca: str
) -> None:
    chain = Chain(tmp_path)
    with serving(Door(), (chain.sent, chain.key)) as door:
        client = client_of(machine, door, getattr(chain, ca))
        for _ in range(3):
            client.call("POST", "/agent/v1/enroll", {})
        client.close()

    assert door.connections == 1


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://agents.example:9466", "the key must not cross a network unencrypted"),
        ("agents.example", "expected https://host:port"),
        ("https://agents.example/agent", "expected https://host:port"),
    ],
)
def test_a_url_without_tls_is_refused_but_on_loopback(machine: Machine, url: str, said: str) -> None:
    with pytest.raises(AgentError, match=said):
        Client(Host(str(machine.root)), Config(url=url))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be used: Expecting property name"),
        ('{"urll": "https://x"}', "unexpected keyword argument 'urll'"),
        ('{"gpus": "8"}', "gpus has an invalid type, str"),
        ('{"wipe": "format"}', "wipe has an invalid type, str"),
    ],
)
def test_a_configuration_that_is_invalid_is_one_line_and_an_exit_code(
    machine: Machine, content: str, said: str
) -> None:
    machine.write("/etc/farrier-agent/config.json", content)

    done = machine.run("run")

    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_answer_that_is_not_json_is_one_line(machine: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = Client(Host(str(machine.root)), Config(url=f"http://127.0.0.1:{server.getsockname()[1]}"))
        answering = subprocess.Popen([sys.executable, "-c", ANSWERS], stdin=server.fileno())
        with pytest.raises(AgentError, match="the door answered 200: OK"):
            client.call("POST", "/agent/v1/heartbeat", {})
        client.close()
        answering.wait()


ANSWERS = """
import socket
connection, _ = socket.socket(fileno=0).accept()
connection.recv(65536)
connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\n<html>")
"""
