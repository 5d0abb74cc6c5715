"""The failure classes of stages, nodes and BMCs, and the recommended action for each class.

A failed stage has one `FailureClass`; the class decides whether farrier retries by itself. Every failure class,
quarantine cause and BMC failure has one line of advice here. `node why`, the lifecycle view and the alerts show this
line as the recommended action. Classes are values of metric labels, so they never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum

import msgspec

from farrier.model.actions import Action
from farrier.model.bmc import BmcFailure


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


class QuarantineCause(StrEnum):
    """The cause of a quarantine, stored on the node. farrier ends a quarantine by itself only after proof that the
    cause is gone."""

    OPERATOR = "operator"
    HEALTH = "health"
    STATE_DISAGREEMENT = "state_disagreement"
    MACHINE_DELETED_UPSTREAM = "machine_deleted_upstream"
    CLEANUP_VALIDATION_FAILED = "cleanup_validation_failed"
    DRAIN_FAILED = "drain_failed"
    ONBOARDING_FAILED = "onboarding_failed"
    FROZEN = "frozen"  # by an operator
    DECOMMISSION_FAILED = "decommission_failed"


class Advice(msgspec.Struct, frozen=True):
    """The advice about a failure: whether farrier retries by itself, and the recommended action for an operator.
    `intent` is the intent that completes the action, if there is exactly one."""

    retryable: bool
    action: str
    intent: Action | None = None


def _then_retry(fix: str) -> Advice:
    """Return the advice for a failure after which farrier waits until an operator requests another attempt."""
    return Advice(False, f"{fix}, then {Action.RETRY_STAGE}", Action.RETRY_STAGE)


def _then_retry_at_once(fix: str) -> Advice:
    """Return the advice for a failure after which farrier retries at the end of the back-off, or earlier if an operator
    requests another attempt."""
    return Advice(True, f"{fix}, then {Action.RETRY_STAGE} to retry at once", Action.RETRY_STAGE)


FAILURES: Mapping[str, Advice] = {
    FailureClass.DISCOVERY_CONFLICT: _then_retry(
        "in MAAS, correct the machines that the detail names, until only one of them matches the node"
    ),
    FailureClass.BOSS_DISK_NOT_FOUND: _then_retry("reseat or replace the boot disk, and commission the machine again"),
    FailureClass.PXE_INTERFACE_UNFIXABLE: _then_retry("correct the boot interface and its VLAN in MAAS"),
    FailureClass.MACHINE_DELETED_UPSTREAM: Advice(
        False,
        "find out who deleted the machine in MAAS; then submit restart_clean for an onboarding, or cancel for a "
        "decommission",
    ),
    FailureClass.DATASOURCE_FAILED_REPEATEDLY: _then_retry(
        "check that the node reaches the MAAS metadata service (routes, DNS, proxy)"
    ),
    FailureClass.HARDWARE_SYNC_FAILED_REPEATEDLY: _then_retry(
        "read the log of the hardware-sync service on the node and fix the service"
    ),
    FailureClass.SSH_SEED_FAILED_REPEATEDLY: _then_retry("check the SSH seed and the agent's log on the node"),
    FailureClass.STATE_DISAGREEMENT: Advice(
        False,
        "free the machine in MAAS if another user owns it. Then submit adopt_observed_state if MAAS is right, else"
        " restart_clean",
    ),
    FailureClass.IDENTITY_MISMATCH: Advice(
        False,
        "correct the node's BMC address with set_bmc, because the BMC belongs to another machine; then retry_stage",
    ),
    FailureClass.IDENTITY_TAKEN: Advice(
        False,
        "correct this node's BMC address with set_bmc, or use clear_bmc on the node that the detail names; then "
        "retry_stage",
    ),
    FailureClass.ADOPT_FAILED: Advice(
        False, "fix the cause of the node's last BMC error and submit adopt again, or submit manage to end the adoption"
    ),
    FailureClass.INVALID_CONFIG: _then_retry("correct the site's configuration"),
    FailureClass.UPSTREAM_REFUSED: _then_retry(
        "read the reason for the refusal in the detail, and correct the permissions or the data"
    ),
    FailureClass.UNDO_FAILED: Advice(
        False,
        "undo by hand the changes that the detail names, then restart_clean; or submit cancel to try the undo once "
        "more",
    ),
    FailureClass.OPERATOR_REQUEST: Advice(
        False, "read why an operator stopped this workflow, then resume, restart_clean or cancel"
    ),
    FailureClass.TIMEOUT: _then_retry_at_once("check what the stage waits for and fix the cause"),
    FailureClass.UPSTREAM_ERROR: _then_retry_at_once("check the health of the service that the detail names"),
    FailureClass.CAPACITY: _then_retry_at_once(
        "extend the subnet in the detail, free some of its addresses, or link another subnet"
    ),
    FailureClass.POWER_FAILED: _then_retry_at_once("fix the machine's BMC, its network or its power settings in MAAS"),
    FailureClass.NOT_MANAGEABLE: Advice(
        True, "make the BMC manageable first: read the node's last BMC error, and correct the BMC details with set_bmc"
    ),
    FailureClass.NO_CREDENTIALS: Advice(True, "submit set_bmc with a credential reference that farrier can resolve"),
    FailureClass.COMMISSIONING_FAILED: Advice(
        True, "read the commissioning results in MAAS, and replace failing hardware before the last attempt"
    ),
    FailureClass.DEPLOY_FAILED: Advice(
        True, "read the installation log in MAAS, and correct the image or its storage layout"
    ),
    FailureClass.TASK_FAILED: Advice(
        True, "read the task's result and the agent's log; retry_stage issues a new task", Action.RETRY_STAGE
    ),
    FailureClass.VALIDATION_FAILED: Advice(
        True, "read the validation result, and erase the data that the cleanup left on the node"
    ),
    FailureClass.INTERNAL: Advice(True, "report this bug in farrier with the log of the failed run"),
}

CLEAN_AGAIN = "the cleanup left data on the node: decommission it with a cleanup that validates"
"""The advice for a node that was quarantined after a failed cleanup and that operators cannot release."""

QUARANTINE_ADVICE: Mapping[str, str] = {
    QuarantineCause.OPERATOR: "read the operator's reason, then release or decommission",
    QuarantineCause.HEALTH: (
        "fix the causes of the alerts; when the alerts end, farrier returns the node to service by itself"
    ),
    QuarantineCause.STATE_DISAGREEMENT: (
        "correct MAAS, because it does not report the machine as deployed, or decommission the node"
    ),
    QuarantineCause.MACHINE_DELETED_UPSTREAM: (
        "add the machine to MAAS again, because it no longer exists there, or decommission the node"
    ),
    QuarantineCause.CLEANUP_VALIDATION_FAILED: f"{CLEAN_AGAIN}, or release it with a reason",
    QuarantineCause.DRAIN_FAILED: "read the drain task's result, then retry_stage or cancel",
    QuarantineCause.ONBOARDING_FAILED: "read the failure class of the onboarding, then retry_stage, restart_clean or "
    "delete",
    QuarantineCause.FROZEN: "read why an operator froze the workflow, then resume or cancel",
    QuarantineCause.DECOMMISSION_FAILED: "read the failure class of the decommission, then retry_stage or cancel",
}

BMC_ADVICE: Mapping[BmcFailure, str] = {
    BmcFailure.INCOMPLETE: (
        "correct what the error names: submit set_bmc, bind the credential, or make the credential readable"
    ),
    BmcFailure.UNREACHABLE: "check the address, the cable and the route; farrier retries by itself",
    BmcFailure.TIMEOUT: "check the network of this slow BMC, or reset the BMC",
    BmcFailure.TLS: "install a certificate that this site trusts, or pin the BMC's certificate",
    BmcFailure.AUTH: "correct the user and the password; farrier tries a new version of the credential at once",
    BmcFailure.REFUSED: "correct what the BMC's reason in the error names: the account's role, a licence or the state",
    BmcFailure.PROTOCOL: "update the BMC's firmware or reset the BMC, because its Redfish responses are invalid",
    BmcFailure.UNSUPPORTED: (
        "if the firmware was just changed, submit manage; otherwise update the firmware, or use the node without its "
        "BMC"
    ),
    BmcFailure.IDENTITY_MISMATCH: (
        "correct a wrong address with set_bmc; if the machine was replaced, submit set_bmc with replace: true"
    ),
    BmcFailure.IDENTITY_TAKEN: (
        "correct the address with set_bmc, or use clear_bmc on the node that the error names; then submit manage for "
        "this node"
    ),
    BmcFailure.INTERNAL: "report this bug in farrier with the log of the failed probe",
}

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
