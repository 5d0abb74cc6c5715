"""A fake of the Kubernetes API server: the nodes of a cluster, with the rules that a client may meet.

Each rule names its source in kubernetes/kubernetes (2556d2c3). The managers of fields follow merge/update.go of
kubernetes-sigs/structured-merge-diff v6.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "kube"
# staging/src/k8s.io/apiserver/pkg/endpoints/handlers/patch.go, PatchResource: the types that a built-in kind accepts.
# This fake knows only the one that its clients send.
_APPLY = "application/apply-patch+yaml"
# staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go, IsQualifiedName: a DNS subdomain, a slash, a name.
_QUALIFIED = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
KUBECTL = "kubectl"
"""The manager of the fields that an operator changes."""

Field = tuple[str, ...]
_CORDON = ("spec", "unschedulable")


class FakeKubernetes:
    """One API server. A node in `vanishing` is deleted between a client's read and its change."""

    def __init__(self, *names: str) -> None:
        self.nodes: dict[str, dict[str, Any]] = {
            name: {"metadata": {"name": name, "uid": f"uid of {name}"}, "spec": {}} for name in names
        }
        self.patches = 0
        self.read: set[str] = set()
        self.vanishing: set[str] = set()
        self.is_down = False
        self._managers: dict[str, dict[Field, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.app = Starlette(
            routes=[
                Route("/api/v1/nodes", self._list),
                Route("/api/v1/nodes/{name}", self._patch, methods=["PATCH"]),
            ]
        )

    def cordon(self, name: str) -> None:
        """`kubectl cordon`, which sends nothing for a node that is cordoned already."""
        self._update(name, _CORDON, True)

    def uncordon(self, name: str) -> None:
        """`kubectl uncordon`."""
        self._update(name, _CORDON, None)

    def annotate(self, name: str, key: str, value: str) -> None:
        """`kubectl annotate --overwrite`."""
        self._update(name, ("metadata", "annotations", key), value)

    def _update(self, name: str, field: Field, value: object) -> None:
        """A change of a field makes its client the field's only manager; a removed field has none."""
        if _get(self.nodes[name], field) != value:
            _set(self.nodes[name], field, value)
            self._managers[name][field] = set() if value is None else {KUBECTL}

    async def _list(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        # staging/src/k8s.io/apimachinery/pkg/fields/selector.go: an empty selector selects everything.
        _, _, only = request.query_params.get("fieldSelector", "").partition("metadata.name=")
        found = [node for name, node in self.nodes.items() if only in ("", name)]
        self.read |= {node["metadata"]["name"] for node in found}
        body = JSONResponse({"kind": "NodeList", "items": found})
        for name in self.vanishing:
            self.nodes.pop(name, None)
        return body

    async def _patch(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        if request.headers["content-type"] != _APPLY:
            return _status(415, "UnsupportedMediaType")
        name, given, how = request.path_params["name"], json.loads(await request.body()), request.query_params
        # staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go, ValidatePatchOptions.
        if not how.get("fieldManager"):
            return _status(422, "Invalid")
        if (given.get("apiVersion"), given.get("kind"), given["metadata"].get("name")) != ("v1", "Node", name):
            return _status(400, "BadRequest")
        uid = given["metadata"].get("uid")
        if name not in self.nodes:
            # patch.go, applyPatch: an apply creates what does not exist, but not with a UID.
            if uid is not None:
                return _status(409, "Conflict")
            self.nodes[name] = {"metadata": {"name": name, "uid": f"new uid of {name}"}, "spec": {}}
        # staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go: a UID is immutable; ValidateAnnotations.
        annotations = given["metadata"].get("annotations", {})
        if uid not in (None, self.nodes[name]["metadata"]["uid"]) or not all(map(_is_annotation, annotations.items())):
            return _status(422, "Invalid")
        if not self._apply(name, how["fieldManager"], _fields(given), is_forced=how.get("force") == "true"):
            return _status(409, "Conflict")
        self.patches += 1
        return JSONResponse(self.nodes[name])

    def _apply(self, name: str, manager: str, wanted: dict[Field, object], *, is_forced: bool) -> bool:
        """Server-side apply. False: a field that it would change has another manager."""
        node, managers = self.nodes[name], self._managers[name]
        changed = [field for field, value in wanted.items() if _get(node, field) != value]
        if not is_forced and any(managers[field] - {manager} for field in changed):
            return False
        for field in changed:
            _set(node, field, wanted[field])
            managers[field] = set()
        for field, of_field in list(managers.items()):
            if field in wanted:
                of_field.add(manager)
            elif manager in of_field:
                of_field.remove(manager)
                if not of_field:  # only a field without any manager is removed
                    _set(node, field, None)
        for field in wanted:
            managers[field].add(manager)
        return True

    def _refusal(self, request: Request) -> Response | None:
        if self.is_down:
            return _status(503, "ServiceUnavailable")
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        return None


def _fields(given: dict[str, Any]) -> dict[Field, object]:
    """The fields that an apply manages: not the name and the UID of its object."""
    annotations = given["metadata"].get("annotations", {})
    found: dict[Field, object] = {("metadata", "annotations", key): value for key, value in annotations.items()}
    return found | {("spec", key): value for key, value in given.get("spec", {}).items()}


def _is_annotation(item: tuple[str, object]) -> bool:
    return _QUALIFIED.fullmatch(item[0].lower()) is not None and isinstance(item[1], str)


def _get(node: dict[str, Any], field: Field) -> object:
    for key in field:
        node = node.get(key, {})
    return node or None


def _set(node: dict[str, Any], field: Field, value: object) -> None:
    """Set a field; None removes it. staging/src/k8s.io/api/core/v1/types.go: both fields are `omitempty`."""
    for key in field[:-1]:
        node = node.setdefault(key, {})
    if value is None:
        node.pop(field[-1], None)
    else:
        node[field[-1]] = value


def _status(code: int, reason: str) -> Response:
    """staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go, Status."""
    content = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return JSONResponse(content, code)
