"""`farrier resource`: resources of any installed kind, including kinds of other packages."""

from __future__ import annotations

import typer

from farrier.cli import resource_commands as commands
from farrier.cli.connection import with_database

resource = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="List and inspect resources of any kind except nodes, and submit intents for them.",
)
resource.command("list")(with_database(commands.list_))
resource.command("show")(with_database(commands.show))
resource.command("history")(with_database(commands.history))
resource.command("why")(with_database(commands.why))
resource.command("intent")(with_database(commands.intent))
