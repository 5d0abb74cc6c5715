"""Defines the options of commands that submit an action for many resources, and runs such a command: preview,
confirmation, progress, and the table of refusals."""

from __future__ import annotations

import secrets
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Concatenate, ParamSpec

import anyio
import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from farrier.bulk import dry_runs
from farrier.bulk.run import ALREADY, Bulk, BulkResult, Following, Operations, Target
from farrier.cli.intent import answers
from farrier.cli.options import arguments, signatures
from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession
from farrier.errors import ExitCode, RefusedByModel
from farrier.model.duration import with_unit
from farrier.model.plural import counted
from farrier.protocols import Requests

P = ParamSpec("P")

_PANEL = "How to submit"


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the options: how to submit an action for many resources. `again` is the option with which the
    command can be repeated safely; it is empty for a command that needs no option for this."""

    dry_run: bool
    yes: bool
    following: Following
    key: str
    again: str
    requested_by: str | None
    as_json: bool
    allow_none: bool

    def require(self, found: Sequence[object], kind: str) -> None:
        """Raise RefusedByModel if no resource of the kind was selected, unless the user allowed this."""
        text = f"no {printing.words(kind)} matches the selection; nothing was submitted"
        if not found and not self.allow_none:
            raise RefusedByModel(text, hint="to make this a success, add --allow-none")
        if not found:
            typer.echo(text, err=True)


_MaxInFlight = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Submit the next intent only when fewer than N resources are in progress. A resource is in progress "
        "until its intent is answered; with --until, until the resource has the state. If a resource is late or "
        "fails, farrier submits no further intent.",
        rich_help_panel=_PANEL,
    ),
]

_Until = Annotated[
    str | None,
    typer.Option(
        metavar="STATE",
        help="Wait until each resource has this state. A resource that has the state and rejects the action is no "
        "error.",
        rich_help_panel=_PANEL,
    ),
]


def orders(  # noqa: PLR0913 - one parameter is one option
    *,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Submit nothing. Show the selected resources, and the answers that the controllers would give now.",
            rich_help_panel=_PANEL,
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.", rich_help_panel=_PANEL)
    ] = False,
    max_in_flight: _MaxInFlight = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the answers.", rich_help_panel=_PANEL)
    ] = True,
    until: _Until = None,
    timeout: Annotated[
        str, typer.Option(help="Time limit for each resource: for its answer and for --until.", rich_help_panel=_PANEL)
    ] = "60s",
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            help="Idempotency key: a command repeated with the same key submits no intent twice. Default: a new key.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    requested_by: Annotated[str | None, typer.Option(help=answers.BY_HELP, rich_help_panel=_PANEL)] = None,
    allow_none: Annotated[
        bool, typer.Option("--allow-none", help="Succeed if the selection matches nothing.", rich_help_panel=_PANEL)
    ] = False,
    as_json: printing.AsJson = False,
) -> Orders:
    """Return the values of these options as `Orders`."""
    if not wait and (until is not None or max_in_flight is not None):
        raise typer.BadParameter("--no-wait cannot be combined with --until or --max-in-flight: both wait for answers")
    following = Following(
        most=max_in_flight,
        waits=wait,
        until=until,
        patience=arguments.patience("--timeout", timeout),
        timeout=with_unit(timeout),
    )
    key = idempotency_key or f"{_PREFIX}{secrets.token_hex(6)}"
    return Orders(
        dry_run=dry_run,
        yes=yes,
        following=following,
        key=key,
        again=f"--idempotency-key {key}",
        requested_by=requested_by,
        as_json=as_json,
        allow_none=allow_none,
    )


_PREFIX = "cli-"


def ordered(
    command: Callable[Concatenate[CommandSession, Orders, P], Awaitable[None]],
) -> Callable[Concatenate[CommandSession, P], Awaitable[None]]:
    """Add these options to a command, and pass their values as its second parameter, after the session."""
    return signatures.with_options(command, signatures.parameters(orders), orders)


async def run(action: str, asks: Requests, targets: Sequence[Target], operations: Operations, given: Orders) -> None:
    """With --dry-run, print a preview. Without --dry-run, ask the user, submit, follow and report. Raises typer.Exit
    with code 1 if anything was refused. `asks` asks the controllers for the preview."""
    kind = operations.request.kind
    if given.dry_run:
        _preview(action, kind, await dry_runs.of_targets(asks, operations, targets), given)
        return
    if len(targets) > 1:
        if not given.yes:
            targets = await dry_runs.confirmed(asks, operations, targets)
        confirm(f"{action} {_counted(kind, targets)}", yes=given.yes)
        if given.again:
            typer.echo(f"to repeat this command safely, add: {given.again}", err=True)
    results = await _follow(action, targets, operations, given)
    _report(action, kind, results, given)
    if not all(result.is_well for result in results):
        raise typer.Exit(ExitCode.FAILED)


def confirm(text: str, *, yes: bool) -> None:
    """Ask the user to confirm. Without a terminal, --yes is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"this command would {text}, but there is no terminal to ask for confirmation; add --yes "
            "to confirm, or --dry-run to preview"
        )
    if not typer.confirm(f"{text}?", err=True):
        raise typer.Exit(ExitCode.FAILED)


