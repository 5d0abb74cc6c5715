"""What the agent says about disks, ports, file systems, the clock, and what other monitors report."""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typing_extensions import override

from farrier.sim.certificates import Authority
from farrier_agent import disks, links, system
from farrier_agent.conditions import Condition, bounded, condition, dropped
from farrier_agent.host import Config, Host
from tests.support.agent_machine import Machine

DATA = Path(__file__).parents[1] / "data" / "agent"


def recorded(name: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((DATA / name).read_text())
    return report


def warned(critical_warning: int) -> dict[str, Any]:
    """The recorded report of an NVMe disk with another critical warning."""
    report = recorded("smartctl-nvme.json")
    report["nvme_smart_health_information_log"]["critical_warning"] = critical_warning
    return report


def host_of(machine: Machine) -> Host:
    return Host(str(machine.root))


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (recorded("smartctl-nvme.json"), []),
        (
            recorded("smartctl-ata-failing.json"),
            [("disk/failing", "quarantine", "sdc: SMART predicts a failure, Reallocated_Sector_Ct 1975")],
        ),
        (
            warned(4),
            [("disk/failing", "quarantine", "sdc: the reliability is degraded")],
        ),
        (
            warned(9),
            [("disk/failing", "quarantine", "sdc: the spare blocks are used up, the disk is read-only")],
        ),
        (
            warned(2),
            [("disk/hot", "note", "sdc: the temperature is beyond its limits")],
        ),
    ],
)
def test_the_health_of_a_disk_is_what_smartctl_says(
    report: dict[str, Any], expected: list[tuple[str, str, str]]
) -> None:
    found = list(disks.judged(report, "sdc", "SERIAL"))

    assert [(each["id"], each["effect"], each["message"]) for each in found] == expected


def test_a_failing_disk_is_a_condition_with_its_serial_number(machine: Machine) -> None:
    machine.disk("sdc", "MSK423Y20S3HBC", bytes(4096))
    machine.tool("smartctl", f"cat {DATA / 'smartctl-ata-failing.json'}; exit 216")

    assert machine.conditions()["disk/failing"]["target"] == "MSK423Y20S3HBC"


def test_a_disk_that_answers_after_a_minute_is_said_and_does_not_hide_the_others(machine: Machine) -> None:
    machine.disk("sda", "SLOW", bytes(4096))
    machine.disk("sdc", "FAILING", bytes(4096))
    machine.tool("smartctl", f'case "$*" in *sda) sleep 60;; *) cat {DATA / "smartctl-ata-failing.json"};; esac')
    machine.configure("https://agents.example:9466", timeouts={"disk": 2})

    found = machine.conditions()

    assert (found["disk/slow"]["target"], found["disk/slow"]["effect"]) == ("SLOW", "quarantine")
    assert "did not end within 1 s" in found["disk/slow"]["message"]
    assert found["disk/failing"]["target"] == "FAILING"


def test_the_facts_of_a_scsi_disk_have_the_serial_number_of_its_vital_product_data(machine: Machine) -> None:
    machine.disk("sda", "", bytes(1 << 20))
    machine.write("/sys/block/sda/device/vpd_pg80", b"\x00\x80\x00\x14" + b"Z1Z2ABCD".rjust(20))
    machine.write("/sys/block/sda/device/rev", "N004\n")

    (disk,) = disks.read(host_of(machine), Config())["facts"]["disks"]

    assert disk == {"serial": "Z1Z2ABCD", "model": "stand-in", "size": 1 << 20, "firmware": "N004"}


TAKEN_OUT = """
import shutil, sys, time
from farrier_agent import disks
from farrier_agent.host import Config, Host
from farrier_agent.loop import Collector, Readings
host = Host(sys.argv[1])
readings = Readings(host, Config(), [Collector("disk", disks.health, 600, 45, "quarantine", disks.names)])
readings.step(time.monotonic())
while not readings.are_first:
    readings.wait(time.monotonic() + 1)
    readings.step(time.monotonic())
print([each["id"] for each in readings.conditions() if each["id"].startswith("disk/")])
shutil.rmtree(host.path("/sys/block/sdc"))
readings.step(time.monotonic())
print([each["id"] for each in readings.conditions() if each["id"].startswith("disk/")])
"""


