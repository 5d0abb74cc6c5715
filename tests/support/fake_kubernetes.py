"""A fake of the Kubernetes API server: the nodes of a cluster, with the rules that a client may meet.

Each rule names its source in kubernetes/kubernetes (2556d2c3).
"""

from __future__ import annotations

import re
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "kube"
# staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, PatchResource: the types that a built-in kind accepts.
# This fake knows only the one that its clients send.
_MERGE = "application/merge-patch+json"
# staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go, IsQualifiedName: a DNS subdomain, a slash, a name.
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class FakeKubernetes:
    """One API server. The next `busy` changes fail, as if another client had changed the node meanwhile."""

    def __init__(self, *names: str) -> None:
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"metadata": {"name": name, "resourceVersion": "1"}, "spec": {}} for name in names
        }
        self.patches = 0
        self.busy = 0
        self.is_down = False
        paths = Route("/api/v1/nodes/{name}", self._node, methods=["GET", "PATCH"])
        self.app = Starlette(routes=[paths])

    def merge(self, name: str, patch: dict[str, Any]) -> None:
        """Apply a patch, as any client may."""
        node = self.nodes[name]
        _merge(node, patch)
        # staging/src/k8s.io/api/core/v1/types.go, NodeSpec: `unschedulable,omitempty`.
        if node["spec"].get("unschedulable") is False:
            del node["spec"]["unschedulable"]
        node["metadata"]["resourceVersion"] = str(int(node["metadata"]["resourceVersion"]) + 1)

    async def _node(self, request: Request) -> Response:
        if self.is_down:
            return _status(503, "ServiceUnavailable")
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        name = request.path_params["name"]
        if name not in self.nodes:
            return _status(404, "NotFound")
        return JSONResponse(self.nodes[name]) if request.method == "GET" else await self._patch(request, name)

    async def _patch(self, request: Request, name: str) -> Response:
        if request.headers["content-type"] != _MERGE:
            return _status(415, "UnsupportedMediaType")
        patch = await request.json()
        if self.busy:
            self.busy -= 1
            self.merge(name, {"metadata": {"labels": {"touched": str(self.busy)}}})
        # staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go, Update: a stale version is a conflict.
        given = patch.get("metadata", {}).pop("resourceVersion", None)
        if given not in (None, self.nodes[name]["metadata"]["resourceVersion"]):
            return _status(409, "Conflict")
        # staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go, ValidateAnnotations.
        annotations = patch.get("metadata", {}).get("annotations", {})
        if not all(_QUALIFIED.fullmatch(key.lower()) for key in annotations):
            return _status(422, "Invalid")
        if not all(value is None or isinstance(value, str) for value in annotations.values()):
            return _status(400, "BadRequest")
        self.patches += 1
        self.merge(name, patch)
        return JSONResponse(self.nodes[name])


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7386, which github.com/evanphx/json-patch implements for the API server: null removes a field."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _status(code: int, reason: str) -> Response:
    """staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go, Status."""
    content = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return JSONResponse(content, code)
