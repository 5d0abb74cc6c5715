"""The operations that only read: events, results of scripts, networks, the calling user.

`app` calls these operations, which change nothing and are allowed on locked machines.
"""

from __future__ import annotations

from datetime import datetime
from urllib.parse import urlencode

from farrier.sim.maas import show_network
from farrier.sim.maas.call import Call, Refused
from farrier.sim.maas.events import Event, Level
from farrier.sim.maas.records import Machine, ScriptSet, SetType
from farrier.sim.maas.region import Region

_MOST_EVENTS = 1000
_DEFAULT_EVENTS = 100


def events(region: Region, call: Call) -> object:
    """Return the events, newest first. If `after` is given, the page contains the oldest events with greater IDs, so
    that a client that pages by ID misses no event."""
    after, before = call.number("after"), call.number("before")
    limit = call.number("limit")
    limit = _DEFAULT_EVENTS if limit is None else max(limit, 1)
    if limit > _MOST_EVENTS:
        raise Refused(400, f"Requested number of events {limit} is greater than limit: {_MOST_EVENTS}")
    least = call.one("level") or "INFO"
    if least not in Level.__members__:
        raise Refused(400, f"Unrecognised log level: {least}")
    if after is not None and before is not None:
        raise Refused(400, "There is undetermined behaviour when both `after` and `before` are specified.")
    found: list[Event] = []
    nodes: list[str | None] = [*call.many("id")]
    for node in nodes or [None]:
        found += _of_node(region, node, after=after, before=before)
    loud = sorted((one for one in found if one.level >= Level[least]), key=lambda one: one.id)
    page = list(reversed(loud[:limit] if after is not None else loud[-limit:]))
    kept = [(name, value) for name, value in call.query if name not in {"op", "after", "before"}]
    first, last = (page[-1].id, page[0].id) if page else (0, after or 0)
    return {
        "count": len(page),
        "events": [one.shown() for one in page],
        "next_uri": _events_uri([*kept, ("after", str(last))]),
        "prev_uri": _events_uri([*kept, ("before", str(first))]),
    }


def _of_node(region: Region, node: str | None, *, after: int | None, before: int | None) -> list[Event]:
    log = region.events
    if after is not None:
        return log.after(after, log.of(node))
    if before is not None:
        return log.before(before, log.of(node))
    return log.of(node)


def _events_uri(params: list[tuple[str, str]]) -> str:
    return "/MAAS/api/2.0/events/?" + urlencode([("op", "query"), *params])


def whoami(region: Region, call: Call) -> object:
    user = call.user
    return {
        "is_superuser": user.is_superuser,
        "username": user.username,
        "email": "a@example.com",
        "is_local": True,
        "resource_uri": f"/MAAS/api/2.0/users/{user.username}/",
    }


def subnets(region: Region, call: Call) -> object:
    return [show_network.subnet(subnet) for subnet in region.site.subnets]


def vlans(region: Region, fabric: str) -> object:
    found = [vlan for vlan in region.site.vlans() if str(vlan.fabric_id) == fabric]
    if not found:
        raise Refused(404, "No Fabric matches the given query.")
    return [show_network.vlan(vlan) for vlan in found]


def fabrics(region: Region, call: Call) -> object:
    numbers = sorted({vlan.fabric_id for vlan in region.site.vlans()})
    return [
        {
            "class_type": None,
            "id": number,
            "name": f"fabric-{number}",
            "vlans": vlans(region, str(number)),
            "resource_uri": f"/MAAS/api/2.0/fabrics/{number}/",
        }
        for number in numbers
    ]


def results(region: Region, call: Call, machine: Machine) -> object:
    wanted = call.one("type")
    kinds = {kind.name.lower(): kind for kind in SetType}
    if wanted is not None and wanted not in kinds:
        raise Refused(400, {"type": [f"Value must be one of: {', '.join(kinds)}"]})
    return [_result(machine, kept) for kept in machine.script_sets if wanted is None or kept.type is kinds[wanted]]


def _mail_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%a, %d %b %Y %H:%M:%S +0000")


def _result(machine: Machine, kept: ScriptSet) -> dict[str, object]:
    runtime = str(kept.ended - kept.started).partition(".")[0] if kept.ended and kept.started else ""
    script: dict[str, object] = {
        "id": kept.result_id,
        "created": _mail_time(kept.created),
        "updated": _mail_time(kept.ended or kept.started or kept.created),
        "name": kept.name,
        "status": int(kept.status),
        "status_name": kept.status.label,
        "exit_status": None,
        "started": _mail_time(kept.started),
        "ended": _mail_time(kept.ended),
        "runtime": runtime,
        "starttime": kept.started.timestamp() if kept.started else "",
        "endtime": kept.ended.timestamp() if kept.ended else "",
        "estimated_runtime": "Unknown",
        "parameters": {},
        "script_id": None,
        "script_revision_id": None,
        "suppressed": False,
    }
    return {
        "id": kept.id,
        "system_id": machine.system_id,
        "type": int(kept.type),
        "type_name": kept.type.name.capitalize(),
        "last_ping": None,
        "status": int(kept.status),
        "status_name": kept.status.label,
        "started": _mail_time(kept.started),
        "ended": _mail_time(kept.ended),
        "runtime": runtime,
        "results": [script],
        "resource_uri": f"/MAAS/api/2.0/nodes/{machine.system_id}/results/{kept.id}/",
    }
