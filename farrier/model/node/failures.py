"""The failure classes of stages, nodes and BMCs, the recommended action for each class, and where each can occur.

A failed stage has one `FailureClass`; the class decides whether farrier retries by itself. Every failure class,
condition and BMC failure has the advice that applies if nothing else is known about the node. Module `advice`
chooses the advice about a node. Classes are values of metric labels, so they never change. `metrics` creates a series
at zero for each pair in `POSSIBLE`, so that an alert rule detects the first failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

import msgspec

from farrier.model.advice import recommended
from farrier.model.advice.recommended import Advice, Recommended, submit
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import EndsBy
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.layers import WorkflowKind
from farrier.model.node.stages import STAGES, WITH_MAAS, Stage
from farrier.model.node.stages import DecommissionStage as D
from farrier.model.node.stages import OnboardingStage as O


class FailureClass(StrEnum):
    # Failures that need an operator: farrier cannot continue safely.
    DISCOVERY_CONFLICT = "discovery_conflict"
    BOSS_DISK_NOT_FOUND = "boss_disk_not_found"
    PXE_INTERFACE_UNFIXABLE = "pxe_interface_unfixable"
    MACHINE_DELETED_UPSTREAM = "machine_deleted_upstream"
    DATASOURCE_FAILED_REPEATEDLY = "datasource_failed_repeatedly"
    HARDWARE_SYNC_FAILED_REPEATEDLY = "hardware_sync_failed_repeatedly"
    SSH_SEED_FAILED_REPEATEDLY = "ssh_seed_failed_repeatedly"
    STATE_DISAGREEMENT = "state_disagreement"
    # A retry is useless until an operator has changed something.
    IDENTITY_MISMATCH = "identity_mismatch"
    IDENTITY_TAKEN = "identity_taken"
    ADOPT_FAILED = "adopt_failed"
    INVALID_CONFIG = "invalid_config"
    UPSTREAM_REFUSED = "upstream_refused"
    UNDO_FAILED = "undo_failed"
    OPERATOR_REQUEST = "operator_request"
    # Retried with back-off.
    TIMEOUT = "timeout"
    UPSTREAM_ERROR = "upstream_error"
    CAPACITY = "capacity"
    POWER_FAILED = "power_failed"
    NOT_MANAGEABLE = "not_manageable"
    NO_CREDENTIALS = "no_credentials"
    COMMISSIONING_FAILED = "commissioning_failed"
    DEPLOY_FAILED = "deploy_failed"
    TASK_FAILED = "task_failed"
    VALIDATION_FAILED = "validation_failed"
    INTERNAL = "internal"


MANUAL = frozenset(
    {
        FailureClass.DISCOVERY_CONFLICT,
        FailureClass.BOSS_DISK_NOT_FOUND,
        FailureClass.PXE_INTERFACE_UNFIXABLE,
        FailureClass.MACHINE_DELETED_UPSTREAM,
        FailureClass.DATASOURCE_FAILED_REPEATEDLY,
        FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY,
        FailureClass.SSH_SEED_FAILED_REPEATEDLY,
        FailureClass.STATE_DISAGREEMENT,
    }
)
"""Failures that move a workflow to `failed_manual_intervention` at once."""

UNSAFE = frozenset(
    {
        FailureClass.DISCOVERY_CONFLICT,
        FailureClass.STATE_DISAGREEMENT,
        FailureClass.IDENTITY_MISMATCH,
        FailureClass.IDENTITY_TAKEN,
    }
)
"""Failures after which farrier may be working on the wrong machine. They also quarantine an enrolling node."""


UNSAFE_OF_BMC: Mapping[BmcFailure, FailureClass] = {
    BmcFailure.IDENTITY_MISMATCH: FailureClass.IDENTITY_MISMATCH,
    BmcFailure.IDENTITY_TAKEN: FailureClass.IDENTITY_TAKEN,
}
"""The BMC failures that show a wrong machine, and the failure class that each gives to the workflow."""

BY_THE_REGION = frozenset({FailureClass.TIMEOUT, FailureClass.UPSTREAM_ERROR})
"""Failures that an outage of the site's MAAS region can cause without any other fault."""


UNCOUNTED = frozenset({FailureClass.CAPACITY})
"""Failures that end when others free or extend what the stage needs. They spend no attempt: farrier retries without
end."""


