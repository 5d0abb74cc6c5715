"""`farrier node show`, `why` and `evidence`: print all data of a node, the explanation of its state, and what was
seen of each device when its machine was cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from farrier.bulk import dry_runs
from farrier.cli.options import completed_names
from farrier.cli.output import printing
from farrier.cli.output.printing import Cell
from farrier.cli.settings.connection import CommandSession, with_database
from farrier.model import duration
from farrier.model.advice import diagnosis
from farrier.model.advice.diagnosis import Patience
from farrier.model.advice.explanation import NextAction, ResourceWhy, Why
from farrier.model.loop import restores
from farrier.model.loop.outcome import EndsBy
from farrier.model.machine.health import Alert
from farrier.model.node import details
from farrier.model.node.clocks import StateClock
from farrier.model.node.evidence import Device
from farrier.model.node.layers import Management
from farrier.model.views.nodes import EvidenceView, MaasView, NodeDetail, Page, RequestView, WorkflowView

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name or ID.", autocompletion=completed_names.node_names)
]


@with_database
async def show(session: CommandSession, node: NodeArgument, as_json: printing.AsJson = False) -> None:
    """Show all data of a node, even of a deleted node."""
    page = await session.queries.node(node)
    (detail,) = page.rows
    explained = await _explained(session, page)
    following = NextAction.of(explained)
    if as_json:
        shown = {"clocks": printing.plain(explained.clocks), "next_action": printing.plain(following)}
        printing.json(printing.plain(detail) | shown)
        return
    printing.facts((*_facts(detail, page.now, session.settings.node.patience), *_next(following)))
    tables(explained.clocks, detail.requests, page.now)


@with_database
async def why(session: CommandSession, node: NodeArgument, as_json: printing.AsJson = False) -> None:
    """Show what a node waits for and since when, its last errors, and what to do."""
    page = await session.queries.node(node)
    explained = await _explained(session, page)
    if as_json:
        printing.json(explained)
    else:
        printing.facts(_in_words(explained, page.now))


async def _explained(session: CommandSession, page: Page[NodeDetail]) -> Why:
    given = session.settings
    return await dry_runs.explained(session.requests, page, given.sla, given.node.patience, given.controller.period)


def _next(following: NextAction) -> Iterable[tuple[str, Cell]]:
    yield "what to do", following.advice
    yield "command", following.command


def _facts(node: NodeDetail, now: datetime, patience: Patience) -> Iterable[tuple[str, Cell]]:
    yield "node", f"{node.name} (id {node.id}, version {node.version})"
    yield "status", printing.state(node.status)
    yield "management", node.management and printing.state(node.management)
    yield "schedulable", "yes" if node.schedulable else "no"
    yield "held", _held(node, now) if node.held else None
    yield "restored", restores.since(node.restored_at) if node.restored_at else None
    yield "paused", node.paused
    yield "quarantine", node.quarantine_cause and f"{node.quarantine_cause}: {node.quarantine_reason}"
    told = (node.agent_facts or {}).items()
    yield "agent facts", ", ".join(f"{name}: {printing.text(value)}" for name, value in told) or None
    yield "conditions", "; ".join(f"{each.text} ({each.effect})" for each in node.conditions) or None
    yield "flags", ", ".join(_flags(node))
    yield from details.shown(node)
    yield "in MAAS", _in_maas(node.maas, now) if node.maas is not None else None
    yield "not expected", diagnosis.not_as_expected(node, now, patience)
    yield from _networks(node)
    yield "BMC", node.bmc_address
    yield "credential", node.bmc_credential
    yield "machine", node.machine or None
    yield "same machine", ", ".join(node.same_machine)
    yield "alike", ", ".join(node.alike_machines)
    yield "power", _power(node, now) if node.bmc_address else None
    if node.management == Management.MANAGEABLE:
        yield "power error", node.bmc.sync_failure and f"{node.bmc.sync_failure}: {node.bmc.sync_error}"
        yield "not enforced", node.bmc.desired_power and node.bmc.enforce_error
    yield "BMC error", ": ".join(filter(None, (node.bmc.failure, node.bmc.last_error))) if node.bmc.last_error else None
    if node.last_heartbeat_at is not None:
        yield "heartbeat", f"{printing.ago(node.last_heartbeat_at, now)} ago"
    for alert in node.alerts:
        yield "alert", _alert_in_words(alert)
    if node.last_workflow is not None:
        yield "workflow", _workflow(node.last_workflow)
    yield "registered", f"{printing.moment(node.created_at)} UTC"
    if node.outcome is not None:
        yield "last outcome", f"{node.outcome.outcome} {node.outcome.error} {node.outcome.reason}".replace("  ", " ")
        yield "source", node.outcome.source


def _held(node: NodeDetail, now: datetime) -> str:
    brake = f"by the brake of {f'site {node.site}' if node.site else 'the nodes without a site'}"
    return brake if node.braked_at is None else f"{brake}, which last refused {printing.ago(node.braked_at, now)} ago"


def _networks(node: NodeDetail) -> Iterable[tuple[str, Cell]]:
    if node.ib_guids is not None:
        yield "IB ports", ", ".join(node.ib_guids) or "none"
    yield "addresses", ", ".join(f"{held.address} of {held.segment}" for held in node.addresses)
    yield "partitions", ", ".join(f"{held.partition}: {held.guid} {held.state}" for held in node.memberships)


def _in_maas(maas: MaasView, now: datetime) -> str:
    """Return a text about the reading, such as `deployed (Deployed) with ubuntu/noble, owned by admin, read 4s ago`."""
    named = (f" ({maas.status_name})" if maas.status_name else "") + (f" with {maas.image}" if maas.image else "")
    held = f", owned by {maas.owner}" if maas.owner else ""
    news = "; changed since then" if maas.stale_since is not None else ""
    return f"{maas.state}{named}{held}, read {printing.ago(maas.read_at, now)} ago{news}"


def _power(node: NodeDetail, now: datetime) -> str:
    bmc = node.bmc
    # If a read confirms the stored power, farrier rarely stores the time of the read. It stores a failed read at once.
    later = " or more recently" if bmc.sync_failure is None else ""
    read = "" if bmc.power_at is None else f", read {printing.ago(bmc.power_at, now)} ago{later}"
    return f"{bmc.power}{read}" + ("" if bmc.desired_power is None else f"; target power {bmc.desired_power}")


def _flags(node: NodeDetail) -> Iterable[str]:
    yield from details.flags(node)
    if node.deleting:
        yield "being deleted"


def _workflow(workflow: WorkflowView) -> str:
    parts = [f"{workflow.kind} {workflow.id}", workflow.mode or "no mode", workflow.status]
    if workflow.stage is not None:
        parts.append(f"stage {workflow.stage}, attempt {workflow.attempt}")
    if workflow.failure_class is not None:
        parts.append(f"{workflow.failure_class}: {workflow.failure_detail or 'no detail'}")
    return ", ".join(parts)


def tables(clocks: Sequence[StateClock], requests: Sequence[RequestView], now: datetime) -> None:
    """Print the running clocks and the newest intents of a resource, each as a table."""
    if clocks:
        typer.echo()
        printing.table(("LAYER", "STATE", "FOR", "LIMIT", "ABOVE"), (_clock_row(clock, now) for clock in clocks))
    if requests:
        typer.echo()
        printing.table(("REQUEST", "ACTION", "BY", "AGO", "ANSWER"), (_request_row(each, now) for each in requests))


def _clock_row(clock: StateClock, now: datetime) -> tuple[Cell, ...]:
    limit = "none" if clock.limit is None else duration.human(clock.limit)
    above = None if clock.above is None else duration.human(clock.above)
    return clock.layer, printing.state(clock.state), printing.ago(clock.since, now), limit, above


def _request_row(request: RequestView, now: datetime) -> tuple[Cell, ...]:
    answer = request.status if request.reason is None else f"{request.status}: {request.reason}"
    return str(request.id), request.action, request.requested_by, printing.ago(request.created_at, now), answer


def _in_words(why: Why, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield why.node, f"is {why.status}" + (f", its management {why.management}" if why.management else "")
    yield from in_words(why, _besides(why, now), now)
    yield "command", why.command


def in_words(why: Why | ResourceWhy, besides: Iterable[tuple[str, Cell]], now: datetime) -> Iterable[tuple[str, Cell]]:
    """Return the lines that explain the state of any resource, with those of its kind, `besides`."""
    yield "reason", why.reason
    if why.since is not None:
        yield "since", f"{printing.moment(why.since)} UTC, {printing.ago(why.since, now)} ago"
    for clock in why.clocks:
        yield "SLA", _clock_in_words(clock, now)
    for error in why.errors:
        yield "error", error
    yield from besides
    yield "run by", why.run_by
    yield "decided at", why.source
    if why.ends_by is not None:
        yield "ends by", _ENDS_BY[why.ends_by]
    yield "what to do", why.advice


_ENDS_BY = {
    EndsBy.PERSON: "a person",
    EndsBy.CONFIRMATION: "a second reading that confirms or refutes the first",
    EndsBy.ITSELF: "itself",
}


def _besides(why: Why, now: datetime) -> Iterable[tuple[str, Cell]]:
    yield "quarantine", why.quarantine
    yield "quarantined by", why.quarantined_by
    yield "paused by", why.paused_by
    yield "BMC", why.bmc_address
    if why.last_heartbeat_at is not None:
        yield "heartbeat", f"{printing.ago(why.last_heartbeat_at, now)} ago"
    for alert in why.alerts:
        yield "alert", _alert_in_words(alert)
    yield "in MAAS", None if why.maas is None else _in_maas(why.maas, now)
    for request in why.unanswered:
        by = f" by {request.requested_by}" if request.requested_by else ""
        ago = printing.ago(request.created_at, now)
        yield "request", f"{request.id} ({request.action}{by}) unanswered for {ago}"


def _alert_in_words(alert: Alert) -> str:
    """Return a text about an alert, such as `gpu-3: ECC errors (blocks scheduling)`."""
    blocks = " (blocks scheduling)" if alert.blocks_scheduling else ""
    return f"{alert.id}: {alert.message}{blocks}" if alert.message else f"{alert.id}{blocks}"


def _clock_in_words(clock: StateClock, now: datetime) -> str:
    """Return a text about a clock, such as `status active for 2h, no limit: the target state of a node`."""
    stands = f"{clock.layer} {clock.state} for {printing.ago(clock.since, now)}"
    if clock.limit is None:
        return f"{stands}, no limit: {clock.note}"
    if clock.above is None:
        return f"{stands} of {duration.human(clock.limit)}"
    return f"{stands}, {duration.human(clock.above)} above its limit of {duration.human(clock.limit)}"


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
        typer.echo(f"decommission {each.workflow} ({each.mode}, {each.status}): {'; '.join(_told(each))}")
        if each.evidence is not None:
            printing.table(_OF_EVIDENCE, (_row(device) for device in each.evidence.devices))
    if not page.rows:
        typer.echo("no cleaning of this node has evidence")


_OF_EVIDENCE = ("KIND", "SERIAL", "MODEL", "METHOD", "RESULT", "SAMPLES", "BAD", "MESSAGE")


def _told(each: EvidenceView) -> Iterable[str]:
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
