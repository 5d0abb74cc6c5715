"""`farrier intent submit`: submits an intent and, on request, waits for the answer or for a status of the node."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from farrier.bulk.run import Reached
from farrier.cli.intent import answers
from farrier.cli.intent.answers import Asking
from farrier.cli.options import arguments, completed_names, completion
from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession
from farrier.model.intents import actions, param_texts
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import IntentRequest
from farrier.model.node.status import NodeStatus


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
        params=param_texts.typed(fields, arguments.pairs(params or ())),
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