class FailureSpec(msgspec.Struct, frozen=True):
    """Whether farrier retries after a failure by itself, and the advice if nothing else is known about the node.
    `farrier.model.advice.choice` chooses the advice by the mode of the workflow and by observed facts."""

    retryable: bool
    advice: Advice

    @property
    def action(self) -> str:
        """The advice as a text."""
        return recommended.text(self.advice)


_RETRY = submit(Action.RETRY_STAGE)
_AT_ONCE = (Recommended(Action.RETRY_STAGE, when="to retry at once"),)
_SET_ADDRESS = Recommended(Action.SET_BMC, fill=("address",))
_SET_DETAILS = Recommended(Action.SET_BMC, fill=("address", "credential"))
_OF_ANOTHER_MACHINE = (
    Recommended(Action.SET_BMC, fill=("address",), when="if the address is wrong"),
    Recommended(Action.SET_BMC, {"replace": True}, when="if the machine was replaced"),
)


def _then_retry(fix: str) -> FailureSpec:
    """Return the advice for a failure after which farrier waits until an operator requests another attempt."""
    return FailureSpec(False, Advice(fix, _RETRY))


def _then_retry_at_once(fix: str) -> FailureSpec:
    """Return the advice for a failure after which farrier retries at the end of the back-off, or earlier if an operator
    requests another attempt."""
    return FailureSpec(True, Advice(fix, _AT_ONCE))


FAILURES: Mapping[str, FailureSpec] = {
    FailureClass.DISCOVERY_CONFLICT: _then_retry(
        "in MAAS, correct the machines that the detail names, until only one of them matches the node"
    ),
    FailureClass.BOSS_DISK_NOT_FOUND: _then_retry("reseat or replace the boot disk, and commission the machine again"),
    FailureClass.PXE_INTERFACE_UNFIXABLE: _then_retry("correct the boot interface and its VLAN in MAAS"),
    FailureClass.MACHINE_DELETED_UPSTREAM: FailureSpec(
        False, Advice("find out who deleted the machine in MAAS", submit(Action.RESTART_CLEAN, Action.CANCEL))
    ),
    FailureClass.DATASOURCE_FAILED_REPEATEDLY: _then_retry(
        "check that the node reaches the MAAS metadata service (routes, DNS, proxy)"
    ),
    FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY: _then_retry(
        "read the log of the hardware-sync service on the node and fix the service"
    ),
    FailureClass.SSH_SEED_FAILED_REPEATEDLY: _then_retry("check the SSH seed and the agent's log on the node"),
    FailureClass.STATE_DISAGREEMENT: FailureSpec(
        False,
        Advice(
            "find out who uses the machine, and why it is in the state that the detail names",
            (
                Recommended(Action.ADOPT_OBSERVED_STATE, when="if MAAS is right"),
                Recommended(Action.RETRY_STAGE, when="after a correction in MAAS"),
            ),
        ),
    ),
    FailureClass.IDENTITY_MISMATCH: FailureSpec(
        False, Advice("find out which machine the BMC belongs to", (*_OF_ANOTHER_MACHINE, *_RETRY))
    ),
    FailureClass.IDENTITY_TAKEN: FailureSpec(
        False,
        Advice("find out to which of the two nodes the machine belongs", (_SET_ADDRESS, *_RETRY)),
    ),
    FailureClass.ADOPT_FAILED: FailureSpec(
        False,
        Advice(
            "fix the cause of the node's last BMC error",
            (Recommended(Action.ADOPT), Recommended(Action.MANAGE, when="to end the adoption")),
        ),
    ),
    FailureClass.INVALID_CONFIG: _then_retry("correct the site's configuration"),
    FailureClass.UPSTREAM_REFUSED: _then_retry(
        "read the reason for the refusal in the detail, and correct the permissions or the data"
    ),
    FailureClass.UNDO_FAILED: FailureSpec(
        False,
        Advice(
            "undo by hand the changes that the detail names",
            (Recommended(Action.RESTART_CLEAN), Recommended(Action.CANCEL, when="to try the undo once more")),
        ),
    ),
    FailureClass.OPERATOR_REQUEST: FailureSpec(
        False,
        Advice(
            "read why an operator stopped this workflow", submit(Action.RESUME, Action.RESTART_CLEAN, Action.CANCEL)
        ),
    ),
    FailureClass.TIMEOUT: _then_retry_at_once("check what the stage waits for and fix the cause"),
    FailureClass.UPSTREAM_ERROR: _then_retry_at_once("check the health of the service that the detail names"),
    FailureClass.CAPACITY: _then_retry_at_once(
        "extend the subnet in the detail, free some of its addresses, or link another subnet"
    ),
    FailureClass.POWER_FAILED: _then_retry_at_once("fix the machine's BMC, its network or its power settings in MAAS"),
    FailureClass.NOT_MANAGEABLE: FailureSpec(
        True, Advice("read the node's last BMC error, and make the BMC respond", (_SET_DETAILS,))
    ),
    FailureClass.NO_CREDENTIALS: FailureSpec(
        True,
        Advice(
            "make the credential of the node's BMC resolvable", (Recommended(Action.SET_BMC, fill=("credential",)),)
        ),
    ),
    FailureClass.COMMISSIONING_FAILED: FailureSpec(
        True, Advice("read the commissioning results in MAAS, and replace failing hardware before the last attempt")
    ),
    FailureClass.DEPLOY_FAILED: FailureSpec(
        True, Advice("read the installation log in MAAS, and correct the image or its storage layout")
    ),
    FailureClass.TASK_FAILED: FailureSpec(
        True,
        Advice(
            "read the task's result and the agent's log",
            (Recommended(Action.RETRY_STAGE, when="to issue a new task"),),
        ),
    ),
    FailureClass.VALIDATION_FAILED: FailureSpec(
        True, Advice("read the validation result, and correct what the cleanup left on the node")
    ),
    FailureClass.INTERNAL: FailureSpec(True, Advice("report this bug in farrier with the log of the failed run")),
}

