"""The commands and SQL on the pages are run, in the order of each page, against a daemon with a small fleet.

Blocks that another test runs are left out; `BEFORE` replaces programs that are not available here, and `NAMES` the
pages' names by those of the fleet.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

import anyio
import msgspec
import pytest

from farrier.cli.site import regions
from farrier.config import Config, CredentialsConfig, DatabaseConfig, HttpConfig, MetricsConfig, SitesConfig
from farrier.daemon import Daemon, Serving
from farrier.errors import ExitCode
from farrier.io.connections.embedded import wheel_binaries
from farrier.io.connections.pool import Connection
from farrier.sim.agents import Pace, SimulatedAgents
from farrier.sim.installs import TEMPLATE
from farrier.sim.maas import Region, open_region
from farrier.sim.maas.files import RegionFiles, write_site
from farrier.sim.maas.records import Machine
from farrier.sim.ufm import Manager, open_ufm
from tests.support import again, pages, pg, served
from tests.support.door import client_on
from tests.support.pages import Block

# Run before the lines of a page. Programs of systemd and of an outside server do nothing; nor does `make`, whose
# targets CI runs. Commands that would run for ever are ended; a daemon that creates its own server has the time for it.
# A `grep` that finds nothing is no error. The reader answers a question with "y".
BEFORE = """
for name in journalctl make systemctl vault; do eval "$name() { :; }"; done
ends() { timeout "$@" || [ $? = 124 ]; }
grep() { command grep "$@" || true; }
farrier() {
    case "$*" in
        "run --embedded"*) FARRIER_HTTP_PORT=0 FARRIER_AGENTS_PORT=0 ends 20 farrier "$@" --metrics-port 0 ;;
        run*) ends 5 farrier "$@" --metrics-port 0 ;;
        serve*) ends 5 farrier "$@" --port 0 ;;
        *--follow* | *--watch*) ends 5 farrier "$@" ;;
        "import --maas"* | "node set -l"*) command farrier "$@" --yes ;;
        *) command farrier "$@" ;;
    esac
}
"""
# The address of a database on a page, without the quotation marks around it.
A_DSN = re.compile(r"postgresql://[^\s\"']+")
# The time limit of a whole block, which suffices on a busy machine.
PATIENCE_SECONDS = 60
NAMES = {
    "get 4711": "get 1",
    "wait 4711": "wait 1",
    "KIND NAME": "network_segment tenant-a",
    "list KIND": "list network_segment",
    "NAME": "gpu-017",
    "maas ams1": "maas fra1",
    "SITE": "fra1",
    "CLASS": "timeout",
    "ERROR": "timeout",
}
# Commands that are refused while the fleet is healthy.
REFUSED = ("farrier site unbrake", "farrier db lift", "farrier resource act network_segment delete")
TOKEN = "t0ken-of-the-pages"

FLEET = """
    SELECT farrier.register_node(name, site => 'fra1') FROM unnest('{gpu-17,gpu-017,gpu-3,gpu-018}'::text[]) AS name;
    INSERT INTO farrier.intents (node, action, params, api_version)
    VALUES ('gpu-3', 'pause', '{"reason": "new cables"}', 2);
"""
# On this page, nodes are in service, and agents do their tasks.
IN_SERVICE = "docs/operate/bulk.md"
AGENTS = Pace(heartbeat_every=timedelta(seconds=10), task_takes=timedelta(milliseconds=100))
ONBOARD = """
    SELECT farrier.register_node(name, site => 'ams1') FROM unnest('{rack7-1,rack7-2,rack7-3}'::text[]) AS name;
    SELECT farrier.register_node('rack8-1', site => 'ams1', labels => '{"row": "b"}');
    INSERT INTO farrier.intents (node, action, params, api_version)
    SELECT name, 'onboard', '{"mode": "manual"}', 2 FROM farrier.nodes WHERE name ~ '^rack|^gpu-017$';
"""
# What the page's drains, releases and imports lead to.
DONE = """
    SELECT array_agg(concat_ws(' ', name, status, site) ORDER BY name) FILTER (WHERE name ~ '^rack|^gpu-018$') =
           '{gpu-018 enrolling ams1,rack7-1 retired ams1,rack7-2 retired ams1,rack7-3 retired ams1,rack8-1 active ams1,
             rack9-1 enrolling fra1}'
      FROM farrier.nodes