def test_a_disk_that_was_taken_out_has_no_condition_any_more(machine: Machine) -> None:
    machine.disk("sdc", "MSK423Y20S3HBC", bytes(4096))
    machine.tool("smartctl", f"cat {DATA / 'smartctl-ata-failing.json'}; exit 216")

    assert machine.script(TAKEN_OUT, str(machine.root)).splitlines() == ["['disk/failing']", "[]"]


def test_without_tools_the_health_of_disks_is_said_to_be_unknown(machine: Machine) -> None:
    machine.disk("sda", "ANY", bytes(4096))
    (machine.root / "no-tools").mkdir()
    machine.environment["PATH"] = str(machine.root / "no-tools")

    assert machine.conditions()["disk/unread"]["message"] == ("the health of disks is unknown: install smartmontools")


def infiniband(machine: Machine, device: str, *, state: str = "4: ACTIVE", rate: str = "400 Gb/sec (4X NDR)") -> None:
    port = f"/sys/class/infiniband/{device}/ports/1"
    machine.write(f"/sys/class/infiniband/{device}/board_id", "MT_0000000838")
    machine.write(f"{port}/link_layer", "InfiniBand")
    machine.write(f"{port}/state", state)
    machine.write(f"{port}/phys_state", "2: Polling" if state.startswith("1") else "5: LinkUp")
    machine.write(f"{port}/rate", rate)
    machine.write(f"{port}/gids/0", f"fe80:0000:0000:0000:b83f:d203:00c4:000{device[-1]}")


def card(machine: Machine, name: str, *, carrier: str = "1", speed: str = "25000", flags: str = "0x1003") -> None:
    for file, content in {"address": "b8:3f:d2:00:00:01", "carrier": carrier, "speed": speed, "flags": flags}.items():
        machine.write(f"/sys/class/net/{name}/{file}", content)
    name_of_card, part, serial = b"ConnectX-7 NDR", b"PN\x0bMCX75310AAS", b"SN\x0cMT2314XZ0000"
    fields = part + serial
    vpd = b"\x82" + len(name_of_card).to_bytes(2, "little") + name_of_card
    vpd += b"\x90" + len(fields).to_bytes(2, "little") + fields + b"\x78"
    machine.write(f"/sys/class/net/{name}/device/vpd", vpd)


def test_facts_of_ports_have_serial_numbers_and_guids(machine: Machine) -> None:
    infiniband(machine, "mlx5_0")
    card(machine, "ens1")
    machine.write("/sys/class/net/ens1/device/infiniband/mlx5_0/fw_ver", "28.39.1002")
    machine.write("/sys/class/net/ens1/device/infiniband/mlx5_0/node_guid", "b83f:d203:00c4:0000")

    facts = links.read(host_of(machine), Config())["facts"]

    assert facts["ib_guids"] == ["b83fd20300c40000"]
    assert facts["nics"] == [
        {
            "name": "ens1",
            "mac": "b8:3f:d2:00:00:01",
            "serial": "MT2314XZ0000",
            "model": "ConnectX-7 NDR",
            "firmware": "28.39.1002",
            "guid": "b83f:d203:00c4:0000",
        }
    ]


def test_an_infiniband_port_is_compared_with_ports_of_its_kind_or_with_the_configuration(machine: Machine) -> None:
    infiniband(machine, "mlx5_0")
    infiniband(machine, "mlx5_1", rate="200 Gb/sec (4X HDR)")
    infiniband(machine, "mlx5_2", state="1: DOWN")

    alike = links.read(host_of(machine), Config())["conditions"]
    configured = links.read(host_of(machine), Config(links={"mlx5_*": 400}))["conditions"]

    assert [(each["id"], each["effect"], each["message"]) for each in alike] == [
        ("link/slow", "note", "InfiniBand port mlx5_1/1 runs at 200 Gb/s, expected 400"),
        ("link/down", "note", "InfiniBand port mlx5_2/1 is DOWN (Polling)"),
    ]
    assert {each["effect"] for each in configured} == {"quarantine"}


