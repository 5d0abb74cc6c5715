"""Conditions of the machine, and the files with which other monitors of the machine report theirs."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterable
from typing import Any

from farrier_agent.host import Host

NOTE = "note"
QUARANTINE = "quarantine"
MOST = 100  # conditions of one heartbeat; the API accepts no more
_LARGEST_REPORT = 60_000  # bytes; a heartbeat may have 64 KiB
DROPPED = "/run/farrier-agent/conditions.d"
_LARGEST_FILE = 64 * 1024  # bytes, as the API accepts in one request
_USUAL_TTL = 600.0  # seconds after which the report of a monitor that stopped writing no longer counts
_LONGEST_TTL = 86400.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9._-]+)+")

Condition = dict[str, str]


def condition(id_: str, message: str, effect: str = NOTE, target: str = "") -> Condition:
    """Return a condition. `effect` is what the agent suggests; the policy of farrier may lower it."""
    made = {"id": id_[:128], "message": " ".join(message.split())[:500], "effect": effect}
    return {**made, "target": target[:128]} if target else made


def bounded(found: Iterable[Condition]) -> list[Condition]:
    """Return as many conditions as the API accepts, those that take the node out of service first."""
    unique = {(each["id"], each.get("target", "")): each for each in found}
    listed = [unique[key] for key in sorted(unique, key=lambda key: (unique[key]["effect"] != QUARANTINE, key))]
    kept: list[Condition] = []
    size = 0
    for each in listed:
        size += len(json.dumps(each)) + 2
        if size > _LARGEST_REPORT or (len(kept) == MOST - 1 and len(listed) > MOST):
            left_out = len(listed) - len(kept)
            return [*kept, condition("agent/conditions", f"{left_out} further conditions are not reported")]
        kept.append(each)
    return kept


def dropped(host: Host) -> list[Condition]:
    """Return the conditions in the files of other monitors. A file that cannot be used is a condition itself."""
    found: list[Condition] = []
    for path in host.glob(f"{DROPPED}/*.json"):
        name = os.path.basename(path)[: -len(".json")]
        try:
            found += _read(host.path(path), name)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            found.append(condition("agent/monitor-file", f"{path} cannot be used: {error}", NOTE, name))
    return found


def _read(path: str, name: str) -> list[Condition]:
    """Return the conditions of one file, each with the id FILE/ID. Raises ValueError for a file that is not valid."""
    with open(path, "rb") as file:
        age = time.time() - os.fstat(file.fileno()).st_mtime
        given = json.loads(file.read(_LARGEST_FILE))
    if not isinstance(given, dict) or not isinstance(given.get("conditions"), list):
        raise ValueError('expected {"conditions": [...]}')
    ttl = given.get("ttl", _USUAL_TTL)
    if not 0 < ttl <= _LONGEST_TTL:
        raise ValueError(f"ttl must be a number of seconds, at most {_LONGEST_TTL:.0f}")
    if age > ttl:
        said = f"{name} has not written its conditions for more than {ttl:.0f} s"
        return [condition("agent/monitor-silent", said, NOTE, name)]
    return [_checked(each, name) for each in given["conditions"]]


def _checked(given: Any, name: str) -> Condition:
    if not isinstance(given, dict) or not given.keys() <= {"id", "message", "effect", "target"}:
        raise ValueError("each condition must be an object of id, message, effect, and target if it has one")
    id_, message, effect, target = (str(given.get(key, "")) for key in ("id", "message", "effect", "target"))
    if not _ID.fullmatch(f"{name}/{id_}") or effect not in (NOTE, QUARANTINE) or not message:
        raise ValueError(
            f"condition {id_!r}: expected letters, digits and ._/-, a message, and the effect note or quarantine"
        )
    return condition(f"{name}/{id_}", message, effect, target)
