"""The agent of farrier on a machine: reports health, and performs the tasks of the machine's own node."""

from __future__ import annotations

VERSION = "0.1.0"
