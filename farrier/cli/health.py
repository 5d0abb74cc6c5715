"""`farrier health`: asks the daemon of this machine for its health, for the health check of a container."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from farrier import config
from farrier.config import HttpConfig
from farrier.errors import ConfigError, ExitCode

# Shorter than the patience of a container's engine, which would kill the check without its message.
_SECONDS = 4.0


def health(
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether it is ready: whether the database commits renewals.")
    ] = False,
    config_file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", envvar="FARRIER_CONFIG", help="TOML file with the daemon's settings."),
    ] = None,
) -> None:
    """Ask the daemon of this machine whether it is alive. Exit code 0: it is; 1: it is not.

    Address, port and TLS are those of the daemon's settings. The daemon's certificate is not verified, because it is
    not for this address.
    """
    url = f"{url_of(config.load(config_file).http)}/{'readyz' if ready else 'healthz'}"
    import httpx  # half of the time that the check takes

    try:
        # Nothing is sent but the path, and the address is one of this machine.
        response = httpx.get(url, verify=False, timeout=_SECONDS, trust_env=False)
    except httpx.HTTPError as failure:
        typer.echo(f"farrier: no response from {url}: {str(failure) or type(failure).__name__}", err=True)
        raise typer.Exit(ExitCode.FAILED) from None
    typer.echo(response.text.strip())
    if not response.is_success:
        raise typer.Exit(ExitCode.FAILED)


def url_of(http: HttpConfig) -> str:
    """The address at which this machine reaches the daemon."""
    if http.port == 0:
        raise ConfigError("http.port is 0, so the daemon chose a port that the settings do not name; set http.port")
    scheme = "https" if http.tls_cert else "http"
    return f"{scheme}://{_host(http.host)}:{http.port}"


def _host(host: str) -> str:
    """The host for a URL; for the address of all interfaces, loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return str(address) if address.version == 4 else f"[{address}]"
