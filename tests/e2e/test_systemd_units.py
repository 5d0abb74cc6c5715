"""The units: systemd warns of nothing, they expose as little of the machine as possible, and their settings fit."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from farrier import cli
from farrier.config import Config
from farrier.controller.ownership import GIVE_UP_AFTER
from farrier.errors import ExitCode
from tests.support import pages, units
from tests.support.programs import program

# On systemd's scale of 0 to 10. What remains exposed: the network, sockets, the root directory, and the device of the
# clock, which ProtectClock grants.
MOST_EXPOSED = 1.5

# After this time without a timely renewal, a controller gives up its shards.
GIVEN_UP = timedelta(seconds=GIVE_UP_AFTER)

every_unit = pytest.mark.parametrize("unit", units.EVERY, ids=lambda unit: unit.name)


def analyse(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze."""
    return subprocess.run([program("systemd-analyze"), *arguments], capture_output=True, text=True, check=False)


@every_unit
def test_systemd_verifies_every_unit_without_a_warning(unit: Path, tmp_path: Path) -> None:
    """The unit is verified under its installed name, and with a program that exists."""
    installed = tmp_path / unit.name.replace("@.", "@a.")
    installed.write_text(unit.read_text().replace("/opt/farrier/bin/farrier", sys.executable))
    verified = analyse("verify", installed)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@every_unit
@pytest.mark.parametrize("account", [(), ("--user", "fleet")], ids=["dynamic", "fleet"])
def test_installed_units_are_valid_with_their_drop_ins_and_expose_little(
    unit: Path, account: tuple[str, ...], tmp_path: Path
) -> None:
    assert CliRunner().invoke(cli.app, ["systemd", "install", "--root", str(tmp_path), *account]).exit_code == 0
    installed = tmp_path / "etc/systemd/system" / unit.name
    if "@" in unit.name:
        installed = installed.rename(installed.with_name("farrier@a.service"))
    verified = analyse("verify", installed)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")
    assert exposure(installed) <= MOST_EXPOSED


def test_a_unit_that_a_page_shows_is_valid(tmp_path: Path) -> None:
    """A block without a program is a drop-in."""
    shown = [block.text for found in pages.with_blocks().values() for block in found if block.language == "ini"]
    assert len(shown) == 2
    for text in shown:
        unit = tmp_path / "shown.service"
        started = "" if "ExecStart=" in text else f"ExecStart={sys.executable}\n"
        unit.write_text(text.replace("/opt/farrier/bin/python", sys.executable) + started)
        verified = analyse("verify", unit)
        assert (verified.returncode, verified.stdout + verified.stderr) == (0, ""), text


def test_systemd_creates_the_account_that_stays(tmp_path: Path) -> None:
    CliRunner().invoke(cli.app, ["systemd", "install", "--root", str(tmp_path), "--user", "fleet"])
    subprocess.run([program("systemd-sysusers"), f"--root={tmp_path}"], check=True)
    (account,) = (tmp_path / "etc/passwd").read_text().splitlines()
    name, _, _, _, _, home, shell = account.split(":")
    assert (name, home) == ("fleet", "/var/lib/farrier")
    assert shell.endswith("nologin")


def test_a_unit_with_a_setting_that_systemd_does_not_know_is_not_passed(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.service"
    wrong.write_text(f"[Service]\nExecStart={sys.executable}\nProtectEverything=yes\n")
    assert "ProtectEverything" in analyse("verify", wrong).stderr


@every_unit
def test_a_unit_exposes_little(unit: Path) -> None:
    assert exposure(unit) <= MOST_EXPOSED


def exposure(unit: Path) -> float:
    """systemd's rating of what a unit exposes, of ten."""
    analysed = analyse("security", "--offline=true", "--no-pager", unit)
    return float(analysed.stdout.strip().splitlines()[-1].split(":")[1].split()[0])


def test_the_template_unit_differs_from_the_service_only_in_settings_and_state() -> None:
    service, template = units.settings(units.SERVICE), units.settings(units.TEMPLATE)
    different = {name for name in service | template if service.get(name) != template.get(name)}
    assert different == {"Description", "ExecStart", "StateDirectory"}
    assert template["ExecStart"] == ["/opt/farrier/bin/farrier run --config /etc/farrier/%i.toml"]
    assert template["StateDirectory"] == ["farrier-%i"]


def test_the_units_of_the_servers_differ_from_the_service_only_in_command_share_stop_and_state() -> None:
    service = units.settings(units.SERVICE)
    for unit, command in ((units.SERVE, "serve"), (units.AGENTS, "serve --agents")):
        server = units.settings(unit)
        different = {name for name in service | server if service.get(name) != server.get(name)}
        assert different - {"LimitNOFILE"} == {
            *("CPUWeight", "Description", "ExecStart", "MemoryMax"),
            *("StateDirectory", "StateDirectoryMode", "TimeoutStopSec"),
        }
        assert server["ExecStart"] == [f"/opt/farrier/bin/farrier {command} --config /etc/farrier/farrier.toml"]
        assert units.seconds(server, "TimeoutStartSec") > Config().database.db_timeout
        assert not {"StateDirectory", "StateDirectoryMode"} & set(server)


@pytest.mark.parametrize("unit", [units.SERVICE, units.TEMPLATE], ids=lambda unit: unit.name)
def test_a_unit_gives_start_drain_and_watchdog_the_time_that_the_defaults_take(unit: Path) -> None:
    config, found = Config(), units.settings(unit)
    assert units.seconds(found, "TimeoutStartSec") > config.database.db_timeout
    assert units.seconds(found, "TimeoutStopSec") > config.controller.drain_timeout + GIVEN_UP
    assert units.seconds(found, "WatchdogSec") > 2 * GIVEN_UP


@every_unit
def test_a_unit_restarts_except_after_an_exit_code_that_a_restart_cannot_mend(unit: Path) -> None:
    found = units.settings(unit)
    assert found["Restart"] == ["on-failure"]
    hopeless = {str(code.value) for code in (ExitCode.USAGE, ExitCode.SCHEMA_TOO_NEW)}
    assert set(found["RestartPreventExitStatus"][0].split()) == hopeless
    assert found["StartLimitIntervalSec"] == ["0"]


@every_unit
def test_no_secret_gets_into_the_environment_or_a_core_file(unit: Path) -> None:
    found = units.settings(unit)
    assert not {"Environment", "EnvironmentFile", "PassEnvironment", "User", "Group"} & set(found)
    assert found["LimitCORE"] == ["0"]
    assert found["DynamicUser"] == ["yes"]
