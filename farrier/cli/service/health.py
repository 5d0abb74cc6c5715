"""`farrier health`: asks a process of farrier on this machine for its health, for the health check of a container.

The check runs again and again, so it uses the client of the standard library, which loads faster than httpx.
"""

from __future__ import annotations

import ssl
from contextlib import closing
from enum import StrEnum
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, assert_never
from urllib.parse import urlsplit

import typer

from farrier import config
from farrier.config import Config
from farrier.errors import ConfigError, ExitCode

# This is shorter than the time limit of container engines, because an engine would otherwise kill the check before it
# prints its message.
_SECONDS = 4.0


class Process(StrEnum):
    """A process of farrier."""

    CONTROLLER = "controller"
    PAGES = "pages"
    AGENTS = "agents"


def health(
    of: Annotated[
        Process,
        typer.Option(help="The process: farrier run, farrier serve, or farrier serve --agents."),
    ] = Process.CONTROLLER,
    ready: Annotated[
        bool,
        typer.Option(
            "--ready",
            help="Check whether the process is ready, that is, whether it can work with the database.",
        ),
    ] = False,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", envvar="FARRIER_CONFIG", help="TOML file with settings."),
    ] = None,
) -> None:
    """Check whether a process of farrier on this machine is alive. Exit code 0: alive; 1: not alive.

    The command takes address, port and TLS from the settings. It does not verify the certificate, because the
    certificate need not contain this address.
    """
    url = f"{url_of(config.load(config_file), of)}/{'readyz' if ready else 'healthz'}"
    try:
        status, text = _response(url)
    except (OSError, HTTPException) as failure:
        typer.echo(f"farrier: no response from {url}: {str(failure) or type(failure).__name__}", err=True)
        raise typer.Exit(ExitCode.FAILED) from None
    typer.echo(text.strip())
    if status != HTTPStatus.OK:
        raise typer.Exit(ExitCode.FAILED)


def _response(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_SECONDS)
    if parts.scheme == "https":
        # The request contains no secret, only the path, and it goes to an address of this machine.
        unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        connection = HTTPSConnection(parts.hostname or "", parts.port, timeout=_SECONDS, context=unverified)
    with closing(connection):
        connection.request("GET", parts.path)
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")


def url_of(settings: Config, process: Process) -> str:
    """Return the URL at which this machine reaches the process."""
    section, host, port, tls_cert = _address(settings, process)
    if port == 0:
        raise ConfigError(
            f"{section}.port is 0, so the settings do not show which port the process uses; set {section}.port"
        )
    return f"{'https' if tls_cert else 'http'}://{_host(host)}:{port}"


def _address(settings: Config, process: Process) -> tuple[str, str, int, str]:
    """Return the section of the settings with the address, and from it the host, the port and the certificate."""
    match process:
        case Process.CONTROLLER:
            return "metrics", settings.metrics.host, settings.metrics.port, ""
        case Process.PAGES:
            return "http", settings.http.host, settings.http.port, settings.http.tls_cert
        case Process.AGENTS:
            return "agents", settings.agents.host, settings.agents.port, settings.agents.tls_cert
        case _:
            assert_never(process)


def _host(host: str) -> str:
    """Return the host for a URL. If the daemon listens on all interfaces, return loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return str(address) if address.version == 4 else f"[{address}]"
