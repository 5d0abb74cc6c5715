"""The tasks that clean: what is erased, what is left, and the evidence."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from farrier_agent import disks, tasks
from farrier_agent.host import Config, Host
from tests.support.agent_machine import Machine

CLEANUP, SCRUB, VALIDATE, DRAIN = "node.cleanup_storage", "node.scrub_gpu", "node.validate_clean", "node.drain"
# The commands as the evidence names them.
FORMAT, ZEROOUT = "nvme format --ses=1 --force", "blkdiscard --zeroout --force --step 1GiB"
SECRET = b"a tenant's data"
SIZE = 4 << 20
CONTENT = SECRET.ljust(SIZE, b"\xa5")

PERFORM = """
import json, sys
from functools import partial
from farrier_agent import tasks
from farrier_agent.host import Host
from farrier_agent.jobs import finished
host, outcomes = Host(sys.argv[1]), []
for each in sys.argv[2:]:
    (job,) = finished([(partial(tasks.perform, host, host.config(), each), 60)])
    outcomes.append(job.result or tasks.outcome(False, job.error))
print(json.dumps(outcomes))
"""


def perform(machine: Machine, *types: str, **config: Any) -> list[dict[str, Any]]:
    """Perform tasks, each in a process of its own, as the agent does."""
    machine.configure("https://agents.example:9466", **{"cleaning_by": "agent", **config})
    outcomes: list[dict[str, Any]] = json.loads(machine.script(PERFORM, str(machine.root), *types))
    return outcomes


def devices(outcome: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The evidence of a task, by serial number."""
    assert outcome["evidence"]["by"] == "agent"
    return {each["serial"]: each for each in outcome["evidence"]["devices"]}


@pytest.mark.parametrize("type_", [CLEANUP, SCRUB, VALIDATE])
def test_the_agent_cleans_only_if_the_site_says_so(machine: Machine, type_: str) -> None:
    disk = machine.disk("sdb", "DISK-1", CONTENT)

    outcome = tasks.perform(Host(str(machine.root)), Config(), type_)

    assert not outcome["succeeded"]
    assert outcome["result"] == 'the agent does not clean this machine: cleaning_by of config.json is not "agent"'
    assert disk.read_bytes() == CONTENT


def test_the_tasks_of_a_worker_are_not_claimed() -> None:
    assert {CLEANUP, SCRUB, VALIDATE}.isdisjoint(tasks.types(Config(cleaning_by="worker")))
    assert {CLEANUP, SCRUB, VALIDATE} <= set(tasks.types(Config()))


def test_every_disk_is_erased_but_the_one_from_which_the_system_runs(machine: Machine) -> None:
    system = machine.disk("sda", "SYSTEM", CONTENT)
    machine.write("/sys/block/sda/sda1/start", "2048")
    machine.write("/dev/sda1", b"")
    machine.write("/proc/self/mounts", "/dev/sda1 / ext4 rw 0 0\n")
    data = machine.disk("sdb", "DATA", CONTENT)

    (outcome,) = perform(machine, CLEANUP)

    assert outcome["succeeded"], outcome
    assert outcome["result"] == "disks: 1 erased, 1 unproven"
    assert data.read_bytes() == bytes(SIZE)
    assert system.read_bytes() == CONTENT
    found = devices(outcome)
    assert (found["DATA"]["result"], found["DATA"]["method"], found["DATA"]["kind"]) == ("erased", ZEROOUT, "disk")
    assert found["DATA"]["samples"] > 500
    assert found["DATA"]["bad_samples"] == 0
    assert (found["SYSTEM"]["result"], found["SYSTEM"]["message"]) == (
        "unproven",
        "the system runs from this disk, so it was not erased",
    )


def test_a_disk_that_says_success_and_erases_nothing_is_caught(machine: Machine) -> None:
    disk = machine.disk("nvme0n1", "LIAR", bytes(SIZE))  # empty before, so only the agent's own marks tell
    machine.tool("nvme", "exit 0")

    (outcome,) = perform(machine, CLEANUP, wipe=["format"])

    assert not outcome["succeeded"]
    liar = devices(outcome)["LIAR"]
    assert (liar["result"], liar["method"]) == ("failed", FORMAT)
    assert liar["bad_samples"] == 64
    assert f"{FORMAT} reported success, but 64 of {liar['samples']} samples are not zero" in outcome["result"]
    assert disk.read_bytes() != bytes(SIZE)


def test_a_disk_that_keeps_nothing_that_is_written_is_not_taken_for_erased(machine: Machine) -> None:
    machine.disk("sdb", "LIAR", CONTENT).unlink()
    machine.path("/dev/sdb").symlink_to("/dev/zero")  # acknowledges writes, and reads as zero

    (outcome,) = perform(machine, CLEANUP)

    assert devices(outcome)["LIAR"]["result"] == "failed"
    assert outcome["result"] == "disks: 1 failed; disk LIAR: the disk does not keep what is written to it"


