"""`farrier run` and `farrier serve`: run the daemon, or a server of the pages and the API or of the agents, in the
foreground, until a signal ends it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from farrier import config, log
from farrier.model.loop.doors import DoorKind

_ConfigFile = Annotated[Path | None, typer.Option("--config", envvar="FARRIER_CONFIG", help="TOML file with settings.")]
_Dsn = Annotated[str | None, typer.Option(help="URL of the database: postgresql://…")]
_DbTimeout = Annotated[
    str | None, typer.Option(help="Time limit for connecting to the database at the start, such as 60s.")
]
_LogLevel = Annotated[
    log.Level | None, typer.Option(help="Lowest log level that farrier writes.", case_sensitive=False)
]


def run(  # noqa: PLR0913 - one parameter is one option
    config_file: _ConfigFile = None,
    dsn: _Dsn = None,
    embedded: Annotated[
        str | None, typer.Option(metavar="DIR", help="Start an embedded PostgreSQL in this directory.")
    ] = None,
    db_timeout: _DbTimeout = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port for metrics and probes; 0 for any free port.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE.MODULE:NAME",
            help="Run this kind, which another package defines. Repeatable. Replaces the setting controller.kinds.",
        ),
    ] = None,
    log_level: _LogLevel = None,
) -> None:
    """Run the controller until SIGTERM or Ctrl-C. A second signal stops the controller at once, without a drain.

    Any number of controllers can share one database. On SIGHUP, the controller reads the settings again. It serves only
    metrics and probes; farrier serve serves the pages and the API. With an embedded database, the controller also
    starts the servers of pages and agents.
    """
    flags: dict[str, object] = {
        "database.dsn": dsn,
        "database.embedded": embedded,
        "database.db_timeout": db_timeout,
        "metrics.port": metrics_port,
        "log.level": log_level,
        "controller.kinds": kind or None,
    }
    read = partial(config.load, config_file, flags=flags)
    settings = read()
    log.configure(settings.log.level, settings.log.format)
    from farrier import daemon  # these imports take a second, and --help need not wait for them

    raise typer.Exit(daemon.main(settings, read))


def serve(
    agents: Annotated[
        bool, typer.Option("--agents", help="Serve the API of the agents instead of the pages and the HTTP API.")
    ] = False,
    config_file: _ConfigFile = None,
    dsn: _Dsn = None,
    db_timeout: _DbTimeout = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free port.")] = None,
    log_level: _LogLevel = None,
) -> None:
    """Serve the pages and the HTTP API until SIGTERM or Ctrl-C; with --agents, serve the API of the agents.

    Any number of servers can share one database with the controllers. A server needs a database user of its own: with
    the roles farrier_intents and farrier_reader for the pages, and with the role farrier_agent for the agents. On
    SIGHUP, the server reads tokens and certificate again.
    """
    flags: dict[str, object] = {
        "database.dsn": dsn,
        "database.db_timeout": db_timeout,
        "agents.port" if agents else "http.port": port,
        "log.level": log_level,
    }
    read = partial(config.load, config_file, flags=flags)
    settings = read()
    log.configure(settings.log.level, settings.log.format)
    from farrier import server  # these imports take a second, and --help need not wait for them

    raise typer.Exit(server.main(settings, DoorKind.AGENTS if agents else DoorKind.PAGES, read))
