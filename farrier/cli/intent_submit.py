"""`farrier intent submit`: submits an intent and, on request, waits for the answer or for a status of the node."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from farrier.cli import arguments, completed_names, completion, intent_answers, output
from farrier.cli.connection import Session
from farrier.model import actions, param_texts
from farrier.model.actions import Action
from farrier.model.requests import Request
from farrier.model.status import NodeStatus

# No notification reports a change of the status to clients, so the command polls.
_LOOK_EVERY_SECONDS = 0.2


async def submit(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    node: Annotated[str, typer.Argument(help="Name or ID of the node.", autocompletion=completed_names.node_names)],
    action: Annotated[
        str,
        typer.Argument(help="The action. farrier model lists all actions.", autocompletion=completion.one_of(Action)),
    ],
    params: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="A parameter of the action.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the answer. Exit code 0: accepted, 3: rejected.")
    ] = False,
    until: Annotated[NodeStatus | None, typer.Option(help="Wait until the node has this status.")] = None,
    timeout: Annotated[str, typer.Option(help="Time limit for --wait and --until.")] = "60s",
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: an intent that is submitted twice with the same key is stored once."),
    ] = None,
    api_version: Annotated[int, typer.Option(help="Version of the intent API.")] = actions.API_MAX,
    requested_by: intent_answers.By = None,
    as_json: output.AsJson = False,
) -> None:
    """Submit an intent for one node, with the action as an argument. The commands of farrier node are easier to use:
    each action is a command that accepts many nodes.

    A controller answers the intent; --wait waits for the answer. farrier model lists the parameters of each action.
    """
    request = Request(
        resource=node,
        action=action,
        params=_values(action, arguments.pairs(params or ())),
        key=key,
        requested_by=requested_by,
        api_version=api_version,
    )
    patience = arguments.patience("--timeout", timeout)
    id_ = await session.requests.ask(request)
    if not wait and until is None:
        intent_answers.print_pending(id_, f"{action} of {node}", as_json=as_json)
        return
    started = anyio.current_time()
    found = await session.requests.answer(request.kind, id_, patience)
    answer = intent_answers.judged(request.kind, id_, found, timeout, as_json=as_json)
    if until is not None:
        left = patience.total_seconds() - (anyio.current_time() - started)
        name = await _until(session, answer.resource, until, left, timeout)
        if not as_json:
            typer.echo(f"{name} is {until}")


def _values(action: str, given: dict[str, str]) -> dict[str, object]:
    """Convert texts to the action's parameters. If the action does not have a parameter, the database refuses it."""
    return param_texts.typed(actions.rules(Action(action)).fields if action in set(Action) else {}, given)


async def _until(session: Session, node: int, status: NodeStatus, seconds: float, timeout: str) -> str:
    """Wait until the node has the status, and return the node's name."""
    found = ""
    with anyio.move_on_after(seconds):
        while True:
            page = await session.queries.node(str(node))
            found = page.rows[0].status
            if found == status:
                return page.rows[0].name
            if found == NodeStatus.DELETED:
                raise intent_answers.late(f"{page.rows[0].name} is deleted, so it cannot become {status}")
            await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise intent_answers.late(
        f"the node is {found or 'unknown'}, not {status}, after {timeout}; to see the reason, run farrier node why"
    )
