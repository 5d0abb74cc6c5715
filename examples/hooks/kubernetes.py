"""Cordons the Kubernetes node of each farrier node that is not in service, and uncordons it when the node returns.

Run: FARRIER_TOKEN=… KUBE_TOKEN=… python -m examples.hooks.kubernetes FARRIER_URL KUBERNETES_URL

The API server records which client sets a field (server-side apply). So when the hook removes its cordon, a node that
another client has cordoned stays cordoned. The token needs the verbs list and patch of nodes. A node of farrier without
a Kubernetes node of the same name is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx

from examples.hooks import feed

MARK = "farrier/cordoned"
"""The annotation of a node that this hook cordoned: the status of the node in farrier."""

_APPLY = {"content-type": "application/apply-patch+yaml"}


class Kubernetes:
    """The API server of one cluster."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self._api = api

    async def reconcile(self, statuses: Mapping[str, str]) -> None:
        """Cordon or uncordon these nodes."""
        selector = "".join(f"metadata.name={name}" for name in statuses if len(statuses) == 1)
        response = await self._api.get("/api/v1/nodes", params={"fieldSelector": selector})
        for node in response.raise_for_status().json()["items"]:
            status = statuses.get(node["metadata"]["name"])
            if status is not None and not _agrees(node, status):
                await self._apply(node, status)

    async def _apply(self, node: Mapping[str, Any], status: str) -> None:
        """Declare the fields that this hook sets on the node: a cordon, or nothing. Because of the UID, the request
        creates no node."""
        about = {key: node["metadata"][key] for key in ("name", "uid")}
        wanted = {} if status == feed.IN_SERVICE else {"spec": {"unschedulable": True}}
        if wanted:
            about["annotations"] = {MARK: status}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": about, **wanted}
        path, how = f"/api/v1/nodes/{about['name']}", {"fieldManager": "farrier", "force": "true"}
        (await self._api.patch(path, params=how, json=body, headers=_APPLY)).raise_for_status()


def _agrees(node: Mapping[str, Any], status: str) -> bool:
    mark = node["metadata"].get("annotations", {}).get(MARK)
    if status == feed.IN_SERVICE:
        return mark is None
    return mark == status and node["spec"].get("unschedulable", False) is True


if __name__ == "__main__":
    feed.run(__doc__, {"authorization": f"Bearer {os.environ.get('KUBE_TOKEN')}"}, Kubernetes)
