"""`farrier node`: register nodes, list them, and show one. Longer commands have their own modules."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from farrier.cli import detail_options, output
from farrier.cli.connection import Session, with_database
from farrier.cli.inspection import show, why
from farrier.cli.output import Cell
from farrier.cli.resource_commands import history, of_kind
from farrier.model import bootstrap as bootstraps
from farrier.model import duration
from farrier.model.clocks import Clock, Overdue
from farrier.model.details import LISTED
from farrier.model.management import Management
from farrier.model.node_spec import SPEC
from farrier.model.requests import Registration
from farrier.model.status import NodeStatus
from farrier.model.views import NodeView, Wanted
from farrier.model.workflow import WorkflowStatus

# Rows of one table. Each further page is printed as another table, with its own headings and column widths.
_PAGE = 1000

node = typer.Typer(no_args_is_help=True, add_completion=False, help="Register, list and inspect nodes.")
node.command("show")(show)
node.command("why")(why)
node.command("history")(with_database(of_kind(SPEC.name, history)))


@node.command("add")
@with_database
@detail_options.described
async def add(  # noqa: PLR0913 - one parameter is one option
    session: Session,
    given: Mapping[str, Any],
    name: Annotated[str, typer.Argument(help="Letters, digits, dots, dashes and underscores.")],
    bmc_address: Annotated[str | None, typer.Option(help="https URL or host of the node's BMC.")] = None,
    bmc_credential: Annotated[
        str | None, typer.Option(help="Reference to the BMC's password, not the password itself.")
    ] = None,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Issue a bootstrap token for the node's agent, and print it once.")
    ] = False,
    as_json: output.AsJson = False,
) -> None:
    """Register a node. farrier does nothing to the machine until an intent requests it."""
    token = bootstraps.token(secrets.token_hex()) if bootstrap else None
    registration = Registration(
        name=name,
        bmc_address=bmc_address,
        bmc_credential=bmc_credential,
        **given,
        bootstrap_token=token,
        bootstrap_ttl=session.settings.node.bootstrap_ttl,
    )
    (id_,) = await session.requests.register([registration])
    if as_json:
        output.json({"id": id_, "name": name} | ({"bootstrap_token": token} if token else {}))
        return
    typer.echo(f"{name} is registered with id {id_}")
    if token:
        _print_token(token, duration.human(session.settings.node.bootstrap_ttl))


@node.command("bootstrap")
@with_database
async def bootstrap(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name or ID of the node.")],
    as_json: output.AsJson = False,
) -> None:
    """Issue a new bootstrap token for a node's agent, and print it once. Earlier unused tokens become invalid."""
    ttl = session.settings.node.bootstrap_ttl
    token = await session.requests.issue_bootstrap(name, ttl)
    if as_json:
        output.json({"bootstrap_token": token})
    else:
        _print_token(token, duration.human(ttl))


@node.command("list")
@with_database
@detail_options.narrowed
async def list_(
    session: Session,
    chosen: Mapping[str, tuple[str, ...]],
    status: Annotated[list[NodeStatus] | None, typer.Option(help="Only this status. Repeatable.")] = None,
    management: Annotated[list[Management] | None, typer.Option(help="Only this management state. Repeatable.")] = None,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Only nodes whose workflow failed or whose BMC cannot be read."),
    ] = False,
    as_json: output.AsJson = False,
) -> None:
    """List nodes by name. Nodes above a limit are first, those furthest above it on top."""
    wanted = Wanted(statuses=tuple(status or ()), managements=tuple(management or ()), details=chosen, failed=failed)
    above = await session.queries.overdue(wanted, session.settings.sla)
    if as_json:
        await output.json_array(_objects(session, wanted, above.rows))
        return
    first = [_row(overdue.node, overdue.clocks[0], above.now) for overdue in above.rows]
    async for now, page in _pages(session, wanted, {overdue.node.id for overdue in above.rows}):
        output.table(_COLUMNS, [*first, *(_row(line, None, now) for line in page)])
        first = []


_COLUMNS = ("NODE", "STATUS", "FOR", "ABOVE SLA", "MANAGEMENT", *map(str.upper, LISTED), "NOTE")


async def _pages(
    session: Session, wanted: Wanted, without: set[int]
) -> AsyncIterator[tuple[datetime, Sequence[NodeView]]]:
    """All nodes except those already shown, in pages; at least one page."""
    after, full = "", True
    while full:
        page = await session.queries.inventory(wanted, after=after, limit=_PAGE)
        yield page.now, [line for line in page.rows if line.id not in without]
        full = len(page.rows) == _PAGE
        after = page.rows[-1].name if full else after


async def _objects(session: Session, wanted: Wanted, above: Sequence[Overdue]) -> AsyncIterator[list[object]]:
    yield [output.plain(overdue.node) | {"above_sla": overdue.clocks} for overdue in above]
    async for _, page in _pages(session, wanted, {overdue.node.id for overdue in above}):
        yield [output.plain(line) | {"above_sla": []} for line in page]


def _row(line: NodeView, worst: Clock | None, now: datetime) -> tuple[Cell, ...]:
    return (
        line.name,
        output.state(line.status),
        output.ago(line.status_entered_at, now),
        output.excess(worst),
        line.management and output.state(line.management),
        *(getattr(line, name) for name in LISTED),
        _note(line),
    )


def _note(line: NodeView) -> str:
    return "; ".join(_notes(line))


def _notes(line: NodeView) -> Iterator[str]:
    """Notes about problems that may need a decision of an operator."""
    workflow = line.workflow
    if line.paused is not None:
        yield f"paused: {line.paused}"
    if line.quarantine_cause is not None:
        yield f"{line.quarantine_cause}: {line.quarantine_reason}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_MANUAL_INTERVENTION:
        yield f"waits for an operator: {workflow.failure_class or workflow.kind}"
    if workflow is not None and workflow.status == WorkflowStatus.FAILED_RETRYABLE:
        yield f"retries: {workflow.failure_class or workflow.kind}"
    if line.bmc_failure is not None:
        yield f"BMC: {line.bmc_failure}"
    if line.power_failure is not None:
        yield f"power unreadable: {line.power_failure}"


def _print_token(token: str, ttl: str) -> None:
    typer.echo(f"bootstrap token: {token}")
    typer.echo(f"it is shown only now, and works once within {ttl}", err=True)