CLEAN_AGAIN = Recommended(Action.DECOMMISSION, {"mode": "soft_reset"})
CLEAN_BY_REGION = Recommended(Action.DECOMMISSION, {"mode": "reimage"})
DRAIN = Recommended(Action.DRAIN, when="to take the node out of service")


def _release(name: str, when: str = "") -> Recommended:
    """Return the release of a condition by its name, with a reason."""
    return Recommended(Action.RELEASE, {"key": name}, ("reason",), when=when)


_CLEAN_BY_HAND = "if it is clean"

CONDITION_ADVICE: Mapping[str, Advice] = {
    "agent/*": Advice(
        "fix the causes of the alerts; when the alerts end, farrier returns the node to service by itself"
    ),
    "bmc/health": Advice("read the BMC's event log, and replace the failing part"),
    "identity/another_machine": Advice("find out which machine responds at the BMC's address", _OF_ANOTHER_MACHINE),
    "identity/agent_elsewhere": Advice(
        "find out which machine is the node's",
        (
            Recommended(Action.SET_BMC, {"replace": True}, ("address",), when="if the address is wrong"),
            _release("identity/agent_elsewhere", "if it is one machine"),
        ),
    ),
    "identity/enrolment": Advice(
        "find out which machine used the node's bootstrap token; the note ends with an enrolment of the node's machine"
    ),
    "identity/agent": Advice(
        "find the machine with the copied disk, and enrol the node's machine with a new bootstrap token, which ends "
        "the note"
    ),
    "operator/*": Advice("read the operator's reason", (Recommended(Action.RELEASE), DRAIN)),
    "cleaning/not_scrubbed": Advice(
        "read why the cleaning was skipped",
        (
            CLEAN_AGAIN,
            CLEAN_BY_REGION,
            _release("cleaning/not_scrubbed", _CLEAN_BY_HAND),
        ),
    ),
    "cleaning/validation_failed": Advice(
        "read the validation result",
        (
            CLEAN_AGAIN,
            CLEAN_BY_REGION,
            _release("cleaning/validation_failed", _CLEAN_BY_HAND),
        ),
    ),
    "cleaning/unproven": Advice(
        "find out in the history of the node what evidence is missing; the note ends with a proven cleaning"
    ),
    "region/disagreement": Advice(
        "find out who changed the machine in MAAS, and who uses it now; when MAAS reports it as deployed, farrier "
        "returns the node to service",
        (DRAIN,),
    ),
    "region/machine_deleted": Advice(
        "find out who deleted the machine in MAAS", (Recommended(Action.DRAIN, when="if it stays deleted"),)
    ),
    "workflow/onboarding_failed": Advice(
        "read the failure class of the onboarding, and fix its cause",
        (*submit(Action.RETRY_STAGE, Action.RESTART_CLEAN), Recommended(Action.ONBOARD, fill=("mode",))),
    ),
    "workflow/drain_failed": Advice(
        "read the drain task's result", (*submit(Action.RETRY_STAGE, Action.CANCEL), _release("workflow/drain_failed"))
    ),
    "workflow/decommission_failed": Advice(
        "read the failure class of the decommission, and fix its cause",
        (*submit(Action.RETRY_STAGE, Action.CANCEL), _release("workflow/decommission_failed")),
    ),
    "workflow/frozen": Advice(
        "read why an operator froze the workflow",
        (*submit(Action.RESUME, Action.CANCEL), _release("workflow/frozen")),
    ),
    "monitor/*": Advice(
        "fix the cause that the monitor names; when the monitor ends the condition, farrier returns the node to "
        "service by itself"
    ),
}
"""The advice for each condition of `conditions.KNOWN`, by its name."""

