"""Cordons the Kubernetes node of each farrier node that is not in service, and uncordons it when the node returns.

Run: FARRIER_TOKEN=… KUBE_TOKEN=… python -m examples.hooks.kubernetes FARRIER_URL KUBERNETES_URL CURSOR_FILE

An annotation marks the nodes that this hook cordoned; it uncordons no others. The token needs the verbs get and patch
of nodes. A node of farrier without a Kubernetes node of the same name is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx

from examples.hooks import feed

MARK = "farrier/cordoned"
"""The annotation of a node that this hook cordoned: the status of the node in farrier."""

# Attempts, because another client may change the node between the hook's read and its change.
_TRIES = 5
_MERGE = {"content-type": "application/merge-patch+json"}


class Kubernetes:
    """The API server of one cluster."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self._api = api

    async def reconcile(self, statuses: Mapping[str, str]) -> None:
        """Cordon or uncordon these nodes."""
        for name, status in statuses.items():
            for _ in range(_TRIES):
                if await self._agrees(name, status):
                    break
            else:
                raise RuntimeError(f"Kubernetes node {name} changed between each of {_TRIES} reads and changes")

    async def _agrees(self, name: str, status: str) -> bool:
        """Make the node agree with the status. False: another client changed the node meanwhile."""
        response = await self._api.get(f"/api/v1/nodes/{name}")
        if response.status_code == httpx.codes.NOT_FOUND:
            return True
        node = response.raise_for_status().json()
        change = _change(node, status)
        if change is None:
            return True
        change["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
        changed = await self._api.patch(f"/api/v1/nodes/{name}", json=change, headers=_MERGE)
        if changed.status_code == httpx.codes.CONFLICT:
            return False
        changed.raise_for_status()
        return True


def _change(node: Mapping[str, Any], status: str) -> dict[str, Any] | None:
    """The patch that makes the node agree with the status; None: it agrees, or another client cordoned it."""
    mark = node["metadata"].get("annotations", {}).get(MARK)
    cordoned = node["spec"].get("unschedulable", False)
    if status == feed.IN_SERVICE:
        if mark is None:
            return None
        return {"metadata": {"annotations": {MARK: None}}, "spec": {"unschedulable": None}}
    if cordoned and mark in (None, status):
        return None
    return {"metadata": {"annotations": {MARK: status}}, "spec": {"unschedulable": True}}


if __name__ == "__main__":
    feed.run(__doc__, {"authorization": f"Bearer {os.environ.get('KUBE_TOKEN')}"}, Kubernetes)
