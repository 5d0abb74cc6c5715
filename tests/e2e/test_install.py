"""The pages Install and Upgrade: their lines are run against a PostgreSQL with TLS, and the service is started.

systemd and pip are simulated: `systemctl` and `systemd-sysusers` record their arguments, and the venv has the packages
of this one. Paths below /opt and /etc lie in the test's directory.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import anyio
import msgspec
import pytest

from farrier.io.connections import system_account
from farrier.io.connections.embedded import EmbeddedServer
from farrier.sim.certificates import Authority
from tests.support import pg, units
from tests.support.sockets import free_port
from tests.support.supervised import RUN, Systemd, supervised

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "operate"
PAGE, UPGRADE = ((PAGES / f"{name}.md").read_text(encoding="utf-8") for name in ("install", "upgrade"))
BLOCKS = dict(re.findall(r"<!-- (?:sh|sql): (\w+) -->\n```\w+\n(.*?)```", PAGE + UPGRADE, re.DOTALL))

# Replaces `python3 -m venv DIR`: the new environment has the packages of this one, so nothing has to be installed.
VENV = f"""{sys.executable} -m venv --without-pip "$3"
printf "%s\n" {ROOT} {sysconfig.get_path("purelib")} >"$(echo "$3"/lib/python3*/site-packages)/packages.pth"
printf "#!/bin/sh\n" >"$3/bin/pip"
printf "#!%s/bin/python\nfrom farrier.cli import main\nmain()\n" "$3" >"$3/bin/farrier"
chmod +x "$3/bin/pip" "$3/bin/farrier"
"""

HBA = "local all postgres trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n"
OWNERS = "owner-s-passw0rd"


class Machine(msgspec.Struct, frozen=True):
    """The machine on which the page's lines are run: a directory, the address of its database, and the DSN of the
    administrator of the server."""

    directory: Path
    database: str
    administrator: str

    def here(self, text: str) -> str:
        """The page's text with the paths and the database address of this test."""
        text = re.sub(r"(?<![\w.])/(opt|etc)/", rf"{self.directory}/\1/", text)
        text = text.replace("systemd install", f"systemd install --root {self.directory}")
        return text.replace("db.example", self.database)

    async def runs(self, *blocks: str) -> None:
        """Type the lines of these blocks into one shell. An error in any of them ends the test."""
        # The shell's option -e ignores an error inside of a chain of &&, but not this exit with the code of the chain.
        await self.types("".join(f"{BLOCKS[block]}(exit $?)\n" for block in blocks), PGPASSWORD=OWNERS)

    async def types(self, script: str, **environment: str) -> str:
        """Run these lines in a shell, and return the output. An error in any of them ends the test."""
        path = {"PATH": f"{self.directory}/bin:{Path(sys.executable).parent}:/usr/bin:/bin"}
        done = await anyio.run_process(
            ["bash", "-c", f"set -euo pipefail\n{self.here(script)}"],
            env=path | environment,
            cwd=self.directory,
            check=False,
        )
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        return done.stdout.decode()

    def credentials(self, unit: str) -> Path:
        """The directory of credentials that systemd makes of the LoadCredential= lines of a unit and its drop-ins."""
        installed = self.directory / "etc/systemd/system"
        made = self.directory / f"credentials-of-{unit}"
        made.mkdir(mode=0o700)
        for file in (installed / unit, *(installed / f"{unit}.d").glob("*.conf")):
            for line in units.settings(file).get("LoadCredential", []):
                name, source = self.here(line).split(":", 1)
                shutil.copy(source, made / name)
        return made

    def systemctl_calls(self) -> list[str]:
        """The arguments of each call of systemctl."""
        return (self.directory / "systemctl").read_text().splitlines()


