"""Gives commands their settings and their database, and adds the options that select the settings and the database.

`with_database` passes a `CommandSession` to a command as its first parameter, and `with_settings` a `Config`. Both
decorators add --dsn, --embedded, --config and --context to the command's own options. As in `farrier.config`, the order
of precedence is: option, environment, file. The current context applies only if none of these three sources names a
database.
"""

from __future__ import annotations

import getpass
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec, TypeVar

import anyio
import msgspec
import typer

from farrier import config, log
from farrier.cli.options import completion
from farrier.config import contexts
from farrier.config.contexts import Context
from farrier.errors import ConfigError
from farrier.io.connections import command_session as clients
from farrier.io.connections.pool import Single
from farrier.protocols import Queries, Requests

P = ParamSpec("P")
T = TypeVar("T")

_PANEL = "Which database"


class CommandSession(msgspec.Struct, frozen=True):
    """The settings and the database session of a command."""

    settings: config.Config
    queries: Queries
    requests: Requests


def with_database(command: Callable[Concatenate[CommandSession, P], Awaitable[None]]) -> Callable[P, None]:
    """Wrap a command, so that it receives a session. It fails if the schema does not fit this program."""

    @wraps(command)
    def connected(settings: config.Config, /, *args: P.args, **kwargs: P.kwargs) -> None:
        async def work() -> None:
            async with opened(settings) as session:
                await command(session, *args, **kwargs)

        anyio.run(work)

    return with_settings(connected)


@asynccontextmanager
async def client(settings: config.Config) -> AsyncIterator[clients.Client]:
    """Open the database for queries and requests. Raises the errors of `io.client.client`."""
    async with clients.client(await located(settings), requested_by=_this_user()) as reached:
        yield reached


def _this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # in a container, the user may have no name
        return f"uid {os.getuid()}"


def administer(settings: config.Config, work: Callable[[Single], Awaitable[T]]) -> T:
    """Do work on the schema over one connection. Raises the errors of `io.client.administrator`."""

    async def connected() -> T:
        async with clients.administrator(await located(settings)) as conn:
            return await work(conn)

    return anyio.run(connected)


async def located(settings: config.Config) -> config.DatabaseConfig:
    """Return the settings of the database, with the DSN in place of a reference to it. Raises ConfigError."""
    if settings.client.api and not (settings.database.dsn or settings.database.embedded):
        raise ConfigError("this command needs a connection to the database; use --dsn instead of --api")
    if not settings.database.refers:
        return settings.database
    from farrier.wiring import storage  # these imports take a second, and other commands need not wait for them

    return await storage.located(settings.database)


@asynccontextmanager
async def opened(settings: config.Config) -> AsyncIterator[CommandSession]:
    """Open a session with the database of these settings. If they name an API, use the API instead."""
    if settings.client.api:
        from farrier.client.remote import remote  # this import takes 50 ms, and most commands use a database

        async with remote(settings.client) as server:
            yield CommandSession(settings, server, server)
    else:
        async with client(settings) as database:
            yield CommandSession(settings, database.queries, database.requests)


def chosen_settings(given: Mapping[str, Any]) -> config.Config:
    """Return the settings that these options select. `given` does not contain options that the user omitted."""
    return _settings(**{name: given.get(name) for name in inspect.signature(_settings).parameters})


def with_settings(command: Callable[Concatenate[config.Config, P], None]) -> Callable[P, None]:
    """Wrap a command, so that it receives the settings. Its options may name the database."""
    signature = inspect.signature(command, eval_str=True)
    where = inspect.signature(_settings, eval_str=True).parameters

    @wraps(command)
    def configured(*args: P.args, **kwargs: P.kwargs) -> None:
        chosen: dict[str, Any] = {name: kwargs.pop(name) for name in where}
        settings = _settings(**chosen)
        log.configure(log.Level.ERROR, settings.log.format)  # an error ends as one line of this command
        command(settings, *args, **kwargs)

    own = tuple(signature.parameters.values())[1:]
    # typer derives the options from this signature.
    vars(configured)["__signature__"] = signature.replace(parameters=(*own, *where.values()))
    return configured


def _settings(
    *,
    dsn: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of the database: postgresql://…", rich_help_panel=_PANEL),
    ] = None,
    embedded: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Directory of the embedded PostgreSQL to use.", rich_help_panel=_PANEL),
    ] = None,
    api: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL of a running farrier. The command then uses its HTTP API instead of a database.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", envvar="FARRIER_CONFIG", help="TOML file with settings.", rich_help_panel=_PANEL
        ),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar="FARRIER_CONTEXT",
            help="Context to use. farrier context list lists the contexts.",
            autocompletion=completion.context_names,
            rich_help_panel=_PANEL,
        ),
    ] = None,
) -> config.Config:
    if api and (dsn or embedded):
        raise typer.BadParameter(
            "--api connects to the HTTP API, --dsn and --embedded to a database; give only one of them"
        )
    flags = {
        "database.dsn": "" if api else dsn,
        "database.embedded": "" if api else embedded,
        "client.api": "" if dsn or embedded else api,
    }
    if context is not None:
        if dsn or embedded or api:
            raise typer.BadParameter("--context already names a database or an API; omit --dsn, --embedded and --api")
        return _of_context(contexts.load().named(context), config_file)
    settings = config.load(config_file, flags=flags)
    if settings.database.dsn or settings.database.embedded or settings.client.api:
        return settings
    current = contexts.load().chosen()
    return settings if current is None else _of_context(current, config_file)


def _of_context(context: Context, config_file: Path | None) -> config.Config:
    return config.load(config_file or context.file, flags=context.flags)
