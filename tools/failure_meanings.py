"""What each failure class, condition and BMC failure means, and where the cause is found, in one or two sentences.

The reference of failures has these texts; `farrier.model.node.failures` has the advice for each.
"""

from __future__ import annotations

from collections.abc import Mapping

from farrier.model.machine.bmc import BmcFailure as B
from farrier.model.node.failures import FailureClass as F

FAILURE_MEANINGS: Mapping[F, str] = {
    F.DISCOVERY_CONFLICT: "several machines in MAAS match this node, or the only match contradicts the node's data, "
    "belongs to another node, or matches by its host name alone. The detail names each machine, and by what it matched",
    F.BOSS_DISK_NOT_FOUND: "no disk of the machine, or more than one, matches the site's boot_disk_model. The detail "
    "lists the disks that MAAS found",
    F.PXE_INTERFACE_UNFIXABLE: "the boot interface cannot get its address: it is missing, part of a bond or bridge, on "
    "no VLAN, or on a VLAN whose subnet farrier cannot choose",
    F.MACHINE_DELETED_UPSTREAM: "MAAS reports that the machine no longer exists; its audit events say who deleted it",
    F.DATASOURCE_FAILED_REPEATEDLY: "cloud-init in the installed system did not reach MAAS's metadata service, also "
    "after further deployments. The machine's console shows the address that it tried",
    F.HARDWARE_SYNC_FAILED_REPEATEDLY: "the machine runs, but does not report its hardware to MAAS",
    F.SSH_SEED_FAILED_REPEATEDLY: "the agent reported several times in a row that the SSH seed failed",
    F.STATE_DISAGREEMENT: "MAAS and farrier disagree about the machine, and farrier cannot tell which is right. The "
    "history of the node shows what farrier did",
    F.IDENTITY_MISMATCH: "the BMC or MAAS reports another serial number, UUID or other MAC addresses than recorded. "
    "The detail has both",
    F.IDENTITY_TAKEN: "the machine at this address belongs to another node, which the detail names: it is registered "
    "twice, or a board was moved",
    F.ADOPT_FAILED: "the running machine could not be adopted, for example because its BMC did not respond",
    F.INVALID_CONFIG: "the site's file lacks a value, or its template cannot be rendered for this node. The detail "
    "names the file and the key",
    F.UPSTREAM_REFUSED: "a service refused a request, because of rights or parameters; or the machine is locked in "
    "MAAS. The detail quotes the service",
    F.UNDO_FAILED: "the changes that an onboarding made in MAAS could not be undone. The detail names what remains",
    F.OPERATOR_REQUEST: "an operator stopped this workflow, or quarantined the node during its onboarding, which does "
    "not complete before the hold is released",
    F.TIMEOUT: "a stage had no result within 1.5 times its limit",
    F.UPSTREAM_ERROR: "a service could not be reached, or failed. The detail has its last response",
    F.CAPACITY: "MAAS has no capacity left, usually no free address in a subnet. The machine stays allocated",
    F.POWER_FAILED: "MAAS could not switch the machine's power through its BMC. A release that had to erase disks then "
    "ends in the MAAS state Failed disk erasing; the next release erases them",
    F.NOT_MANAGEABLE: "the stage needs the BMC, which is not manageable; the node's last BMC error says why",
    F.NO_CREDENTIALS: "the node has no BMC credential, or its reference cannot be resolved. The detail names the "
    "reference",
    F.COMMISSIONING_FAILED: "MAAS could not commission or test the machine, or a user marked it as broken there",
    F.DEPLOY_FAILED: "MAAS could not install the operating system",
    F.TASK_FAILED: "a task of the agent failed; farrier task list has its result",
    F.VALIDATION_FAILED: "the validation after a cleaning found data, or the evidence is not what the site requires; "
    "farrier node evidence shows it",
    F.INTERNAL: "a run ended in an unexpected error, which is a bug; the log has handler.crashed with the traceback",
}

CONDITION_MEANINGS: Mapping[str, str] = {
    "agent/*": "the agent reports an alert, or ok: false (agent/not_ok). Alerts that block scheduling, and ok: false, "
    "quarantine the node",
    "bmc/health": "the BMC reports the health Critical. A note, unless node.conditions raises it",
    "identity/another_machine": "the verified BMC now shows another serial number or UUID: the machine was exchanged, "
    "or the address leads to another BMC",
    "identity/agent_elsewhere": "neither the serial number nor the UUID that the agent reports is that of the node's "
    "BMC or MAAS machine. If the MAAS id is wrong, correct it; if the agent is, enrol the right one with a new token",
    "identity/enrolment": "an agent with this node's bootstrap token runs on another machine than BMC or MAAS report. "
    "Its enrolment was refused; the token is still valid",
    "identity/agent": "two machines use the key of this node's agent, for example because a disk was copied. The one "
    "that booted last is served",
    "operator/*": "an operator holds the node, until the hold with this key is released. An onboarding waits for it",
    "cleaning/not_scrubbed": "a cleaning was skipped by force, or cancelled. The node may still have data of its last "
    "user",
    "cleaning/validation_failed": "the validation of a cleaning failed, was skipped by force or was cancelled. The "
    "node must not be used before its data is erased; a healthy agent or a drain does not end this",
    "cleaning/unproven": "a cleaning stage (the target) ended without complete evidence. A note; if the site requires "
    "evidence, the stage fails instead",
    "region/disagreement": "MAAS reports the machine of a node in service as not deployed, or as held by another user",
    "region/machine_deleted": "the node is in service, but its machine no longer exists in MAAS",
    "workflow/onboarding_failed": "the onboarding was stopped, because it is unsafe to continue",
    "workflow/drain_failed": "the drain failed, so workloads may still run on the node; farrier task list has the "
    "result of node.drain",
    "workflow/decommission_failed": "a stage of the decommission failed before the node was drained",
    "workflow/frozen": "an operator stopped the decommission before the node was drained",
    "monitor/*": "a monitor outside farrier, such as Alertmanager, states this (monitor:NAME/ID). If it does not "
    "repeat the condition in time, the condition is unknown: it takes no node out of service, and returns none",
}
"""By the names of `conditions.KNOWN`."""

BMC_MEANINGS: Mapping[B, str] = {
    B.INCOMPLETE: "the address or credential is missing or unusable, or no binding allows the credential at this "
    "address. farrier does not log in",
    B.UNREACHABLE: "no connection, the BMC is busy, or the address is not in bmc.allowed_networks",
    B.TIMEOUT: "not all requests of one verification were answered within node.probe_deadline",
    B.TLS: "the certificate is not trusted for this address; compare it with bmc.ca_file or bmc.fingerprint",
    B.AUTH: "the BMC refuses user and password. After three failed logins in five minutes, farrier waits before the "
    "next one",
    B.AUTH_SCHEME: "the BMC accepts neither kind of authentication that farrier may use; no password was checked",
    B.REFUSED: "the BMC knows the user, but refuses the request; the error quotes it. No failed login",
    B.PROTOCOL: "the response is not valid Redfish, or has no power state of on or off; the error names the path",
    B.UNSUPPORTED: "the BMC lacks a function that farrier needs, which the error names",
    B.IDENTITY_MISMATCH: "another machine than the recorded one responds; the error has both values",
    B.IDENTITY_TAKEN: "the machine at this address belongs to another node, which the error names",
    B.INTERNAL: "a bug in farrier; the log has more at the time of the failed verification",
}
