"""`python -m tools.dashboards`: updates the JSON files of the dashboards."""

from __future__ import annotations

import sys

from farrier.metrics import dashboards
from tools.dashboards import BOARDS, text

for _board in BOARDS:
    _path, _text = dashboards.path(_board.name), text(_board)
    if not _path.exists() or _path.read_text(encoding="utf-8") != _text:
        _path.write_text(_text, encoding="utf-8")
        sys.stdout.write(f"rewrote {_path.name}\n")
