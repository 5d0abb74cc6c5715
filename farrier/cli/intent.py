"""`farrier intent`: ask for something, and if wanted wait for the answer, or for the status that it leads to."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from farrier.cli import arguments, intent_answers, output
from farrier.cli.connection import Session, with_database
from farrier.model import actions
from farrier.model.actions import Action
from farrier.model.requests import Request
from farrier.model.status import NodeStatus

# Statuses ring no bell that this role could hear.
_LOOK_EVERY_SECONDS = 0.2


@with_database
async def intent(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    node: Annotated[str, typer.Argument(help="Name or id.")],
    action: Annotated[str, typer.Argument(help="What is asked for; farrier model lists all actions.")],
    params: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="What the action takes.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer: 0 accepted, 3 rejected.")] = False,
    until: Annotated[NodeStatus | None, typer.Option(help="Wait until the node has this status.")] = None,
    timeout: Annotated[str, typer.Option(help="How long to wait.")] = "60s",
    key: Annotated[str | None, typer.Option(help="Idempotency key: sent twice, it is one request.")] = None,
    api_version: Annotated[int, typer.Option(help="Version of the intent API to speak.")] = actions.API_MAX,
    requested_by: Annotated[str | None, typer.Option(help="Who asks; otherwise this user.")] = None,
    as_json: output.AsJson = False,
) -> None:
    """Ask for something to be done with a node.

    The answer is the controller's; --wait waits for it. What an action takes is in farrier model.
    """
    request = Request(
        node=node,
        action=action,
        params=_values(action, arguments.pairs(params or ())),
        key=key,
        requested_by=requested_by or intent_answers.this_user(),
        api_version=api_version,
    )
    patience = arguments.patience(timeout)
    id_ = await session.requests.ask(request)
    if not wait and until is None:
        intent_answers.tell_pending(id_, f"{action} of {node}", as_json=as_json)
        return
    started = anyio.current_time()
    found = await session.requests.answer(id_, patience)
    answer = intent_answers.judged(id_, found, timeout, see="node: see farrier node why", as_json=as_json)
    if until is not None:
        left = patience.total_seconds() - (anyio.current_time() - started)
        name = await _until(session, answer.node, until, left, timeout)
        if not as_json:
            typer.echo(f"{name} is {until}")


def _values(action: str, given: dict[str, str]) -> dict[str, object]:
    """Texts as the action's parameters; what the action does not know the database says."""
    return arguments.typed(actions.rules(Action(action)).fields if action in set(Action) else {}, given)


async def _until(session: Session, node: int, status: NodeStatus, seconds: float, timeout: str) -> str:
    """Return the node's name once it has the status."""
    found = ""
    with anyio.move_on_after(seconds):
        while True:
            page = await session.queries.node(str(node))
            found = page.rows[0].status
            if found == status:
                return page.rows[0].name
            if found == NodeStatus.DELETED:
                raise intent_answers.late(f"{page.rows[0].name} is deleted, and will never be {status}")
            await anyio.sleep(_LOOK_EVERY_SECONDS)
    raise intent_answers.late(
        f"the node is {found or 'unknown'} and not {status} after {timeout}; farrier node why says why"
    )
