"""`farrier health`: asks the daemon on this machine for its health, for example as the health check of a container.

The check runs again and again, so it uses the client of the standard library, which loads faster than httpx.
"""

from __future__ import annotations

import ssl
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from farrier import config
from farrier.config import HttpConfig
from farrier.errors import ConfigError, ExitCode

# This is shorter than the time limit of container engines, because an engine would otherwise kill the check before it
# prints its message.
_SECONDS = 4.0


def health(
    ready: Annotated[
        bool,
        typer.Option(
            "--ready",
            help="Check whether the daemon is ready, that is, whether it can renew its leases in the database.",
        ),
    ] = False,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", envvar="FARRIER_CONFIG", help="TOML file with the daemon's settings."),
    ] = None,
) -> None:
    """Check whether the daemon on this machine is alive. Exit code 0: alive; 1: not alive.

    The command takes address, port and TLS from the daemon's settings. It does not verify the daemon's certificate,
    because the certificate need not contain this address.
    """
    url = f"{url_of(config.load(config_file).http)}/{'readyz' if ready else 'healthz'}"
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


def url_of(http: HttpConfig) -> str:
    """Return the URL at which this machine reaches the daemon."""
    if http.port == 0:
        raise ConfigError("http.port is 0, so the settings do not show which port the daemon uses; set http.port")
    scheme = "https" if http.tls_cert else "http"
    return f"{scheme}://{_host(http.host)}:{http.port}"


def _host(host: str) -> str:
    """Return the host for a URL. If the daemon listens on all interfaces, return loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return str(address) if address.version == 4 else f"[{address}]"
