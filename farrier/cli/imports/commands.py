"""`farrier import`: registers nodes from a file or a MAAS region, and changes registered nodes, after a preview of the
changes: for each row, a node to create, a node to change, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from farrier.cli.imports import file as import_file
from farrier.cli.imports import maas as import_maas
from farrier.cli.imports.file import BMC, ImportRow, RowFault
from farrier.cli.intent import answers
from farrier.cli.node import actions
from farrier.cli.options import bulk, completed_names
from farrier.cli.options.bulk import Orders
from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.errors import ExitCode
from farrier.model.intents.actions import Action
from farrier.model.intents.requests import Registration
from farrier.model.node import detail_changes
from farrier.model.node.detail_changes import DetailChanges
from farrier.model.node.details import DEFAULTS
from farrier.model.node.layers import NODE
from farrier.model.plural import counted
from farrier.model.views.nodes import NodeView

# The largest number of mistakes that are printed; a file in a wrong form may have a mistake in each line.
_MOST_FAULTS = 20
_CHANGING = ("create", "change")


@with_database
async def importing(  # noqa: PLR0913 - one parameter is one option
    session: CommandSession,
    file: Annotated[Path | None, typer.Argument(help="A .csv or .json file with the nodes.")] = None,
    maas: Annotated[
        str | None,
        typer.Option(
            metavar="SITE", help="Import the machines of this site's MAAS region.", autocompletion=completed_names.sites
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing. Show what would change, and the answers to its intents.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    timeout: Annotated[str, typer.Option(help="Time limit for the answer to the intent of each node.")] = "60s",
    requested_by: answers.By = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what would change as JSON, without answers.")] = False,
) -> None:
    """Register nodes from a file or a MAAS region, and change registered nodes.

    farrier first shows what would change. For a node that is already registered, it changes the values that differ, and
    merges labels. A repeated import changes nothing. If the file has a mistake, nothing is imported.
    """
    if (file is None) is (maas is None):
        raise typer.BadParameter("give either a FILE or --maas SITE")
    if as_json and not dry_run:
        raise typer.BadParameter("--json prints the preview; add --dry-run")
    source = str(file) if maas is None else f"region of site {maas}"
    rows, faults = _read(file or Path()) if maas is None else await import_maas.rows(session, maas)
    if faults:
        _refuse(source, faults)
    steps = await _plan(session, rows)
    _preview(steps, as_json=as_json)
    counts = Counter(step.verb for step in steps)
    if as_json or not any(counts[verb] for verb in _CHANGING):
        return
    to_do = " and ".join(f"{verb} {counted(counts[verb], NODE)}" for verb in _CHANGING if counts[verb])
    bulk.confirm(to_do, yes=yes or dry_run)
    how = bulk.orders(dry_run=dry_run, yes=True, timeout=timeout, requested_by=requested_by)
    await _apply(session, steps, how)


def _read(file: Path) -> tuple[list[ImportRow], list[RowFault]]:
    try:
        return import_file.read(file)
    except import_file.Wrong as error:
        raise typer.BadParameter(f"{file}: {error}; nothing was imported") from None


def _refuse(source: str, faults: Sequence[RowFault]) -> None:
    for fault in faults[:_MOST_FAULTS]:
        typer.echo(f"farrier: {source}: {fault}", err=True)
    more = f", of which {_MOST_FAULTS} are shown" if len(faults) > _MOST_FAULTS else ""
    typer.echo(f"farrier: {source} has {counted(len(faults), 'mistake')}{more}; nothing was imported", err=True)
    raise typer.Exit(ExitCode.USAGE)


def _preview(steps: Sequence[ImportStep], *, as_json: bool) -> None:
    if as_json:
        printing.json(
            [{"name": step.row.name, "would": step.verb, "values": {**step.details, **step.bmc}} for step in steps]
        )
        return
    shown = [step for step in steps if step.verb in _CHANGING]
    printing.table(("NODE", "WOULD", "VALUES"), [(step.row.name, step.verb, step.words) for step in shown])
    counts = Counter(step.verb for step in steps)
    typer.echo(f"{counts['create']} to create, {counts['change']} to change, {counts['unchanged']} unchanged", err=True)


async def _apply(session: CommandSession, steps: Sequence[ImportStep], how: Orders) -> None:
    """Register all new nodes or none, and submit intents for the others; a dry run only asks for the answers to these
    intents. Raises typer.Exit if one is refused."""
    new = [step.row for step in steps if step.node is None and not how.dry_run]
    if new:
        await session.requests.register([Registration(name=row.name, **{**row.bmc, **row.values}) for row in new])
        typer.echo(f"{counted(len(new), NODE)} registered", err=True)
    failed: typer.Exit | None = None
    for action in (Action.SET_BMC, Action.SET):
        try:
            await _submit(session, action, steps, how)
        except typer.Exit as end:
            failed = end
    if failed is not None:
        raise failed


async def _submit(session: CommandSession, action: Action, steps: Sequence[ImportStep], how: Orders) -> None:
    given = {
        step.node.id: step.bmc if action is Action.SET_BMC else step.details for step in steps if step.node is not None
    }
    nodes = [step.node for step in steps if step.node is not None and given[step.node.id]]
    if nodes:
        how = msgspec.structs.replace(how, key=f"{how.key}-{action}", again="")
        await actions.submit(session, action, nodes, given.__getitem__, how)


class ImportStep(msgspec.Struct, frozen=True, kw_only=True):
    """The change that an import would make for a row. `node` is None if a node is to be created. `details` are the
    parameters of `set`, and `bmc` those of `set_bmc`; both are empty if nothing changes."""

    row: ImportRow
    node: NodeView | None
    details: Mapping[str, Any]
    bmc: Mapping[str, str]

    @property
    def verb(self) -> str:
        if self.node is None:
            return "create"
        return "change" if self.details or self.bmc else "unchanged"

    @property
    def words(self) -> str:
        """Return the new values, each with the present value if it is known."""
        return ", ".join(self._word(name, value) for name, value in {**self.details, **self.bmc}.items())

    def _word(self, name: str, value: Any) -> str:
        if isinstance(value, Mapping):
            before = getattr(self.node, name, None) or {}
            return " ".join(f"{name}.{key}={each}" for key, each in value.items() if before.get(key) != each)
        text = ",".join(value) if isinstance(value, list | tuple) else str(value)
        before = getattr(self.node, name, None) if name in DEFAULTS else None
        return f"{name}={before}→{text}" if isinstance(before, str) else f"{name}={text}"


async def _plan(session: CommandSession, rows: Sequence[ImportRow]) -> tuple[ImportStep, ...]:
    """Compare the rows with the registered nodes."""
    present = await actions.registered(session, [row.name for row in rows])
    return tuple([await _step(session, row, present.get(row.name)) for row in rows])


async def _step(session: CommandSession, row: ImportRow, node: NodeView | None) -> ImportStep:
    given = {parameter: row.bmc[field] for field, parameter in BMC.items() if field in row.bmc}
    if node is None:
        return ImportStep(row=row, node=None, details=row.values, bmc=given)
    if given or "macs" in row.values:  # a line of the inventory has neither of these details
        detail = (await session.queries.node(str(node.id))).rows[0]
        now = {"address": detail.bmc_address, "credential": detail.bmc_credential}
        given = {parameter: value for parameter, value in given.items() if now[parameter] != value}
        node = detail
    labels = row.values.get("labels", {})
    values = {name: value for name, value in row.values.items() if name != "labels"}
    changed = detail_changes.params(DetailChanges(values=values, labels=labels), node)
    return ImportStep(row=row, node=node, details=changed, bmc=given)
