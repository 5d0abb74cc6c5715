"""`farrier token`: creates tokens of the HTTP API, and lists the clients that have a token."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.text import Text

from farrier import clock
from farrier.cli import group
from farrier.cli.options import arguments
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed_once
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import with_settings
from farrier.config import Config, token_file
from farrier.config.token_file import ApiToken
from farrier.errors import ConfigError
from farrier.model import api_token, duration
from farrier.model.api_token import Scope
from farrier.model.views.nodes import Page

token = group("token")


@token.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the client, as shown in intents and in the history.")],
    scope: Annotated[
        list[Scope], typer.Option(help="What the client may do. Repeatable. admin includes all other scopes.")
    ],
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the token is valid, such as 90d. Default: it never expires."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(help="Add the entry to this file. The setting http.tokens_file has to name the same file."),
    ] = None,
    as_json: printing.AsJson = False,
) -> None:
    """Create a token, and print it once, with its entry for http.tokens_file. farrier stores only the hash.

    With --file, the command prints only the token. A running farrier reads the file again on SIGHUP.
    """
    created = api_token.token(secrets.token_hex())
    entry = _entry(name, scope, expires_in, created)
    if file is not None:
        token_file.add(file, entry)
    if as_json:
        printing.json({"token": created, "entry": token_file.entry(entry)})
        return
    typer.echo(created)
    if file is None:
        typer.echo(f"\n{token_file.entry(entry)}", nl=False)
    else:
        typer.echo(
            f"added {name} to {file}; a running farrier reads the file again on SIGHUP (systemctl reload farrier)",
            err=True,
        )


@token.command("list")
@with_settings
@formed_once
def list_(
    settings: Config,
    form: OutputFormat,
    file: Annotated[
        Path | None, typer.Option(help="File with the tokens. Default: the setting http.tokens_file.")
    ] = None,
) -> None:
    """List the clients in the tokens file with their scopes and expiry. The file contains hashes of tokens, never a
    token."""
    path = settings.http.tokens_file if file is None else str(file)
    if not path:
        raise ConfigError(
            "no tokens file is configured; set http.tokens_file in the file that --config names, or use --file FILE"
        )

    async def read() -> Page[ApiToken]:
        return Page(clock.wall(), token_file.load(path))

    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: lists.once(read),
        name=lambda each: each.name,
        fields=ApiToken.__struct_fields__,
        none=f"{path} has no token",
    )
    anyio.run(lists.show, listed, form)


def _expires(token: ApiToken, now: datetime) -> Cell:
    if token.expires is None:
        return "never"
    if token.expires <= now:
        return Text(f"expired {printing.ago(token.expires, now)} ago", style="red")
    return f"in {duration.human(token.expires - now)}"


_COLUMNS: tuple[Column[ApiToken], ...] = (
    Column("CLIENT", lambda each, _: each.name),
    Column("SCOPES", lambda each, _: ", ".join(each.scopes)),
    Column("EXPIRES", _expires, ages=True),
    Column("SHA256", lambda each, _: each.sha256, wide=True),
)


def _entry(name: str, scopes: list[Scope], expires_in: str | None, created: str) -> ApiToken:
    with arguments.usage_errors():
        expires = None
        if expires_in is not None:
            expires = clock.wall() + arguments.patience("--expires-in", expires_in, least=timedelta(seconds=1))
        return ApiToken(
            name=name, sha256=api_token.digest(created), scopes=tuple(dict.fromkeys(scopes)), expires=expires
        )