@asynccontextmanager
async def server_with_tls(binaries: Path, authority: Authority, *, port: int) -> AsyncIterator[tuple[str, str]]:
    """A PostgreSQL on which the page's lines for its administrator were run; gives the address on which it listens, and
    the administrator's DSN."""
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-tls-"))
    files = authority.issue(directory, hosts=("127.0.0.1",))
    hba = directory / "hba.conf"
    hba.write_text(HBA)
    own = system_account.for_server(directory / "absent")
    for path in (directory, files.key, files.certificate, hba):
        own.take(path)
    files.key.chmod(0o600)
    secured = {"ssl": "on", "ssl_cert_file": str(files.certificate), "ssl_key_file": str(files.key)}
    listening = {"listen_addresses": "127.0.0.1", "port": str(port), "hba_file": str(hba)}
    server = EmbeddedServer(directory / "server", binaries=binaries, settings=pg.FAST | secured | listening)
    try:
        server.start()
        dsn = f"{server.dsn_of('postgres')}&port={port}"
        async with pg.Database(dsn).connect() as administrator:
            await administrator.execute("DROP DATABASE farrier")  # the page makes it
            for statement in BLOCKS["administrator"].splitlines():  # CREATE DATABASE requires a call of its own
                await administrator.execute(statement.replace("…", OWNERS))
        yield f"127.0.0.1:{port}", dsn
    finally:
        server.stop()
        shutil.rmtree(directory)


