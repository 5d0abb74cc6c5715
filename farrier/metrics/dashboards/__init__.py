"""Grafana dashboards: takes the name of a dashboard, and returns its JSON, which `tools.dashboards` generated.

`tools.dashboards` generates the files with Grafana's builders; the package contains the files, so it does not need the
builders. A test checks that the builders would generate the same files. The command `farrier dashboard` prints them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from farrier.metrics.runbooks import Runbooks

NAMES = ("fleet", "stuck", "workflows", "controller", "upstream")
"""Every dashboard, in the order in which operators use them."""

PAGES = "pages"
RUNBOOKS = "runbooks"
"""The names of two variables of the dashboards. The URL of each link begins with one of the variables."""

_CHECKOUT = Runbooks()
DEFAULTS: Mapping[str, str] = {PAGES: "http://127.0.0.1:9465", RUNBOOKS: _CHECKOUT.before.rstrip("/")}
"""The values of both variables in the generated files. With these values, links lead to a replica on this machine, and
to the runbooks of a checkout."""

HERE = Path(__file__).parent

_RUNBOOK = re.compile(rf"(\$\{{{RUNBOOKS}:raw\}}/[\w/]+)\.md")


def path(name: str) -> Path:
    """Return the path of a dashboard's file."""
    return HERE / f"{name}.json"


def load(name: str, *, pages: str = DEFAULTS[PAGES], runbooks: Runbooks = _CHECKOUT) -> dict[str, Any]:
    """Return a dashboard in Grafana's format, with these addresses in its variables."""
    text = _RUNBOOK.sub(lambda link: link[1] + runbooks.after, path(name).read_text(encoding="utf-8"))
    board: dict[str, Any] = msgspec.json.decode(text)
    addresses = {PAGES: pages, RUNBOOKS: runbooks.before}
    for variable in board["templating"]["list"]:
        if address := addresses.get(variable["name"]):
            variable["query"] = address.rstrip("/")
            variable["current"] = {"text": variable["query"], "value": variable["query"]}
    return board
