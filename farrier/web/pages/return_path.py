"""Determines the path to which a browser returns after a login: the path of the page that required the login.

The path is in the URL of the login page, and an attacker can put any text into a link. So only a path of this server is
accepted; with `//host`, `/\\host` or `https://host`, a browser would go to another server.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from starlette.requests import Request

LOG_IN = "/login"
_FIELD = "next"
_HOME = "/"
# The characters that a browser sends: ASCII without spaces, control characters and backslashes.
_OWN = re.compile(r"/(?:[!-.0-\[\]-~][!-\[\]-~]*)?")


def log_in(request: Request) -> str:
    """Return the path of the login page from which the browser returns to the present page."""
    query = request.scope["query_string"].decode("latin-1")
    path = quote(request.scope["path"]) + (f"?{query}" if query else "")
    return f"{LOG_IN}?{urlencode({_FIELD: path})}" if _is_own(path) and path != _HOME else LOG_IN


def wanted(request: Request) -> str:
    """Return the path to which the browser returns after this login."""
    path = request.query_params.get(_FIELD, "")
    return path if _is_own(path) else _HOME


def _is_own(path: str) -> bool:
    return _OWN.fullmatch(path) is not None and not path.startswith(LOG_IN)
