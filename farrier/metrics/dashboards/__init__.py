"""Grafana dashboards over the metrics of this package: JSON files beside this one.

They are made by `tools.dashboards`, with Grafana's own builders, and shipped as they are: nothing has to be installed
to have them, and a test proves that the files are what the builders make. `farrier dashboard` prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

NAMES = ("fleet", "stuck", "workflows", "controller", "upstream")
"""Every dashboard, in the order in which operators use them."""

PAGES = "pages"
RUNBOOKS = "runbooks"
"""The variables with which links begin."""

DEFAULTS: Mapping[str, str] = {PAGES: "http://127.0.0.1:9464", RUNBOOKS: "docs/operating"}
"""Their values in the files: a replica on this machine with the default port, and the pages of a checkout."""

HERE = Path(__file__).parent


def path(name: str) -> Path:
    """The file of a dashboard."""
    return HERE / f"{name}.json"


def load(name: str, addresses: Mapping[str, str]) -> dict[str, Any]:
    """A dashboard as Grafana takes it, with these addresses in its variables."""
    board: dict[str, Any] = msgspec.json.decode(path(name).read_bytes())
    for variable in board["templating"]["list"]:
        if address := addresses.get(variable["name"]):
            variable["query"] = address.rstrip("/")
            variable["current"] = {"text": variable["query"], "value": variable["query"]}
    return board
