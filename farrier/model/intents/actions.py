"""The table of all actions that an intent can request for a node, with the states that accept each action.

The node handler calls `check` before it acts. `rules` and `since` produce the rows of the table that the database's
INSERT trigger reads. `check` depends on the layers and the live workflow only. The handler checks all other conditions,
such as the node's health.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec

from farrier.errors import RefusedByModel
from farrier.model.intents import params, workflow_condition
from farrier.model.intents.acceptance import Allowed, Answer, Later, refusal
from farrier.model.intents.workflow_condition import LiveWorkflow, WorkflowCondition
from farrier.model.kinds.spec import KindAction
from farrier.model.node.layers import TRANSIENT, DecommissionMode, Management, OnboardingMode
from farrier.model.node.layers import NodeStatus as N

API_MIN = 1
API_MAX = 2
"""Supported versions of the intent API. Version 2 added `pause`, `unpause` and `set`."""


class Action(StrEnum):
    SET = "set"
    SET_BMC = "set_bmc"
    CLEAR_BMC = "clear_bmc"
    MANAGE = "manage"
    ADOPT = "adopt"
    SET_POWER = "set_power"
    ONBOARD = "onboard"
    QUARANTINE = "quarantine"
    RELEASE = "release"
    DRAIN = "drain"
    REACTIVATE = "reactivate"
    REMOVE = "remove"
    DELETE = "delete"
    DECOMMISSION = "decommission"
    RETRY_STAGE = "retry_stage"
    RESUME = "resume"
    RERUN = "rerun"
    RESTART_CLEAN = "restart_clean"
    CANCEL = "cancel"
    ADOPT_OBSERVED_STATE = "adopt_observed_state"
    MARK_MANUAL_INTERVENTION_REQUIRED = "mark_manual_intervention_required"
    PAUSE = "pause"
    UNPAUSE = "unpause"


class ActionGroup(StrEnum):
    BMC = "bmc"
    LIFECYCLE = "lifecycle"
    OPERATOR = "operator"
    CONTROL = "control"


UNDELETED = frozenset(N) - {N.DELETED}
NEVER_ACTIVE = frozenset({N.BOOTSTRAP_ISSUED, N.ENROLLING, N.QUARANTINED})
IN_SERVICE = frozenset({N.ACTIVE, N.OFFLINE, N.QUARANTINED})
IN_USE = IN_SERVICE | {N.DRAINING}
"""In these statuses, workloads may run on the machine."""
BEING_DECOMMISSIONED = IN_SERVICE | {N.DRAINING, N.RETIRED, N.REMOVING}


class Destructive(msgspec.Struct, frozen=True, kw_only=True):
    """When an action may erase, release, delete or switch off a machine: with one of these values of `param` (with any
    parameters if `param` is empty), while such a workflow is live."""

    param: str = ""
    values: frozenset[str] = frozenset()
    live: WorkflowCondition = workflow_condition.ANY

    def fits(self, given: Mapping[str, Any], live: LiveWorkflow | None) -> bool:
        """Return whether an intent with these parameters is destructive. A value that is not known yet is."""
        value = given.get(self.param)
        return self.live.fits(live) and (value is None or value in self.values)

    @property
    def text(self) -> str:
        """The condition as a text."""
        values = f"with {self.param} {', '.join(sorted(self.values))}" if self.param else ""
        live = "" if self.live is workflow_condition.ANY else self.live.text
        return " ".join(filter(None, (values, live))) or "always"


class ActionSpec(KindAction, frozen=True, kw_only=True):
    """The definition of one action. `accepted_in` lists node statuses. If `interrupts` is set, a pending intent of this
    action ends a running step that only reads, even during a pause. `destructive` is None for an action that leaves
    every machine as it is, or continues the work of an accepted intent."""

    group: ActionGroup
    accepted_in: frozenset[N] = UNDELETED
    managements: frozenset[Management] = frozenset(Management)
    condition: WorkflowCondition = workflow_condition.ANY
    overtakes: bool = False  # answered before a `set_power` whose action was sent and has no effect yet
    regardless_in: frozenset[N] = frozenset()  # accepted in these statuses, with any workflow
    stops: frozenset[Management] = frozenset()  # accepted in these, with any workflow; the action ends them
    since: int = 1
    destructive: Destructive | None = None

    @property
    def waits_for_management(self) -> frozenset[Management]:
        """Management states that only delay the answer, because the node soon leaves these states by itself."""
        return TRANSIENT - self.managements


ACTIONS: Mapping[Action, ActionSpec] = {
    Action.SET: ActionSpec(
        group=ActionGroup.CONTROL,
        description="change registration data; rejected while a workflow uses the value",
        params=params.Set,
        since=2,
    ),
    Action.SET_BMC: ActionSpec(
        group=ActionGroup.BMC,
        description="set or change the address of the BMC, its credential reference, or both",
        params=params.SetBmc,
        interrupts=True,
    ),
    Action.CLEAR_BMC: ActionSpec(group=ActionGroup.BMC, description="remove all BMC details", interrupts=True),
    Action.MANAGE: ActionSpec(
        group=ActionGroup.BMC,
        description="verify the BMC now, and end a failed adoption",
        managements=frozenset({Management.ENROLL, Management.MANAGEABLE, Management.ADOPT_FAILED}),
    ),
    Action.ADOPT: ActionSpec(
        group=ActionGroup.BMC,
        description="adopt a running machine, with reads only",
        since=2,
        accepted_in=NEVER_ACTIVE,
        managements=frozenset({Management.MANAGEABLE, Management.ADOPT_FAILED}),
        condition=workflow_condition.ADOPTABLE,
    ),
    Action.SET_POWER: ActionSpec(
        group=ActionGroup.BMC,
        description="switch the machine on or off, or reset it",
        params=params.SetPower,
        managements=frozenset({Management.MANAGEABLE}),
        condition=workflow_condition.POWER_IS_FREE,
        destructive=Destructive(param="power", values=frozenset({"off", "reset"})),
    ),
    Action.ONBOARD: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="start the onboarding in this mode",
        params=params.Onboard,
        accepted_in=NEVER_ACTIVE | {N.RETIRED},
        condition=workflow_condition.NOT_BEGUN,
        destructive=Destructive(param="mode", values=frozenset({OnboardingMode.DEPLOY})),
    ),
    Action.QUARANTINE: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="hold the node out of service, under a key, until this hold is released",
        params=params.QuarantineParams,
        accepted_in=frozenset({N.ENROLLING, N.ACTIVE, N.OFFLINE, N.QUARANTINED}),
        overtakes=True,
    ),
    Action.RELEASE: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="lift a hold; a quarantined node without another cause returns to service if its health is proven",
        params=params.ReleaseParams,
    ),
    Action.DRAIN: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="drain the node and retire it",
        params=params.Drain,
        accepted_in=IN_SERVICE,
        condition=workflow_condition.RAISABLE,
    ),
    Action.REACTIVATE: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="return a retired node to service; it becomes active when its health is proven",
        accepted_in=frozenset({N.RETIRED}),
        condition=workflow_condition.IDLE,
    ),
    Action.REMOVE: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="uninstall a retired node and delete it",
        params=params.RemoveParams,
        accepted_in=frozenset({N.RETIRED}),
        condition=workflow_condition.RAISABLE,
        destructive=Destructive(),
    ),
    Action.DELETE: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="delete a node that was never active",
        accepted_in=NEVER_ACTIVE,
        managements=frozenset(Management) - TRANSIENT,
        condition=workflow_condition.NO_DECOMMISSION,
        interrupts=True,
        destructive=Destructive(),
    ),
    Action.DECOMMISSION: ActionSpec(
        group=ActionGroup.LIFECYCLE,
        description="drain and clean the node; the mode determines the final state",
        params=params.DecommissionParams,
        accepted_in=IN_SERVICE | {N.RETIRED},
        condition=workflow_condition.RAISABLE,
        # While a decommission is live, the action only adds options to it.
        destructive=Destructive(
            param="mode",
            values=frozenset(DecommissionMode) - {DecommissionMode.SOFT_RESET},
            live=workflow_condition.NO_DECOMMISSION,
        ),
    ),
    Action.RETRY_STAGE: ActionSpec(
        group=ActionGroup.OPERATOR, description="retry the failed stage now", condition=workflow_condition.FAILED
    ),
    Action.RESUME: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="continue from the last safe stage; farrier issues a lost task again",
        condition=workflow_condition.FAILED,
        regardless_in=frozenset({N.DRAINING, N.REMOVING}),
    ),
    Action.RERUN: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="run all stages again from the first, and keep work that is already done",
        condition=workflow_condition.FAILED,
    ),
    Action.RESTART_CLEAN: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="undo the work of this workflow, then start it again",
        condition=workflow_condition.BEGUN,
        destructive=Destructive(live=workflow_condition.CHANGES_THE_MACHINE),
    ),
    Action.CANCEL: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="stop the workflow and undo its changes where possible; without a workflow, stop verifying the BMC",
        condition=workflow_condition.UNDER_WAY,
        stops=TRANSIENT,
        interrupts=True,
        overtakes=True,
        destructive=Destructive(live=workflow_condition.DEPLOYS),
    ),
    Action.ADOPT_OBSERVED_STATE: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="accept the observed state of the external systems, and finish the workflow from there",
        condition=workflow_condition.BEGUN,
    ),
    Action.MARK_MANUAL_INTERVENTION_REQUIRED: ActionSpec(
        group=ActionGroup.OPERATOR,
        description="freeze the workflow until an operator resolves it",
        params=params.MaybeBecause,
        condition=workflow_condition.FREEZABLE,
    ),
    Action.PAUSE: ActionSpec(
        group=ActionGroup.CONTROL,
        description="farrier keeps observing the node, but changes nothing",
        params=params.Because,
        since=2,
        interrupts=True,
    ),
    Action.UNPAUSE: ActionSpec(group=ActionGroup.CONTROL, description="end a pause", since=2),
}

HONOURED_WHILE_PAUSED = frozenset({Action.CANCEL, Action.DELETE, Action.UNPAUSE})
"""Actions whose work a pause does not stop."""

ANSWERED_WHILE_PAUSED = HONOURED_WHILE_PAUSED | {Action.PAUSE, Action.RESUME}
"""Intents that a paused node answers. All other intents wait until the pause ends. A second `pause` only changes the
reason. `resume` is accepted during a pause, but farrier issues its tasks only when the pause ends."""

ANSWERED_WHILE_DELETING = frozenset({Action.CANCEL, Action.DELETE, Action.PAUSE, Action.UNPAUSE, Action.RESUME})
"""Intents that a node which is being deleted answers. All other intents are rejected."""


def check(action: Action, status: N, management: Management, live: LiveWorkflow | None) -> Answer:
    """Return whether a node in these states accepts the action. `live` is the node's live workflow, or None."""
    spec = ACTIONS[action]
    raises = spec.condition is workflow_condition.RAISABLE and live is not None and spec.condition.fits(live)
    if status not in (BEING_DECOMMISSIONED if raises else spec.accepted_in):
        where = _names(N, spec.accepted_in)
        return refusal(action, f"in status {where}; this node is {status}", spec.instead)
    if status not in spec.regardless_in and management not in spec.stops and not spec.condition.fits(live):
        return refusal(action, f"{spec.condition.text}; {_live(live)}")
    if management in spec.managements:
        return Allowed()
    where = _names(Management, spec.managements)
    if management in spec.waits_for_management:
        return Later(
            f"{action} waits until management is no longer {management}; "
            f"{action} is accepted while management is {where}"
        )
    return refusal(action, f"while management is {where}; the management of this node is {management}", spec.instead)


