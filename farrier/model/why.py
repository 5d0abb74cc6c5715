"""In plain words: what a node waits for, what went wrong, and what a person should do.

Behind `farrier node why` and the lifecycle view. A pure function of what is shown of the node anyway, so it says
nothing that `node show` could contradict. The advice is the tables' of `farrier.model.failures`, by what is nearest to
the cause: a controller that does not run explains everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from farrier.model import clocks, duration, failures
from farrier.model.clocks import Clock
from farrier.model.limits import Limits
from farrier.model.management import Management
from farrier.model.outcome import Record
from farrier.model.situation import POWER_IS_FREE
from farrier.model.status import NodeStatus
from farrier.model.views import NodeDetail
from farrier.model.workflow import WorkflowStatus

K = TypeVar("K", bound=str)

# Runs come every 30 s; one that is this late has nobody to make it.
_NOBODY_RUNS_IT = timedelta(minutes=2)

_STAGE_ADVICE = {name: advice.action for name, advice in failures.FAILURES.items()}
_FAILED = frozenset({WorkflowStatus.FAILED_RETRYABLE, WorkflowStatus.FAILED_MANUAL_INTERVENTION})


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """`since` is when the last run first said so, `source` the line that said it; `next_run` is in words."""

    node: str
    status: str
    management: str
    waits_for: str
    since: datetime | None
    clocks: tuple[Clock, ...]
    errors: tuple[str, ...]
    source: str
    next_run: str
    advice: str


def explain(node: NodeDetail, now: datetime, limits: Limits) -> Why:
    """Why the node is where it is. `limits` are the SLAs that are not the default."""
    return Why(
        node=node.name,
        status=node.status,
        management=node.management,
        waits_for=_waits_for(node),
        since=node.outcome_at,
        clocks=clocks.running(node, now, limits),
        errors=tuple(_errors(node)),
        source=node.outcome.source if node.outcome is not None else "",
        next_run=next_run(node.next_run_at, now, running=node.running),
        advice=next(_advice(node, now), "nothing to do"),
    )


def _is_held(node: NodeDetail) -> bool:
    """A pause holds it up. A deletion and what a cancel began go on, and then its last run says what is waited for,
    which may be the end of the pause all the same."""
    if node.paused is None:
        return False
    goes_on = node.deleting or (node.workflow is not None and node.workflow.status == WorkflowStatus.COMPENSATING)
    said = "" if node.outcome is None else node.outcome.reason
    return not goes_on or said == f"paused: {node.paused}"


def _waits_for(node: NodeDetail) -> str:
    if _is_held(node):
        return f"unpause: {node.paused}"
    return waits_for(node.outcome, node.next_run_at)


def waits_for(outcome: Record | None, next_run_at: datetime | None) -> str:
    """What its last run says a resource of any kind waits for."""
    if next_run_at is None:
        return "nothing any more"
    if outcome is None:
        return "its first run"
    match outcome.outcome:
        case "error":
            return f"a run that does not fail: the last one ended in {outcome.error}"
        case "do_nothing" | "deleted":
            return "nothing: all is as it should be"
        case "transition" | "update":
            return f"its next run, after: {outcome.reason}"
        case _:
            return outcome.reason


def _errors(node: NodeDetail) -> Iterator[str]:
    if node.outcome is not None and node.outcome.error:
        yield f"last run: {node.outcome.error}: {node.outcome.reason}"
    workflow = node.workflow or node.last_workflow
    if workflow is not None and workflow.failure_class is not None:
        detail = f": {workflow.failure_detail}" if workflow.failure_detail else ""
        yield f"{workflow.kind}, stage {workflow.stage}: {workflow.failure_class}{detail}"
    if node.bmc.last_error is not None:
        yield f"BMC: {node.bmc.failure}: {node.bmc.last_error}" if node.bmc.failure else f"BMC: {node.bmc.last_error}"
    if _is_unread(node):
        yield f"power, as of {_last_read(node)}: {node.bmc.sync_failure}: {node.bmc.sync_error}"
    yield from _not_kept(node)
    if node.quarantine_cause is not None:
        yield f"quarantined, {node.quarantine_cause}: {node.quarantine_reason}"


def _is_unread(node: NodeDetail) -> bool:
    return node.management == Management.MANAGEABLE and node.bmc.sync_failure is not None


def _not_kept(node: NodeDetail) -> Iterator[str]:
    """Why power is not as an operator wants it kept: it could not be switched, or is not ours to switch just now."""
    bmc, workflow = node.bmc, node.workflow
    if not _is_unkept(node):
        return
    differs = f"power is {bmc.power} and to be kept {bmc.desired_power}"
    if bmc.enforce_error is not None:
        yield f"{differs}: {bmc.enforce_error}"
    if workflow is not None and not POWER_IS_FREE.fits(workflow):
        yield f"{differs}: {workflow.kind} {workflow.id} has it as long as it is live"


def _is_unkept(node: NodeDetail) -> bool:
    bmc = node.bmc
    return node.management == Management.MANAGEABLE and bmc.desired_power not in (None, bmc.power)


def _last_read(node: NodeDetail) -> str:
    return "never" if node.bmc.power_at is None else f"{node.bmc.power_at:%Y-%m-%d %H:%M:%S} UTC"


def next_run(next_run_at: datetime | None, now: datetime, *, running: bool) -> str:
    """When the handler of a resource of any kind runs next, in words."""
    if next_run_at is None:
        return "never again"
    if running:
        return "under way"
    if next_run_at > now:
        return f"in {duration.human(next_run_at - now)}"
    return f"due since {duration.human(now - next_run_at)}"


def of_runs(outcome: Record | None, next_run_at: datetime, now: datetime) -> Iterator[str]:
    """What to do about how runs of a resource of any kind go."""
    if now - next_run_at > _NOBODY_RUNS_IT:
        yield "no controller works on it: is `farrier run` up, and does it reach this database?"
    if outcome is not None and outcome.error and outcome.outcome == "wait":
        yield "see to what it waits for; it goes on by itself"
    elif outcome is not None and outcome.error:
        yield "read the controller's log of its last run; the error says what was expected"


def _advice(node: NodeDetail, now: datetime) -> Iterator[str]:
    """What to do, the most telling first."""
    if node.next_run_at is None:
        return
    yield from of_runs(node.outcome, node.next_run_at, now)
    if _is_held(node):
        yield "unpause it when you are done"
    workflow = node.workflow
    if workflow is not None and workflow.status in _FAILED:
        yield from _looked_up(_STAGE_ADVICE, workflow.failure_class)
    if node.status == NodeStatus.QUARANTINED:
        yield from _looked_up(failures.QUARANTINE_ADVICE, node.quarantine_cause)
    yield from _of_bmc(node)
    if workflow is not None and workflow.mode is None:
        yield "ask for onboard with a mode, or adopt: nothing starts by itself"
    yield from _by_state(node)


def _of_bmc(node: NodeDetail) -> Iterator[str]:
    bmc = node.bmc
    if bmc.failure is not None:
        yield failures.BMC_ADVICE[bmc.failure]
    if _is_unread(node) and bmc.sync_failure is not None:
        yield failures.BMC_ADVICE[bmc.sync_failure]
    if _is_unkept(node) and bmc.enforce_error is not None:
        yield f"switch it {bmc.desired_power} at the machine or its BMC, or set_power without enforce to end it"


def _by_state(node: NodeDetail) -> Iterator[str]:
    if node.status == NodeStatus.BOOTSTRAP_ISSUED:
        yield "start the agent with its bootstrap token, or issue a new one with farrier node bootstrap"
    if node.status == NodeStatus.OFFLINE:
        yield "look at the node's power, its network and its agent"
    if node.management == Management.ERROR:
        yield "give BMC details again with set_bmc"
    if node.management == Management.ADOPT_FAILED:
        yield "adopt again, or manage to give up adopting"


def _looked_up(table: Mapping[K, str], failure: str | None) -> Iterator[str]:
    """The advice for it, if this program knows it."""
    found = next((advice for known, advice in table.items() if known == failure), None)
    if found is not None:
        yield found
