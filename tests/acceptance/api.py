"""A client of farrier's HTTP API, with the standard library only: the programs of a site run it as they are."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

Object: TypeAlias = dict[str, Any]

_VERSION = "2"  # of the intent API
_LONGEST_WAIT = 30  # seconds; the server waits no longer for an answer
_PATIENCE = 60.0  # seconds for one response
_PAGE = 200  # rows


class Refused(Exception):
    """farrier refused a request, or an intent. The text is farrier's own."""


class Api:
    """The calls of one client."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/") + "/api/v1"
        self._headers = {"Farrier-Api-Version": _VERSION, "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    @classmethod
    def of_environment(cls) -> Api:
        """Return a client for the server that FARRIER_API names, with the token of FARRIER_API_TOKEN."""
        return cls(os.environ["FARRIER_API"], os.environ.get("FARRIER_API_TOKEN", ""))

    def get(self, path: str, **query: object) -> Object:
        return self._call("GET", path, query)

    def post(self, path: str, body: Object, **query: object) -> Object:
        return self._call("POST", path, query, body)

    def patch(self, path: str, body: Object) -> Object:
        return self._call("PATCH", path, {}, body)

    def rows(self, path: str, name: str, **query: object) -> Iterator[Object]:
        """Yield the rows of a list, page by page."""
        after: Object = {}
        while True:
            page = self.get(path, limit=_PAGE, **query, **after)
            yield from page[name]
            if not page.get("next"):
                return
            after = {"before" if "history" in path else "after": page["next"]}

    def nodes(self, **query: object) -> list[Object]:
        """Return the nodes of a list."""
        return list(self.rows("/nodes", "nodes", **query))

    def node(self, name: str) -> Object:
        """Return all data of a node, and the database's time as `now`."""
        shown = self.get(f"/nodes/{name}")
        return {**shown["node"], "now": shown["now"]}

    def details(self, **query: object) -> list[Object]:
        """Return all data of each node of a list."""
        return [self.node(each["name"]) for each in self.nodes(**query)]

    def history(self, name: str, **query: object) -> list[Object]:
        """Return the changes of a node, the oldest first."""
        return list(self.rows(f"/nodes/{name}/history", "changes", **query))[::-1]

    def ask(self, node: str, action: str, **params: object) -> Object:
        """Submit an intent and wait for its answer. Raises `Refused` unless it is accepted."""
        given = self.post("/intents", {"node": node, "action": action, "params": params}, wait=_LONGEST_WAIT)
        while given["status"] == "pending":
            given = self.get(f"/intents/{given['id']}", wait=_LONGEST_WAIT)
        if given["status"] != "accepted":
            raise Refused(f"{action} of {node} was {given['status']}: {given['reason']}")
        return given

    def until(self, name: str, is_done: Callable[[Object], bool], *, within: float) -> Object:
        """Read a node now and after each of its changes until `is_done`, and return it. Raises `Refused` after `within`
        seconds."""
        for _ in self._lines("id:", within, resource=f"node/{name}"):
            node = self.node(name)
            if is_done(node):
                return node
        raise Refused(f"{name} is {node['status']} after {within:g} s")

    def changes(self, within: float, **query: object) -> Iterator[Object]:
        """Yield the changes that the stream sends within some seconds."""
        for line in self._lines("data:", within, **query):
            yield json.loads(line.removeprefix("data:"))

    def _lines(self, start: str, within: float, **query: object) -> Iterator[str]:
        """Yield the lines of the stream of changes that begin so. The first `id:` comes at once, and further ones with
        each change and as signs of life."""
        ends_at = time.monotonic() + within
        with urlopen(self._request("GET", "/history/stream", query), timeout=_PATIENCE) as response:
            for line in response:
                if line.decode().startswith(start):
                    yield line.decode()
                if time.monotonic() > ends_at:
                    return

    def _call(self, method: str, path: str, query: Mapping[str, object], body: Object | None = None) -> Object:
        try:
            with urlopen(self._request(method, path, query, body), timeout=_PATIENCE) as response:
                found: Object = json.load(response)
                return found
        except HTTPError as refused:
            problem = json.load(refused)
            raise Refused(f"{method} {path}: {problem['detail']}") from None

    def _request(self, method: str, path: str, query: Mapping[str, object], body: Object | None = None) -> Request:
        asked = f"?{urlencode(query, doseq=True)}" if query else ""
        data = None if body is None else json.dumps(body).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        return Request(f"{self._url}{path}{asked}", data, {**self._headers, **kind}, method=method)
