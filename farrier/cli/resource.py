"""`farrier resource`: manages resources of any installed kind, including kinds of other packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup
from typing_extensions import override

from farrier.cli import load, resource_bulk
from farrier.cli import resource_commands as commands
from farrier.cli.connection import with_database
from farrier.model.edges import NODE

if TYPE_CHECKING:
    from typer import _click  # these classes have no public names in typer

# Kinds with separate tables. Their commands are in the command group with this name, or at the top level.
_WITH_OWN_COMMANDS = (NODE,)


class _Commands(TyperGroup):
    """Runs the kind's own command if it exists: `resource why node gpu-1` runs `node why gpu-1`."""

    @override
    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        match args:
            case [name, kind, *rest] if name in self.commands and kind in _WITH_OWN_COMMANDS:
                own = typer.main.get_group(load(kind))
                if name == "act" and rest and not rest[0].startswith("-"):
                    action, command, after = own.resolve_command(ctx, rest)
                    return f"{name} {kind} {action}", command, after
                if name != "act":
                    return f"{name} {kind}", own.commands.get(name) or _submit(), rest
        return super().resolve_command(ctx, args)


def _submit() -> _click.Command:
    return typer.main.get_group(load("intent")).commands["submit"]


resource = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    cls=_Commands,
    help="List and inspect resources of any kind, and submit intents for them.",
)
resource.command("list")(with_database(commands.list_))
resource.command("show")(with_database(commands.show))
resource.command("history")(with_database(commands.history))
resource.command("why")(with_database(commands.why))
resource.command("act")(with_database(resource_bulk.act))
resource.command("intent")(with_database(commands.intent))
