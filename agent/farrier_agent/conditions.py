"""Conditions of the machine, and the files with which other monitors of the machine report theirs."""

from __future__ import annotations

import json
import os
import re
import time
from itertools import accumulate
from typing import Any

from farrier_agent.host import Host

NOTE = "note"
QUARANTINE = "quarantine"
MOST = 100  # conditions of one heartbeat; the API accepts no more
_LARGEST_REPORT = 60_000  # bytes; a heartbeat may have 64 KiB
_USUAL_TTL = 600.0  # seconds after which the report of a monitor that stopped writing no longer counts
_LONGEST_TTL = 86400.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)+")

Condition = dict[str, str]


def condition(id_: str, message: str, effect: str = NOTE, target: str = "") -> Condition:
    """Return a condition. `effect` is what the agent suggests; the policy of farrier may lower it."""
    made = {"id": id_[:128], "message": " ".join(message.split())[:500], "effect": effect}
    return {**made, "target": target[:128]} if target else made


def bounded(found: list[Condition]) -> list[Condition]:
    """Return as many conditions as the API accepts, those that take the node out of service first."""
    unique = {(each["id"], each.get("target", "")): each for each in found}
    listed = [unique[key] for key in sorted(unique, key=lambda key: (unique[key]["effect"] != QUARANTINE, key))]
    sizes = accumulate(len(json.dumps(each)) + 2 for each in listed)
    fitting = sum(size <= _LARGEST_REPORT for size in sizes)
    if len(listed) <= min(fitting, MOST):
        return listed
    kept = listed[: min(fitting, MOST - 1)]
    left_out = len(listed) - len(kept)
    return [*kept, condition("agent/conditions", f"{left_out} further conditions are not reported")]


def dropped(host: Host) -> list[Condition]:
    """Return the conditions in the files of other monitors. A file that cannot be used is a condition itself."""
    found: list[Condition] = []
    for path in host.glob("/run/farrier-agent/conditions.d/*.json"):
        name = os.path.basename(path)[: -len(".json")]
        try:
            found += _read(host, path, name)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            found.append(condition("agent/monitor-file", f"{path} cannot be used: {error}", NOTE, name))
    return found


def _read(host: Host, path: str, name: str) -> list[Condition]:
    """Return the conditions of one file, each with the id FILE/ID. Raises ValueError for a file that is not valid."""
    age = time.time() - os.path.getmtime(host.path(path))
    given = json.loads(host.content(path))
    if not isinstance(given, dict) or not isinstance(given.get("conditions"), list):
        raise ValueError('expected {"conditions": [...]}')
    ttl = given.get("ttl", _USUAL_TTL)
    if not 0 < ttl <= _LONGEST_TTL:
        raise ValueError(f"ttl must be a number of seconds, at most {_LONGEST_TTL:.0f}")
    if age > ttl:
        raise ValueError(f"{name} has not written it for more than {ttl:.0f} s")
    return [_checked(each, name) for each in given["conditions"]]


def _checked(given: Any, name: str) -> Condition:
    if not isinstance(given, dict) or not given.keys() <= {"id", "message", "effect", "target"}:
        raise ValueError("each condition must be an object of id, message, effect, and target if it has one")
    id_, message, effect, target = (str(given.get(key, "")) for key in ("id", "message", "effect", "target"))
    if not _ID.fullmatch(f"{name}/{id_}") or effect not in (NOTE, QUARANTINE) or not message:
        said = "expected letters, digits and ._/-, a message, and the effect note or quarantine"
        raise ValueError(f"condition {id_!r}: {said}")
    return condition(f"{name}/{id_}", message, effect, target)
