"""The steps of the provider, by the names that NVIDIA's acceptance suite gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.acceptance import breakfix, cleaning, fleet, machine
from tests.acceptance.api import Object

STEPS: Mapping[str, Callable[..., Object]] = {
    "launch_instance": machine.describe,
    "verify_tags": machine.label,
    "verify_image": machine.image,
    "verify_ingestion": fleet.ingestion,
    "query_resource_discovery": fleet.discovery,
    "query_fleet_inventory": fleet.inventory,
    "query_governance_metrics": fleet.governance,
    "query_host_health": fleet.health,
    "query_health_aggregation": fleet.groups,
    "query_topology": fleet.topology,
    "query_stable_ips": fleet.addresses,
    "query_oob_health": fleet.out_of_band,
    "query_serial_numbers": fleet.serials,
    "query_node_health_agents": fleet.agents,
    "query_ib_tenant_isolation": fleet.partitions,
    "stop_instance": machine.stop,
    "start_instance": machine.start,
    "reboot_instance": machine.reboot,
    "power_cycle_instance": machine.power_cycle,
    "reinstall_instance": machine.reinstall,
    "query_sanitization": cleaning.sanitization,
    "return_node_maintenance": breakfix.return_node,
    "return_rack_maintenance": breakfix.return_rack,
    "request_host_replacement": breakfix.replace_host,
    "query_maintenance_events": breakfix.maintenance,
    "query_retirement_notices": breakfix.retirements,
    "query_repair_history": breakfix.repairs,
    "query_failure_notifications": breakfix.failures,
    "query_planned_notifications": breakfix.planned,
}
"""In the order in which a run does them: those that take nodes out of service are the last."""
