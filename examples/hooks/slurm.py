"""Drains the Slurm node of each farrier node that is not in service, and resumes it when the node returns.

Run: FARRIER_TOKEN=… SLURM_JWT=… python -m examples.hooks.slurm FARRIER_URL SLURM_URL

SLURM_URL is slurmrestd with the version of its API, such as http://head:6820/slurm/v0.0.43. The reason of a drain marks
the nodes that this hook drained. The hook resumes only these nodes. A node of farrier without a Slurm node of the same
name is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx

from examples.hooks import feed

MARK = "farrier: "
"""The beginning of the reason if this hook drained the node."""

# While the node still runs jobs, Slurm keeps its reason, and ignores an empty one. A later drain without a reason would
# then have the reason of this hook.
_RETURNED = "returned to service by farrier"


class Slurm:
    """The REST server of one cluster."""

    def __init__(self, api: httpx.AsyncClient) -> None:
        self._api = api

    async def reconcile(self, statuses: Mapping[str, str]) -> None:
        """Drain or resume these nodes. Reads all nodes, because a request for an unknown node fails like an outage."""
        response = await self._api.get("nodes/")
        for node in response.raise_for_status().json()["nodes"]:
            status = statuses.get(node["name"])
            change = None if status is None else _change(node, status)
            if change is not None:
                (await self._api.post(f"node/{node['name']}", json=change)).raise_for_status()


def _change(node: Mapping[str, Any], status: str) -> dict[str, Any] | None:
    """The update that makes the node match the status. None: the node matches, or another client drained it."""
    drained = "DRAIN" in node["state"]
    ours = drained and node["reason"].startswith(MARK)
    if status == feed.IN_SERVICE:
        return {"state": ["UNDRAIN"], "reason": _RETURNED} if ours else None
    reason = f"{MARK}{status}"
    if drained and (not ours or node["reason"] == reason):
        return None
    return {"state": ["DRAIN"], "reason": reason}


if __name__ == "__main__":
    feed.run(__doc__, {"x-slurm-user-token": os.environ.get("SLURM_JWT", "")}, Slurm)
