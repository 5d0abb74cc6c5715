"""`farrier resource`: manages resources of any installed kind, including kinds of other packages. `farrier enqueue`:
enqueues one of them, and does not wait for the run of its handler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from typing_extensions import override

from farrier.bulk.run import Operations, Reached, Target
from farrier.cli import group, load
from farrier.cli.intent.commands import installed
from farrier.cli.options import arguments, bulk, completed_names, suggestions
from farrier.cli.options.bulk import Orders
from farrier.cli.options.suggestions import Suggesting
from farrier.cli.output import pages, printing
from farrier.cli.output.pages import MissingNames
from farrier.cli.resource import command_factory as commands
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.intents import param_values, preview
from farrier.model.intents.acceptance import Later, Refused
from farrier.model.intents.requests import IntentRequest
from farrier.model.kinds.spec import CREATE
from farrier.model.node.layers import NODE
from farrier.model.views.resources import ActionView, ResourceView, WantedResources

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


@resource.command("act")
@with_database
@bulk.ordered
async def act(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    how: Orders,
    kind: commands.KindArgument,
    action: commands.ActionArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|GLOB|KEY=VALUE",
            help="Names, IDs and globs of resources, and parameters of the action.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    state: commands.States = None,
    site: commands.Sites = None,
) -> None:
    """Submit an action for one resource or for many."""
    spec = await _action(session, kind, action)
    texts = [text for text in words or () if "=" in text]
    names = [text for text in words or () if "=" not in text]
    wanted = commands.selected(kind, names, state, site)
    await commands.refuse_until(session, kind, how.following.until)
    params = param_values.typed(spec.params.fields, arguments.pairs(texts))
    for field, fault in param_values.faults(spec.params, params):
        raise typer.BadParameter(f"{field} {fault}".strip())
    found = await _select(session, wanted)
    how.require(found, kind)
    request = IntentRequest(kind=kind, resource="", action=action, key=how.key, requested_by=how.requested_by)
    reached = partial(_reached, session, kind, how.following.until)
    operations = Operations(
        requests=session.requests, queries=session.queries, request=request, params=lambda _: params, reached=reached
    )
    await bulk.run(action, session.requests, [_target(spec, each) for each in found], operations, how)


resource.command("intent")(with_database(commands.intent))


async def _action(session: CommandSession, kind: str, action: str) -> ActionView:
    """Return the action of the kind. Raises a usage error for an unknown action, and for `create`."""
    actions = {each.action: each for each in (await installed(session, kind)).actions}
    if action not in actions:
        near = [f"did you mean {each!r}?" for each in suggestions.suggested(action, actions)[:1]]
        expected = f"expected one of: {', '.join(actions)}"
        raise typer.BadParameter(
            f"no action of {printing.words(kind)}s is named {action!r}; {next(iter(near), expected)}"
        )
    if action == CREATE:
        raise typer.BadParameter(
            "create does not act on existing resources; to create a resource, run farrier resource "
            f"intent {kind} NAME create"
        )
    return actions[action]


def _target(action: ActionView, resource: ResourceView) -> Target:
    """Return the resource as a target, with the expected answer."""
    answer = preview.of_resource(action, resource)
    refusal = answer.reason if isinstance(answer, Refused) else ""
    delay = answer.reason if isinstance(answer, Later) else ""
    return Target(id=resource.id, name=resource.name, state=resource.state, refusal=refusal, delay=delay)


async def _reached(session: CommandSession, kind: str, until: str | None, ids: Sequence[int]) -> Mapping[int, Reached]:
    """Return the progress of these resources."""
    wanted = WantedResources(kind=kind, names=tuple(map(str, ids)), ended=True)
    page = await session.queries.resources(wanted, limit=len(ids))
    return {each.id: commands.progress(each, until) for each in page.rows}


async def _select(session: CommandSession, wanted: WantedResources) -> tuple[ResourceView, ...]:
    """Return the selected resources by name. Raises a usage error without a selection, and RefusedByModel."""
    if wanted == WantedResources(kind=wanted.kind):
        raise typer.BadParameter("name the resources, or select them with --state or --site; '*' selects all")
    missing = MissingNames(wanted)
    return await pages.every(pages.of_resources(session, wanted, missing), missing)
