"""One run of one partition. A run first answers the intents, then compares UFM with the target state.

The handler itself makes only decisions that do not depend on UFM; a step does the rest. If UFM cannot be reached, the
partition waits in its state. If UFM refuses the partition, the state is `error` until UFM accepts the changes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from typing_extensions import override

from farrier.handlers.ib_partition.requests import after, named
from farrier.handlers.ib_partition.steps import Outcome, compare, give_up, keep
from farrier.handlers.resource.kind import ResourceKind
from farrier.handlers.resource.requests import accept, settle
from farrier.model.kinds.resource import Answer
from farrier.model.loop.outcome import Deleted, EndsBy, Step, Transition, Update, Wait
from farrier.model.loop.restores import Hold
from farrier.model.loop.runs import cause_of_intent
from farrier.model.partition.partition import DELETING, GONE, SPEC, IbPartition, PartitionWrite
from farrier.protocols import Fabrics, StateHandler

# Two readings and a change may take longer with the longest time limits of a site. The run is then cut and repeated,
# which does no harm.
DEADLINE = timedelta(seconds=60)
_AT_ONCE = timedelta(0)

Decision: TypeAlias = Outcome | Deleted[PartitionWrite] | Step[IbPartition, PartitionWrite, Fabrics]


class PartitionHandler(StateHandler[IbPartition, IbPartition, PartitionWrite, Fabrics]):
    """Implements `protocols.StateHandler` for IB partitions."""

    @override
    def handle(self, resource: IbPartition, now: datetime) -> Decision:
        """Decide one run. Pure: the same snapshot and time give the same decision."""
        if resource.state == GONE:
            return Deleted()
        if resource.requests:
            return _answered(resource)
        if resource.state == DELETING:
            return _deleting(resource, now)
        if resource.site is None:
            return Wait(
                reason="the partition has no site and therefore no UFM; delete it and create it again with a site",
                ends_by=EndsBy.PERSON,
            )
        return _step("reconcile", partial(keep, resource, now))

    @override
    def observe(self, resource: IbPartition, now: datetime, hold: Hold) -> Decision:
        """Compare the partition with UFM, and change nothing there."""
        act = partial(compare, resource, now)
        return Step(name="compare", act=act, deadline=DEADLINE, reads_only=True)


def _answered(partition: IbPartition) -> Decision:
    if partition.state == DELETING:  # accepts only a repeated deletion
        repeated = tuple(accept(each, "the partition is already being deleted") for each in partition.requests)
        return _unchanged(partition, repeated)
    settled = settle(partition, after)
    to = settled.to
    if settled.deletion is not None:
        reason = (
            f"drains: {named(partition.users)}"
            if partition.users
            else ("a client requested the deletion of the partition")
        )
        return Transition(to=to, reason=reason, cause=cause_of_intent(settled.deletion.id), writes=settled.answers)
    if to == partition:
        return _unchanged(partition, settled.answers)
    reason = "a client requested a change of the partition"
    return Update(to=to, reason=reason, requeue_after=_AT_ONCE, writes=settled.answers)


def _unchanged(partition: IbPartition, answers: tuple[Answer, ...]) -> Decision:
    return Update(to=partition, reason="intents were answered", requeue_after=_AT_ONCE, quiet=True, writes=answers)


def _deleting(partition: IbPartition, now: datetime) -> Decision:
    if partition.users:
        if partition.claimed_at is None:
            return Wait(reason=f"waits for members to leave: {named(partition.users)}")
        return _step("drain", partial(keep, partition, now))
    if partition.claimed_at is None:
        to = partition.at(GONE, last_error=None)
        return Transition(to=to, reason="UFM never had the partition; its pkey is free again", cause="deleted")
    return _step("give up", partial(give_up, partition, now))


def _step(name: str, act: Callable[[Fabrics], Awaitable[Outcome]]) -> Step[IbPartition, PartitionWrite, Fabrics]:
    return Step(name=name, act=act, deadline=DEADLINE, reads_only=False)


PARTITION_KIND: ResourceKind[IbPartition] = ResourceKind(SPEC)
