"""`farrier run`: runs the daemon in the foreground, until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farrier import config, log


def run(  # noqa: PLR0913 - one parameter is one option
    config_file: Annotated[
        Path | None, typer.Option("--config", envvar="FARRIER_CONFIG", help="TOML file with settings.")
    ] = None,
    dsn: Annotated[str | None, typer.Option(help="URL of the database: postgresql://…")] = None,
    embedded: Annotated[
        str | None, typer.Option(metavar="DIR", help="Start an embedded PostgreSQL in this directory.")
    ] = None,
    db_timeout: Annotated[
        str | None, typer.Option(help="Time limit for connecting to the database at the start, such as 60s.")
    ] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port for metrics and probes; 0 for any free port.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE.MODULE:NAME",
            help="Run this kind, which another package defines. Repeatable. Replaces the setting controller.kinds.",
        ),
    ] = None,
    log_level: Annotated[
        log.Level | None, typer.Option(help="Lowest log level that farrier writes.", case_sensitive=False)
    ] = None,
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

    def read() -> config.Config:
        return config.load(config_file, flags=flags)

    settings = read()
    log.configure(settings.log.level, settings.log.format)
    from farrier import daemon  # these imports take a second, and --help need not wait for them

    raise typer.Exit(daemon.main(settings, read))