def test_after_a_method_that_erased_nothing_the_next_one_is_tried(machine: Machine) -> None:
    disk = machine.disk("nvme0n1", "LIAR", CONTENT)
    machine.tool("nvme", "exit 0")

    (outcome,) = perform(machine, CLEANUP)

    assert outcome["succeeded"]
    assert disk.read_bytes() == bytes(SIZE)
    erased = devices(outcome)["LIAR"]
    assert erased["method"] == ZEROOUT
    assert erased["message"].startswith(f"{FORMAT} reported success, but ")


def test_a_disk_that_no_method_erases_has_failed_with_what_each_of_them_said(machine: Machine) -> None:
    machine.disk("nvme0n1", "FAILS", CONTENT)
    machine.tool("nvme", "echo invalid format >&2; exit 22")
    machine.tool("blkdiscard", "echo not supported >&2; exit 1")

    (outcome,) = perform(machine, CLEANUP)

    assert not outcome["succeeded"]
    failed = devices(outcome)["FAILS"]
    assert (failed["result"], failed["method"]) == ("failed", "")
    assert failed["message"] == "nvme: exit code 22: invalid format; blkdiscard: exit code 1: not supported"


def test_disks_of_one_serial_number_are_told_apart_and_a_hidden_path_is_no_disk(machine: Machine) -> None:
    machine.disk("nvme0n1", "TWICE", CONTENT)
    machine.disk("nvme0n2", "TWICE", CONTENT)
    machine.disk("nvme0c0n1", "TWICE", CONTENT)
    machine.disk("vda", "", CONTENT)
    machine.write("/sys/block/nvme0c0n1/hidden", "1")
    machine.tool("nvme", "exit 1")

    (outcome,) = perform(machine, CLEANUP)

    assert devices(outcome).keys() == {"TWICE", "TWICE/nvme0n2", "/dev/vda"}
    assert outcome["succeeded"]


def test_a_disk_that_a_method_does_not_fit_has_failed(machine: Machine) -> None:
    machine.disk("sdb", "SATA", CONTENT)

    (outcome,) = perform(machine, CLEANUP, wipe=["format"])

    assert outcome["result"] == f"disks: 1 failed; disk SATA: {FORMAT}: it is not an NVMe disk"


LARGE = 1 << 30


