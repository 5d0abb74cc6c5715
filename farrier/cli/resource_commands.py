"""The commands for resources of any kind. `farrier resource` has the kind as an argument; `farrier segment` and
`farrier partition` have a fixed kind.

Kinds, states and actions are read from the database, so a kind of another package works like a built-in one.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from copy import copy
from functools import wraps
from typing import Annotated, Any, Concatenate, ParamSpec, get_args

import anyio
import msgspec
import typer

from farrier.cli import (
    arguments,
    completed_names,
    history_follow,
    history_options,
    intent_answers,
    listing,
    output,
    resource_view,
)
from farrier.cli.connection import Session
from farrier.cli.form import Form, formed, formed_as_is
from farrier.cli.listing import Listing
from farrier.cli.missing import Missing
from farrier.model import filter_names, param_texts
from farrier.model.history import HistoryFilter
from farrier.model.kinds import CREATE, is_in
from farrier.model.params import Field
from farrier.model.requests import Request
from farrier.model.resource_views import ResourceView, WantedResources
from farrier.model.resource_why import explain
from farrier.model.views import Page

P = ParamSpec("P")

# No notification reports a change of the state to clients, so the command polls.
_LOOK_EVERY_SECONDS = 0.2


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
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the answer. Exit code 0: accepted, 3: rejected.")]
Until = Annotated[
    str | None, typer.Option(metavar="STATE", help="Wait until the resource is in this state or one of its substates.")
]
Timeout = Annotated[str, typer.Option(help="Time limit for --wait and --until.")]
Key = Annotated[
    str | None,
    typer.Option(help="Idempotency key: an intent that is submitted twice with the same key is stored once."),
]


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """An intent to submit, and the answer or state for which to wait."""

    request: Request
    wait: bool
    until: str | None
    timeout: str
    as_json: bool


def of_kind(
    kind: str, command: Callable[Concatenate[Session, P], Awaitable[None]]
) -> Callable[Concatenate[Session, P], Awaitable[None]]:
    """Return the command for this kind only, without the argument for the kind."""
    signature = inspect.signature(command, eval_str=True)

    @wraps(command)
    async def fixed(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
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
    session: Session,
    form: Form,
    kind: KindArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME|GLOB",
            help="Only these resources: names, IDs, globs such as tenant-*.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only these states, separated by commas.")] = None,
    site: Annotated[
        list[str] | None, typer.Option(help="Only this site. Repeatable.", autocompletion=completed_names.sites)
    ] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Include resources that have ended.")] = False,
) -> None:
    """List resources by name."""
    states = tuple(each for given in state or () for each in given.split(","))
    wanted = WantedResources(
        kind=kind, names=arguments.names(names), states=states, sites=tuple(site or ()), ended=ended
    )
    missing = Missing(kind, wanted.names if wanted == WantedResources(kind=kind, names=wanted.names) else ())
    limits = session.settings.sla
    listed = Listing(
        columns=resource_view.columns(limits),
        pages=lambda: _pages(session, wanted, missing),
        name=lambda each: each.name,
        id=lambda each: each.id,
        as_object=lambda each, now: resource_view.as_object(each, now, limits),
        fields=(*ResourceView.__struct_fields__, "clocks"),
        none=missing.otherwise(f"no {output.words(kind)} matches"),
    )
    await listing.show(listed, form)
    missing.refuse()


async def refuse_until(session: Session, kind: str, until: str | None) -> None:
    """Raise a usage error if `until` is not a state of the kind. If the kind is unknown, the database refuses it."""
    if until is None:
        return
    for each in filter_names.unknown_states((until,), await session.resources.kinds(kind, counted=False)):
        raise typer.BadParameter(
            f"no {output.words(kind)} has a state {each.value!r}; expected one of {', '.join(each.known)}"
        )


async def _pages(session: Session, wanted: WantedResources, missing: Missing) -> AsyncIterator[Page[ResourceView]]:
    after, full = ("", 0), True
    while full:
        page = await session.resources.resources(wanted, after=after, limit=listing.PAGE)
        missing.seen(page.rows)
        yield page
        full = len(page.rows) == listing.PAGE
        after = (page.rows[-1].name, page.rows[-1].id) if full else after


async def show(session: Session, kind: KindArgument, name: NameArgument, as_json: output.AsJson = False) -> None:
    """Show all data of a resource, even of a resource that has ended."""
    page = await session.resources.resource(kind, name)
    (detail,) = page.rows
    limits = session.settings.sla
    if as_json:
        requests = {"requests": output.plain(detail.requests)}
        output.json(resource_view.as_object(detail.resource, page.now, limits) | requests)
    else:
        resource_view.facts(detail, page.now, limits)


async def why(session: Session, kind: KindArgument, name: NameArgument, as_json: output.AsJson = False) -> None:
    """Show what a resource waits for and since when, its last errors, and what to do."""
    page = await session.resources.resource(kind, name)
    explained = explain(page.rows[0], page.now, session.settings.sla, period=session.settings.controller.period)
    if as_json:
        output.json(explained)
    else:
        output.facts(resource_view.in_words(explained, page.now))


@history_options.narrowed
@formed_as_is
async def history(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    form: Form,
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
    follow: history_options.Follow = False,
) -> None:
    """Show the changes of a resource, the oldest first. With --all and without a name, show the changes of all
    resources of the kind."""
    if name is None and not everything:
        raise typer.BadParameter(f"give a name, or --all for every {output.words(kind)}")
    which = {"kinds": (kind,)} if name is None else {"resource": (kind, name)}
    wanted = msgspec.structs.replace(wanted, **which)
    if follow:
        await history_follow.show(session, wanted, newest=limit, form=form)
        return
    pages = history_options.everything(session, wanted) if everything else history_options.last(session, wanted, limit)
    await history_options.show(pages, form)


async def intent(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    kind: KindArgument,
    name: NameArgument,
    action: Annotated[
        str,
        typer.Argument(
            help="The action. farrier kind list lists the actions of each kind.", autocompletion=completed_names.actions
        ),
    ],
    params: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...", help="A parameter of the action. Separate the items of a list with commas."
        ),
    ] = None,
    wait: Wait = False,
    until: Until = None,
    timeout: Timeout = "60s",
    key: Key = None,
    requested_by: intent_answers.By = None,
    as_json: output.AsJson = False,
) -> None:
    """Submit an intent for a resource. The action `create` creates a new resource."""
    given = arguments.pairs(params or ())
    request = Request(
        kind=kind,
        resource=name,
        action=action,
        params=param_texts.typed(await _fields(session, kind, action), given) if given else {},
        key=key,
        requested_by=requested_by,
    )
    await ask(session, Asking(request=request, wait=wait, until=until, timeout=timeout, as_json=as_json))


async def _fields(session: Session, kind: str, action: str) -> Mapping[str, Field]:
    """Return the rules of an action's parameters. An unknown action has none; the database refuses it."""
    found = await session.resources.kinds(kind, counted=False)
    return next((a.params.fields for k in found for a in k.actions if a.action == action), {})


