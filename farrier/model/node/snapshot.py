"""The snapshot of a node over all layers; a run of its handler returns the same struct.

The handler owns the fields up to `workflow`, and returns a copy of the node in which these fields may have changed. The
handler only reads the fields after `workflow`. New fields need defaults, and unknown fields are ignored, so that two
releases can share a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import msgspec

from farrier.model.intents.actions import Action
from farrier.model.intents.params import PowerRequest
from farrier.model.maas.scripts import TestRun
from farrier.model.machine.bmc import BmcFailure, PowerState
from farrier.model.machine.health import Health
from farrier.model.machine.identity import Identity
from farrier.model.machine.observation import MaasObservation, Outage, Region
from farrier.model.network.uses import NodeNetworks
from farrier.model.node import conditions
from farrier.model.node.conditions import Condition, Effect, Source
from farrier.model.node.evidence import Cleaned, Evidence, ExpectedDevices, Judged
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import (
    CleaningBy,
    DecommissionMode,
    Management,
    NodeStatus,
    OnboardingMode,
    WorkflowKind,
    WorkflowStatus,
)
from farrier.model.node.stages import DecommissionStage, OnboardingStage

# The placeholder for a time that the database will set.
NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


class Switching(msgspec.Struct, frozen=True, kw_only=True):
    """A power action. farrier commits the action to the database before it sends the action to the BMC, so that a crash
    cannot hide the action. `intent` is the ID of the intent that requested the action, or None if farrier enforces a
    target power. `enforce` is set if the intent also requests that farrier enforces this power afterwards. `unsure` is
    set if an earlier attempt may have sent the action.

    `part` is the present part of an action with several parts: a graceful reset is `off`, then `on`. Until `force_at`,
    the machine is switched off gracefully. `forced` is set if this time has passed. `sent_at` is set while farrier
    waits for the effect of the present part."""

    power: PowerRequest
    at: datetime
    intent: int | None = None
    enforce: bool = False
    unsure: bool = False
    part: PowerRequest | None = None
    force_at: datetime | None = None
    forced: bool = False
    sent_at: datetime | None = None

    @property
    def asked(self) -> PowerRequest:
        """The power to request from the BMC now."""
        return self.part or self.power


class OtherLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login of another node at the same BMC. It is not known whether this login succeeded. `open` is set if the login
    may still be under way."""

    at: datetime
    open: bool = False