def test_a_card_without_link_is_noted_and_one_that_must_have_a_link_quarantines(machine: Machine) -> None:
    card(machine, "ens1", carrier="0")
    card(machine, "ens2", carrier="0", flags="0x1002")
    card(machine, "ens3", speed="10000")

    card(machine, "ens4", carrier="0", flags="0x1002")
    card(machine, "ens40", speed="-1")  # a rate that the driver does not know

    found = links.read(host_of(machine), Config(links={"ens[34]*": 25}))["conditions"]

    assert [(each["id"], each["effect"], each["message"]) for each in found] == [
        ("link/down", "note", "ens1 is without link"),
        ("link/slow", "quarantine", "ens3 runs at 10 Gb/s, expected 25"),
        ("link/down", "quarantine", "ens4 is switched off"),
    ]


def test_a_file_system_that_became_read_only_is_a_condition(machine: Machine) -> None:
    wanted = (
        "UUID=1 / ext4 defaults",
        "UUID=2 /data xfs defaults",
        "UUID=3 /iso ext4 ro",
        "/dev/sr0 /cd iso9660 defaults",
    )
    mounted = (
        "/dev/sda1 / ext4 ro,relatime",
        "/dev/sdb1 /data xfs rw",
        "/dev/sdc1 /iso ext4 ro",
        "/dev/sr0 /cd iso9660 ro",
    )
    machine.write("/etc/fstab", "".join(f"{each} 0 0\n" for each in wanted))
    machine.write("/proc/self/mounts", "".join(f"{each} 0 0\n" for each in mounted))

    found = system.read(host_of(machine), Config())["conditions"]

    assert [each["target"] for each in found if each["id"] == "fs/read-only"] == ["/"]


@pytest.mark.parametrize(("state", "is_said"), [("0", False), ("5", True)])
def test_a_clock_that_is_not_synchronised_is_a_condition(
    machine: Machine, libraries: Path, state: str, is_said: bool
) -> None:
    machine.environment |= {"LD_PRELOAD": str(libraries / "adjtimex.so"), "ADJTIMEX": state}

    assert ("clock/unsynchronised" in machine.conditions()) is is_said


CREDENTIAL = "nGQxZ8Jr"
# As curtin and cloud-init's package write the file.
DATASOURCES = (
    "datasource:\n  MAAS: {{consumer_key: {key}, metadata_url: '{url}', token_key: {key}, token_secret: {key}}}\n",
    'datasource:\n  MAAS:\n    consumer_key: {key}\n    metadata_url: "{url}"\n    token_key: {key}\n',
)