async def ask(session: Session, asked: Asking) -> None:
    """Submit the intent, and wait for the requested answer or state. Raises the errors of `farrier intent submit`."""
    request, timeout = asked.request, asked.timeout
    patience = arguments.patience("--timeout", timeout)
    await refuse_until(session, request.kind, asked.until)
    intent = await session.requests.ask(request)
    answered = request.action == CREATE  # for `create`, the INSERT already contains the answer
    if not (asked.wait or answered) and asked.until is None:
        intent_answers.print_pending(
            intent, f"{request.action} of {request.kind} {request.resource}", as_json=asked.as_json
        )
        return
    started = anyio.current_time()
    found = await session.requests.answer(request.kind, intent, patience)
    answer = intent_answers.judged(request.kind, intent, found, timeout, as_json=asked.as_json)
    if asked.until is not None:
        left = patience.total_seconds() - (anyio.current_time() - started)
        name = await _until(session, request.kind, answer.resource, asked, left)
        if not asked.as_json:
            typer.echo(f"{name} is {asked.until}")


async def _until(session: Session, kind: str, id_: int, asked: Asking, seconds: float) -> str:
    """Wait until the resource has the state, and return the resource's name."""
    found = ""
    with anyio.move_on_after(seconds):
        while True:
            page = await session.resources.resource(kind, str(id_))
            resource = page.rows[0].resource
            found = resource.state
            if any(is_in(layer.state, asked.until or "") for layer in resource.layers):
                return resource.name
            if resource.ended_at is not None:
                raise intent_answers.late(f"{resource.name} has ended as {found}, so it cannot become {asked.until}")
            await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise intent_answers.late(
        f"the state is {found or 'unknown'}, not {asked.until}, after {asked.timeout}; to see the reason, "
        "run farrier resource why"
    )
