"""`farrier intent`: submits, lists, shows and awaits intents of nodes and of other kinds.

Intents of nodes are numbered separately; intents of all other kinds share one numbering.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from functools import partial
from typing import Annotated

import typer

from farrier.bulk.run import Reached
from farrier.cli import group
from farrier.cli.intent import answers
from farrier.cli.intent.answers import Asking
from farrier.cli.options import arguments, completed_names, completion
from farrier.cli.output import lists, printing
from farrier.cli.output.lists import Column, Listing, OutputFormat, formed
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.errors import RefusedByModel
from farrier.model.intents import actions, param_values
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest, IntentStatus
from farrier.model.intents.selection import LARGEST_ID
from farrier.model.node.layers import NODE, NodeStatus
from farrier.model.views.intents import IntentView, WantedIntents
from farrier.model.views.nodes import Page
from farrier.model.views.resources import KindView
from farrier.model.views.responses import MOST_ROWS

intent = group("intent")

KindOption = Annotated[
    str,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Kind of the resource. farrier kind list lists all kinds.",
        autocompletion=completed_names.kinds,
    ),
]
IntentArgument = Annotated[
    int,
    typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="ID of the intent, as farrier intent list shows it."),
]


async def one(session: CommandSession, kind: str, intent: int) -> Page[IntentView]:
    """Return a page with one intent. Raises RefusedByModel if the kind has no such intent."""
    await installed(session, kind)
    page = await session.queries.intent(kind, intent)
    if page.rows[0].kind != kind:
        raise RefusedByModel(
            f"intent {intent} is for a resource of kind {page.rows[0].kind}, not of kind {kind}",
            hint=f"use --kind {page.rows[0].kind}",
        )
    return page


async def installed(session: CommandSession, kind: str) -> KindView:
    """Return the description of a kind. Raises a usage error for a kind that is not installed."""
    kinds = {each.kind: each for each in await session.queries.kinds(counted=False)}
    arguments.known(kind, "kind", kinds)
    return kinds[kind]


@intent.command("submit")
@with_database
async def submit(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    node: Annotated[str, typer.Argument(help="Name or ID of the node.", autocompletion=completed_names.node_names)],
    action: Annotated[
        str,
        typer.Argument(
            help="The action. farrier kind list names all actions.", autocompletion=completion.one_of(Action)
        ),
    ],
    params: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="A parameter of the action.")
    ] = None,
    wait: answers.Wait = False,
    until: Annotated[NodeStatus | None, typer.Option(help="Wait until the node has this status.")] = None,
    timeout: answers.Timeout = "60s",
    key: answers.Key = None,
    api_version: Annotated[int, typer.Option(help="Version of the intent API.")] = actions.API_MAX,
    requested_by: answers.By = None,
    as_json: printing.AsJson = False,
) -> None:
    """Submit an intent for one node, with the action as an argument. The commands of farrier node are easier to use:
    each action is a command that accepts many nodes.

    A controller answers the intent; --wait waits for the answer. The help of farrier node has the parameters of each
    action.
    """
    # The database refuses an unknown action, and a parameter that the action does not have.
    fields = actions.rules(Action(action)).fields if action in set(Action) else {}
    request = IntentRequest(
        resource=node,
        action=action,
        params=param_values.typed(fields, arguments.pairs(params or ())),
        key=key,
        requested_by=requested_by,
        api_version=api_version,
    )
    asked = Asking(request=request, wait=wait, until=until, timeout=timeout, as_json=as_json)
    await answers.ask(session, asked, partial(_seen, session, until))


async def _seen(session: CommandSession, until: NodeStatus | None, id_: int) -> tuple[str, Reached]:
    (node,) = (await session.queries.node(str(id_))).rows
    failure = f"is deleted, so it cannot become {until}" if node.status == NodeStatus.DELETED else ""
    return node.name, Reached(node.status, node.status == until, failure)


_STATUSES = tuple(IntentStatus)


@intent.command("list")
@with_database
@formed
async def list_(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    form: OutputFormat,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Only intents for this resource, by name or ID.",
            autocompletion=completed_names.names_of(),
        ),
    ] = None,
    kind: KindOption = NODE,
    status: Annotated[
        list[str] | None, typer.Option(help=f"Only this status: {', '.join(_STATUSES)}. Repeatable.")
    ] = None,
    action: Annotated[
        list[str] | None, typer.Option(help="Only this action. Repeatable.", autocompletion=completed_names.actions)
    ] = None,
    requested_by: Annotated[list[str] | None, typer.Option(help="Only intents of this client. Repeatable.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of intents. The newest intents are first.")] = 50,
) -> None:
    """List intents, the newest first, including those of deleted resources."""
    for each in status or ():
        arguments.known(each, "status of intents", _STATUSES)
    wanted = WantedIntents(
        resource=name,
        statuses=tuple(status or ()),
        actions=tuple(action or ()),
        requested_by=tuple(requested_by or ()),
    )
    listed = Listing(
        columns=_COLUMNS,
        pages=lambda: _pages(session, kind, wanted, limit),
        name=lambda each: str(each.id),
        id=lambda each: each.id,
        fields=IntentView.__struct_fields__,
        none="no intent matches",
        newest=limit,
    )
    await lists.show(listed, form)


async def _pages(
    session: CommandSession, kind: str, wanted: WantedIntents, limit: int
) -> AsyncIterator[Page[IntentView]]:
    """Yield pages until they have `limit` intents in total, or until there are no more intents."""
    before: int | None = None
    while limit:
        page = await session.queries.intents(kind, wanted, before=before, limit=min(limit, MOST_ROWS))
        yield Page(page.now, page.rows)
        limit -= len(page.rows)
        if page.following is None:
            return
        before = page.following


_COLUMNS: tuple[Column[IntentView], ...] = (
    Column("INTENT", lambda each, _: str(each.id)),
    Column("NAME", lambda each, _: each.name),
    Column("ACTION", lambda each, _: each.action),
    Column("STATUS", lambda each, _: printing.state(each.status)),
    Column("AGE", lambda each, now: printing.ago(each.created_at, now), ages=True),
    Column("BY", lambda each, _: each.requested_by),
    Column("REASON", lambda each, _: each.reason),
    Column(
        "PARAMETERS", lambda each, _: " ".join(f"{k}={printing.text(v)}" for k, v in each.params.items()), wide=True
    ),
    Column("ANSWERED", lambda each, _: printing.moment(each.answered_at), wide=True),
    Column("KEY", lambda each, _: each.idempotency_key, wide=True),
)


@intent.command("get")
@with_database
async def get(
    session: CommandSession,
    intent: IntentArgument,
    kind: KindOption = NODE,
    as_json: printing.AsJson = False,
) -> None:
    """Show an intent with its parameters and its answer."""
    page = await one(session, kind, intent)
    (found,) = page.rows
    if as_json:
        printing.json(found)
    else:
        printing.facts(_facts(found, page.now))


@intent.command("wait")
@with_database
async def wait(
    session: CommandSession,
    intent: IntentArgument,
    kind: KindOption = NODE,
    timeout: Annotated[str, typer.Option(help="Time limit.")] = "60s",
    as_json: printing.AsJson = False,
) -> None:
    """Wait for the answer to an intent. Exit code 0: accepted, 3: rejected, 1: no answer in time."""
    patience = arguments.patience("--timeout", timeout)
    await one(session, kind, intent)
    answer = await session.requests.answer(kind, intent, patience)
    answers.judged(kind, intent, answer, timeout, as_json=as_json)


def _facts(intent: IntentView, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield "intent", str(intent.id)
    yield printing.words(intent.kind), f"{intent.name} (id {intent.resource})"
    yield "action", intent.action
    for name, value in intent.params.items():
        yield f"  {name}", printing.text(value)
    yield "status", printing.state(intent.status)
    yield "reason", intent.reason
    yield "requested by", intent.requested_by
    yield "idempotency key", intent.idempotency_key
    yield "requested", f"{printing.moment(intent.created_at)} ({printing.ago(intent.created_at, now)} ago)"
    yield "answered", printing.moment(intent.answered_at)
