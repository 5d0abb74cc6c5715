"""A fake of slurmrestd: the nodes of a cluster, with the rules that a client may meet.

Each rule names its source in SchedMD/slurm (284c3b95).
"""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "jwt"
# src/plugins/data_parser/v0.0.44/parsers.c, UPDATE_NODE_MSG and NODE_STATES; only what an administrator sets here.
_FIELDS = frozenset({"state", "reason", "comment", "resume_after", "weight"})
_STATES = frozenset({"DRAIN", "UNDRAIN", "RESUME", "DOWN", "IDLE"})
_INVALID_NODE_NAME = 2018


class FakeSlurm:
    """One cluster. A node has its base state, `IDLE` or `ALLOCATED`, and perhaps the flag `DRAIN`."""

    def __init__(self, *names: str) -> None:
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"name": name, "state": ["IDLE"], "reason": ""} for name in names
        }
        self.updates = 0
        self.is_down = False
        self.app = Starlette(
            routes=[
                Route("/slurm/v0.0.43/nodes/", self._list),
                Route("/slurm/v0.0.43/node/{name}", self._update, methods=["POST"]),
            ]
        )

    def update(self, name: str, state: str, reason: str = "") -> None:
        """Update a node, as any administrator may: src/slurmctld/node_mgr.c, update_node."""
        node = self.nodes[name]
        if reason:  # an empty reason changes nothing
            node["reason"] = reason
        base = node["state"][0]
        if state == "DRAIN":
            node["state"] = [base, "DRAIN"]
        elif state == "UNDRAIN":
            # src/interfaces/accounting_storage.c, clusteracct_storage_g_node_up: called for idle nodes only.
            if node["state"] == ["IDLE", "DRAIN"]:
                node["reason"] = ""
            node["state"] = [base]

    def drain_by_itself(self, name: str, reason: str) -> None:
        """Drain a node as slurmctld does: src/slurmctld/node_mgr.c, _drain_node, keeps an existing reason."""
        node = self.nodes[name]
        node["state"] = [node["state"][0], "DRAIN"]
        node["reason"] = node["reason"] or reason

    async def _list(self, request: Request) -> Response:
        return self._refusal(request) or JSONResponse({"nodes": list(self.nodes.values()), "errors": []})

    async def _update(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        name, given = request.path_params["name"], await request.json()
        # src/common/http.c, http_status_from_error: an error of slurmctld about the content of a request.
        if name not in self.nodes:
            return _errors(422, _INVALID_NODE_NAME)
        # NODE_STATES is a list of flags.
        if not (given.keys() <= _FIELDS and isinstance(given["state"], list) and set(given["state"]) <= _STATES):
            return _errors(422, 0)
        self.updates += 1
        self.update(name, given["state"][0], given.get("reason", ""))
        return JSONResponse({"errors": []})

    def _refusal(self, request: Request) -> Response | None:
        if self.is_down:  # slurmrestd runs, and cannot reach slurmctld
            return _errors(500, 1)
        # doc/html/rest.shtml, "JSON Web Token Authentication".
        return None if request.headers.get("x-slurm-user-token") == TOKEN else _errors(401, 1)


def _errors(status: int, number: int) -> Response:
    return JSONResponse({"errors": [{"error_number": number, "error": "refused"}]}, status)
