"""The commands for resources of any kind. `farrier resource` has the kind as an argument; `farrier segment` and
`farrier partition` have a fixed kind.

Kinds, states and actions are read from the database, so a kind of another package works like a built-in one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from functools import partial, wraps
from typing import Annotated, Any, Concatenate, ParamSpec, get_args

import msgspec
import typer

from farrier.bulk.run import Reached
from farrier.cli.history import changes
from farrier.cli.intent import answers
from farrier.cli.intent.answers import Asking
from farrier.cli.options import arguments, completed_names
from farrier.cli.output import lists, pages, printing
from farrier.cli.output.lists import Listing, OutputFormat, formed, formed_as_is
from farrier.cli.output.pages import MissingNames
from farrier.cli.resource import view
from farrier.cli.settings.connection import CommandSession
from farrier.model.advice.explanation import explain_resource
from farrier.model.intents import param_values
from farrier.model.intents.params import FieldRules
from farrier.model.intents.requests import IntentRequest
from farrier.model.kinds.spec import is_in
from farrier.model.views import filter_names
from farrier.model.views.history import HistoryFilter
from farrier.model.views.resources import ResourceView, WantedResources

P = ParamSpec("P")

KindArgument = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        help="Kind of the resource. farrier kind list lists all kinds.",
        autocompletion=completed_names.kinds,
    ),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name or ID.", autocompletion=completed_names.names_of())
]
ActionArgument = Annotated[
    str,
    typer.Argument(
        help="The action. farrier kind list lists the actions of each kind.", autocompletion=completed_names.actions
    ),
]
States = Annotated[list[str] | None, typer.Option(help="Only these states, separated by commas.")]
Sites = Annotated[
    list[str] | None, typer.Option(help="Only this site. Repeatable.", autocompletion=completed_names.sites)
]
Until = Annotated[
    str | None, typer.Option(metavar="STATE", help="Wait until the resource is in this state or one of its substates.")
]


def of_kind(
    kind: str, command: Callable[Concatenate[CommandSession, P], Awaitable[None]]
) -> Callable[Concatenate[CommandSession, P], Awaitable[None]]:
    """Return the command for this kind only, without the argument for the kind."""
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    async def fixed(session: CommandSession, /, *args: P.args, **kwargs: P.kwargs) -> None:
        chosen: dict[str, Any] = {**kwargs, "kind": kind}
        await command(session, *args, **chosen)

    # typer derives the options from this signature.
    rest = [_completed(kind, parameter) for name, parameter in signature.parameters.items() if name != "kind"]
    vars(fixed)["__signature__"] = signature.replace(parameters=rest)
    return fixed


def _completed(kind: str, parameter: inspect.Parameter) -> inspect.Parameter:
    """Return the parameter. For `name` and `names`, the shell completes the names of resources of this kind."""
    if parameter.name not in ("name", "names"):
        return parameter
    type_, given = get_args(parameter.annotation)
    argument = copy(given)
    argument.autocompletion = completed_names.names_of(kind)
    return parameter.replace(annotation=Annotated[type_, argument])


@formed
async def list_(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    form: OutputFormat,
    kind: KindArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|GLOB",
            help="Only these resources: names, IDs, globs such as tenant-*.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    state: States = None,
    site: Sites = None,
    ended: Annotated[bool, typer.Option("--ended", help="Include resources that have ended.")] = False,
) -> None:
    """List resources by name."""
    wanted = selected(kind, names, state, site, ended=ended)
    missing = MissingNames(wanted)
    limits = session.settings.sla
    listed = Listing(
        columns=view.columns(limits),
        pages=lambda: pages.of_resources(session, wanted, missing),
        name=lambda each: each.name,
        id=lambda each: each.id,
        as_object=lambda each, now: view.as_object(each, now, limits),
        fields=(*ResourceView.__struct_fields__, "clocks"),
        none=missing.otherwise(f"no {printing.words(kind)} matches"),
    )
    await lists.show(listed, form)
    missing.refuse()


def selected(
    kind: str, names: list[str] | None, state: list[str] | None, site: list[str] | None, *, ended: bool = False
) -> WantedResources:
    """Return the filter that these arguments and options select."""
    states = tuple(each for given in state or () for each in given.split(","))
    return WantedResources(kind=kind, names=arguments.names(names), states=states, sites=tuple(site or ()), ended=ended)


async def refuse_until(session: CommandSession, kind: str, until: str | None) -> None:
    """Raise a usage error if `until` is not a state of the kind. If the kind is unknown, the database refuses it."""
    if until is None:
        return
    for each in filter_names.unknown_states((until,), await session.queries.kinds(kind, counted=False)):
        raise typer.BadParameter(
            f"no {printing.words(kind)} has a state {each.value!r}; expected one of {', '.join(each.known)}"
        )


async def show(
    session: CommandSession, kind: KindArgument, name: NameArgument, as_json: printing.AsJson = False
) -> None:
    """Show all data of a resource, even of a resource that has ended."""
    page = await session.queries.resource(kind, name)
    (detail,) = page.rows
    limits = session.settings.sla
    if as_json:
        requests = {"requests": printing.plain(detail.requests)}
        printing.json(view.as_object(detail.resource, page.now, limits) | requests)
    else:
        view.facts(detail, page.now, limits)


async def why(
    session: CommandSession, kind: KindArgument, name: NameArgument, as_json: printing.AsJson = False
) -> None:
    """Show what a resource waits for and since when, its last errors, and what to do."""
    page = await session.queries.resource(kind, name)
    given = session.settings
    explained = explain_resource(page.rows[0], page.now, given.sla, period=given.controller.period)
    if as_json:
        printing.json(explained)
    else:
        printing.facts(view.in_words(explained, page.now))


@changes.narrowed
@formed_as_is
async def history(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    form: OutputFormat,
    wanted: HistoryFilter,
    kind: KindArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name or ID. Without it, --all is required, and shows the changes of all resources of the kind.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show all entries, not only the newest.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of entries. The newest entries are shown.")] = 50,
    follow: changes.Follow = False,
) -> None:
    """Show the changes of a resource, the oldest first. With --all and without a name, show the changes of all
    resources of the kind."""
    if name is None and not everything:
        raise typer.BadParameter(f"give a name, or --all for every {printing.words(kind)}")
    which = {"kinds": (kind,)} if name is None else {"resource": (kind, name)}
    wanted = msgspec.structs.replace(wanted, **which)
    if follow:
        await changes.show_followed(session, wanted, newest=limit, form=form)
        return
    pages = changes.everything(session, wanted) if everything else changes.last(session, wanted, limit)
    await changes.show(pages, form)


async def intent(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    kind: KindArgument,
    name: NameArgument,
    action: ActionArgument,
    params: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="A parameter of the action. Separate the items of a list with commas."
        ),
    ] = None,
    wait: answers.Wait = False,
    until: Until = None,
    timeout: answers.Timeout = "60s",
    key: answers.Key = None,
    requested_by: answers.By = None,
    as_json: printing.AsJson = False,
) -> None:
    """Submit an intent for a resource. The action `create` creates a new resource."""
    given = arguments.pairs(params or ())
    request = IntentRequest(
        kind=kind,
        resource=name,
        action=action,
        params=param_values.typed(await _fields(session, kind, action), given) if given else {},
        key=key,
        requested_by=requested_by,
    )
    await ask(session, Asking(request=request, wait=wait, until=until, timeout=timeout, as_json=as_json))


async def _fields(session: CommandSession, kind: str, action: str) -> Mapping[str, FieldRules]:
    """Return the rules of an action's parameters. An unknown action has none; the database refuses it."""
    found = await session.queries.kinds(kind, counted=False)
    return next((a.params.fields for k in found for a in k.actions if a.action == action), {})


async def ask(session: CommandSession, asked: Asking) -> None:
    """Submit the intent, and wait for the requested answer or state. Raises the errors of `farrier intent submit`."""
    await refuse_until(session, asked.request.kind, asked.until)
    await answers.ask(session, asked, partial(_seen, session, asked))


async def _seen(session: CommandSession, asked: Asking, id_: int) -> tuple[str, Reached]:
    resource = (await session.queries.resource(asked.request.kind, str(id_))).rows[0].resource
    return resource.name, progress(resource, asked.until)


def progress(resource: ResourceView, until: str | None) -> Reached:
    """Return the progress of a resource to a state, which may be the state of any layer."""
    there = any(is_in(layer.state, until or "") for layer in resource.layers)
    ended = f"has ended as {resource.state}, so it cannot become {until}"
    return Reached(resource.state, there, ended if resource.ended_at is not None and not there else "")
