"""Nodes and their tasks as people and other programs are shown them; nothing decides on these. Their past: `past`.

`protocols.Queries` answers in these words, the command line and the web show them. States are plain texts here:
a node that a newer farrier has moved into a state unknown to this one is shown like any other. Durations become
seconds, and times ISO 8601, in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from farrier.model.details import RowDetails
from farrier.model.health import Alert
from farrier.model.node import Bmc
from farrier.model.outcome import Record

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows and the database's time of them: ages are counted to `now`, never to a clock of our own."""

    now: datetime
    rows: tuple[T, ...]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes: those that have one of the given values in each field, and in each of the `LISTED` details that is
    named. Empty: any. `failed`: of those only the nodes whose workflow failed, or whose BMC or its power cannot be
    read."""

    statuses: tuple[str, ...] = ()
    managements: tuple[str, ...] = ()
    details: Mapping[str, tuple[str, ...]] = {}
    failed: bool = False

    def fits_site(self, site: str | None) -> bool:
        """Whether the details fit a resource that has none but its site."""
        return all(name == "site" and site in values for name, values in self.details.items())


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow. `mode_given_at` is where its end-to-end clock started."""

    kind: str
    id: int
    mode: str | None
    status: str
    status_entered_at: datetime
    stage: str | None
    stage_entered_at: datetime
    attempt: int
    next_attempt_at: datetime | None
    failure_class: str | None
    failure_detail: str | None
    mode_given_at: datetime | None


class NodeView(RowDetails, frozen=True, kw_only=True):
    """One line of the inventory. `workflow` is the live one; `last_onboarding` is how the newest onboarding of
    an enrolling node stands. `bmc_failure` is why its BMC could not be verified, `power_failure` why the power of a
    manageable node cannot be read."""

    id: int
    name: str
    status: str
    status_entered_at: datetime
    management: str | None
    """None for a deleted node."""
    management_entered_at: datetime | None
    manage_asked: bool
    schedulable: bool
    paused: str | None
    quarantine_cause: str | None
    quarantine_reason: str | None
    last_heartbeat_at: datetime | None
    created_at: datetime
    workflow: WorkflowView | None
    last_onboarding: str | None
    bmc_failure: str | None = None
    power_failure: str | None = None


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """An intent, and its answer once there is one."""

    id: int
    action: str
    params: Mapping[str, Any]
    requested_by: str | None
    status: str
    reason: str | None
    created_at: datetime
    answered_at: datetime | None


class MaasView(msgspec.Struct, frozen=True, kw_only=True):
    """What MAAS last said of the node's machine. `since` is the first reading of this state, `read_at` the last; with
    `stale_since` something has happened to it that is not read yet. `fresh_at` is until when the reading holds."""

    system_id: str
    state: str
    since: datetime
    read_at: datetime
    stale_since: datetime | None
    fresh_at: datetime | None = None
    status_name: str | None = None
    owner: str | None = None
    power_state: str | None = None


class RegionView(msgspec.Struct, frozen=True, kw_only=True):
    """What the observer of a site's MAAS region last said of it. `complete_at` is until when every event is known."""

    site: str
    state: str
    since: datetime
    username: str | None
    complete_at: datetime | None
    last_error: str | None


class AddressView(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a network segment that is a node's; `owner` is who took it, mostly the node."""

    segment: str
    address: str
    owner: str


class MembershipView(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a node that is a member of an IB partition."""

    partition: str
    guid: str
    state: str


class NodeDetail(NodeView, frozen=True, kw_only=True):
    """Everything that is shown of one node, a deleted one included.

    `outcome` is what its last run said, unchanged since `outcome_at`; `controller` runs its shard (None: none does, or
    the node is deleted) and had run all that was due of it at `swept_at`; `step` may have changed something outside
    since `step_begun_at`, and its end is not recorded. `last_workflow` is the newest workflow, live or ended;
    `requests` are the newest, newest first. `ib_guids` are its InfiniBand ports, None while nobody told them.
    `region` is that of its site; `held_here`: its machine was held by us when it last came into service.
    `paused_by` and `quarantined_by` are who asked for that, None where nobody did or said who. `alerts` are those
    of the agent's last heartbeat.
    """

    version: int
    macs: tuple[str, ...] = ()
    maas: MaasView | None
    bmc_address: str | None
    bmc_credential: str | None
    bmc: Bmc
    not_scrubbed: bool
    ever_onboarded: bool = False
    deleting: bool
    held_here: bool = False
    same_machine: tuple[str, ...] = ()
    outcome: Record | None
    outcome_at: datetime | None
    controller: str | None
    swept_at: datetime | None
    step: str | None
    step_begun_at: datetime | None
    last_workflow: WorkflowView | None
    requests: tuple[RequestView, ...]
    ib_guids: tuple[str, ...] | None = None
    addresses: tuple[AddressView, ...] = ()
    memberships: tuple[MembershipView, ...] = ()
    region: RegionView | None = None
    paused_by: str | None = None
    quarantined_by: str | None = None
    alerts: tuple[Alert, ...] = ()
    braked_at: datetime | None = None


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a node. `attempt` counts dispatches, `failures` failed results; `claimed_by` is `agent of NODE` or
    `worker LOGIN`."""

    id: int
    node: str
    type: str
    status: str
    attempt: int
    failures: int
    claimed_by: str | None
    lease_until: datetime | None
    created_at: datetime
    ended_at: datetime | None
    result: Any


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet in numbers. `statuses` counts nodes by status; `unowned` counts shards of nodes that no controller has,
    `lag_seconds` says how long ago the shard of nodes that has waited the longest was swept (0: none has a
    controller)."""

    now: datetime
    statuses: Mapping[str, int]
    unowned: int
    lag_seconds: float
    intents_pending: int
