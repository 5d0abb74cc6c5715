"""`farrier health`: the health check of a container, over HTTP and over TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from prometheus_client import CollectorRegistry
from typer.testing import CliRunner, Result

from farrier import cli, clock
from farrier.cli.service import health
from farrier.cli.service.health import Process
from farrier.config import AgentsConfig, Config, HttpConfig, MetricsConfig
from farrier.sim.certificates import Authority
from farrier.web.server.serving import serving
from farrier.web.server.site import WebApplication
from farrier.web.server.tls import Certificate
from tests.support import containers
from tests.support.sockets import free_port

SETTINGS = {f"FARRIER_{name}": None for name in ("CONFIG", "METRICS_HOST", "METRICS_PORT", "HTTP_HOST", "HTTP_PORT")}


@asynccontextmanager
async def daemon(certificate: Certificate | None = None) -> AsyncIterator[dict[str, str | None]]:
    """A process that is alive and not ready; yields the settings of a container with it. With a certificate, the
    process serves the pages."""
    section = "METRICS" if certificate is None else "HTTP"
    site = WebApplication(CollectorRegistry(), unready_because=lambda: "waiting for the database")
    tls = None if certificate is None else certificate.context
    async with serving(site.app, host="127.0.0.1", port=0, tls=tls) as url:
        # In a container, it listens on every address.
        yield SETTINGS | {f"FARRIER_{section}_HOST": "0.0.0.0", f"FARRIER_{section}_PORT": url.rpartition(":")[2]}


async def check(settings: dict[str, str | None], *words: str) -> Result:
    """What the command of the image does in a container with these settings."""
    program, *command = containers.health_check()
    assert program == "farrier"
    return await anyio.to_thread.run_sync(partial(CliRunner().invoke, cli.app, [*command, *words], env=settings))


async def test_a_live_daemon_is_healthy_and_an_unready_daemon_reports_the_reason() -> None:
    async with daemon() as settings:
        alive, ready = await check(settings), await check(settings, "--ready")
    assert (alive.exit_code, alive.stdout) == (0, "ok\n")
    assert (ready.exit_code, ready.stdout) == (1, "not ready: waiting for the database\n")


async def test_a_daemon_with_a_certificate_for_its_public_name_is_healthy(tmp_path: Path) -> None:
    files = Authority("test", now=clock.wall()).issue(tmp_path, hosts=("farrier.example",))
    certificate, key = str(files.certificate), str(files.key)
    async with daemon(Certificate(certificate, key)) as settings:
        without = await check(settings, "--of", "pages")
        tls = settings | {"FARRIER_HTTP_TLS_CERT": certificate, "FARRIER_HTTP_TLS_KEY": key}
        alive = await check(tls, "--of", "pages")
    assert without.exit_code == 1
    assert (alive.exit_code, alive.stdout) == (0, "ok\n")


async def test_the_check_of_a_closed_port_fails_with_one_line() -> None:
    with free_port() as port:
        dead = await check(SETTINGS | {"FARRIER_METRICS_PORT": str(port)})
    assert dead.exit_code == 1
    assert dead.stderr.startswith(f"farrier: no response from http://127.0.0.1:{port}/healthz: ")
    assert len(dead.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("config", "process", "url"),
    [
        (Config(), Process.CONTROLLER, "http://127.0.0.1:9464"),
        (Config(), Process.PAGES, "http://127.0.0.1:9465"),
        (Config(), Process.AGENTS, "http://127.0.0.1:9466"),
        (Config(metrics=MetricsConfig(host="0.0.0.0")), Process.CONTROLLER, "http://127.0.0.1:9464"),
        (Config(metrics=MetricsConfig(host="::")), Process.CONTROLLER, "http://[::1]:9464"),
        (
            Config(http=HttpConfig(host="2001:db8::1", tls_cert="a", tls_key="b")),
            Process.PAGES,
            "https://[2001:db8::1]:9465",
        ),
        (
            Config(agents=AgentsConfig(host="0.0.0.0", tls_cert="a", tls_key="b", port=80)),
            Process.AGENTS,
            "https://127.0.0.1:80",
        ),
        (Config(http=HttpConfig(host="node-1.example", port=80)), Process.PAGES, "http://node-1.example:80"),
    ],
)
def test_the_address_of_the_check_comes_from_the_settings(config: Config, process: Process, url: str) -> None:
    assert health.url_of(config, process) == url


async def test_the_port_0_in_the_settings_is_a_usage_error() -> None:
    refused = await check(SETTINGS | {"FARRIER_METRICS_PORT": "0"})
    assert refused.exit_code == 2
    assert "set metrics.port" in refused.stderr
