"""The agent as a whole: enrolment, heartbeats, facts, tasks and its removal."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support.agent_machine import BOOT_ID, Machine
from tests.support.agents_door import Answer, Door

Start = Callable[[Machine], subprocess.Popen[str]]


def test_the_agent_enrols_with_the_digest_of_its_own_key_and_sends_identity_and_facts(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)

    start(machine)

    enrolment = door.wait("enroll").body
    beat = door.wait("heartbeat")
    assert beat.key == machine.path("/var/lib/farrier-agent/key").read_text()
    assert enrolment["key_digest"] == hashlib.sha256(beat.key.encode()).hexdigest()
    assert enrolment["identity"] == {"serial": "SN-4711", "uuid": "4c4c4544-0035-4a10-8052-b4c04f4a4b33", "macs": []}
    assert (beat.body["boot_id"], beat.body["uptime"]) == (BOOT_ID, 1200.5)
    facts = door.wait("facts").body
    assert facts["facts"]["kernel"] == "6.8.0-45-generic"
    assert door.wait("heartbeat", lambda call: call.body["facts_digest"] == facts["digest"])


def test_the_facts_have_the_numbers_of_board_and_cpus_as_far_as_firmware_shows_them(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.write("/sys/class/dmi/id/board_serial", "BOARD-1")
    for cpu, socket, ppin in (
        ("cpu0", "0", "0x2ebf3fb5a2c9d5f1"),
        ("cpu1", "0", "0x2ebf3fb5a2c9d5f1"),
        ("cpu2", "1", "0x0"),
    ):
        machine.write(f"/sys/devices/system/cpu/{cpu}/topology/physical_package_id", socket)
        machine.write(f"/sys/devices/system/cpu/{cpu}/topology/ppin", ppin)
    machine.configure(door.url)

    start(machine)

    facts = door.wait("facts").body["facts"]
    assert facts["board_serial"] == "BOARD-1"
    assert facts["cpus"] == [{"slot": "0", "serial": "0x2ebf3fb5a2c9d5f1"}, {"slot": "1", "serial": None}]


def test_a_restarted_agent_keeps_its_key_and_spends_no_token(machine: Machine, door: Door, start: Start) -> None:
    machine.configure(door.url)
    first = start(machine)
    key = door.wait("heartbeat").key
    first.kill()
    first.wait()
    door.calls.clear()

    start(machine)

    assert door.wait("heartbeat").key == key
    assert not door.named("enroll")


def test_a_lost_answer_to_the_enrolment_is_repeated_with_the_same_key(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)
    door.lost.add("enroll")

    start(machine)

    door.wait("heartbeat")
    first, second = door.named("enroll")
    assert first.body["key_digest"] == second.body["key_digest"]


def test_a_lost_answer_to_a_claim_is_repeated_and_gets_the_same_task(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)
    door.give("node.drain")
    door.lost.add("claim")

    start(machine)

    assert door.wait("finish").body["succeeded"]
    first, second = door.named("claim")
    assert first.body["idempotency_key"] == second.body["idempotency_key"]


def test_a_lost_answer_to_a_result_is_repeated(machine: Machine, door: Door, start: Start) -> None:
    machine.configure(door.url)
    door.give("node.drain")
    door.lost.add("finish")

    start(machine)

    door.wait("finish", count=2)
    first, second = door.named("finish")
    assert first == second


def test_a_drain_runs_the_programs_of_the_site_in_order_and_reports_the_result(
    machine: Machine, door: Door, start: Start
) -> None:
    log = machine.path("/log")
    machine.write("/etc/farrier-agent/drain.d/20-second", f"#!/bin/sh\necho second >> {log}\n", 0o755)
    machine.write("/etc/farrier-agent/drain.d/10-first", f"#!/bin/sh\necho first >> {log}\n", 0o755)
    machine.write("/etc/farrier-agent/drain.d/README", "not a program")
    machine.configure(door.url)
    door.give("node.drain")

    start(machine)

    finish = door.wait("finish").body
    assert finish["succeeded"], finish
    assert log.read_text().split() == ["first", "second"]


def test_a_program_that_fails_fails_the_drain_and_names_its_last_line(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.write("/etc/farrier-agent/drain.d/evict", "#!/bin/sh\necho pods left: 3\nexit 4\n", 0o755)
    machine.configure(door.url)
    door.give("node.drain")

    start(machine)

    finish = door.wait("finish").body
    assert not finish["succeeded"]
    assert finish["result"] == "evict: exit code 4: pods left: 3"


def test_an_installation_starts_the_service_of_the_copied_program(machine: Machine, archive: Path) -> None:
    machine.write("/etc/systemd/system/farrier-agent-setup.service", "[Service]\n")

    assert machine.run("install").returncode == 0

    unit = machine.path("/etc/systemd/system/farrier-agent.service").read_text()
    assert "ExecStart=/usr/bin/python3 /opt/farrier-agent/farrier-agent.pyz run\n" in unit
    assert machine.path("/opt/farrier-agent/farrier-agent.pyz").read_bytes() == archive.read_bytes()
    assert not machine.path("/etc/systemd/system/farrier-agent-setup.service").exists()
    assert "restart --no-block farrier-agent.service" in (machine.bin / "systemctl.log").read_text()


def test_the_lease_of_a_running_task_is_renewed(machine: Machine, door: Door, start: Start) -> None:
    machine.write("/etc/farrier-agent/drain.d/waits", "#!/bin/sh\nexec sleep 60\n", 0o755)
    machine.configure(door.url)
    door.give("node.drain")

    start(machine)

    renewal = door.wait("renew", count=2)
    assert renewal.body["lease_token"] == door.token
    assert not door.named("finish")


def test_a_result_that_is_refused_for_good_does_not_keep_the_next_task_waiting(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)
    door.refusals["finish"] = [Answer(400, "the evidence is malformed")]
    door.give("node.drain", "node.release_allocations")

    start(machine)

    assert door.wait("finish", count=2).body["result"] == "0 programs of release.d succeeded"


def test_an_uninstallation_leaves_nothing_and_is_reported_with_the_key_in_memory(
    machine: Machine, door: Door, start: Start
) -> None:
    machine.configure(door.url)
    assert machine.run("install").returncode == 0
    process = start(machine)
    key = door.wait("heartbeat").key
    door.give("node.uninstall")
    door.refusals["finish"] = [Answer(503)]

    finish = door.wait("finish", count=2)

    assert (finish.key, finish.body["succeeded"]) == (key, True)
    assert process.wait(30) == 0
    left = [path for path in machine.root.rglob("*farrier-agent*") if "stand-ins" not in path.parts]
    assert left == []
    assert "disable farrier-agent.service" in (machine.bin / "systemctl.log").read_text()


def test_a_disk_that_could_not_be_erased_fails_the_validation_too(machine: Machine, door: Door, start: Start) -> None:
    machine.disk("nvme0n1", "LIAR", b"a tenant's data".ljust(1 << 20, b"\0"))
    machine.tool("nvme", "exit 0")
    machine.configure(door.url, cleaning_by="agent", wipe=["format"])
    door.give("node.cleanup_storage", "node.validate_clean")

    start(machine)

    finish = door.wait("finish", count=2).body
    assert not finish["succeeded"]
    assert re.search(r"disk LIAR: \d+ of \d+ samples are not zero", finish["result"])


def test_the_agent_runs_with_each_supported_python(machine: Machine, door: Door, start: Start, python: str) -> None:
    machine.python = python
    machine.disk("vdb", "DISK-1", bytes(1 << 20))
    machine.configure(door.url, cleaning_by="agent")
    process = start(machine)
    door.wait("facts")

    for task in ("node.drain", "node.cleanup_storage", "node.validate_clean", "node.uninstall"):
        done = len(door.named("finish"))
        door.give(task)
        assert door.wait("finish", count=done + 1).body["succeeded"], task

    assert process.wait(30) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
