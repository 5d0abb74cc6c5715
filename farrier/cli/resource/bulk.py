"""`farrier resource act`: submits an action for many resources of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import typer

from farrier.bulk.run import Operations, Reached, Target
from farrier.cli.intent.commands import installed
from farrier.cli.options import arguments, bulk, completed_names, suggestions
from farrier.cli.options.bulk import Orders
from farrier.cli.output import pages, printing
from farrier.cli.output.pages import MissingNames
from farrier.cli.resource import command_factory as commands
from farrier.cli.settings.connection import CommandSession
from farrier.model.intents import param_faults, param_texts, preview
from farrier.model.intents.acceptance import Later, Refused
from farrier.model.intents.requests import IntentRequest
from farrier.model.kinds.spec import CREATE
from farrier.model.views.resources import ActionView, ResourceView, WantedResources


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
    params = param_texts.typed(spec.params.fields, arguments.pairs(texts))
    for field, fault in param_faults.faults(spec.params, params):
        raise typer.BadParameter(f"{field} {fault}".strip())
    found = await _select(session, wanted)
    how.require(found, kind)
    request = IntentRequest(kind=kind, resource="", action=action, key=how.key, requested_by=how.requested_by)
    reached = partial(_reached, session, kind, how.following.until)
    operations = Operations(
        requests=session.requests, queries=session.queries, request=request, params=lambda _: params, reached=reached
    )
    await bulk.run(action, session.requests, [_target(spec, each) for each in found], operations, how)


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
    """Return the selected resources in the order of their names. Raises a usage error if no name and no option selects
    resources, and RefusedByModel for a name that no resource has."""
    if wanted == WantedResources(kind=wanted.kind):
        raise typer.BadParameter("name the resources, or select them with --state or --site; '*' selects all")
    missing = MissingNames(wanted)
    return await pages.every(pages.of_resources(session, wanted, missing), missing)
