"""`farrier node evidence`: shows what was seen of each device when a node's machine was cleaned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from farrier.cli.node.inspection import NodeArgument
from farrier.cli.output import printing
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model.node.evidence import Device
from farrier.model.views.nodes import EvidenceView


@with_database
async def evidence(
    session: CommandSession,
    name: NodeArgument,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of reports. The newest reports are first.")] = 10,
    as_json: printing.AsJson = False,
) -> None:
    """Show the evidence of the cleanings of a node, the newest first: for each device, what was done and seen."""
    page = await session.queries.evidence(name, limit=limit)
    if as_json:
        printing.json(page.rows)
        return
    for each in page.rows:
        typer.echo(f"decommission {each.workflow} ({each.mode}, {each.status}): {'; '.join(_said(each))}")
        if each.evidence is not None:
            printing.table(_COLUMNS, (_row(device) for device in each.evidence.devices))
    if not page.rows:
        typer.echo("no cleaning of this node has evidence")


_COLUMNS = ("KIND", "SERIAL", "MODEL", "METHOD", "RESULT", "SAMPLES", "BAD", "MESSAGE")


def _said(each: EvidenceView) -> Iterable[str]:
    """Yield who reported, when, and what else was seen of the machine."""
    if each.evidence is None:
        yield "no evidence"
        yield from (judged.text for judged in each.judged)
        return
    at = "" if each.reported_at is None else f" at {printing.moment(each.reported_at)}"
    task = "" if each.task is None else f", task {each.task} ({each.type})"
    yield f"reported by {each.evidence.by}{at}{task}"
    script, cycle = each.evidence.script, each.evidence.power_cycle
    if script is not None:
        yield f"script {script.name} of revision {script.revision}"
    if cycle is not None:
        yield f"the BMC showed the machine off at {printing.moment(cycle.off_seen_at)}, and on at " + str(
            printing.moment(cycle.on_seen_at)
        )
    yield from (judged.text for judged in each.judged)


def _row(device: Device) -> tuple[str, ...]:
    samples, bad = (str(device.samples), str(device.bad_samples)) if device.samples else ("", "")
    return device.kind, device.serial, device.model, device.method, device.result, samples, bad, device.message