class Bmc(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The facts about a node's BMC.

    Failures: `failures` counts consecutive failures of any class since the last edit or intent. `failure` is the class
    of the newest failure, and `of_class` counts the newest consecutive failures of this class. `verified_at` is when a
    verification last succeeded; `asked_at` is when the pending verification was requested, or None if no verification
    is pending. `pending_at` is when the first verification after the last successful one began.

    Logins: `tries` are the times of logins that are not known to have succeeded, newest last; `trying` is the login
    that a verification may use. `others` are logins of other nodes at this BMC; a run never writes `others`.
    `watched_at` is when the version of the credential was last checked without contacting the BMC, and
    `watched_version` is the version at that time, or None if the credential did not resolve. `good_before` is the
    version that was valid before `good_version`.

    Machine: `serial`, `uuid`, `manufacturer` and `macs` are the recorded identity. `former` is the identity of a
    machine that the node had and no longer claims, so that another node may have this machine. `replacing` is the ID of
    the intent that allows another machine, until a verification has recorded this machine.

    Power: the `sync_` fields belong to the regular read of a manageable node. If `power_at` is None, `power` is
    unknown. Later reads may have confirmed the stored power without storing their time. `power_since` is when the
    database stored the first reading of the present power; the commit sets it. `off_asked_at` is when farrier last
    began to switch the machine off. `desired_power` is the enforced power, `enforced_at` is when it was last enforced,
    and `enforce_error` is why enforcing it failed.
    """

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
    pending_at: datetime | None = None
    system_path: str | None = None
    serial: str | None = None
    uuid: str | None = None
    manufacturer: str | None = None
    product: str | None = None
    macs: tuple[str, ...] = ()
    former: Identity | None = None
    replacing: int | None = None
    health: str | None = None
    power: PowerState = PowerState.UNKNOWN
    power_at: datetime | None = None
    power_since: datetime | None = None
    off_asked_at: datetime | None = None
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


class Pause(msgspec.Struct, frozen=True):
    """A pause of the node, with the operator's reason."""

    reason: str
    at: datetime


class StopRequest(StrEnum):
    """The reason why a decommission is to stop. The stop takes several transitions."""

    DRAIN_FAILED = "drain_failed"
    FROZEN = "frozen"  # by an operator
    FAILED = "failed"  # a stage failed for good, or has no attempts left


class AfterUndo(StrEnum):
    """What a workflow does after it was `compensating`, that is, after its changes were undone."""

    CANCEL = "cancel"
    RESTART = "restart"


class Skipped(msgspec.Struct, frozen=True):
    """A stage that was skipped, and why."""

    stage: str
    why: str


class WorkflowOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of a workflow. `leave_out` lists stages that the workflow omits. If the workflow does no work on the
    machine, `untouched` is the reason. The workflow's tasks then end with this reason as their result, and no agent
    receives them. With `leave_on`, the machine may stay on if farrier cannot switch it off.
    `cleaned_by` is who cleans the machine, as the site said when the decommission began."""

    retire: bool = False
    force: bool = False
    leave_on: bool = False
    reason: str | None = None
    asked_by: str | None = None
    leave_out: tuple[DecommissionStage, ...] = ()
    cleaned_by: CleaningBy | None = None
    untouched: str | None = None


class Memo(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The record of a workflow for its later runs: its effects in MAAS, counts, and times.

    `candidate` is a machine that was found but not yet recorded. `asked_at` is when the stage last requested its
    change, and `asked` names this change if nothing else identifies it. `commissions` counts the commissionings for
    which the workflow waited, and `failed_deploys` counts failed deployments. Both counts begin again at 0 when an
    operator requests another attempt.

    `deploys` counts the requested deployments and numbers their comments. This workflow does not undo deployments with
    numbers up to `disowned`: they are already undone, or they are deployments of another user that an operator adopted.
    `token` is the digest of the bootstrap token in the user data; the token was issued at `token_at`. `synced_at` is
    the time of the last hardware sync before MAAS first reported the machine as deployed, by MAAS's clock.

    `resumed` is set if `resume` was requested during a pause; it takes effect when the pause ends. `took_at` is when
    the workflow last requested the node's network segments and IB partitions (`UseNetworks`).

    `judged` has the verdict about each finished cleaning stage.

    `restarted_at` is when a decommission last restarted, and `unpaused_at` is when the last pause of the node ended. If
    `adopted` is set, the stages of a decommission accept the state in MAAS as their result, because an operator
    requested this. `interruptions` counts the steps of the stage that were interrupted. `touched` is set if the
    workflow may have changed something in MAAS before its last rerun. `released` is set if a decommission released the
    machine, so no agent of the node runs there.

    `test` is the newest test of the machine that a stage prepared. `burn_in` are the tests of the
    site that the machine passed before its first deployment. `off_seen_at` and `on_seen_at` are when the BMC
    showed the released machine off before the test, and on during it. `evidence` is the result of the region's check,
    which farrier read at `checked_at`. `erases_again` is set if this check found data, until MAAS has erased the disks
    again.
    """

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
    resumed: bool = False
    took_at: datetime | None = None
    restarted_at: datetime | None = None
    unpaused_at: datetime | None = None
    adopted: bool = False
    interruptions: int = 0
    test: TestRun | None = None
    burn_in: tuple[TestRun, ...] = ()
    off_seen_at: datetime | None = None
    on_seen_at: datetime | None = None
    evidence: Evidence | None = None
    checked_at: datetime | None = None
    erases_again: bool = False
    judged: tuple[Judged, ...] = ()

    @property
    def has_deployed(self) -> bool:
        """Whether this workflow requested a deployment that it has to undo."""
        return self.deploys > self.disowned


class _Job(msgspec.Struct, frozen=True, gc=False, kw_only=True, tag_field="kind"):
    """The common fields of onboardings and decommissions. `mark` identifies the workflow's requests in MAAS. Until the
    workflow is stored, `id` is 0 and `mark` is empty. `attempt` numbers the attempts of the stage, starting at 1. The
    end-to-end clock starts at `mode_given_at`."""

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
    options: WorkflowOptions = WorkflowOptions()
    memo: Memo = Memo()
    skipped: tuple[Skipped, ...] = ()


class Onboarding(_Job, frozen=True, kw_only=True, tag="onboarding"):
    """A workflow that brings a node into service. An onboarding has no mode until an intent sets its mode."""

    kind: ClassVar[WorkflowKind] = WorkflowKind.ONBOARDING

    mode: OnboardingMode | None = None
    stage: OnboardingStage | None = None


class Decommission(_Job, frozen=True, kw_only=True, tag="decommission"):
    """A workflow that takes a node out of service, temporarily or for good."""

    kind: ClassVar[WorkflowKind] = WorkflowKind.DECOMMISSION

    mode: DecommissionMode
    stage: DecommissionStage | None = None


Workflow: TypeAlias = Onboarding | Decommission


class TaskType(StrEnum):
    """The types of agent tasks."""

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


class Task(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The newest task of its type in the live workflow. `attempt` counts dispatches, and `failures` counts failed
    results."""

    id: int
    type: TaskType
    status: TaskStatus
    attempt: int = 1
    failures: int = 0
    lease_until: datetime | None = None
    created_at: datetime = NO_TIME
    result: Any = None
    evidence: Evidence | None = None
    claimed_by: str | None = None
    """`agent of NODE` or `worker LOGIN`, as soon as the task is claimed."""

    @property
    def is_live(self) -> bool:
        return self.status in LIVE_TASKS

    @property
    def is_with_worker(self) -> bool:
        """Whether a worker claimed the task, which uses no doors."""
        return (self.claimed_by or "").startswith("worker ")


class Agent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The enrolled agent of the node. `ssh_seed_failures` counts consecutive reports of a failed SSH seed. `another`
    says how the machine on which the agent runs differs from the machine that the BMC or MAAS shows, or is None."""

    enrolled_at: datetime
    last_heartbeat_at: datetime | None = None
    health: Health = Health()
    ssh_seed_failures: int = 0
    another: str | None = None


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A pending intent. For a `set_bmc`, `conflict` names the other node that has the same address; for a `set`, it
    describes the value that another node already has. `logins` are the logins of other nodes at the BMC that the intent
    names."""

    id: int
    action: Action
    params: Mapping[str, Any]
    requested_by: str | None = None
    conflict: str | None = None
    logins: tuple[OtherLogin, ...] | None = None


OUT_OF_SERVICE = frozenset({NodeStatus.DRAINING, NodeStatus.RETIRED, NodeStatus.REMOVING})


class Node(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One node over all layers.

    `maas_created` is set if farrier created the node's machine in MAAS. `redeploying` is set between the end of a
    reimage and the beginning of the onboarding after it. `cleaned` is the last proven cleaning since the node was in
    service. `expected` are the devices that the machine should have, while a decommission is live. `candidate_of`
    names another node that already has the machine `memo.candidate`. `onboarded_by` is the mode of the last successful
    onboarding, if the node has a machine in MAAS. `region` is the state of the region of the node's site while a
    workflow is live. `outages` are the recent times in which this region could not be read. `gaps` are the times in
    which neither farrier nor the agent could act, because the database was unavailable or no controller was running.
    `unreachable` are the times in which no door reached agents; it is empty for an agent that uses no doors.
    `same_machine` names other nodes that recorded the same machine. `braked` names the causes (sources of conditions,
    or `conditions.SILENCE`) for which a brake of the node's site keeps this node in service.

    `labels`, `networks` and `ib_guids` are set only while an onboarding is live. `networks` are the networks that the
    node uses, or None if it uses no networks. `ib_guids` are the GUIDs of the node's InfiniBand ports, or None until
    its agent has reported them.
    """

    id: int
    name: str
    version: int
    site: str | None = None
    model: str | None = None
    agentless: bool = False
    auto_manage: bool = True
    labels: Mapping[str, Any] = {}
    macs: tuple[str, ...] = ()

    status: NodeStatus
    status_entered_at: datetime = NO_TIME
    management: Management
    management_entered_at: datetime = NO_TIME
    bmc_address: str | None = None
    bmc_credential: str | None = None
    bmc: Bmc = Bmc()
    maas_id: str | None = None
    maas_created: bool = False
    conditions: tuple[Condition, ...] = ()
    paused: Pause | None = None
    ever_onboarded: bool = False
    ever_active: bool = False
    deleting: bool = False
    redeploying: bool = False
    cleaned: Cleaned | None = None
    workflow: Workflow | None = None

    agent: Agent | None = None
    maas: MaasObservation | None = None
    region: Region | None = None
    outages: tuple[Outage, ...] = ()
    gaps: tuple[Outage, ...] = ()
    unreachable: tuple[Outage, ...] = ()
    candidate_of: str | None = None
    onboarded_by: OnboardingMode | None = None
    same_machine: tuple[str, ...] = ()
    braked: tuple[str, ...] = ()
    networks: NodeNetworks | None = None
    ib_guids: tuple[str, ...] | None = None
    secrets_left: tuple[str, ...] | None = None
    """What the stage `cleanup_secrets` still has to remove. None in any other stage, because only this stage reads
    it."""
    tasks: tuple[Task, ...] = ()
    expected: ExpectedDevices = ExpectedDevices()
    intents: tuple[Intent, ...] = ()
    stored_power_at: datetime | None = None
    """The value of `bmc.power_at` in the database, if later reads have confirmed the power. This field exists only in
    memory."""

    @property
    def live(self) -> Workflow:
        """The live workflow. Callers use this only while a workflow is live, such as in a stage."""
        assert self.workflow is not None, "no workflow of the node is live"
        return self.workflow

    @property
    def has_bmc(self) -> bool:
        """Whether both BMC details (address and credential) are set."""
        return self.bmc_address is not None and self.bmc_credential is not None

    @property
    def deployed_here(self) -> bool:
        """Whether farrier deployed the machine. If the node is out of service, the adoption of a deployment that
        farrier made also counts."""
        adopted = self.onboarded_by is OnboardingMode.ADOPT and self.status in OUT_OF_SERVICE
        return self.onboarded_by is OnboardingMode.DEPLOY or adopted

    @property
    def is_bare(self) -> bool:
        """Whether the node was in service and later lost its agent, because its machine was released or the agent was
        uninstalled."""
        out_of_service = self.status in (NodeStatus.RETIRED, NodeStatus.REMOVING)
        return out_of_service and self.ever_onboarded and self.agent is None and not self.agentless

    @property
    def failed_validation(self) -> bool:
        """Whether the validation of a cleanup failed, and no later cleanup or release has succeeded."""
        return self._is_unclean(conditions.VALIDATION_FAILED)

    @property
    def not_scrubbed(self) -> bool:
        """Whether a cleaning was skipped or cancelled, and no later scrub or release has succeeded."""
        return self._is_unclean(conditions.NOT_SCRUBBED)

    def _is_unclean(self, id_: str) -> bool:
        found = conditions.find(self.conditions, Source.CLEANING, id_) if self.conditions else None
        return found is not None and found.effect is Effect.QUARANTINE

    def task(self, type_: TaskType) -> Task | None:
        """Return the newest task of this type in the live workflow."""
        return next((task for task in self.tasks if task.type is type_), None)
