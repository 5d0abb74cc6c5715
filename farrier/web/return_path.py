"""The path to which a browser returns after the log-in: that of the page that required the log-in.

The path is in the URL of the log-in page, and an attacker can put any text into a link. So only a path of this server
is accepted: with `//host`, `/\\host` and `https://host`, a browser would go to another server.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from starlette.requests import Request

LOG_IN = "/login"
_FIELD = "next"
_HOME = "/"
# ASCII without spaces, control characters and backslashes, as a browser sends it.
_OWN = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")


def log_in(request: Request) -> str:
    """The path of the log-in that returns to this page."""
    query = request.scope["query_string"].decode("latin-1")
    path = quote(request.scope["path"]) + (f"?{query}" if query else "")
    return f"{LOG_IN}?{urlencode({_FIELD: path})}" if _is_own(path) and path != _HOME else LOG_IN


def wanted(request: Request) -> str:
    """The path to which this log-in returns."""
    path = request.query_params.get(_FIELD, "")
    return path if _is_own(path) else _HOME


def _is_own(path: str) -> bool:
    return _OWN.fullmatch(path) is not None and not path.startswith(LOG_IN)
