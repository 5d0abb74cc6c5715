"""`farrier token`: creates tokens of the HTTP API."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from farrier import clock
from farrier.cli import arguments, output
from farrier.config import token_file
from farrier.config.token_file import ApiToken
from farrier.model import api_token
from farrier.model.api_token import Scope

token = typer.Typer(no_args_is_help=True, add_completion=False, help="Create tokens of the HTTP API.")


@token.callback()
def _group() -> None:
    """Keeps `create` a subcommand, although it is the only one."""


@token.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Name of the client, which intents and history show.")],
    scope: Annotated[list[Scope], typer.Option(help="What the client may do. Repeatable; admin includes the others.")],
    expires_in: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long the token is valid, such as 90d. Default: for ever."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Add the entry to this file, which http.tokens_file names.")] = None,
    as_json: output.AsJson = False,
) -> None:
    """Create a token, and print it once, with its entry for http.tokens_file. farrier stores only the hash.

    With --file, the command prints only the token. A running farrier reads the file again on SIGHUP.
    """
    created = api_token.token(secrets.token_hex())
    entry = _entry(name, scope, expires_in, created)
    if file is not None:
        token_file.add(file, entry)
    if as_json:
        output.json({"token": created, "entry": token_file.entry(entry)})
        return
    typer.echo(created)
    if file is None:
        typer.echo(f"\n{token_file.entry(entry)}", nl=False)
    else:
        typer.echo(f"added {name} to {file}; a running farrier reads it on SIGHUP (systemctl reload farrier)", err=True)


def _entry(name: str, scopes: list[Scope], expires_in: str | None, created: str) -> ApiToken:
    try:
        expires = None if expires_in is None else clock.wall() + arguments.patience(expires_in)
        return ApiToken(
            name=name, sha256=api_token.digest(created), scopes=tuple(dict.fromkeys(scopes)), expires=expires
        )
    except OverflowError:
        raise typer.BadParameter(f"expected a shorter duration than {expires_in}", param_hint="--expires-in") from None
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