def large_disk(machine: Machine) -> None:
    """A disk that is too large to be read completely."""
    machine.disk("sdb", "LARGE", b"")
    machine.write("/sys/block/sdb/size", str(LARGE // 512))
    with machine.path("/dev/sdb").open("r+b") as file:
        file.truncate(LARGE)


def test_a_large_disk_is_sampled_at_the_agents_marks(machine: Machine) -> None:
    large_disk(machine)
    machine.tool("blkdiscard", "exit 0")

    (outcome,) = perform(machine, CLEANUP)

    large = devices(outcome)["LARGE"]
    assert (large["result"], large["bad_samples"]) == ("failed", 64)
    assert large["samples"] > 1024


# The first and the last piece have a mark, so that only reading the ends finds what is beside them.
@pytest.mark.parametrize("place", [5000, LARGE - 5000])
def test_what_is_left_near_the_ends_of_a_large_disk_is_found(machine: Machine, place: int) -> None:
    large_disk(machine)
    left = f"printf x | dd of={machine.path('/dev/sdb')} bs=1 seek={place} conv=notrunc status=none"
    machine.tool("blkdiscard", f"for disk; do :; done; truncate -s 0 $disk; truncate -s {LARGE} $disk; {left}")

    (outcome,) = perform(machine, CLEANUP)

    assert devices(outcome)["LARGE"]["bad_samples"] == 1


def test_a_disk_that_hangs_fails_and_does_not_delay_the_others(machine: Machine) -> None:
    machine.disk("nvme0n1", "HANGS", CONTENT)
    data = machine.disk("nvme1n1", "DATA", CONTENT)
    machine.tool("nvme", f'case "$*" in *nvme0n1) sleep 60;; *) head -c {SIZE} /dev/zero > "$4";; esac')

    (outcome,) = perform(machine, CLEANUP, wipe=["format"], wipe_seconds=2)

    found = devices(outcome)
    assert "did not end within 2 s" in found["HANGS"]["message"]
    assert (found["HANGS"]["result"], found["DATA"]["result"]) == ("failed", "erased")
    assert data.read_bytes() == bytes(SIZE)


def test_no_disk_is_erased_if_the_disk_of_the_system_is_unknown(machine: Machine) -> None:
    disk = machine.disk("sdb", "DATA", CONTENT)
    machine.write("/proc/self/mounts", "rpool/ROOT / zfs rw 0 0\n")

    (outcome,) = perform(machine, CLEANUP)

    assert not outcome["succeeded"]
    assert "the disk of the system is unknown" in outcome["result"]
    assert disk.read_bytes() == CONTENT


def test_the_disks_below_a_raid_of_the_system_are_the_systems(machine: Machine) -> None:
    for name in ("sda", "sdb"):
        machine.disk(name, name.upper(), CONTENT)
        machine.write(f"/sys/block/{name}/{name}2/start", "4096")
        machine.write(f"/sys/block/md0/slaves/{name}2/size", "1")
        machine.write(f"/dev/{name}2", b"")
    machine.write("/dev/md0", b"")
    machine.write("/proc/self/mounts", "/dev/md0 / ext4 rw 0 0\n")

    assert disks.of_system(Host(str(machine.root))) == {"sda", "sdb"}


@pytest.mark.parametrize("place", ["/boot", "/boot/efi", "/usr", "/var", "/opt", "/etc"])
def test_a_disk_that_a_diskless_system_needs_is_the_systems(machine: Machine, place: str) -> None:
    machine.disk("sda", "SYSTEM", CONTENT)
    machine.disk("sdb", "DATA", CONTENT)
    machine.write(
        "/proc/self/mounts", f"overlay / overlay rw 0 0\n/dev/sda {place} ext4 rw 0 0\n/dev/sdb /data xfs rw 0 0\n"
    )

    assert disks.of_system(Host(str(machine.root))) == {"sda"}


def test_a_removable_disk_is_not_erased(machine: Machine) -> None:
    disk = machine.disk("sdb", "STICK", CONTENT)
    machine.write("/sys/block/sdb/removable", "1")

    (outcome,) = perform(machine, CLEANUP)

    assert (outcome["result"], disk.read_bytes()) == ("disks: none", CONTENT)


def test_what_was_mounted_last_is_unmounted_first(machine: Machine) -> None:
    machine.disk("sdb", "DATA", CONTENT)
    mounts = ("overlay / overlay", "/dev/sdb /data ext4", "/dev/sdb /data/below ext4", "tmpfs /tmp tmpfs")
    machine.write("/proc/self/mounts", "".join(f"{each} rw 0 0\n" for each in mounts))
    machine.tool("umount", 'echo "$@" >> "$(dirname "$0")/umount.log"')

    (outcome,) = perform(machine, CLEANUP)

    assert outcome["succeeded"], outcome
    unmounted = (machine.bin / "umount.log").read_text().split()
    assert unmounted == [str(machine.path("/data/below")), str(machine.path("/data"))]


def test_what_is_mounted_on_a_disk_is_unmounted_before_it_is_erased(machine: Machine) -> None:
    machine.disk("sdb", "DATA", CONTENT)
    machine.write("/proc/self/mounts", "overlay / overlay rw 0 0\n/dev/sdb /data ext4 rw 0 0\n")
    machine.tool("umount", "echo target is busy >&2; exit 32")

    (outcome,) = perform(machine, CLEANUP)

    assert not outcome["succeeded"]
    assert "umount" in devices(outcome)["DATA"]["message"] and "target is busy" in devices(outcome)["DATA"]["message"]
    assert machine.path("/dev/sdb").read_bytes() == CONTENT


def test_a_validation_reads_the_erased_disks_again(machine: Machine) -> None:
    disk = machine.disk("sdb", "DATA", CONTENT)
    erased, valid = perform(machine, CLEANUP, VALIDATE)
    assert (erased["succeeded"], valid["succeeded"]) == (True, True)
    assert devices(valid)["DATA"]["method"] == "read"

    disk.write_bytes(SECRET.ljust(SIZE, b"\0"))
    (dirty,) = perform(machine, VALIDATE)

    assert not dirty["succeeded"]
    assert re.search(r"disk DATA: 1 of \d+ samples are not zero", dirty["result"])


def test_a_validation_fails_if_an_erased_disk_is_missing_and_a_drain_begins_anew(machine: Machine) -> None:
    machine.disk("sdb", "DATA", CONTENT)
    perform(machine, CLEANUP)
    machine.path("/sys/block/sdb/size").write_text("0")

    missing, _drain, valid = perform(machine, VALIDATE, DRAIN, VALIDATE)

    assert (missing["succeeded"], devices(missing)["DATA"]["result"]) == (False, "missing")
    assert missing["result"] == "disks: 1 missing; disk DATA: it was erased, and is not there now"
    assert valid["succeeded"]


def test_a_validation_names_the_disks_that_no_task_has_erased(machine: Machine) -> None:
    machine.disk("sdb", "DATA", CONTENT)

    _drained, valid = perform(machine, DRAIN, VALIDATE)

    assert (valid["succeeded"], valid["result"]) == (True, "disks: 1 unproven")
    assert devices(valid)["DATA"]["message"] == "no task has erased it since the last drain"


def test_the_memory_of_gpus_is_overwritten_with_evidence(gpus: Machine) -> None:
    (outcome,) = perform(gpus, SCRUB)

    assert outcome["succeeded"], outcome
    found = devices(outcome)
    assert len(found) == 8
    assert found["1654023000003"]["message"] == "96.9% of the memory was overwritten"
    assert found["1654023000003"]["samples"] > 0


def test_a_method_that_the_agent_does_not_know_fails_the_task_and_touches_no_disk(machine: Machine) -> None:
    disk = machine.disk("sdb", "DATA", CONTENT)

    (outcome,) = perform(machine, CLEANUP, wipe=["zeroout", "shred"])

    assert "wipe in config.json: expected format or zeroout, got zeroout, shred" in outcome["result"]
    assert disk.read_bytes() == CONTENT


def test_each_gpu_of_a_board_is_overwritten(gpus: Machine) -> None:
    gpus.environment["NVML_BOARD"] = "1"

    (outcome,) = perform(gpus, SCRUB)

    assert outcome["result"] == "gpus: 8 erased"
    assert len(devices(outcome)) == 8


def test_a_gpu_that_does_not_write_is_caught(gpus: Machine) -> None:
    gpus.environment["CUDA_FORGETS"] = "3"

    (outcome,) = perform(gpus, SCRUB)

    assert not outcome["succeeded"]
    assert {each["serial"] for each in devices(outcome).values() if each["result"] == "failed"} == {"1654023000003"}


def test_a_gpu_that_cuda_does_not_show_fails_the_scrub(gpus: Machine) -> None:
    gpus.environment["CUDA_GPUS"] = "7"

    (outcome,) = perform(gpus, SCRUB)

    assert outcome["result"] == "gpus: 7 erased, 1 failed; gpu 1654023000007: cuInit failed with CUDA error 100"


def test_a_gpu_of_which_cuda_shows_only_a_part_fails_the_scrub(gpus: Machine) -> None:
    gpus.environment["CUDA_MIG"] = "2"

    (outcome,) = perform(gpus, SCRUB)

    assert "gpu 1654023000002: CUDA does not show this GPU as a whole; switch off MIG" in outcome["result"]


def test_a_gpu_in_use_is_not_overwritten(gpus: Machine) -> None:
    gpus.environment["NVML_BUSY_FILE"] = str(gpus.write("/busy", ""))

    (outcome,) = perform(gpus, SCRUB)

    assert outcome["result"] == "GPUs are in use: process 4242 on GPU 0"


def test_a_drain_ends_when_its_time_is_over_and_names_the_processes(gpus: Machine) -> None:
    gpus.environment["NVML_BUSY_FILE"] = str(gpus.write("/busy", ""))

    (outcome,) = perform(gpus, DRAIN, drain_seconds=1)

    assert outcome["result"] == "GPUs are still in use after 1 s: process 4242 on GPU 0"


@pytest.mark.parametrize("environment", [{"NVML_INIT": "9"}, {"LD_LIBRARY_PATH": ""}], ids=["driver", "library"])
def test_a_drain_does_not_wait_for_gpus_without_a_driver(gpus: Machine, environment: dict[str, str]) -> None:
    gpus.environment |= environment

    (outcome,) = perform(gpus, DRAIN)

    assert outcome["succeeded"], outcome


def test_a_drain_fails_if_nvml_does_not_tell_which_processes_use_the_gpus(gpus: Machine) -> None:
    gpus.environment["NVML_INIT"] = "999"

    (outcome,) = perform(gpus, DRAIN)

    assert outcome["result"] == "NVML does not tell which processes use the GPUs: Unknown Error"


def test_a_drain_does_not_wait_for_a_gpu_that_is_lost(gpus: Machine) -> None:
    gpus.environment["NVML_LOST"] = "0"

    (outcome,) = perform(gpus, DRAIN)

    assert outcome["succeeded"]


def test_a_program_that_others_can_write_is_not_run(machine: Machine) -> None:
    machine.write("/etc/farrier-agent/drain.d/any", f"#!/bin/sh\ntouch {machine.root}/ran\n", 0o757)

    (outcome,) = perform(machine, DRAIN)

    assert outcome["result"] == "drain.d/any must belong to root, and others must not be able to write it"
    assert not machine.path("/ran").exists()
