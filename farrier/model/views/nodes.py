"""Views of nodes and their tasks, for operators and other programs. Handlers do not use them.

`protocols.Queries` returns these views; the command line and the web show them. States are plain texts here, so that
views can also show the states of a newer farrier. In JSON, durations are seconds and times are ISO 8601.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from farrier.model.intents.selection import LabelTest
from farrier.model.loop.doors import DeadDoors
from farrier.model.loop.outcome import Record
from farrier.model.maas.reading import HardwareInfo
from farrier.model.machine.health import Alert
from farrier.model.node.conditions import Condition
from farrier.model.node.details import LISTED, RowDetails
from farrier.model.node.evidence import Evidence, Judged, Require
from farrier.model.node.snapshot import Bmc, Skipped

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some rows, and the database's time `now`. Ages are computed from `now`, never from a local clock."""

    now: datetime
    rows: tuple[T, ...]


class NodeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of nodes. Each field, and each of the `LISTED` details in `details`, lists the accepted values; an empty
    field accepts all nodes. `names` contains names, IDs and globs. A node must pass all tests of `labels`. `failed`
    accepts only nodes whose workflow failed, whose BMC or power cannot be read, or which a brake holds."""

    names: tuple[str, ...] = ()
    labels: tuple[LabelTest, ...] = ()
    statuses: tuple[str, ...] = ()
    managements: tuple[str, ...] = ()
    details: Mapping[str, tuple[str, ...]] = {}
    failed: bool = False

    def fits_site(self, site: str | None) -> bool:
        """Return whether the filter accepts a resource of a kind other than `node`. Only the site of such a resource
        can match, so a filter with any other condition does not accept the resource."""
        return not (self.names or self.labels or self.statuses or self.managements or self.failed) and all(
            name == "site" and site in values for name, values in self.details.items()
        )


BY_NAME = "name"
"""The order in which every page of an inventory has the same cost."""
ORDERS = (BY_NAME, "oldest", "newest", "status", "management", *LISTED)
"""The orders of an inventory: `oldest` begins with the node that has been in its status for the longest time, and
`newest` is the reverse."""


class SortKey(msgspec.Struct, frozen=True, array_like=True):
    """The position of a node in an order. If an order does not use `number`, `number` is 0; if it does not use `text`,
    `text` is empty."""

    number: float
    text: str
    name: str


class OrderedPage(msgspec.Struct, frozen=True):
    """Some nodes in an order, and the key of the last node if more nodes may follow."""

    page: Page[NodeView]
    following: SortKey | None


class Counts(msgspec.Struct, frozen=True):
    """How many nodes a filter selects. `values` covers the fields status, management, site, model and rack. For each
    value of such a field, it contains the number of nodes that the filter would select with this value; the most
    frequent value comes first."""

    selected: int
    values: Mapping[str, Mapping[str, int]]


GROUPS = ("status", *LISTED)
"""The fields by which a page groups nodes."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The selected nodes with one value of a field; None for the nodes without a value. A group of a rack also has the
    rack's site. `statuses` counts its nodes by status, and `held` the nodes that a brake holds."""

    site: str | None
    value: str | None
    nodes: int
    held: int
    statuses: Mapping[str, int]


class WorkflowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow. Its end-to-end clock started at `mode_given_at`. `leave_out` lists the stages that the workflow
    omits, and `skipped` the stages that had nothing to do. `being_cancelled` is set while farrier undoes the work of a
    cancelled workflow; a pause does not stop this undo. `cleaned_by` is who cleans the machine."""

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
    created_at: datetime
    ended_at: datetime | None = None
    skipped: tuple[Skipped, ...] = ()
    being_cancelled: bool = False
    leave_out: tuple[str, ...] = ()
    cleaned_by: str | None = None


class NodeView(RowDetails, frozen=True, kw_only=True):
    """One line of the inventory. `workflow` is the live workflow; `last_onboarding` is the status of the newest
    onboarding of an enrolling node. `quarantine_cause` and `quarantine_reason` describe what keeps the node out of
    service: the conditions with the effect `quarantine`, by name. `bmc_failure` is why its BMC
    could not be verified, and `power_failure` is why the power of a manageable node cannot be read. `held` is set while
    a brake of the site keeps the node in service although it has a cause to leave. A held node stays `schedulable`:
    otherwise a fault of the network would empty the site. `restored_at` is set while farrier changes nothing of the
    node, because the database was restored from a backup."""

    id: int
    name: str
    status: str
    status_entered_at: datetime
    management: str | None
    """None for a deleted node."""
    management_entered_at: datetime | None
    verify_pending_at: datetime | None
    """The time since which a verification of the BMC has been pending."""
    schedulable: bool
    held: bool = False
    restored_at: datetime | None = None
    paused: str | None
    quarantine_cause: str | None
    quarantine_reason: str | None
    conditions: tuple[Condition, ...] = ()
    last_heartbeat_at: datetime | None
    created_at: datetime
    workflow: WorkflowView | None
    last_onboarding: str | None
    bmc_failure: str | None = None
    power_failure: str | None = None


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """An intent, and its answer if it was answered."""

    id: int
    action: str
    params: Mapping[str, Any]
    requested_by: str | None
    status: str
    reason: str | None
    created_at: datetime
    answered_at: datetime | None


class MaasView(msgspec.Struct, frozen=True, kw_only=True):
    """The last reading of the node's machine in MAAS. `since` is the time of the first reading of this state, and
    `read_at` is the time of the last reading. `stale_since` is set if an event about the machine is newer than the
    reading. The state is known to have lasted at least until `fresh_at`. `owner_by_rescue` is set if `owner` became the
    owner because of rescue mode. `osystem` and `distro_series` are the image that MAAS installed. `hardware_info` is
    what the commissioning of the machine read from its firmware."""

    system_id: str
    state: str
    since: datetime
    read_at: datetime
    stale_since: datetime | None
    fresh_at: datetime | None = None
    status_name: str | None = None
    owner: str | None = None
    owner_by_rescue: bool = False
    power_state: str | None = None
    osystem: str | None = None
    distro_series: str | None = None
    hardware_uuid: str | None = None
    hardware_info: HardwareInfo | None = None

    @property
    def image(self) -> str:
        """The installed image, such as `ubuntu/noble`; empty if MAAS has installed none."""
        return f"{self.osystem}/{self.distro_series}" if self.osystem and self.distro_series else ""


class RegionView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a site's MAAS region, as the region's handler recorded it. farrier has read all events up to
    `complete_at`. `requires` is the site's `cleaning.require`."""

    site: str
    url: str | None = None
    state: str
    since: datetime
    username: str | None
    complete_at: datetime | None
    last_error: str | None
    requires: str = Require.NONE


class NodeAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a network segment that a node uses. `owner` is the client that allocated the address, usually the
    node."""

    segment: str
    address: str
    owner: str


class MembershipView(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a node that is a member of an IB partition."""

    partition: str
    guid: str
    state: str


class NodeDetail(NodeView, frozen=True, kw_only=True):
    """Everything that views show of one node; the node may be deleted.

    `outcome` is the outcome of the node's last run; it has not changed since `outcome_at`. `controller` is the owner of
    the node's shard, or None if the shard has no owner or the node is deleted. At `swept_at`, all due nodes of the
    shard had run. `step` began at `step_begun_at` and may have changed an outside service; its end is not recorded.
    `last_workflow` is the newest workflow, live or ended. `requests` are the latest intents, the newest first.
    `ib_guids` are the node's InfiniBand ports, or None until its agent has reported them. `region` is the region of the
    node's site. `held_here` is set if the last successful onboarding used MAAS, so that farrier's user owned the
    machine. `paused_by` and `quarantined_by` are the operators who paused and quarantined the node; each is None if no
    operator did so or the intent names no operator. `alerts` are the alerts of the agent's last heartbeat.
    `enrolled_at` is when the agent last enrolled, and `agent_facts` are the facts that it reported then; both are None
    without an agent. `unreachable` says since when and why the silence of the agent does not count, because it uses
    doors and all doors are dead. While the node is held,
    `braked_at` is when the brake last refused to take it out of service. `same_machine` names the nodes that recorded
    the same machine. `alike_machines` names the values that machines of other nodes also have, although the machines
    otherwise differ.
    """

    version: int
    macs: tuple[str, ...] = ()
    maas: MaasView | None
    bmc_address: str | None
    bmc_credential: str | None
    bmc: Bmc
    ever_onboarded: bool = False
    deleting: bool
    held_here: bool = False
    same_machine: tuple[str, ...] = ()
    alike_machines: tuple[str, ...] = ()
    outcome: Record | None
    outcome_at: datetime | None
    controller: str | None
    swept_at: datetime | None
    step: str | None
    step_begun_at: datetime | None
    last_workflow: WorkflowView | None
    requests: tuple[RequestView, ...]
    ib_guids: tuple[str, ...] | None = None
    addresses: tuple[NodeAddress, ...] = ()
    memberships: tuple[MembershipView, ...] = ()
    region: RegionView | None = None
    paused_by: str | None = None
    quarantined_by: str | None = None
    alerts: tuple[Alert, ...] = ()
    enrolled_at: datetime | None = None
    agent_facts: Mapping[str, Any] | None = None
    unreachable: DeadDoors | None = None
    braked_at: datetime | None = None

    @property
    def machine(self) -> str:
        """The recorded machine as its BMC reported it, to compare with an inventory."""
        bmc = self.bmc
        named = (("serial number", bmc.serial), ("UUID", bmc.uuid), ("MAC", ", ".join(bmc.macs)))
        known = (f"{name} {value}" for name, value in named if value)
        return " · ".join((*filter(None, (bmc.manufacturer, bmc.product)), *known))


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a node. `attempt` counts dispatches, and `failures` counts failed results. `claimed_by` is `agent of
    NODE` or `worker LOGIN`."""

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


class EvidenceView(msgspec.Struct, frozen=True, kw_only=True):
    """The evidence of a cleaning, and the decommission that cleaned. `status` is that of the decommission. If an agent
    or a worker reported the evidence, `task` and `type` are its task; otherwise the region checked the machine.
    `evidence` is None if the decommission has none. `judged` has the verdict about each finished cleaning stage of the
    decommission."""

    workflow: int
    mode: str
    status: str
    task: int | None
    type: str | None
    reported_at: datetime | None
    evidence: Evidence | None
    judged: tuple[Judged, ...] = ()


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the fleet. `statuses` counts nodes by status. `unowned` counts the shards of kind `node` that no
    controller owns. `lag_seconds` is the number of seconds since the last sweep of the least recently swept shard of
    this kind. It is 0 if no shard has a controller. `held` counts the nodes that brakes keep in service, and
    `brakes_holding` the sites of these brakes."""

    now: datetime
    statuses: Mapping[str, int]
    unowned: int
    lag_seconds: float
    intents_pending: int
    held: int
    brakes_holding: int
