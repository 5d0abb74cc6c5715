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
_MOST_FILES = 64
_USUAL_TTL = 600.0  # seconds after which the report of a monitor that stopped writing no longer counts
_LONGEST_TTL = 86400.0
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,95}")

Condition = dict[str, str]


def condition(id_: str, message: str, effect: str = NOTE, target: str = "") -> Condition:
    """Return a condition. `effect` is what the agent suggests; the policy of farrier may lower it."""
    made = {"id": id_[:128], "message": " ".join(message.split())[:500], "effect": effect}
    return {**made, "target": target[:128]} if target else made


def bounded(found: Iterable[Condition]) -> list[Condition]:
    """Return as many conditions as the API accepts, those that take the node out of service first."""
    unique = {(each["id"], each.get("target", "")): each for each in found}
    listed = sorted(
        unique.values(), key=lambda each: (each["effect"] != QUARANTINE, each["id"], each.get("target", ""))
    )
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
    paths = host.glob(f"{DROPPED}/*.json")
    for path in paths[:_MOST_FILES]:
        name = os.path.basename(path)[: -len(".json")]
        try:
            found += _read(host.path(path), name)
        except (OSError, ValueError) as error:
            found.append(condition("agent/monitor-file", f"{path} cannot be used: {error}", NOTE, name))
    if len(paths) > _MOST_FILES:
        found.append(
            condition("agent/monitor-file", f"{DROPPED} has more than {_MOST_FILES} files; the rest is unread")
        )
    return found


def _read(path: str, name: str) -> list[Condition]:
    """Return the conditions of one file, each with the id FILE/ID. Raises ValueError for a file that is not valid."""
    if not _ID.fullmatch(name):
        raise ValueError("its name must consist of letters, digits and ._-")
    with open(path, "rb") as file:
        written_at = os.fstat(file.fileno()).st_mtime
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"it is larger than {_LARGEST_FILE} bytes")
    try:
        given = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    listed = given.get("conditions") if isinstance(given, dict) else None
    if not isinstance(listed, list):
        raise ValueError('expected {"conditions": [...]}')
    ttl = given.get("ttl", _USUAL_TTL)
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= _LONGEST_TTL:
        raise ValueError(f"ttl must be a number of seconds, at most {_LONGEST_TTL:.0f}")
    age = time.time() - written_at
    if age > ttl:
        return [
            condition(
                "agent/monitor-silent", f"{name} has not written its conditions for more than {ttl:.0f} s", NOTE, name
            )
        ]
    return [_checked(each, name) for each in listed]


def _checked(given: Any, name: str) -> Condition:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError("each condition must be an object of texts: id, message, effect, and target if it has one")
    if not given.keys() <= {"id", "message", "effect", "target"} or not _ID.fullmatch(given.get("id", "")):
        raise ValueError("a condition has id, message, effect and target; id consists of letters, digits and ._/-")
    if given.get("effect") not in (NOTE, QUARANTINE) or not given.get("message"):
        raise ValueError(f"condition {given['id']}: expected a message, and the effect note or quarantine")
    return condition(f"{name}/{given['id']}", given["message"], given["effect"], given.get("target", ""))
