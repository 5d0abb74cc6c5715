"""`farrier serve`: runs a server of the pages and the API, or of the agents, until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farrier import config, log
from farrier.model.loop.doors import DoorKind


def serve(
    agents: Annotated[
        bool, typer.Option("--agents", help="Serve the API of the agents instead of the pages and the HTTP API.")
    ] = False,
    config_file: Annotated[
        Path | None, typer.Option("--config", envvar="FARRIER_CONFIG", help="TOML file with settings.")
    ] = None,
    dsn: Annotated[str | None, typer.Option(help="URL of the database: postgresql://…")] = None,
    db_timeout: Annotated[
        str | None, typer.Option(help="Time limit for connecting to the database at the start, such as 60s.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free port.")] = None,
    log_level: Annotated[
        log.Level | None, typer.Option(help="Lowest log level that farrier writes.", case_sensitive=False)
    ] = None,
) -> None:
    """Serve the pages and the HTTP API until SIGTERM or Ctrl-C; with --agents, serve the API of the agents.

    Any number of servers can share one database with the controllers. A server needs a database user of its own: with
    the roles farrier_intents and farrier_reader for the pages, and with the role farrier_agent for the agents. On
    SIGHUP, the server reads tokens and certificate again.
    """
    kind = DoorKind.AGENTS if agents else DoorKind.PAGES
    flags: dict[str, object] = {
        "database.dsn": dsn,
        "database.db_timeout": db_timeout,
        "agents.port" if agents else "http.port": port,
        "log.level": log_level,
    }

    def read() -> config.Config:
        return config.load(config_file, flags=flags)

    settings = read()
    log.configure(settings.log.level, settings.log.format)
    from farrier import server  # these imports take a second, and --help need not wait for them

    raise typer.Exit(server.main(settings, kind, read))
