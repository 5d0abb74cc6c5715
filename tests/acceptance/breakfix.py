"""Steps for repairs: hand a node or a rack over, have a host replaced, and what is told about it."""

from __future__ import annotations

from itertools import islice

from tests.acceptance.api import Api, Object
from tests.acceptance.fleet import IN_SERVICE

_KEY = "acceptance"
_REASON = "acceptance: returned for maintenance"
_REPLACED = "acceptance: health threshold breached, replace this host"
_DRAINS_WITHIN = 900.0  # seconds
_FAILS_WITHIN = 300.0  # seconds in which the node may fail


def return_node(api: Api, node: str) -> Object:
    """Hold a node out of service for maintenance, until this hold is released."""
    api.ask(node, "quarantine", key=_KEY, reason=_REASON)
    found = api.node(node)
    return {
        "operation": {
            "requested": True,
            "accepted": found["status"] == "quarantined" and not found["schedulable"],
            "machine_id": str(found["id"]),
            "maintenance_mode": _held(found),
        }
    }


def return_rack(api: Api, rack: str) -> Object:
    """Hold every node of a rack for maintenance."""
    names = [node["name"] for node in api.nodes(rack=rack)]
    for name in names:
        api.ask(name, "quarantine", key=_KEY, reason=_REASON)
    nodes = api.nodes(rack=rack)
    return {
        "operation": {
            "requested": bool(names),
            "accepted": bool(nodes) and all(_held(node) and not node["schedulable"] for node in nodes),
            "rack_id": rack,
            "machine_ids": [str(node["id"]) for node in nodes],
        }
    }


def replace_host(api: Api, node: str) -> Object:
    """Take a node out of the pool for good: drain it, and keep it retired until its machine is replaced."""
    api.ask(node, "drain", reason=_REPLACED)
    found = api.until(node, lambda seen: seen["status"] == "retired", within=_DRAINS_WITHIN)
    pool = {each["name"] for each in api.nodes(status=IN_SERVICE)}
    return {
        "operation": {
            "requested": True,
            "node_removed_from_pool": not found["schedulable"] and node not in pool,
            "machine_id": str(found["id"]),
        }
    }


def maintenance(api: Api) -> Object:
    """List what keeps nodes from service now: holds of operators, pauses, and decommissions that run."""
    return {"events_queryable": True, "events": [event for node in api.nodes() for event in _events(node)]}


def repairs(api: Api) -> Object:
    """List for each node how often and why it was out of service."""
    records = []
    for node in api.nodes():
        entries = [
            {
                "status": change["to"],
                "message": change["reason"],
                "updated_at": change["at"],
                "requested_by": change["requested_by"],
                "seconds_before": change["seconds_in_source"],
            }
            for change in api.history(node["name"], layer="status")
            if change["from"] is not None and IN_SERVICE in (change["from"], change["to"])
        ]
        records.append({"machine_id": str(node["id"]), "entries": entries})
    return {"history_queryable": True, "records": records}


def retirements(api: Api) -> Object:
    """List the nodes that are being retired, with who asked. No date is known ahead."""
    notices = [
        {
            "machine_id": str(node["id"]),
            "status": node["status"],
            "message": change["reason"],
            "notified_at": change["at"],
            "requested_by": change["requested_by"],
            "retires_at": None,
        }
        for node in api.nodes(status=["draining", "retired", "removing"])
        for change in api.history(node["name"], layer="status", to="draining")[-1:]
    ]
    return {"notices_queryable": bool(notices) and all(each["retires_at"] for each in notices), "notices": notices}


def failures(api: Api, node: str) -> Object:
    """Follow the stream of changes from its beginning until it tells that a node left service without an intent."""
    wanted = {"resource": f"node/{node}", "layer": "status", "from": IN_SERVICE, "after": "0.0.0.node.status"}
    seen = (each for each in api.changes(_FAILS_WITHIN, **wanted) if each["requested_by"] is None)
    found = [
        {
            "machine_id": str(change["id"]),
            "type": change["to"],
            "message": change["reason"],
            "notified_at": change["at"],
        }
        for change in islice(seen, 1)
    ]
    return {"notification_channel_observable": bool(found), "notifications": found}


def planned(_api: Api) -> Object:
    """farrier has no maintenance with a date: a hold begins when it is set, and the stream then tells it."""
    return {"notification_channel_observable": False, "notifications": []}


def _events(node: Object) -> list[Object]:
    events = [
        {"machine_id": str(node["id"]), "status": "maintenance", "message": each["message"], "since": each["since"]}
        for each in node["conditions"]
        if each["source"] == "operator"
    ]
    if node["paused"]:
        events.append({"machine_id": str(node["id"]), "status": "paused", "message": node["paused"], "since": None})
    work = node["workflow"]
    if work is not None and work["kind"] == "decommission":
        doing = {"status": "decommission", "message": work["mode"] or node["status"], "since": work["created_at"]}
        events.append({"machine_id": str(node["id"]), **doing})
    return events


def _held(node: Object) -> str | None:
    """Return the reason of this program's hold of a node."""
    holds = [each for each in node["conditions"] if each["source"] == "operator" and each["id"] == _KEY]
    return holds[0]["message"] if holds else None
