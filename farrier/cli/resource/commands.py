"""`farrier resource`: manages resources of any installed kind, including kinds of other packages. `farrier enqueue`:
enqueues one of them, and does not wait for the run of its handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from typing_extensions import override

from farrier.cli import group, load
from farrier.cli.options import completed_names
from farrier.cli.options.suggestions import Suggesting
from farrier.cli.resource import bulk
from farrier.cli.resource import command_factory as commands
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.node.edges import NODE

if TYPE_CHECKING:
    from typer import _click  # these classes have no public names in typer


class _KindCommands(Suggesting):
    """Runs the kind's own command if it exists: `resource why node gpu-1` runs `node why gpu-1`."""

    @override
    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        match args:
            case ["act", "node", action, *_] if not action.startswith("-"):
                name, command, after = typer.main.get_group(load(NODE)).resolve_command(ctx, args[2:])
                return f"act node {name}", command, after
            case ["intent", "node", *rest]:
                return "intent node", typer.main.get_group(load("intent")).commands["submit"], rest
            case [name, "node", *rest] if name in self.commands and name != "act":
                return f"{name} node", typer.main.get_group(load(NODE)).commands[name], rest
        return super().resolve_command(ctx, args)


resource = group("resource", cls=_KindCommands)
resource.command("list")(with_database(commands.list_))
resource.command("show")(with_database(commands.show))
resource.command("history")(with_database(commands.history))
resource.command("why")(with_database(commands.why))
resource.command("act")(with_database(bulk.act))
resource.command("intent")(with_database(commands.intent))


@with_database
async def enqueue(
    session: CommandSession,
    kind: Annotated[
        str, typer.Argument(help="Kind of the resource: node, network_segment …", autocompletion=completed_names.kinds)
    ],
    resource: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="ID or name. The name of a MAAS region is the name of its site.",
            autocompletion=completed_names.names_of(),
        ),
    ],
) -> None:
    """Enqueue a resource, so that its handler runs as soon as possible."""
    id_ = await session.requests.enqueue(kind, resource)
    typer.echo(f"{kind} {id_} is enqueued")