def _counted(kind: str, targets: Sequence[Target]) -> str:
    """Return the number of resources, in total and by state, and for how many the intent would be rejected now."""
    states = ", ".join(f"{count} {state}" for state, count in Counter(each.state for each in targets).most_common())
    refused = sum(bool(target.refusal) for target in targets)
    now = f"; {dry_runs.who(targets)} would reject {refused} now" if refused else ""
    untold = sum(not target.is_told for target in targets)
    if untold:
        now += f"; no controller answered{f' for {untold}' if untold < len(targets) else ''}"
    return f"{counted(len(targets), printing.words(kind))} ({states}{now})"


def _preview(action: str, kind: str, targets: Sequence[Target], given: Orders) -> None:
    until = given.following.until
    if given.as_json:
        printing.json([printing.plain(target) | {"answer": _expected(target, until)} for target in targets])
    else:
        columns = ("NAME", "STATE", "ANSWER NOW", "REASON")
        rows = (
            (target.name, printing.state(target.state), printing.state(_expected(target, until)), _why(target, until))
            for target in targets
        )
        printing.table(columns, rows)
        typer.echo(f"nothing was submitted: {action} {_counted(kind, targets)}", err=True)
    if any(target.refusal and not target.is_at(until) for target in targets):
        raise typer.Exit(ExitCode.FAILED)


def _expected(target: Target, until: str | None) -> str:
    if target.is_at(until):
        return ALREADY
    return "rejected" if target.refusal else "depends" if target.delay else "accepted"


def _why(target: Target, until: str | None) -> str:
    return f"is {until}" if target.is_at(until) else target.refusal or target.delay


async def _follow(
    action: str, targets: Sequence[Target], operations: Operations, given: Orders
) -> Sequence[BulkResult]:
    """Submit and follow all targets. On a terminal, show a progress bar."""
    console = Console(stderr=True)
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = not console.is_terminal or len(targets) == 1
    with Progress(*bar, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(action, total=len(targets))
        bulk = Bulk(operations, targets, given.following, finished=lambda: progress.advance(task))
        try:
            await bulk.run()
        except anyio.get_cancelled_exc_class():
            progress.stop()
            typer.echo(
                f"farrier: interrupted after {len(bulk.results)} of {len(targets)}; submitted intents stay valid; "
                f"to continue, repeat the command{f' with {given.again}' if given.again else ''}",
                err=True,
            )
            raise typer.Exit(ExitCode.FAILED) from None
    return bulk.results


def _report(action: str, kind: str, results: Sequence[BulkResult], given: Orders) -> None:
    results = sorted(results, key=lambda result: result.name)
    if given.as_json:
        printing.json(results)
        return
    bad = [result for result in results if not result.is_well]
    for line in _well([result for result in results if result.is_well], action, kind, given):
        typer.echo(line)
    if bad:
        printing.table(("NAME", "INTENT", "STATUS", "REASON"), map(_row, bad))


def _well(well: Sequence[BulkResult], action: str, kind: str, given: Orders) -> Iterable[str]:
    what = "submitted" if not given.following.waits else "accepted"
    there_before = [result for result in well if result.status == ALREADY]
    well = [result for result in well if result.status != ALREADY]
    if len(there_before) == 1:
        yield f"{there_before[0].name} is already {given.following.until}"
    elif there_before:
        yield f"{counted(len(there_before), printing.words(kind))} are already {given.following.until}"
    if len(well) == 1:
        (one,) = well
        reason = f": {one.reason}" if one.reason else ""
        yield f"{one.name}: {action} is {what} (intent {one.intent}){reason}"
        if one.state is not None:
            yield f"{one.name} is {one.state}"
    elif well:
        there = f", and all are {given.following.until}" if given.following.until else ""
        yield f"{action} is {what} for {counted(len(well), printing.words(kind))}{there}"


def _row(result: BulkResult) -> tuple[printing.Cell, ...]:
    return (
        result.name,
        None if result.intent is None else str(result.intent),
        printing.state(result.status),
        result.reason,
    )
