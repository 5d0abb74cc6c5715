"""A valid value of each detail of a node, and values that the database refuses."""

from __future__ import annotations

from typing import Any

VALUES: dict[str, Any] = {
    "site": "dc-2",
    "model": "h200",
    "rack": "r7",
    "labels": {"row": "7", "slot": "3"},
    "macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"],
    "maas_id": "abc123",
    "agentless": True,
    "auto_manage": False,
}

REFUSED: list[tuple[str, Any, str]] = [
    ("site", "", "site '' is not usable: expected the name of the site's file"),
    ("site", "../../etc", "site '../../etc' is not usable: expected the name of the site's file"),
    ("site", "a\n", "1 to 63 letters"),
    ("site", "a" * 64, "site is longer than 63 characters"),
    ("model", "", "model '' is not usable: expected 1 to 100 characters"),
    ("model", "m" * 101, "model is longer than 100 characters"),
    ("model", "H100\n", "control character"),
    ("rack", "r7\n", "rack 'r7\n' is not usable: expected 1 to 100 characters"),
    ("labels", {"x": "y" * 20000}, "16384 are allowed"),
    ("labels", "row=7", "labels must be a JSON object"),
    ("macs", ["zz"], 'macs: invalid input syntax for type macaddr: "zz"'),
    ("macs", ["02:00:00:00:00:01", None], "macs has an element that must be a string"),
    ("maas_id", "gpu-1.example", "maas_id 'gpu-1.example' is not usable: expected the MAAS system ID"),
    ("agentless", "yes", "agentless must be true or false"),
    ("name", "gpu-2", "name is unknown"),
]
