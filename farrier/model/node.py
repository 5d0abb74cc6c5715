"""A node as one handler run sees it: one snapshot over all layers, and the shape of what a run returns.

The handler owns the fields up to `workflow`, and returns a node made with `msgspec.structs.replace`. The rest is input:
agent, tasks, intents. New fields need defaults and unknown ones are ignored, so that two releases can share a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import msgspec

from farrier.model.actions import Action
from farrier.model.bmc import BmcFailure, PowerState
from farrier.model.failures import FailureClass, QuarantineCause
from farrier.model.health import Health
from farrier.model.management import Management
from farrier.model.networks import Networks
from farrier.model.observation import MaasObservation, Outage, Region
from farrier.model.params import PowerRequest
from farrier.model.stages import DecommissionStage, OnboardingStage
from farrier.model.status import NodeStatus
from farrier.model.workflow import DecommissionMode, OnboardingMode, WorkflowKind, WorkflowStatus

# Before anything happened: the database fills these in.
NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


class Switching(msgspec.Struct, frozen=True, kw_only=True):
    """A power action, committed before it is sent, so that no crash can hide it. `intent` is the intent behind it; None
    when a target power is enforced. `enforce`: the intent requests to enforce its power from then on. `unsure`: the
    end of an earlier attempt to send it is unknown.
    """

    power: PowerRequest
    at: datetime
    intent: int | None = None
    enforce: bool = False
    unsure: bool = False


class OtherLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login at a BMC that is not known to have succeeded, by another node. `open`: it may be under way."""

    at: datetime
    open: bool = False


