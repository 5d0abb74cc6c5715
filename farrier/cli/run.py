"""`farrier run`: the daemon in the foreground, until a signal ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from farrier import config, log


def run(  # noqa: PLR0913 - one parameter is one option
    config_file: Annotated[
        Path | None, typer.Option("--config", envvar="FARRIER_CONFIG", help="TOML file with settings.")
    ] = None,
    dsn: Annotated[str | None, typer.Option(help="PostgreSQL to work on, as a postgresql:// URL.")] = None,
    embedded: Annotated[
        str | None, typer.Option(metavar="DIR", help="Run a PostgreSQL of our own in this directory.")
    ] = None,
    db_timeout: Annotated[str | None, typer.Option(help="How long to try to reach the database, e.g. 60s.")] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port for metrics, health and views; 0 for any that is free.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PACKAGE.MODULE:NAME",
            help="A kind from another package to run, too; may be repeated. Takes the place of controller.kinds.",
        ),
    ] = None,
    log_level: Annotated[log.Level | None, typer.Option(help="The least that is logged.", case_sensitive=False)] = None,
) -> None:
    """Run the controller until SIGTERM or Ctrl-C; a second one does not wait for the drain.

    Any number of these may share one database. SIGHUP reads the settings again.
    """
    flags: dict[str, object] = {
        "database.dsn": dsn,
        "database.embedded": embedded,
        "database.db_timeout": db_timeout,
        "http.port": http_port,
        "log.level": log_level,
        "controller.kinds": kind or None,
    }

    def read() -> config.Config:
        return config.load(config_file, flags=flags)

    settings = read()
    log.configure(settings.log.level, settings.log.format)
    from farrier import daemon  # the rooms and their libraries take a second that --help need not wait

    raise typer.Exit(daemon.main(settings, read))