@contextmanager
def metadata_service(certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """A metadata service that knows nobody. Yields its host and port."""

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(401)

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def probed(machine: Machine, url: str, written: str = DATASOURCES[0]) -> list[Condition]:
    """What the agent says about the metadata service that cloud-init uses."""
    machine.write("/etc/cloud/cloud.cfg.d/90_dpkg_maas.cfg", written.format(url=url, key=CREDENTIAL), 0o600)
    found: list[Condition] = system.metadata(host_of(machine), Config())["conditions"]
    return found


@pytest.mark.parametrize("written", DATASOURCES)
def test_a_metadata_service_that_answers_is_noted_with_its_url_whatever_it_answers(
    machine: Machine, written: str
) -> None:
    with metadata_service() as place:
        found = probed(machine, f"http://{place}/MAAS/metadata/curtin", written)

    said = f"http://{place}/MAAS/metadata/curtin answers from the machine's network"
    assert found == [{"id": "metadata_reachable", "message": said, "effect": "note"}]


def test_the_note_on_the_metadata_service_has_no_credential(machine: Machine) -> None:
    with metadata_service() as place:
        (found,) = probed(machine, f"http://maas:{CREDENTIAL}@{place}/MAAS/metadata?token={CREDENTIAL}")

    assert found["message"].startswith(f"http://{place}/MAAS/metadata answers")
    assert CREDENTIAL not in json.dumps(found)


def test_a_metadata_service_with_a_certificate_of_its_own_answers(machine: Machine, tmp_path: Path) -> None:
    issued = Authority("region", now=datetime.now(UTC)).issue(tmp_path, hosts=("127.0.0.1",))

    with metadata_service((issued.certificate, issued.key)) as place:
        (found,) = probed(machine, f"https://{place}/MAAS/metadata/")

    assert found["message"].startswith(f"https://{place}/MAAS/metadata/ answers")


def test_a_machine_that_reaches_no_metadata_service_has_no_note(machine: Machine) -> None:
    assert probed(machine, "http://127.0.0.1:1/MAAS/metadata/") == []


def test_a_machine_that_no_maas_installed_is_not_probed(machine: Machine) -> None:
    with metadata_service() as place:
        assert probed(machine, f"http://{place}/", "datasource_list: [NoCloud, None]\nseedfrom: {url}\n") == []


MONITORS = "/run/farrier-agent/conditions.d"
FAN = {"id": "fan", "target": "fan 3", "message": "fan 3 stands still", "effect": "quarantine"}


def test_conditions_of_other_monitors_are_reported_with_the_name_of_their_file(machine: Machine) -> None:
    machine.write(f"{MONITORS}/dcgm.json", json.dumps({"conditions": [FAN]}))

    assert dropped(host_of(machine)) == [{**FAN, "id": "dcgm/fan"}]


def test_a_monitor_that_stopped_writing_is_a_condition_and_its_report_no_longer_counts(machine: Machine) -> None:
    file = machine.write(f"{MONITORS}/dcgm.json", json.dumps({"ttl": 60, "conditions": [FAN]}))
    os.utime(file, (time.time() - 61,) * 2)

    (said,) = dropped(host_of(machine))

    assert (said["id"], said["effect"], said["target"]) == ("agent/monitor-file", "note", "dcgm")
    assert "dcgm has not written it for more than 60 s" in said["message"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "Expecting property name"),
        ("[]", 'expected {"conditions": [...]}'),
        (" " * 65_536 + "[]", "Expecting value"),
        ("[" * 60_000, "recursion depth exceeded"),
        (json.dumps({"conditions": [{**FAN, "effect": "destroy"}]}), "the effect note or quarantine"),
        (json.dumps({"conditions": [{**FAN, "id": "no blanks"}]}), "expected letters, digits"),
        (json.dumps({"conditions": [{**FAN, "more": "x"}]}), "must be an object of id, message, effect"),
        (json.dumps({"conditions": ["fan"]}), "must be an object of id, message, effect"),
        (json.dumps({"conditions": [], "ttl": -1}), "ttl must be a number of seconds"),
        (b"\xff\xfe", "cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_condition_that_says_why(
    machine: Machine, content: str | bytes, said: str
) -> None:
    machine.write(f"{MONITORS}/bad.json", content)
    machine.write(f"{MONITORS}/good.json", json.dumps({"conditions": [FAN]}))

    bad, good = dropped(host_of(machine))

    assert (bad["id"], bad["effect"], bad["target"], good["id"]) == ("agent/monitor-file", "note", "bad", "good/fan")
    assert said in bad["message"]


def test_a_heartbeat_has_at_most_a_hundred_conditions_and_keeps_those_that_quarantine() -> None:
    found = [condition(f"a/{number}", "it") for number in range(150)] + [condition("z/1", "it", "quarantine")]

    kept = bounded(found)

    assert len(kept) == 100
    assert (kept[0]["id"], kept[-1]["message"]) == ("z/1", "52 further conditions are not reported")


def test_conditions_with_long_texts_fit_into_a_heartbeat() -> None:
    found = [condition(f"a/{number}", "\N{GRINNING FACE}" * 500) for number in range(100)]

    kept = bounded(found)

    assert len(json.dumps(kept)) < 64 * 1024
    assert kept[-1]["message"] == f"{101 - len(kept)} further conditions are not reported"