class Bmc(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What we know of a node's BMC from trying it. `failures` counts those in a row since the last edit or request,
    of whatever class, and `of_class` the last ones, which are of class `failure`; `tries` are the times of the logins
    that are not known to have succeeded, newest last; `trying` is the one that a verification may use; `others` are
    the logins of other nodes there, read and never written; `asked_at` is when `manage` was asked for and not yet
    reached. The `sync_` fields are of the regular read of a manageable node; `desired_power` is what an operator
    wants enforced, and `enforced_at` when that was last done. `watched_at` is when the credential was last looked at
    for a new version without dialling, and `watched_version` the one it had; None if it did not resolve. Power
    without `power_at` is unknown; the stored one may have been confirmed since, unless a read failed. `enforce_error`
    is why power could not be made what is wanted. `good_before` is the version that was good before `good_version`;
    `verified_at` is when a verification succeeded."""

    last_error: str | None = None
    failure: BmcFailure | None = None
    failures: int = 0
    of_class: int = 0
    next_try_at: datetime | None = None
    tries: tuple[datetime, ...] = ()
    trying: datetime | None = None
    others: tuple[OtherLogin, ...] = ()
    tried_version: str | None = None
    good_version: str | None = None
    good_before: str | None = None
    verified_at: datetime | None = None
    asked_at: datetime | None = None
    system_path: str | None = None
    manager_path: str | None = None
    serial: str | None = None
    uuid: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    macs: tuple[str, ...] = ()
    health: str | None = None
    power: PowerState = PowerState.UNKNOWN
    power_at: datetime | None = None
    sync_failures: int = 0
    sync_failure: BmcFailure | None = None
    sync_error: str | None = None
    next_sync_at: datetime | None = None
    desired_power: PowerState | None = None
    enforced_at: datetime | None = None
    enforce_error: str | None = None
    watched_at: datetime | None = None
    watched_version: str | None = None
    switching: Switching | None = None

    def __post_init__(self) -> None:
        if self.power_at is None and self.power is not PowerState.UNKNOWN:
            msgspec.structs.force_setattr(self, "power", PowerState.UNKNOWN)


class Quarantine(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a node is quarantined. Only the same cause proven gone lifts it without an operator. A node on its way out of
    service keeps it, and `cleanup_validation_failed` outlives that."""

    cause: QuarantineCause
    reason: str


class Pause(msgspec.Struct, frozen=True):
    """Nothing is done to a paused node, for this reason."""

    reason: str
    at: datetime


class StopRequest(StrEnum):
    """Why a decommission is to stop although that takes several edges."""

    DRAIN_FAILED = "drain_failed"
    FROZEN = "frozen"  # by an operator
    FAILED = "failed"  # a stage failed for good, or its attempts are used up


class AfterUndo(StrEnum):
    """Where `compensating` leads."""

    CANCEL = "cancel"
    RESTART = "restart"


class Skipped(msgspec.Struct, frozen=True):
    """A stage that was not run, and why."""

    stage: str
    why: str


class Options(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was asked for with a workflow. `leave_out` are stages that it does not go through; `untouched` ends its
    agent tasks before they begin, with this result."""

    retire: bool = False
    remove_maas: bool = False
    force: bool = False
    reason: str | None = None
    asked_by: str | None = None
    leave_out: tuple[DecommissionStage, ...] = ()
    untouched: str | None = None


class Upstream(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a workflow did in MAAS and has to remember of it.

    `candidate` is a machine that was found and not yet taken. `asked_at` is when the stage's change was last asked for,
    and `asked` which one it was, where nothing else tells. `commissions` counts the commissionings waited for, and
    `failed_deploys` the deployments that failed, since an operator last asked for another.

    `deploys` counts the deployments asked for, and numbers their comments; those up to `disowned` are not this
    workflow's to undo: undone already, or somebody else's that an operator had it adopt. `token` is the digest of the
    bootstrap token in the user data, made at `token_at`. `synced_at` is the hardware sync that MAAS showed, by its own
    clock, when it first said deployed.

    `resumed`: `resume` was asked for in a pause, and what it issues is issued when that ends.
    `took_at` is when what a site's networks had free was last taken, as far as it could be had.

    `restarted_at` is when a decommission was last begun anew, and `unpaused_at` when the last pause of the node ended.
    `adopted`: an operator had a decommission take what MAAS shows for the goals of its stages there.
    `cuts` counts the calls of the stage that came to no end. `touched`: a run before the last rerun got as far as MAAS.
    `released`: a decommission gave the machine back, so nothing of the node's own runs there any more."""

    candidate: str | None = None
    commissions: int = 0
    deploys: int = 0
    disowned: int = 0
    touched: bool = False
    released: bool = False
    failed_deploys: int = 0
    datasource_retries: int = 0
    asked_at: datetime | None = None
    asked: str | None = None
    token: str | None = None
    token_at: datetime | None = None
    deployed_at: datetime | None = None
    synced_at: datetime | None = None
    failure_class: FailureClass | None = None
    failure_detail: str | None = None
    resumed: bool = False
    took_at: datetime | None = None
    restarted_at: datetime | None = None
    unpaused_at: datetime | None = None
    adopted: bool = False
    cuts: int = 0

    @property
    def has_deployed(self) -> bool:
        """Whether this workflow asked for a deployment that it answers for."""
        return self.deploys > self.disowned


class _Job(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What both kinds of workflow have. `id` is 0 until it is stored, and `mark` empty, by which its requests are
    recognised in MAAS; `attempt` counts within the stage, from 1; `mode_given_at` is where its end-to-end clock
    starts."""

    kind: ClassVar[WorkflowKind]

    id: int = 0
    mark: str = ""
    status: WorkflowStatus = WorkflowStatus.PENDING
    status_entered_at: datetime = NO_TIME
    stage_entered_at: datetime = NO_TIME
    attempt: int = 1
    next_attempt_at: datetime | None = None
    failure_class: FailureClass | None = None
    failure_detail: str | None = None
    stop_requested: StopRequest | None = None
    after_undo: AfterUndo | None = None
    mode_given_at: datetime | None = None
    options: Options = Options()
    upstream: Upstream = Upstream()
    skipped: tuple[Skipped, ...] = ()


class Onboarding(_Job, frozen=True, kw_only=True, tag="onboarding"):
    """On the way into service. Has no mode until an intent sets one."""

    kind: ClassVar[WorkflowKind] = WorkflowKind.ONBOARDING

    mode: OnboardingMode | None = None
    stage: OnboardingStage | None = None


class Decommission(_Job, frozen=True, kw_only=True, tag="decommission"):
    """On the way out of service, for a while or for good."""

    kind: ClassVar[WorkflowKind] = WorkflowKind.DECOMMISSION

    mode: DecommissionMode
    stage: DecommissionStage | None = None


Workflow: TypeAlias = Onboarding | Decommission


class TaskType(StrEnum):
    """What agents do for us."""

    DRAIN = "node.drain"
    UNINSTALL = "node.uninstall"
    SCRUB_GPU = "node.scrub_gpu"
    CLEANUP_STORAGE = "node.cleanup_storage"
    VALIDATE_CLEAN = "node.validate_clean"
    RELEASE_ALLOCATIONS = "node.release_allocations"


class TaskStatus(StrEnum):
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


LIVE_TASKS = frozenset({TaskStatus.QUEUED, TaskStatus.DISPATCHED})
"""The statuses of a task that has not ended."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """The newest task of its type in the live workflow. `attempt` counts dispatches, `failures` failed results."""

    id: int
    type: TaskType
    status: TaskStatus
    attempt: int = 1
    failures: int = 0
    lease_until: datetime | None = None
    created_at: datetime = NO_TIME
    result: Any = None
    claimed_by: str | None = None
    """`agent of NODE` or `worker LOGIN`, as soon as the task is claimed."""

    @property
    def is_live(self) -> bool:
        return self.status in LIVE_TASKS


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """The agent on the node, once it has enrolled. `ssh_seed_failures` counts failed reports in a row."""

    enrolled_at: datetime
    last_heartbeat_at: datetime | None = None
    health: Health = Health()
    ssh_seed_failures: int = 0


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A pending request. `conflict` names the other node that has what a `set_bmc` asks for, or says what of a `set`
    another node has; `logins` are other nodes' at the BMC that it names."""

    id: int
    action: Action
    params: Mapping[str, Any]
    requested_by: str | None = None
    conflict: str | None = None
    logins: tuple[OtherLogin, ...] | None = None


OUT_OF_SERVICE = frozenset({NodeStatus.DRAINING, NodeStatus.RETIRED, NodeStatus.REMOVING})


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node over all layers. `maas_created`: its machine in MAAS was made by us. `redeploying`: a reimage ended,
    and the onboarding that is to follow has not begun. `candidate_of` names the other node that has the machine
    which a workflow found. `onboarded_by`: the mode of the last onboarding that ended well, of a node with a
    machine in MAAS. `region`: how its site's region stands while a workflow is live. `outages` are when that
    could not be read of late. `same_machine` names other nodes that recorded its machine. `braked_at`: when its
    site's brake last refused to take nodes out of service, None while it does not. `labels`, `networks` and
    `ib_guids` are there while an onboarding is live: what it is to use, None for nothing, and the GUIDs of its
    InfiniBand ports, None while nobody told them."""

    id: int
    name: str
    version: int
    site: str | None = None
    model: str | None = None
    agentless: bool = False
    auto_manage: bool = True
    labels: Mapping[str, Any] = {}
    macs: tuple[str, ...] = ()
    created_at: datetime = NO_TIME

    status: NodeStatus
    status_entered_at: datetime = NO_TIME
    management: Management
    management_entered_at: datetime = NO_TIME
    bmc_address: str | None = None
    bmc_credential: str | None = None
    bmc: Bmc = Bmc()
    maas_id: str | None = None
    maas_created: bool = False
    quarantine: Quarantine | None = None
    paused: Pause | None = None
    ever_onboarded: bool = False
    ever_active: bool = False
    not_scrubbed: bool = False
    deleting: bool = False
    redeploying: bool = False
    workflow: Workflow | None = None

    agent: Agent | None = None
    maas: MaasObservation | None = None
    region: Region | None = None
    outages: tuple[Outage, ...] = ()
    candidate_of: str | None = None
    onboarded_by: OnboardingMode | None = None
    same_machine: tuple[str, ...] = ()
    braked_at: datetime | None = None
    networks: Networks | None = None
    ib_guids: tuple[str, ...] | None = None
    secrets_left: tuple[str, ...] | None = None
    """What the stage `cleanup_secrets` still has to remove. None in any other stage, because only this stage reads
    it."""
    tasks: tuple[Task, ...] = ()
    intents: tuple[Intent, ...] = ()
    stored_power_at: datetime | None = None
    """The stored `bmc.power_at`, if later reads have confirmed the power. Not stored itself."""

    @property
    def has_bmc(self) -> bool:
        """Both details are given."""
        return self.bmc_address is not None and self.bmc_credential is not None

    @property
    def deployed_here(self) -> bool:
        """We deployed its machine. Out of service, what an adoption found to be ours counts like it."""
        adopted = self.onboarded_by is OnboardingMode.ADOPT and self.status in OUT_OF_SERVICE
        return self.onboarded_by is OnboardingMode.DEPLOY or adopted

    @property
    def is_bare(self) -> bool:
        """It was in service, and its agent is gone since: what that ran on was given back, or uninstalled."""
        out_of_service = self.status in (NodeStatus.RETIRED, NodeStatus.REMOVING)
        return out_of_service and self.ever_onboarded and self.agent is None and not self.agentless

    @property
    def failed_validation(self) -> bool:
        """Whether a cleanup was not validated, and no cleanup or release has succeeded since."""
        return self.quarantine is not None and self.quarantine.cause is QuarantineCause.CLEANUP_VALIDATION_FAILED

    def task(self, type_: TaskType) -> Task | None:
        """The newest task of this type in the live workflow."""
        return next((task for task in self.tasks if task.type is type_), None)