BMC_ADVICE: Mapping[BmcFailure, Advice] = {
    BmcFailure.INCOMPLETE: Advice(
        "correct what the error names: the BMC's details, the binding of the credential, or its file", (_SET_DETAILS,)
    ),
    BmcFailure.UNREACHABLE: Advice("check the address, the cable and the route; farrier retries by itself"),
    BmcFailure.TIMEOUT: Advice("check the network of this slow BMC, or reset the BMC"),
    BmcFailure.TLS: Advice("install a certificate that this site trusts, or pin the BMC's certificate"),
    BmcFailure.AUTH: Advice("correct the user and the password; farrier tries a new version of the credential at once"),
    BmcFailure.AUTH_SCHEME: Advice(
        "allow basic authentication or sessions at the BMC, and see that bmc.hosts does not force the other"
    ),
    BmcFailure.REFUSED: Advice(
        "correct what the BMC's reason in the error names: the account's role, a licence or the state"
    ),
    BmcFailure.PROTOCOL: Advice(
        "update the BMC's firmware or reset the BMC, because its Redfish responses are invalid"
    ),
    BmcFailure.UNSUPPORTED: Advice(
        "update the BMC's firmware, or use the node without its BMC",
        (Recommended(Action.MANAGE, when="after the update"),),
    ),
    BmcFailure.IDENTITY_MISMATCH: Advice("find out which machine the BMC belongs to", _OF_ANOTHER_MACHINE),
    BmcFailure.IDENTITY_TAKEN: Advice(
        "find out to which of the two nodes the machine belongs",
        (
            Recommended(Action.SET_BMC, fill=("address",), when="if the address of this node is wrong"),
            Recommended(Action.MANAGE, when="after a correction of the other node"),
        ),
    ),
    BmcFailure.INTERNAL: Advice("report this bug in farrier with the log of the failed probe"),
}

_ENDS_BY_ITSELF = frozenset({BmcFailure.UNREACHABLE, BmcFailure.TIMEOUT})


def ends_by(failure: BmcFailure | None) -> EndsBy:
    """Return what ends the wait after this failure of a BMC."""
    return EndsBy.ITSELF if failure is None or failure in _ENDS_BY_ITSELF else EndsBy.PERSON


MAX_ATTEMPTS = 5
"""Attempts of a stage before it needs an operator. The pauses between the attempts add up to 7.5 min."""

BACKOFF_FIRST = timedelta(seconds=30)
BACKOFF_MAX = timedelta(minutes=15)


def stage_backoff(attempt: int) -> timedelta:
    """Return the pause after the failed attempt with this number (1 for the first): 30 s, doubled each time, at most 15
    min."""
    doublings = min(max(attempt, 1) - 1, 10)  # `attempt` comes from a row, so any integer must be safe to shift by
    return min(BACKOFF_FIRST * (1 << doublings), BACKOFF_MAX)


def needs_operator(failure: FailureClass, *, attempt: int) -> bool:
    """Return whether a stage needs an operator after this attempt failed with this class."""
    return not FAILURES[failure].retryable or (attempt >= MAX_ATTEMPTS and failure not in UNCOUNTED)


_NOWHERE: frozenset[Stage] = frozenset()
_IN_MAAS = WITH_MAAS | {D.CLEANUP_STORAGE}

