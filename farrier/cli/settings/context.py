"""`farrier context`: manages the named databases and APIs of this user, and selects the context that commands use."""

from __future__ import annotations

from typing import Annotated

import typer

from farrier.cli import group
from farrier.cli.options import arguments, completion
from farrier.cli.output import printing
from farrier.config import contexts
from farrier.config.contexts import Context
from farrier.log import mask_urls

context = group("context")

_Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the context.", autocompletion=completion.context_names)
]


@context.command("list")
def list_(as_json: printing.AsJson = False) -> None:
    """List the contexts. A star marks the current context."""
    found = contexts.load()
    if as_json:
        printing.json(
            [_object(name, each) | {"current": name == found.current} for name, each in found.contexts.items()]
        )
        return
    if not found.contexts:
        typer.echo(f"there is no context in {contexts.path()}; to add one, run farrier context add", err=True)
    printing.table(
        ("CURRENT", "NAME", "DATABASE", "SETTINGS"),
        (
            ("*" if name == found.current else "", name, _database(each), each.config)
            for name, each in found.contexts.items()
        ),
    )


@context.command("use")
def use(name: _Name) -> None:
    """Make this the current context. Commands use it unless --context, --dsn, --embedded or --api is given."""
    found = contexts.load()
    chosen = found.named(name)
    contexts.save(contexts.Contexts(name, found.contexts))
    typer.echo(f"{name} is the current context: {_database(chosen) or chosen.config}")


@context.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, dots, dashes and underscores.")],
    dsn: Annotated[str, typer.Option(metavar="URL", help="URL of the database: postgresql://…")] = "",
    embedded: Annotated[str, typer.Option(metavar="DIR", help="Directory of an embedded PostgreSQL.")] = "",
    api: Annotated[str, typer.Option(metavar="URL", help="URL of a running farrier, for its HTTP API.")] = "",
    token_file: Annotated[str, typer.Option(metavar="FILE", help="File with the token for the API.")] = "",
    config: Annotated[str, typer.Option(metavar="FILE", help="TOML file with settings.")] = "",
) -> None:
    """Add a context, or replace the context with this name. The first context becomes the current context."""
    with arguments.usage_errors():
        added = Context(dsn=dsn, embedded=embedded, api=api, token_file=token_file, config=config)
    contexts.save(contexts.load().with_context(name, added))
    typer.echo(f"context {name} is saved in {contexts.path()}")


@context.command("remove")
def remove(name: _Name) -> None:
    """Remove a context. The database of the context is not changed."""
    contexts.save(contexts.load().without(name))
    typer.echo(f"{name} is removed from {contexts.path()}")


def _object(name: str, each: Context) -> dict[str, object]:
    return {"name": name, "dsn": mask_urls(each.dsn), "embedded": each.embedded, "api": each.api, "config": each.config}


def _database(each: Context) -> str:
    return mask_urls(each.dsn) or each.embedded or each.api
