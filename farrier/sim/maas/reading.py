"""The operations that only read, which locked machines allow: events, results of scripts, networks, the caller."""

from __future__ import annotations

import base64
from datetime import datetime
from urllib.parse import urlencode

from farrier.sim.maas import show
from farrier.sim.maas.events import Event, Level
from farrier.sim.maas.http.call import Answer, Call, Refused
from farrier.sim.maas.records import Machine, ScriptRun, ScriptSet, SetType
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
    return [show.subnet(subnet) for subnet in region.site.subnets]


def vlans(region: Region, fabric: str) -> object:
    found = [vlan for vlan in region.site.vlans() if str(vlan.fabric_id) == fabric]
    if not found:
        raise Refused(404, "No Fabric matches the given query.")
    return [show.vlan(vlan) for vlan in found]


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
        raise Refused(400, "Invalid result type name")
    sets = [kept for kept in machine.script_sets if wanted is None or kept.type is kinds[wanted]]
    return [_set(call, machine, kept) for kept in sets]


def result(region: Region, call: Call, machine: Machine, wanted: str) -> object:
    """Return one set of results, by its ID or as the newest of its type."""
    kinds = {f"current-{kind.name.lower()}": kind for kind in SetType}
    kept = machine.newest_set(kinds[wanted]) if wanted in kinds else None
    if wanted in kinds and kept is None:
        raise Refused(400, f"No {wanted.replace('-', ' ')} script set exists for this node.")
    kept = kept or next((each for each in machine.script_sets if str(each.id) == wanted), None)
    if kept is None:
        raise Refused(404, "No ScriptSet matches the given query.")
    return _set(call, machine, kept)


def setting(region: Region, call: Call) -> object:
    """Return a setting of the region, as JSON text. The simulation has one setting."""
    name = call.needed("name")
    if name != "enable_disk_erasing_on_release":
        raise Refused(400, {name: [f"{name} is not a valid config setting."]})
    content = b"true" if region.site.erases_on_release else b"false"
    return Answer(content=content, content_type="application/json")


def _mail_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.strftime("%a, %d %b %Y %H:%M:%S +0000")


def _runtime(started: datetime | None, ended: datetime | None) -> str:
    return str(ended - started).partition(".")[0] if ended and started else ""


def _set(call: Call, machine: Machine, kept: ScriptSet) -> dict[str, object]:
    filters = call.one("filters")
    runs = [run for run in kept.runs if filters is None or {run.script.name, *run.script.tags} & {*filters.split(",")}]
    return {
        "id": kept.id,
        "system_id": machine.system_id,
        "type": int(kept.type),
        "type_name": kept.type.name.capitalize(),
        "last_ping": _mail_time(max((run.ended for run in kept.runs if run.ended), default=None)),
        "status": int(kept.status),
        "status_name": kept.status.label,
        "started": _mail_time(kept.started),
        "ended": _mail_time(kept.ended),
        "runtime": _runtime(kept.started, kept.ended),
        "results": [_run(call, run) for run in runs] if kept.runs else [_log(kept)],
        "resource_uri": f"/MAAS/api/2.0/nodes/{machine.system_id}/results/{kept.id}/",
    }


def _log(kept: ScriptSet) -> dict[str, object]:
    """Return the one result of a commissioning or an installation."""
    said = {"id": kept.result_id, "name": kept.name, "exit_status": None, "script_id": None, "script_revision_id": None}
    return {**said, **_times(kept)}


def _run(call: Call, run: ScriptRun) -> dict[str, object]:
    stdout = base64.b64encode(run.stdout).decode()
    output = {"output": stdout, "stdout": stdout, "stderr": "", "result": ""} if call.one("include_output") else {}
    said = {"id": run.id, "name": run.script.name, "exit_status": run.exit_status, "script_id": run.script.id}
    return {**said, "script_revision_id": run.revision, **_times(run), **output}


def _times(kept: ScriptSet | ScriptRun) -> dict[str, object]:
    return {
        "created": _mail_time(kept.created),
        "updated": _mail_time(kept.ended or kept.started or kept.created),
        "status": int(kept.status),
        "status_name": kept.status.label,
        "started": _mail_time(kept.started),
        "ended": _mail_time(kept.ended),
        "runtime": _runtime(kept.started, kept.ended),
        "starttime": kept.started.timestamp() if kept.started else "",
        "endtime": kept.ended.timestamp() if kept.ended else "",
        "estimated_runtime": _runtime(kept.started, kept.ended) or "Unknown",
        "parameters": {},
        "suppressed": False,
    }