# A class that is not here is possible at every stage of its workflow.
_ONLY_AT: Mapping[WorkflowKind, Mapping[FailureClass, frozenset[Stage]]] = {
    WorkflowKind.ONBOARDING: {
        FailureClass.DISCOVERY_CONFLICT: frozenset({O.CREATE_OR_FIND_IN_MAAS}),
        FailureClass.BOSS_DISK_NOT_FOUND: frozenset({O.CONFIGURE_STORAGE}),
        FailureClass.PXE_INTERFACE_UNFIXABLE: frozenset({O.ENSURE_PXE_INTERFACE_AUTO}),
        FailureClass.DATASOURCE_FAILED_REPEATEDLY: frozenset({O.CLASSIFY_DEPLOY_FAILURE}),
        FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY: frozenset({O.WAIT_FOR_HARDWARE_SYNC_HEALTHY}),
        FailureClass.SSH_SEED_FAILED_REPEATEDLY: frozenset({O.WAIT_FOR_AGENT_ENROLLMENT}),
        FailureClass.IDENTITY_MISMATCH: frozenset({O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS}),
        FailureClass.ADOPT_FAILED: frozenset({O.LOAD_SITE_CONFIG, O.RESOLVE_POWER_CREDENTIALS}),
        FailureClass.NOT_MANAGEABLE: frozenset({O.RESOLVE_POWER_CREDENTIALS}),
        FailureClass.NO_CREDENTIALS: frozenset(
            {O.RESOLVE_POWER_CREDENTIALS, O.CREATE_OR_FIND_IN_MAAS, O.RENDER_CLOUD_INIT, O.DEPLOY_VIA_MAAS}
        ),
        FailureClass.COMMISSIONING_FAILED: frozenset({O.COMMISSION_NODE, O.WAIT_FOR_READY}),
        FailureClass.DEPLOY_FAILED: frozenset({O.CLASSIFY_DEPLOY_FAILURE}),
        FailureClass.TASK_FAILED: _NOWHERE,
        FailureClass.VALIDATION_FAILED: _NOWHERE,
        FailureClass.INTERNAL: _NOWHERE,
    },
    WorkflowKind.DECOMMISSION: {
        FailureClass.DISCOVERY_CONFLICT: _NOWHERE,
        FailureClass.BOSS_DISK_NOT_FOUND: _NOWHERE,
        FailureClass.PXE_INTERFACE_UNFIXABLE: _NOWHERE,
        FailureClass.DATASOURCE_FAILED_REPEATEDLY: _NOWHERE,
        FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY: _NOWHERE,
        FailureClass.SSH_SEED_FAILED_REPEATEDLY: _NOWHERE,
        FailureClass.IDENTITY_MISMATCH: _NOWHERE,
        FailureClass.ADOPT_FAILED: _NOWHERE,
        FailureClass.NOT_MANAGEABLE: _NOWHERE,
        FailureClass.NO_CREDENTIALS: _NOWHERE,
        FailureClass.COMMISSIONING_FAILED: _NOWHERE,
        FailureClass.DEPLOY_FAILED: _NOWHERE,
        FailureClass.UNDO_FAILED: _NOWHERE,
        FailureClass.TASK_FAILED: frozenset(
            {
                *(D.DISABLE_NODE, D.FORCE_RELEASE_ALLOCATIONS, D.DRAIN_NODE, D.CLEANUP_STORAGE, D.SCRUB_GPU),
                *(D.POWER_OFF_MAAS_NODE, D.REMOVE_GPUAAS_NODE_RECORD),
            }
        ),
        FailureClass.VALIDATION_FAILED: frozenset({D.CLEANUP_STORAGE, D.SCRUB_GPU, D.VALIDATE_CLEAN_NODE}),
        FailureClass.INTERNAL: frozenset({D.RETIRE_GPUAAS_NODE}),
        FailureClass.STATE_DISAGREEMENT: _IN_MAAS,
        FailureClass.MACHINE_DELETED_UPSTREAM: _IN_MAAS,
        FailureClass.INVALID_CONFIG: _IN_MAAS,
        FailureClass.UPSTREAM_REFUSED: _IN_MAAS,
        FailureClass.UPSTREAM_ERROR: _IN_MAAS,
        FailureClass.POWER_FAILED: _IN_MAAS | {D.REMOVE_GPUAAS_NODE_RECORD},
    },
}

POSSIBLE: Mapping[WorkflowKind, Mapping[Stage, frozenset[FailureClass]]] = {
    kind: {
        stage: frozenset(each for each in FailureClass if stage in _ONLY_AT[kind].get(each, stages)) for stage in stages
    }
    for kind, stages in STAGES.items()
}
"""The allowed failure classes, by workflow and stage."""