@pytest.fixture
async def machine(tmp_path: Path, pg15_binaries: Path) -> AsyncIterator[Machine]:
    """A machine on which farrier is not installed yet, and a database with TLS."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in {
        "systemctl": f'echo "$*" >>{tmp_path}/systemctl',
        "systemd-sysusers": f"echo sysusers >>{tmp_path}/systemctl",
        "curl": "exit 0",
        "python3": VENV,
        "farrier": f'cd {ROOT} && exec {sys.executable} -m farrier "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/bash\n{script}\n")
        (programs / name).chmod(0o755)
    (programs / "psql").symlink_to(pg15_binaries / "psql")
    authority = Authority("database", now=datetime.now(UTC))
    authority.write(tmp_path / "db-ca.pem")
    with free_port() as port:
        async with server_with_tls(pg15_binaries, authority, port=port) as (database, administrator):
            yield Machine(tmp_path, database, administrator)


@pytest.mark.full
async def test_the_lines_of_the_page_install_a_service_that_becomes_ready(machine: Machine, tmp_path: Path) -> None:
    await machine.runs("install")
    assert machine.systemctl_calls() == ["daemon-reload", "enable --now farrier farrier-serve"]
    secret = tmp_path / "etc/farrier/secrets/dsn"
    password = secret.read_text().split("@")[0].rpartition(":")[2]
    assert (secret.stat().st_mode & 0o777, len(password)) == (0o600, 48)
    assert password not in (tmp_path / "etc/farrier/farrier.toml").read_text()
    async with started(machine, "farrier.service", "farrier") as systemd:
        await systemd.hears("READY=1")
        assert password not in systemd.daemon.logged
    assert await in_use(machine, password) == "farrier_controller"
    for unit, port in (("farrier-serve.service", "HTTP"), ("farrier-agents.service", "AGENTS")):
        async with started(machine, unit, "", **{f"FARRIER_{port}_PORT": "0"}) as systemd:
            await systemd.hears("READY=1")
            assert (await systemd.daemon.get("/readyz")).text == "ready\n"


@pytest.mark.full
async def test_lines_that_are_repeated_keep_the_password_that_works(machine: Machine, tmp_path: Path) -> None:
    await machine.runs("install")
    secret = tmp_path / "etc/farrier/secrets/dsn"
    before = secret.read_text()
    with pytest.raises(AssertionError, match="already exists"):
        await machine.runs("install")
    assert secret.read_text() == before
    assert await in_use(machine, before.split("@")[0].rpartition(":")[2]) == "farrier_controller"


@pytest.mark.full
async def test_the_other_lines_of_the_page_work_after_the_first_ones(machine: Machine) -> None:
    await machine.runs("install", "look", "upgrade", "account", "replica")
    assert machine.systemctl_calls()[2:] == [
        "status farrier farrier-serve",
        "daemon-reload",
        "restart farrier farrier-serve",
        "sysusers",
        "daemon-reload",
        "restart farrier",
        "daemon-reload",
        "enable --now farrier@b",
    ]
    async with started(machine, "farrier@.service", "b") as systemd:
        await systemd.hears("READY=1")


@pytest.mark.full
async def test_an_operator_s_shell_reaches_the_database_without_files_in_the_home_directory(machine: Machine) -> None:
    await machine.runs("install")
    async with pg.Database(machine.administrator).connect() as conn:
        await conn.execute("CREATE ROLE ada LOGIN PASSWORD 'adas';" + BLOCKS["operator"])
    home = machine.directory / "home"
    home.mkdir()
    asked = BLOCKS["shell"] + (
        "farrier node list --json\n"
        "farrier db check >/dev/null\n"
        'psql -At "$FARRIER_DATABASE_DSN" -c "SELECT current_user, count(*) FROM farrier.intents"\n'
    )
    said = await machine.types(asked, HOME=str(home), USER="ada", PGPASSWORD="adas")
    assert said.split() == ["[]", "ada|0"]


@pytest.mark.full
async def test_after_the_removal_no_file_database_or_role_of_farrier_is_left(machine: Machine) -> None:
    await machine.runs("install", "remove")
    async with pg.Database(machine.administrator).connect() as conn:
        for statement in BLOCKS["forget"].splitlines():  # DROP DATABASE requires a call of its own
            await conn.execute(statement)
        assert await conn.fetchval("SELECT count(*) FROM pg_roles WHERE rolname ~ '^(farrier|fleet)'") == 0
        assert await conn.fetchval("SELECT count(*) FROM pg_database WHERE datname = 'farrier'") == 0
    assert [path.name for room in ("etc", "opt") for path in (machine.directory / room).rglob("*farrier*")] == []
    assert machine.systemctl_calls()[2:] == ["disable --now farrier farrier-serve", "daemon-reload"]


@asynccontextmanager
async def started(machine: Machine, unit: str, instance: str, **more: str) -> AsyncIterator[Systemd]:
    """The unit's process, as systemd starts it, on a free port."""
    found = units.settings(machine.directory / "etc/systemd/system" / unit)
    program, command, *arguments = machine.here(found["ExecStart"][0]).replace("%i", instance).split()
    assert program == f"{machine.directory}/opt/farrier/bin/farrier"
    words = RUN if command == "run" else (command,)
    credentials = {"CREDENTIALS_DIRECTORY": str(machine.credentials(unit))}
    async with supervised(machine.directory, *arguments, command=words, **credentials, **more) as systemd:
        yield systemd


async def in_use(machine: Machine, password: str) -> str:
    """The role that the service's user is a member of, as that user reads it over TLS."""
    authority = f"{machine.directory}/etc/farrier/db-ca.pem"
    dsn = f"postgresql://fleetd:{password}@{machine.database}/farrier?sslmode=verify-full&sslrootcert={authority}"
    async with pg.Database(dsn).connect() as conn:
        assert await conn.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        return str(await conn.fetchval("SELECT roleid::regrole FROM pg_auth_members WHERE member = 'fleetd'::regrole"))


@pytest.mark.full
async def test_a_server_certified_by_another_authority_is_refused(machine: Machine) -> None:
    Authority("somebody else", now=datetime.now(UTC)).write(machine.directory / "db-ca.pem")
    with pytest.raises(AssertionError, match="certificate verify failed"):
        await machine.runs("install")


def test_the_page_has_twelve_lines_as_it_says() -> None:
    assert "twelve lines of commands" in PAGE
    assert len(BLOCKS["install"].splitlines()) == 12
