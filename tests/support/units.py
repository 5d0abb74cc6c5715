"""The settings in the project's systemd unit files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from farrier.cli.service.systemd import SERVICES
from farrier.systemd import UNITS

SERVICE, TEMPLATE, SERVE, AGENTS = EVERY = tuple(UNITS / name for name in SERVICES)


def settings(unit: Path) -> dict[str, list[str]]:
    """Every setting with its values, in their order. No unit of farrier has a setting's name in two sections."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text(encoding="utf-8").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def seconds(found: Mapping[str, list[str]], name: str) -> timedelta:
    """The duration of a setting that occurs once, in seconds."""
    (value,) = found[name]
    return timedelta(seconds=int(value))
