"""The checks of NVIDIA's acceptance suite for AI clouds that concern a controller, and how far farrier meets each.

The checks are those of the suite for bare metal that have a number, without those that log in to the machine. Each row
says what the check is about in this project's words. `docs/acceptance.md` has this table; the tests do the steps and
judge the answers by `demands`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from tests.acceptance import demands
from tests.acceptance.demands import Demand

REVISION = "1207cb75ec6ed5ffbf05e787a0fa16f93752f08a"
"""The revision of NVIDIA/ai-cloud-validation (version 0.11.0) with these checks."""


class Verdict(StrEnum):
    """How far farrier meets a check."""

    PASS = "pass"
    PARTLY = "partly"
    MISSING = "missing"
    OUTSIDE = "outside"


class Check(msgspec.Struct, frozen=True):
    """A check: its number and name in the suite, what it is about, how far farrier meets it, and why. `step` is the
    step that answers it, and `demand` is what it asks of the answer."""

    id: str
    name: str
    subject: str
    verdict: Verdict
    why: str
    step: str = ""
    demand: Demand | None = None


_P, _H, _M, _O = Verdict.PASS, Verdict.PARTLY, Verdict.MISSING, Verdict.OUTSIDE
_NO_SSH = (
    "The BMC reports that the power changed, and the agent that the system runs. Whether SSH responds is not known"
)

CHECKS = (
    Check(
        "BFX01-02", "ReturnNodeMaintenanceCheck", "return a node for maintenance",
        _P, "Intent `quarantine` with a key and a reason", "return_node_maintenance", demands.returned,
    ),
    Check(
        "BFX01-03", "ReturnRackMaintenanceCheck", "return a rack for maintenance",
        _P, "The list of nodes has a filter by rack; one intent for each node", "return_rack_maintenance",
        demands.rack_returned,
    ),
    Check(
        "BFX01-05", "HostReplacementCheck", "ask for the replacement of a host, which leaves the pool",
        _P, "Intent `drain` with a reason. The node stays retired until the machine is replaced",
        "request_host_replacement", demands.replaced,
    ),
    Check(
        "BFX02-01", "MaintenanceEventsCheck", "query maintenance that is planned or takes place",
        _P, "Holds, pauses and live decommissions, each with its reason and its beginning",
        "query_maintenance_events", demands.maintained,
    ),
    Check(
        "BFX02-02", "RetirementNoticesCheck", "query notices of retirement",
        _H, "A retirement is shown from its beginning, with its reason and client. No date is known ahead",
        "query_retirement_notices", demands.retiring,
    ),
    Check(
        "BFX02-03", "RepairHistoryCheck", "query earlier repairs of a node",
        _P, "The history of the node: when it left service, why, and when it returned",
        "query_repair_history", demands.repaired,
    ),
    Check(
        "BFX03-01", "BmHardwareSerialCheck", "query serial numbers of chassis, board, network cards, CPUs, GPUs",
        _P, "What BMC, MAAS and agent read. A CPU has a number if its firmware shows the inventory number (PPIN)",
        "query_serial_numbers", demands.numbered,
    ),
    Check("BFX03-02", "NvSwitchFirmwareCheck", "query the firmware of NVLink switches", _O, "Switches are no nodes"),
    Check("BFX03-03", "BmcKernelLogCheck", "read the log of a BMC", _M, "The logs of a BMC are not read"),
    Check(
        "BFX04-01", "NodeHealthAgentCheck", "an agent on each node reports its health",
        _P, "The time of the last heartbeat, and the facts of the agent", "query_node_health_agents", demands.attended,
    ),
    Check(
        "BFX05-01", "PlannedMaintenanceNotificationCheck", "tell tenants of planned maintenance",
        _H, "The stream of changes tells of maintenance when it begins. No maintenance has a date ahead",
        "query_planned_notifications", demands.notified,
    ),
    Check(
        "BFX06-01", "FailureNotificationCheck", "tell tenants of the failure of a node",
        _P, "The stream of changes tells of each node that leaves service, within seconds, with the reason",
        "query_failure_notifications", demands.notified,
    ),
    Check(
        "BMAAS05-01", "BmDpuHealthCheck", "the health of DPUs", _M, "A DPU is not known as a device of its own"
    ),
    Check(
        "BOOT01-03", "BmHostRunsExpectedImageCheck", "a machine runs the image that was installed",
        _P, "The image that MAAS reports for the deployed machine", "verify_image", demands.image,
    ),
    Check(
        "CAP01-01", "GovernanceMetricsCheck", "count nodes and GPUs that are delivered, healthy, reserved, active",
        _H, "Which nodes are reserved for a tenant, and which run workloads, is not known",
        "query_governance_metrics", demands.governed,
    ),
    Check(
        "CAP02-01", "FleetManagementApiCheck", "a full record of each node, with account, project and instance",
        _H, "Health, model, site, GPUs and times are known; account, project and instance are not",
        "query_fleet_inventory", demands.listed,
    ),
    Check(
        "CAP03-01", "ResourceDiscoveryApiCheck", "an index of delivered machines with stable identifiers",
        _P, "The ID of a node never changes, and is never used again", "query_resource_discovery", demands.discovered,
    ),
    Check(
        "CAP05-01", "HostHealthCheck", "the health of each host, with its GPUs",
        _P, "Conditions by source, the age of the newest report, and the GPUs that the agent found",
        "query_host_health", demands.healthy,
    ),
    Check(
        "CAP05-02", "HealthAggregationCheck", "the health of groups of hosts",
        _P, "The list of nodes has site, rack and model, and what keeps each node from service",
        "query_health_aggregation", demands.grouped,
    ),
    Check(
        "CNP01-04", "BmTopologyPlacementCheck", "place machines by topology",
        _O, "A scheduler places workloads; site, rack and labels are there for it",
    ),
    Check(
        "CNP01-05", "BmHostRebootedCheck", "reboot a machine", _H, _NO_SSH, "reboot_instance", demands.rebooted,
    ),
    Check(
        "CNP01-06", "BmHostPowerCycledCheck", "switch a machine off and on", _H, _NO_SSH,
        "power_cycle_instance", demands.power_cycled,
    ),
    Check(
        "CNP01-07", "BmHostStoppedCheck", "switch a machine off", _P, "Intent `set_power`; the BMC is read afterwards",
        "stop_instance", demands.stopped,
    ),
    Check(
        "CNP01-08", "BmHostStartedCheck", "switch a machine on", _H, _NO_SSH, "start_instance", demands.started,
    ),
    Check(
        "CNP05-01", "BmHostTaggedCheck", "labels that users define",
        _P, "Labels of a node, by registration or `PATCH`", "verify_tags", demands.tags,
    ),
    Check("CNP06-01", "BmSerialConsoleCheck", "a serial console", _M, "farrier opens no consoles"),
    Check("CNP06-02", "SerialConsoleRetentionCheck", "keep the output of consoles", _M, "farrier opens no consoles"),
    Check(
        "CNP08-01", "BmIdentifierStableAfterRebootCheck", "the ID of a machine after a reboot",
        _P, "The ID of a node never changes", "reboot_instance", demands.identified,
    ),
    Check(
        "CNP08-02", "BmIdentifierStableAfterReinstallCheck", "the ID of a machine after an installation",
        _P, "Intent `decommission` with mode `reimage` keeps the node and its ID",
        "reinstall_instance", demands.identified,
    ),
    Check(
        "CNP09-02", "BmFirmwareAttestationCheck", "signed firmware, and measurements of the boot",
        _M, "Neither TPM nor measurements are read",
    ),
    Check(
        "HWING01-01", "HardwareIngestionCheck", "every expected machine was found",
        _P, "Registered nodes are the expected ones; BMC or agent find the machine",
        "verify_ingestion", demands.ingested,
    ),
    Check(
        "SDN04-04", "IbTenantIsolationCheck", "an InfiniBand partition for each tenant",
        _H, "Partitions have a number of their own, but their tenants are not known",
        "query_ib_tenant_isolation", demands.isolated,
    ),
    Check("SDN04-05", "IbKeysConfiguredCheck", "the keys of the InfiniBand fabric", _O, "UFM keeps them"),
    Check(
        "SEC21-02", "BmDiskSanitizationCheck", "erase disks between tenants",
        _P, "With `cleaning.by = \"region\"`: the region erases, and a check outside the tenant's system reads "
        "samples of each disk", "query_sanitization", demands.erased,
    ),
    Check(
        "SEC21-04", "BmMemorySanitizationCheck", "clear the memory of the host between tenants",
        _P, "As SEC21-02: the BMC showed the machine without power for at least ten seconds",
        "query_sanitization", demands.cold,
    ),
    Check(
        "SEC21-05", "BmGpuMemorySanitizationCheck", "clear the memory of GPUs between tenants",
        _P, "As SEC21-04, for machines with GPUs", "query_sanitization", demands.cold_with_gpus,
    ),
    Check(
        "SEC21-06", "BmFirmwareResetCheck", "reset TPM and BIOS between tenants",
        _M, "farrier changes neither TPM nor BIOS",
    ),
    Check(
        "SEC22-01", "BmNonceAttestationCheck", "attestation of the hardware with a fresh nonce",
        _M, "Nothing is attested",
    ),
    Check(
        "STG02-01", "SkipSanitizationBreakfixCheck", "a repair without cleaning keeps the tenant",
        _H, "A drained node may return without cleaning, unless the site requires evidence; the tenant is not known",
    ),
    Check(
        "STG03-01", "StableStorageNodeIpCheck", "stable addresses of machines",
        _P, "Addresses of network segments, for sites that list segments", "query_stable_ips", demands.addressed,
    ),
    Check(
        "STG04-01", "OobFailureDetectionCheck", "detect failures without the operating system",
        _H, "The BMC reports power, and the health of the whole system, not of its parts",
        "query_oob_health", demands.watched,
    ),
    Check(
        "STG05-01", "FailureDomainObservabilityCheck", "the failure domain of each machine",
        _P, "Site and rack of each node", "query_topology", demands.placed,
    ),
    Check(
        "AUTH03-01", "BmComponentKeyAccessCheck", "reach consoles and switches with a key of the tenant",
        _O, "farrier keeps no keys of tenants",
    ),
)  # fmt: skip
