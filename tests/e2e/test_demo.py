"""`farrier demo` as a newcomer runs it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import ssl
from pathlib import Path

import msgspec
import pytest

from farrier.errors import ExitCode
from farrier.io.connections.embedded import EmbeddedServer
from tests.support.process import ANY_PORTS, PATIENCE, Farrier, farrier


def nothing_runs(directory: Path) -> bool:
    """Whether both the database and the BMCs that the demo started in this directory have stopped."""
    return not bmcs_answer(directory / "bmc") and not EmbeddedServer(directory / "postgresql").is_running()


def bmcs_answer(directory: Path) -> bool:
    """Whether the BMCs of this directory respond: another program may have their port, but not their certificate."""
    configuration = (directory / "emulator.conf.py").read_text()
    port = next(line.split("=")[1] for line in configuration.splitlines() if "LISTEN_PORT" in line)
    trusting = ssl.create_default_context(cafile=directory / "ca.crt")
    try:
        with (
            socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE) as caller,
            trusting.wrap_socket(caller, server_hostname="127.0.0.1"),
        ):
            return True
    except OSError:  # no program listens, or one with another certificate
        return False


async def summary(demo: Farrier) -> dict[str, object]:
    told: dict[str, object] = msgspec.json.decode(demo.printed)
    return told


@pytest.mark.timeout(600)  # each demo ends by itself, after three minutes at the latest
async def test_every_node_becomes_active_every_bmc_manageable_and_no_process_stays(tmp_path: Path) -> None:
    """The demo runs twice on one directory, and the second fleet joins the first."""
    arguments = ("--nodes", "10", "--until-active", "--speed", "600", "--json")
    for _ in range(2):
        async with farrier("demo", *arguments, "--dir", str(tmp_path)) as demo:
            await demo.is_over()
            assert await demo.ended() == 0, demo.logged
        told = await summary(demo)
        assert told["ok"] is True
        assert (told["nodes"], told["active"], told["with_bmc"], told["manageable"]) == (10, 10, 8, 8)
        assert nothing_runs(tmp_path)


NEXT = re.compile(r"^  (farrier .*)\n      \S", re.MULTILINE)


@pytest.mark.full
@pytest.mark.timeout(180)
async def test_the_commands_in_the_last_lines_of_the_demo_work(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    arguments = ("--nodes", "2", "--until-active", "--speed", "600", "--dir", str(directory))
    async with farrier("demo", *arguments) as demo:
        await demo.is_over()
        assert await demo.ended() == 0, demo.logged
    *looks, again = [shlex.split(line)[1:] for line in NEXT.findall(demo.printed.partition("next:\n")[2])]
    for command in looks:
        async with farrier(*command) as look:
            assert await look.ended() == 0, look.logged
        assert "gpu-0001" in look.printed
    assert again[0] == "run"
    async with farrier(*again, "--metrics-port", "0", environment=ANY_PORTS) as daemon:
        await daemon.until("daemon.ready")
        daemon.send(signal.SIGTERM)  # it stops the server that it started
        assert await daemon.ended() == ExitCode.OK


async def test_a_directory_that_a_reference_cannot_name_is_refused_before_the_start(tmp_path: Path) -> None:
    async with farrier("demo", "--dir", f"{tmp_path}/a demo") as demo:
        assert await demo.ended() == ExitCode.USAGE
    assert demo.logged == (
        f"farrier: --dir: {tmp_path}/a demo contains a space, but references to credentials cannot contain spaces; "
        "use another directory\n"
    )
    assert not os.listdir(tmp_path)


@pytest.mark.full
@pytest.mark.timeout(180)
async def test_a_demo_without_a_directory_names_the_command_that_keeps_one(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    async with farrier("demo", "--nodes", "1", "--until-active", "--speed", "600", environment=home) as demo:
        await demo.is_over()
        assert await demo.ended() == 0, demo.logged
    named = NEXT.findall(demo.printed.partition("next:\n")[2])
    assert named == ["farrier demo --dir ~/farrier-demo", "farrier run --embedded ~/farrier-data", "farrier --help"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("farrier-demo-")]


@pytest.mark.full
@pytest.mark.timeout(120)
async def test_a_demo_that_misses_its_goal_reports_the_reasons(tmp_path: Path) -> None:
    arguments = ("--nodes", "50", "--until-active", "--timeout", "1", "--json", "--dir", str(tmp_path))
    async with farrier("demo", *arguments) as demo:
        assert await demo.ended() == 1
    told = await summary(demo)
    assert told["ok"] is False
    assert isinstance(told["missing"], list)
    assert {"name", "status", "management", "reason"} == told["missing"][0].keys()
    assert nothing_runs(tmp_path)


@pytest.mark.timeout(120)
async def test_commands_with_the_settings_of_the_demo_reach_its_fleet_and_its_region(tmp_path: Path) -> None:
    """A reader of an operator's page practises on the demo: each command takes its settings as this one does."""
    async with farrier("demo", "--nodes", "1", "--dir", str(tmp_path)) as demo:
        await demo.prints("1 enrolling")
        (command,) = re.findall(r"^commands: farrier (.*)$", demo.printed, re.MULTILINE)
        async with farrier(*shlex.split(command)) as shown:
            assert await shown.ended() == 0, shown.logged
        async with farrier("site", "check", "--ask", *shlex.split(command)[-2:]) as checked:
            assert await checked.ended() == 0, checked.logged
        demo.send(signal.SIGINT)  # it stops the server that it started
        assert await demo.ended() == 0, demo.logged
    assert "gpu-0001" in shown.printed and "demo-1" in checked.printed


@pytest.mark.timeout(120)
async def test_an_interrupt_stops_everything_in_order(tmp_path: Path) -> None:
    async with farrier("demo", "--nodes", "5", "--dir", str(tmp_path)) as demo:
        await demo.prints("4 enrolling")
        demo.send(signal.SIGINT)
        assert await demo.ended() == 0
    log = (tmp_path / "farrier.log").read_text()
    assert [event for event in ("drain.done", "database.closed", "daemon.stopped") if event not in log] == []
    assert nothing_runs(tmp_path)
