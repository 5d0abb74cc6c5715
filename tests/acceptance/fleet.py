"""Steps that only read the fleet: inventory, topology, addresses, health, agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from tests.acceptance.api import Api, Object

# Seconds after which a heartbeat is too old to show that an agent runs: `node.offline_after` by default.
FRESH = 180.0

IN_SERVICE = "active"

_NONE = frozenset({"", "unknown", "none", "not specified", "to be filled by o.e.m.", "default string"})


def ingestion(api: Api) -> Object:
    """Compare the registered machines with the machines that farrier found: by the BMC, or by the agent."""
    nodes = api.details()
    machines = [
        {
            "machine_id": str(node["id"]) if _is_found(node) else None,
            "expected_machine_id": node["name"],
            "chassis_serial": _chassis(node),
            "status": {IN_SERVICE: "InUse", "retired": "Ready"}.get(node["status"], node["status"]),
            "health": "healthy" if not alerts_of(node) else "unhealthy",
            "gpu_count": len(facts(node, "gpus")),
        }
        for node in nodes
    ]
    missing = [machine for machine in machines if machine["machine_id"] is None]
    return {
        "expected_count": len(machines),
        "ingested_count": len(machines) - len(missing),
        "matched_count": len(machines) - len(missing),
        "missing": missing,
        "extra": [],
        "machines": machines,
    }


def discovery(api: Api) -> Object:
    """Poll the list of nodes twice, with a read of each node in between."""
    first = api.nodes()
    found = {node["name"]: _is_found(node) for node in api.details()}
    last = api.nodes()
    ids = {str(node["id"]) for node in last}
    return {
        "polls": 2,
        "unstable_identifiers": [str(node["id"]) for node in first if str(node["id"]) not in ids],
        "resources": [
            {"resource_id": str(node["id"]), "name": node["name"], "discovered": found.get(node["name"], False)}
            for node in last
        ],
    }


def inventory(api: Api) -> Object:
    """List each node with what CAP02 asks. farrier does not know accounts, projects and instances."""
    return {
        "nodes": [
            {
                "node_id": str(node["id"]),
                "health_state": "unhealthy" if alerts_of(node) or node["status"] != IN_SERVICE else "healthy",
                "created_at": node["created_at"],
                "hardware_type": node["model"],
                "gpu_count": len(facts(node, "gpus")),
                "region": node["site"],
                "in_use": None,
                "account_id": None,
                "project_id": None,
                "instance_id": None,
            }
            for node in api.details()
        ]
    }


def governance(api: Api) -> Object:
    """Count nodes and GPUs. farrier does not know which nodes are reserved, and which run workloads."""
    nodes = api.details()
    return {
        "metrics": {
            "delivered": _counted(node for node in nodes if node["ever_onboarded"]),
            "healthy": _counted(node for node in nodes if node["schedulable"] and not alerts_of(node)),
            "reserved": None,
            "active": None,
        }
    }


def health(api: Api) -> Object:
    """Report the conditions of each node, by source, and how old the newest observation is."""
    return {"hosts": [_health(node) for node in api.details()]}


def groups(api: Api) -> Object:
    """Count the healthy nodes of each rack."""
    racks: dict[str, list[Object]] = {}
    for node in api.nodes():
        racks.setdefault(node["rack"] or "no rack", []).append(node)
    return {"aggregation_level": "nodegroup", "groups": [_group(rack, nodes) for rack, nodes in sorted(racks.items())]}


def topology(api: Api) -> Object:
    """Report the rack of each node, with its site: racks of two sites may have one name."""
    return {
        "hosts": [
            {"host_id": str(node["id"]), "failure_domain": f"{node['site']}/{node['rack']}" if node["rack"] else ""}
            for node in api.nodes()
        ]
    }


def addresses(api: Api) -> Object:
    """Report the addresses that farrier allocated for each node in its network segments."""
    return {
        "hosts": [
            {
                "host_id": str(node["id"]),
                "hw_sku_device_type": node["model"],
                "primary_ip_addresses": [held["address"] for held in node["addresses"]],
            }
            for node in api.details()
        ]
    }


def out_of_band(api: Api) -> Object:
    """Report what farrier read from each BMC: the health and the power of the whole system, without its parts."""
    return {
        "hosts": [
            {
                "host_id": str(node["id"]),
                "oob_health_present": bool(node["bmc"].get("health")),
                "bmc_probe_ids": ["SystemHealth", "PowerState"] if node["bmc"].get("health") else [],
                "failure_categories": {
                    kind: {"observable": False, "probe_ids": []} for kind in ("device", "network", "memory", "drive")
                },
            }
            for node in api.details()
            if node["bmc_address"]
        ]
    }


def serials(api: Api) -> Object:
    """Report the serial numbers that BMC, MAAS and agent read."""
    return {"machines": [_components(node) for node in api.details()]}


def agents(api: Api) -> Object:
    """Report for each node with an agent whether the agent runs."""
    return {
        "agents_observable": True,
        "agents": [
            {
                "node_id": str(node["id"]),
                "agent_name": f"farrier-agent {(node['agent_facts'] or {}).get('agent', '')}".strip(),
                "running": node["enrolled_at"] is not None and any(age < FRESH for age in _ages(node, "agent")),
            }
            for node in api.details()
            if not node["agentless"]
        ],
    }


def partitions(api: Api) -> Object:
    """List the IB partitions. farrier does not know which tenant holds a partition."""
    return {
        "partitions": [
            {"name": each["name"], "partition_key": hex(each["pkey"]), "tenant_id": None, "status": each["state"]}
            for each in api.rows("/resources/ib_partition", "resources")
        ]
    }


def alerts_of(node: Object) -> list[Object]:
    """Return the conditions of a node, as alerts."""
    return [
        {
            "id": f"{each['source']}/{each['id']}",
            "target": each.get("target", ""),
            "message": each.get("message", ""),
            "classifications": [each["effect"]],
        }
        for each in node["conditions"]
    ]


def facts(node: Object, kind: str) -> list[Object]:
    """Return the devices of one kind that the agent reported."""
    return list((node["agent_facts"] or {}).get(kind) or ())


def state_of(node: Object) -> str:
    """Return the state of a machine in the words of clouds."""
    power = node["bmc"].get("power")
    if power == "off":
        return "stopped"
    return "running" if node["status"] == IN_SERVICE else str(node["status"])


def _health(node: Object) -> Object:
    sources = [name for name in ("agent", "bmc") if _ages(node, name)]
    ages = [age for name in sources for age in _ages(node, name)]
    alerts = alerts_of(node)
    return {
        "host_id": str(node["id"]),
        "status": node["status"],
        "health_present": bool(ages),
        "healthy": not alerts,
        "observed_age_seconds": int(min(ages)) if ages else None,
        "probe_ids": sources,
        "alerts": alerts,
        "components": {
            "gpu": _component(alerts, "agent/gpu/", facts(node, "gpus")),
            "disk": _component(alerts, "agent/disk/", facts(node, "disks")),
            "system": _component(alerts, "bmc/", [node["bmc"]] if node["bmc"].get("health") else []),
        },
    }


def _component(alerts: list[Object], start: str, devices: list[Object]) -> Object:
    return {
        "present": bool(devices),
        "alerting": any(each["id"].startswith(start) for each in alerts),
        "devices": [each.get("serial") or each.get("uuid") for each in devices],
    }


def _group(rack: str, nodes: list[Object]) -> Object:
    ill = [str(node["id"]) for node in nodes if not node["schedulable"] or alerts_of(node)]
    return {
        "group_id": rack,
        "group_type": "rack",
        "name": rack,
        "total": len(nodes),
        "healthy": len(nodes) - len(ill),
        "unhealthy": len(ill),
        "status": "Degraded" if ill else "Healthy",
        "unhealthy_hosts": ill,
    }


def _components(node: Object) -> Object:
    maas = (node["maas"] or {}).get("hardware_info") or {}
    known = node["agent_facts"] or {}
    found: dict[str, Iterable[Any]] = {
        "chassis": [_chassis(node)],
        "baseboard": [maas.get("mainboard_serial"), known.get("board_serial")],
        "cpu": [each.get("serial") for each in facts(node, "cpus")],
        "gpu": [each.get("serial") or each.get("uuid") for each in facts(node, "gpus")],
        "nic": [*node["bmc"].get("macs", ()), *known.get("macs", ()), *node["macs"]],
    }
    components = {
        kind: {
            "present": kind != "gpu" or bool(facts(node, "gpus")),
            "identifiers": sorted({each for each in ids if is_number(each)}),
        }
        for kind, ids in found.items()
    }
    return {"machine_id": str(node["id"]), "components": components}


def _chassis(node: Object) -> str:
    """Return the serial number of the machine, or else its UUID: one that BMC, MAAS or agent read."""
    maas = node["maas"] or {}
    known = node["agent_facts"] or {}
    places: Iterable[Callable[[], Any]] = (
        lambda: node["bmc"].get("serial"),
        lambda: (maas.get("hardware_info") or {}).get("system_serial"),
        lambda: known.get("serial"),
        lambda: node["bmc"].get("uuid"),
        lambda: maas.get("hardware_uuid"),
        lambda: known.get("uuid"),
    )
    return next((str(found) for place in places if is_number(found := place())), "")


def is_number(serial: object) -> bool:
    """Return whether a text is a serial number, and not what firmware or MAAS writes without one."""
    return isinstance(serial, str) and serial.strip().lower() not in _NONE


def _is_found(node: Object) -> bool:
    """Return whether farrier reached the machine: its BMC was verified, or its agent enrolled."""
    return bool(node["bmc"].get("verified_at") or node["enrolled_at"])


def _counted(nodes: Iterable[Object]) -> Object:
    gpus = [len(facts(node, "gpus")) for node in nodes]
    return {"nodes": len(gpus), "gpus": sum(gpus)}


def _ages(node: Object, source: str) -> list[float]:
    """Return how many seconds ago a source reported, by farrier's clock; nothing if it never did."""
    at = node["last_heartbeat_at"] if source == "agent" else node["bmc"].get("power_at")
    return [] if at is None else [(datetime.fromisoformat(node["now"]) - datetime.fromisoformat(at)).total_seconds()]