def is_destructive(action: Action, given: Mapping[str, Any], live: LiveWorkflow | None) -> bool:
    """Return whether an intent with these parameters may erase, release, delete or switch off a machine. `live` is the
    node's live workflow."""
    spec = ACTIONS[action].destructive
    return spec is not None and spec.fits(given, live)


def decode(action: Action, given: object) -> params.Params:
    """Decode the parameters of one intent from decoded JSON. Raises RefusedByModel with the field and the broken
    rule."""
    if isinstance(given, Mapping) and any(value is None for value in given.values()):
        raise RefusedByModel(f"{action}: a parameter must not be null; omit it instead")
    try:
        return msgspec.convert(given, ACTIONS[action].params)
    except msgspec.ValidationError as error:
        raise RefusedByModel(f"{action}: {error}") from None


def rules(action: Action) -> params.ParamsRules:
    """Return the rules of an action's parameters."""
    return params.describe(ACTIONS[action].params)


def _names(kind: type[StrEnum], members: frozenset[Any]) -> str:
    return ", ".join(member for member in kind if member in members)


def _live(live: LiveWorkflow | None) -> str:
    if live is None:
        return "this node has no live workflow"
    mode = f"mode {live.mode}" if live.mode else "no mode"
    return f"{live.kind} {live.id} of this node is live ({live.status}, {mode})"
