"""Defines the content of the Grafana dashboards as code, and writes them into the package.

`python -m tools.dashboards`, which `make docs` calls, makes the JSON files of `farrier.metrics.dashboards`. Every query
is built from the definitions of metrics, so a dashboard cannot query a metric that does not exist.
"""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from tools.dashboards import controller, fleet, stuck, upstream, workflows
from tools.dashboards.frame import Board

BOARDS: tuple[Board, ...] = (fleet.board(), stuck.board(), workflows.board(), controller.board(), upstream.board())
"""Every dashboard, in the order of `farrier.metrics.dashboards.NAMES`."""


def text(board: Board) -> str:
    """Return the file of a dashboard. The same code always results in the same bytes."""
    return json.dumps(board.build(), cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def plain(board: Board) -> dict[str, Any]:
    """Return the dashboard as plain data."""
    found: dict[str, Any] = json.loads(text(board))
    return found
