"""The step that reports how machines were cleaned before they returned to service.

farrier does not know tenants, so each time in service counts as a tenancy. A machine was cleaned in between if a
decommission has evidence from outside the machine's own system: the region's check, which found every disk erased, and
a power cycle that the BMC showed.
"""

from __future__ import annotations

from itertools import pairwise

from tests.acceptance.api import Api, Object
from tests.acceptance.fleet import IN_SERVICE, facts

_OUTSIDE = "region"
_RELEASED = "retired"


def sanitization(api: Api) -> Object:
    """Report for each machine its times in service and its cleanings, with the newest evidence."""
    return {"machines": [_machine(api, node) for node in api.details()]}


def _machine(api: Api, node: Object) -> Object:
    reports = list(api.rows(f"/nodes/{node['name']}/evidence", "evidence"))
    course = _course(api, node["name"], reports)
    return {
        "machine_id": str(node["id"]),
        "status": course[-1] if course else node["status"],
        "available": False,
        "in_use": node["status"] == IN_SERVICE,
        "has_gpu": bool(facts(node, "gpus")),
        "served_tenant": "in_use" in course,
        "sanitized": "in_use" not in _after_a_release_without_cleaning(course),
        "stale_tenant_binding": False,
        "transitions": course,
        "evidence": reports[0]["evidence"] if reports else None,
    }


def _course(api: Api, name: str, reports: list[Object]) -> list[str]:
    """Return the times in service, the releases and the cleanings of a machine in their order, each change once."""
    tokens = {IN_SERVICE: "in_use", _RELEASED: "released"}
    changes = api.history(name, layer="status", to=list(tokens))
    moves = [(change["at"], tokens[change["to"]]) for change in changes]
    cleanings = [(each["reported_at"], "sanitizing") for each in reports if _is_clean(each["evidence"])]
    course: list[str] = []
    for _, token in sorted(moves + cleanings):
        if course[-1:] != [token]:
            course.append(token)
    return course


def _after_a_release_without_cleaning(course: list[str]) -> list[str]:
    """Return what followed directly on each release."""
    return [after for before, after in pairwise(course) if before == "released"]


def _is_clean(evidence: Object) -> bool:
    """Return whether every disk was erased and the machine was without power, as seen from outside."""
    disks = [each for each in evidence["devices"] if each["kind"] == "disk"]
    erased = all(each["result"] == "erased" and not each.get("bad_samples") for each in disks)
    return evidence["by"] == _OUTSIDE and bool(disks) and erased and evidence.get("power_cycle") is not None
