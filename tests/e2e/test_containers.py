"""The compose file, run without containers: its secrets, scripts, commands and settings, on a real PostgreSQL.

A service is a process of this machine with the settings of the service. Places of a container lie in the test's
directory.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from farrier.io.connections import system_account
from farrier.io.connections.embedded import EmbeddedServer, wheel_binaries
from farrier.metrics import dashboards
from tests.support import containers, pg
from tests.support.process import PATIENCE, Farrier, farrier
from tests.support.programs import program
from tests.support.sockets import free_port

PAGE = (containers.ROOT / "docs" / "operate" / "containers.md").read_text(encoding="utf-8")
SHELL = dict(re.findall(r"<!-- sh: (\w+) -->\n```sh\n(.*?)```", PAGE, re.DOTALL))
SECTIONS = ("METRICS", "HTTP", "AGENTS")
ANYWHERE = {"HOST": "127.0.0.1", "PORT": "0"}
HBA = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


class Deployment(msgspec.Struct, frozen=True):
    """The checkout's deploy/ with its secrets, and the address of the database."""

    directory: Path
    database: str

    def here(self, text: str) -> str:
        """The text, with each path of a container replaced by its path on this host."""
        return text.replace("/run/secrets", str(self.secrets)).replace("/var/lib/farrier", str(self.volume))

    @property
    def secrets(self) -> Path:
        return self.directory / "deploy" / "secrets"

    @property
    def volume(self) -> Path:
        return self.directory / "observability"

    def command(self, service: str) -> list[str]:
        return [self.here(word) for word in containers.OWN[service]["command"]]

    def settings(self, service: str) -> dict[str, str]:
        given = containers.variables() | containers.OWN[service].get("environment", {})
        own = {name: self.here(value) for name, value in given.items() if name.startswith("FARRIER_")}
        return own | {f"FARRIER_{section}_{key}": value for section in SECTIONS for key, value in ANYWHERE.items()}

    async def runs(self, service: str) -> str:
        """Run a service that ends by itself, and return its output."""
        async with farrier(*self.command(service), environment=self.settings(service)) as once:
            assert await once.ended() == 0, once.logged
        return once.printed


@contextmanager
def database(owners_password: str, *, port: int) -> Iterator[Path]:
    """Run the server of the service `db`, without its script; gives the directory of the server's socket."""
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-compose-"))
    hba = directory / "hba.conf"
    hba.write_text(HBA)
    own = system_account.for_server(directory / "absent")
    own.take(directory)
    own.take(hba)
    listening = {"listen_addresses": "127.0.0.1", "port": str(port), "hba_file": str(hba)}
    server = EmbeddedServer(directory / "server", settings=pg.FAST | listening)
    try:
        server.start()
        owner = f"CREATE ROLE fleetowner SUPERUSER LOGIN PASSWORD '{owners_password}'"
        psql(owner, PGHOST=str(directory / "server"), PGPORT=str(port), PGUSER="postgres", PGDATABASE="farrier")
        yield directory / "server"
    finally:
        server.stop()
        shutil.rmtree(directory)


def psql(statement: str, **environment: str) -> None:
    run(wheel_binaries() / "psql", "-c", statement, **environment)


def run(*command: str | Path, **environment: str) -> None:
    path = {"PATH": f"{wheel_binaries()}:/usr/bin:/bin"}
    done = subprocess.run(command, env=path | environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """The page's secrets, and the database that the image of PostgreSQL makes with them."""
    shutil.copytree(containers.DEPLOY, tmp_path / "deploy", ignore=shutil.ignore_patterns("secrets"))
    (tmp_path / "observability").mkdir()
    run("bash", "-euc", f"cd {tmp_path}\n{SHELL['secrets']}")
    secrets = tmp_path / "deploy" / "secrets"
    with free_port() as port:
        made = Deployment(tmp_path, f"127.0.0.1:{port}")
        for dsn in secrets.glob("*-dsn"):
            dsn.write_text(dsn.read_text().replace("@db/", f"@{made.database}/"))
        with database((secrets / "owner-password").read_text(), port=port) as socket:
            script = tmp_path / "deploy/postgres/logins.sh"
            script.write_text(made.here(script.read_text()))
            environment: dict[str, str] = containers.SERVICES["db"]["environment"]
            run(script, **environment | {"PGHOST": str(socket), "PGPORT": str(port)})
            yield made


@pytest.fixture
async def daemon(deployment: Deployment) -> AsyncIterator[Farrier]:
    await deployment.runs("roles")
    await deployment.runs("migrate")
    async with farrier(*deployment.command("farrier"), environment=deployment.settings("farrier")) as running:
        await running.until("daemon.ready")
        yield running


async def healthy(deployment: Deployment, service: str, section: str, process: Farrier) -> None:
    """Run the health check of a service, which finds its process alive."""
    url = (await process.until("http.listening"))["url"]
    settings = deployment.settings(service) | {f"FARRIER_{section}_PORT": url.rpartition(":")[2]}
    own = containers.SERVICES[service].get("healthcheck", {"test": ["CMD", *containers.health_check()]})
    _, program, *check = own["test"]
    run(sys.executable, "-m", program, *check, PYTHONPATH=str(containers.ROOT), **settings)


@pytest.mark.full
async def test_the_services_lead_from_the_secrets_of_the_page_to_a_daemon_that_is_healthy(
    deployment: Deployment, daemon: Farrier
) -> None:
    token = (deployment.secrets / "api-token").read_text()
    await healthy(deployment, "farrier", "METRICS", daemon)
    async with (
        farrier(*deployment.command("serve"), environment=deployment.settings("serve")) as pages,
        farrier(*deployment.command("agents"), environment=deployment.settings("agents")) as agents,
    ):
        for server in (pages, agents):
            await server.until("server.ready")
        await healthy(deployment, "serve", "HTTP", pages)
        await healthy(deployment, "agents", "AGENTS", agents)
        address = (await pages.until("http.listening"))["url"]
        assert (await agents.until("http.listening"))["url"].startswith("https://")
        request = {"node": "gpu-1", "action": "drain"}
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE) as client:
            without = await client.post("/api/v1/intents", json=request)
            known = await client.post("/api/v1/intents", json=request, headers={"Authorization": f"Bearer {token}"})
    assert (without.status_code, known.status_code) == (401, 404)
    logged = daemon.logged + pages.logged + agents.logged
    assert not [secret.name for secret in deployment.secrets.iterdir() if secret.read_text().strip() in logged]


@pytest.mark.full
async def test_prometheus_and_grafana_find_the_rules_and_dashboards_of_this_version(tmp_path: Path) -> None:
    (tmp_path / "observability").mkdir()
    made = Deployment(tmp_path, "nowhere")
    await made.runs("alerts")
    await made.runs("dashboards")
    prometheus = tmp_path / "prometheus.yml"
    prometheus.write_text(made.here((containers.DEPLOY / "prometheus.yml").read_text()))
    run(program("promtool"), "check", "config", prometheus)
    provisioned = msgspec.yaml.decode(made.here((containers.DEPLOY / "grafana/dashboards.yaml").read_text()))
    (provider,) = provisioned["providers"]
    assert provider["options"]["path"] == f"{made.volume}/dashboards"
    assert len(list((made.volume / "dashboards").glob("*.json"))) == len(dashboards.NAMES)
    (source,) = msgspec.yaml.decode((containers.DEPLOY / "grafana/datasources.yaml").read_text())["datasources"]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert any(published.endswith(f":{port}") for published in containers.SERVICES[host]["ports"])
