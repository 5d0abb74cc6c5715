"""`farrier systemd install`: what it writes, and what it leaves as it is."""

from __future__ import annotations

import stat
import sysconfig
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from farrier import cli
from farrier.cli.service.systemd import CONTROLLERS, SERVICES
from farrier.errors import ExitCode
from tests.support import units


def install(root: Path, *options: str) -> Result:
    return CliRunner().invoke(cli.app, ["systemd", "install", "--root", str(root), *options])


def changes(root: Path, *options: str) -> dict[str, str]:
    """What happened to each file, by its path below the root."""
    done = install(root, *options, "--json")
    assert done.exit_code == 0, done.output
    return {str(Path(file["path"]).relative_to(root)): file["change"] for file in msgspec.json.decode(done.stdout)}


def test_the_units_run_the_program_of_this_environment(tmp_path: Path) -> None:
    assert set(changes(tmp_path).values()) == {"created"}
    for name in SERVICES:
        unit = tmp_path / "etc/systemd/system" / name
        (start,) = units.settings(unit)["ExecStart"]
        assert start.split()[0] == str(Path(sysconfig.get_path("scripts"), "farrier"))
        assert stat.S_IMODE(unit.stat().st_mode) == 0o644
        assert "LoadCredential=dsn:" in (tmp_path / "etc/systemd/system" / f"{name}.d/credentials.conf").read_text()


def test_an_upgrade_replaces_the_units_and_keeps_files_that_an_operator_edits(tmp_path: Path) -> None:
    install(tmp_path, "--user", "fleet")
    unit, credentials, account = (
        tmp_path / "etc/systemd/system" / name
        for name in ("farrier.service", "farrier.service.d/credentials.conf", "farrier.service.d/account.conf")
    )
    unit.write_text("[Service]\nExecStart=/of/the/previous/release\n")
    credentials.write_text("[Service]\nLoadCredential=dsn:/elsewhere\n")
    assert changes(tmp_path) == {
        "etc/systemd/system/farrier.service": "updated",
        "etc/systemd/system/farrier.service.d/credentials.conf": "kept as it is",
        "etc/systemd/system/farrier@.service": "unchanged",
        "etc/systemd/system/farrier@.service.d/credentials.conf": "kept as it is",
        "etc/systemd/system/farrier-serve.service": "unchanged",
        "etc/systemd/system/farrier-serve.service.d/credentials.conf": "kept as it is",
        "etc/systemd/system/farrier-agents.service": "unchanged",
        "etc/systemd/system/farrier-agents.service.d/credentials.conf": "kept as it is",
    }
    assert "/of/the/previous/release" not in unit.read_text()
    assert "/elsewhere" in credentials.read_text()
    assert "User=fleet" in account.read_text()


def test_a_permanent_account_is_declared_in_sysusers_and_in_the_units_of_controllers(tmp_path: Path) -> None:
    assert "etc/sysusers.d/farrier.conf" in changes(tmp_path, "--user", "fleet")
    accounts = [path.parent.name for path in tmp_path.rglob("account.conf")]
    assert set(accounts) == {f"{name}.d" for name in CONTROLLERS}
    for name in CONTROLLERS:
        found = units.settings(tmp_path / "etc/systemd/system" / f"{name}.d/account.conf")
        assert found == {"DynamicUser": ["no"], "User": ["fleet"]}


def test_the_last_line_of_the_output_is_the_next_command(tmp_path: Path) -> None:
    start = "systemctl daemon-reload && systemctl enable --now farrier farrier-serve"
    assert install(tmp_path).stdout.splitlines()[-1] == f"next: {start}"
    assert install(tmp_path, "--user", "fleet").stdout.splitlines()[-1] == f"next: systemd-sysusers && {start}"


@pytest.mark.parametrize("user", ["", "Fleet", "a b", "0day", "x" * 40, "root;id"])
def test_an_account_that_no_system_accepts_is_refused(user: str, tmp_path: Path) -> None:
    refused = install(tmp_path, "--user", user)
    assert refused.exit_code == ExitCode.USAGE
    assert "expected an account name of lower-case letters" in " ".join(refused.stderr.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_an_unwritable_directory_is_reported_with_the_option_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = install(tmp_path / "file")
    assert refused.exit_code == ExitCode.USAGE
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"farrier: cannot write {tmp_path}/file/etc/systemd/system/farrier.service: Not a directory")
    assert line.endswith("or name another directory with --root")