"""
QUARANTINE = """
    INSERT INTO farrier.intents (node, action, params, api_version)
    VALUES ('rack8-1', 'quarantine', '{"reason": "a loud fan"}', 2);
"""
SEGMENT = """
    INSERT INTO farrier.resource_intents (kind, resource, action, params)
    VALUES ('network_segment', 'tenant-a', 'create', '{"site": "fra1", "prefixes": ["10.20.0.0/24"]}');
"""
UNDER_WAY = """
       EXISTS (SELECT FROM farrier.network_segments WHERE state = 'provisioning')
        OR EXISTS (SELECT FROM farrier.ib_partitions WHERE state = 'provisioning')
"""


class Reader(msgspec.Struct, frozen=True):
    """An operator who types the blocks of a page into a shell."""

    directory: Path
    url: str
    metrics: str
    dsn: str
    environment: Mapping[str, str]

    async def reads(self, block: Block) -> None:
        """Run all lines of a block. An error ends the test."""
        if block.language == "sql":
            await self.types(["psql", "-v", "ON_ERROR_STOP=1", self.dsn], block.text)
            await self.until_settled()
            return
        refused = any(command in block.text for command in REFUSED)
        code = ExitCode.REFUSED if refused else ExitCode.OK
        await self.types(["bash", "-euo", "pipefail", "-c", BEFORE + self.here(block.text)], code=code)

    async def until_settled(self) -> None:
        """Return once the daemon has provisioned the segments and partitions."""
        async with pg.Database(self.dsn).connect() as conn:
            await until(conn, f"SELECT NOT ({UNDER_WAY})")

    def here(self, text: str) -> str:
        """The lines of a page with the names and addresses of this fleet."""
        for name, stands_for in NAMES.items():
            text = re.sub(rf"\b{name}\b", stands_for, text)
        text = (
            text.replace("https://farrier.example", self.url)
            .replace("/var/lib/farrier", f"{self.directory}/lib")
            .replace("/etc/farrier", str(self.directory))
        )
        return (
            A_DSN.sub(f"'{self.dsn}'", text)
            .replace("localhost:9464", self.metrics.removeprefix("http://"))
            .replace("localhost:9465", self.url.removeprefix("http://"))
        )

    async def types(self, command: list[str], text: str = "", code: ExitCode = ExitCode.OK) -> None:
        with anyio.fail_after(PATIENCE_SECONDS):
            done = await anyio.run_process(
                command,
                input=text.encode(),
                env=self.environment,
                cwd=self.directory,
                check=False,
                stderr=subprocess.STDOUT,
            )
        assert done.returncode == code, f"{command[-1].removeprefix(BEFORE)}\n{text}\n{done.stdout.decode()}"


@asynccontextmanager
async def daemon(config: Config) -> AsyncIterator[Serving]:
    """`farrier run` in this process."""
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        yield await tasks.start(Daemon(config, stop).run)
        stop.set()


def write_files(directory: Path, maas: str, ufm: str) -> RegionFiles:
    """The site of the pages, and the secrets of its services."""
    often = timedelta(seconds=5)
    files = write_site(directory, "fra1", maas, template=TEMPLATE, events_every=often, motion_every=often)
    for name, text in {"ufm": "admin\n123456\n", "api-token": f"{TOKEN}\n"}.items():
        (files.secrets / name).write_text(text)
    with open(files.sites / "fra1.toml", "a", encoding="utf-8") as file:
        file.write(f'\n[ufm]\nurl = "{ufm}"\ncredential = "file:{files.secrets}/ufm"\n')
    return files


@pytest.fixture
async def reader(db: pg.Database, tmp_path: Path) -> AsyncIterator[Reader]:
    async with AsyncExitStack() as world:
        region = Region()
        region.keep(Machine(system_id="m4ch1n", hostname="rack9-1"))  # which a page imports
        maas = await world.enter_async_context(open_region(region, speed=60))
        ufm = await world.enter_async_context(open_ufm(Manager()))
        files = write_files(tmp_path / "site", maas, ufm)
        config = Config(
            database=DatabaseConfig(dsn=db.dsn),
            metrics=MetricsConfig(port=0),
            http=HttpConfig(port=0, bearer_token=f"file:{files.secrets}/api-token"),
            sites=SitesConfig(directory=str(files.sites)),
            credentials=CredentialsConfig(file_roots=(str(files.secrets),)),
        )
        await regions.prepare(config, regions.configured(config))  # as the page about sites says
        serving = await world.enter_async_context(daemon(config))
        url = await world.enter_async_context(served.server(db, config))
        async with db.connect() as conn:
            await conn.execute(FLEET)
        (tmp_path / "farrier.toml").touch()
        (tmp_path / "lib").mkdir()
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "farrier").write_text(f'#!/bin/sh\nexec {sys.executable} -m farrier "$@"\n')
        (programs / "farrier").chmod(0o755)
        environment = {
            "PATH": f"{programs}:{wheel_binaries()}:{os.environ['PATH']}",
            "PYTHONPATH": str(pages.ROOT),
            "FARRIER_DATABASE_DSN": db.dsn,
            "FARRIER_SITES_DIRECTORY": str(files.sites),
            "FARRIER_CREDENTIALS_FILE_ROOTS": str(files.secrets),
            "HOME": str(tmp_path),
            "TOKEN": TOKEN,
        }
        yield Reader(tmp_path, url, serving.url, db.dsn, environment)


@asynccontextmanager
async def in_service(reader: Reader) -> AsyncIterator[None]:
    """Nodes with agents; one of them is quarantined. And the files that the page imports."""
    database = pg.Database(reader.dsn)
    (table,) = [block.text for block in pages.with_blocks()[IN_SERVICE] if block.language == "csv"]
    (reader.directory / "nodes.csv").write_text(table)
    (reader.directory / "nodes.json").write_bytes(msgspec.json.encode([*map(imported, csv.DictReader(table.split()))]))
    async with (
        database.connect() as conn,
        database.pool(4) as connections,
        client_on(connections) as client,
        anyio.create_task_group() as group,
    ):
        agents = SimulatedAgents(client, AGENTS)
        await conn.execute(ONBOARD)
        await until(conn, "SELECT count(*) = 5 FROM farrier.intents WHERE action = 'onboard' AND status = 'accepted'")
        for row in await conn.fetch(
            "SELECT farrier.issue_bootstrap(name) FROM farrier.nodes WHERE name ~ '^rack|^gpu-017$'"
        ):
            await agents.enroll(row[0])
        group.start_soon(agents.run)
        await until(conn, "SELECT count(*) = 5 FROM farrier.nodes WHERE status = 'active'")
        await conn.execute(QUARANTINE)
        await until(conn, "SELECT status = 'quarantined' FROM farrier.nodes WHERE name = 'rack8-1'")
        yield
        assert await conn.fetchval(DONE)
        group.cancel_scope.cancel()


def imported(row: dict[str, str]) -> dict[str, object]:
    """A line of the page's table, as an object of a JSON file."""
    labels = dict(label.split("=") for label in row["labels"].split(";"))
    return row | {"labels": labels, "macs": row["macs"].split(";")}


async def until(conn: Connection, query: str) -> None:
    """Return once the query returns true."""
    with anyio.fail_after(pg.PATIENCE.total_seconds()):
        while not await conn.fetchval(query):
            await again.later()


def typed(found: list[Block]) -> list[Block]:
    return [block for block in found if (block.is_typed or block.language == "sql") and not block.is_run_elsewhere]


@pytest.mark.full
@pytest.mark.parametrize("page", [name for name, found in pages.with_blocks().items() if typed(found)])
async def test_the_commands_of_a_page_work(reader: Reader, page: str) -> None:
    if not page.startswith("docs/integrate/"):  # the pages of kinds create the segment themselves
        await reader.reads(Block(Path(page), "sql", "", SEGMENT))
    async with in_service(reader) if page == IN_SERVICE else nullcontext():
        for block in typed(pages.with_blocks()[page]):
            await reader.reads(block)


def test_every_block_that_is_not_run_has_a_known_reason() -> None:
    reasons = {
        block.marker.removeprefix("not run: ")
        for found in pages.with_blocks().values()
        for block in found
        if block.marker.startswith("not run: ")
    }
    assert reasons <= {
        *("Docker", "an outside server", "another machine"),
        *("needs a grant and a token", "needs a tokens file"),
    }
