"""The example hooks take a node out of its scheduler, and return only nodes that they took out themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from examples.hooks.kubernetes import MARK, Kubernetes
from examples.hooks.slurm import Slurm
from tests.support import fake_kubernetes, fake_slurm
from tests.support.fake_kubernetes import FakeKubernetes
from tests.support.fake_slurm import FakeSlurm

OUT, IN = {"gpu-1": "quarantined"}, {"gpu-1": "active"}


@pytest.fixture
def cluster() -> FakeKubernetes:
    return FakeKubernetes("gpu-1", "gpu-2")


@pytest.fixture
async def kubernetes(cluster: FakeKubernetes) -> AsyncIterator[Kubernetes]:
    transport, headers = httpx.ASGITransport(app=cluster.app), {"authorization": f"Bearer {fake_kubernetes.TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://kube", headers=headers) as api:
        yield Kubernetes(api)


def is_cordoned(cluster: FakeKubernetes, name: str = "gpu-1") -> bool:
    return cluster.nodes[name]["spec"].get("unschedulable") is True


async def test_a_node_that_leaves_service_is_cordoned_once_and_uncordoned_when_it_returns(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    cluster.annotate("gpu-1", "rack", "r7")
    for _ in range(3):
        await kubernetes.reconcile(OUT)
    assert is_cordoned(cluster)
    assert not is_cordoned(cluster, "gpu-2")
    assert cluster.nodes["gpu-1"]["metadata"]["annotations"] == {MARK: "quarantined", "rack": "r7"}
    assert (cluster.patches, cluster.read) == (1, {"gpu-1"})
    for _ in range(3):
        await kubernetes.reconcile(IN)
    assert not is_cordoned(cluster)
    assert cluster.nodes["gpu-1"]["metadata"]["annotations"] == {"rack": "r7"}
    assert cluster.patches == 2


async def test_a_hook_that_starts_compares_all_nodes_at_once(cluster: FakeKubernetes, kubernetes: Kubernetes) -> None:
    await kubernetes.reconcile({"gpu-1": "offline", "gpu-2": "active", "gpu-9": "offline"})
    assert (is_cordoned(cluster, "gpu-1"), is_cordoned(cluster, "gpu-2")) == (True, False)
    await kubernetes.reconcile({"gpu-1": "active", "gpu-2": "retired"})
    assert (is_cordoned(cluster, "gpu-1"), is_cordoned(cluster, "gpu-2")) == (False, True)


async def test_a_node_that_an_operator_cordoned_first_stays_cordoned(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    cluster.cordon("gpu-1")
    for _ in range(2):
        await kubernetes.reconcile(OUT)
        await kubernetes.reconcile({"gpu-1": "offline"})
        await kubernetes.reconcile(IN)
        assert is_cordoned(cluster)
    cluster.uncordon("gpu-1")
    await kubernetes.reconcile(IN)
    assert not is_cordoned(cluster)


async def test_a_node_that_an_operator_took_over_from_the_hook_stays_cordoned(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    await kubernetes.reconcile(OUT)
    cluster.uncordon("gpu-1")
    cluster.cordon("gpu-1")
    await kubernetes.reconcile(IN)
    assert is_cordoned(cluster)


async def test_a_node_that_an_operator_uncordoned_too_early_is_cordoned_again(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    await kubernetes.reconcile(OUT)
    cluster.uncordon("gpu-1")
    await kubernetes.reconcile(OUT)
    assert is_cordoned(cluster)
    await kubernetes.reconcile(IN)
    assert not is_cordoned(cluster)


async def test_an_annotation_that_an_operator_edited_does_not_stop_the_hook(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    await kubernetes.reconcile(OUT)
    cluster.annotate("gpu-1", MARK, "because")
    await kubernetes.reconcile({"gpu-1": "retired"})
    assert cluster.nodes["gpu-1"]["metadata"]["annotations"] == {MARK: "retired"}
    await kubernetes.reconcile(IN)
    assert not is_cordoned(cluster)


async def test_a_node_that_is_deleted_meanwhile_is_not_created(cluster: FakeKubernetes, kubernetes: Kubernetes) -> None:
    cluster.vanishing.add("gpu-1")
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        await kubernetes.reconcile(OUT)
    assert set(cluster.nodes) == {"gpu-2"}
    await kubernetes.reconcile(OUT)


async def test_a_node_without_a_kubernetes_node_is_ignored_and_an_outage_is_not(
    cluster: FakeKubernetes, kubernetes: Kubernetes
) -> None:
    await kubernetes.reconcile({"gpu-9": "offline"})
    assert cluster.patches == 0
    cluster.is_down = True
    with pytest.raises(httpx.HTTPStatusError, match="503"):
        await kubernetes.reconcile(OUT)


@pytest.fixture
def queue() -> FakeSlurm:
    return FakeSlurm("gpu-1", "gpu-2")


@pytest.fixture
async def slurm(queue: FakeSlurm) -> AsyncIterator[Slurm]:
    transport, headers = httpx.ASGITransport(app=queue.app), {"x-slurm-user-token": fake_slurm.TOKEN}
    async with httpx.AsyncClient(transport=transport, base_url="http://head/slurm/v0.0.43", headers=headers) as api:
        yield Slurm(api)


def is_drained(queue: FakeSlurm, name: str = "gpu-1") -> bool:
    return "DRAIN" in queue.nodes[name]["state"]


@pytest.mark.parametrize("base", ["IDLE", "ALLOCATED"])
async def test_a_node_that_leaves_service_is_drained_once_and_resumed_when_it_returns(
    queue: FakeSlurm, slurm: Slurm, base: str
) -> None:
    queue.nodes["gpu-1"]["state"] = [base]
    for _ in range(3):
        await slurm.reconcile(OUT)
    assert (queue.nodes["gpu-1"]["state"], queue.nodes["gpu-1"]["reason"]) == ([base, "DRAIN"], "farrier: quarantined")
    assert not is_drained(queue, "gpu-2")
    assert queue.updates == 1
    for _ in range(3):
        await slurm.reconcile(IN)
    assert queue.nodes["gpu-1"]["state"] == [base], "and its jobs go on"
    assert queue.updates == 2


async def test_the_reason_follows_the_status(queue: FakeSlurm, slurm: Slurm) -> None:
    await slurm.reconcile(OUT)
    await slurm.reconcile({"gpu-1": "retired"})
    assert queue.nodes["gpu-1"]["reason"] == "farrier: retired"


async def test_a_node_that_an_administrator_drained_stays_drained(queue: FakeSlurm, slurm: Slurm) -> None:
    queue.update("gpu-1", "DRAIN", "a fan is loud")
    await slurm.reconcile(OUT)
    await slurm.reconcile(IN)
    assert (is_drained(queue), queue.nodes["gpu-1"]["reason"]) == (True, "a fan is loud")
    assert queue.updates == 0


async def test_a_node_that_an_administrator_took_over_from_the_hook_stays_drained(
    queue: FakeSlurm, slurm: Slurm
) -> None:
    await slurm.reconcile(OUT)
    queue.update("gpu-1", "DRAIN", "mine now")
    await slurm.reconcile(IN)
    assert is_drained(queue)


async def test_a_later_drain_by_slurm_itself_is_not_taken_for_the_hooks_own(queue: FakeSlurm, slurm: Slurm) -> None:
    """slurmctld keeps the reason of a node with jobs when it resumes, and adds no reason of its own."""
    queue.nodes["gpu-1"]["state"] = ["ALLOCATED"]
    await slurm.reconcile(OUT)
    await slurm.reconcile(IN)
    queue.drain_by_itself("gpu-1", "Prolog error")
    await slurm.reconcile(IN)
    assert is_drained(queue)


async def test_a_node_without_a_slurm_node_is_ignored_and_an_outage_is_not(queue: FakeSlurm, slurm: Slurm) -> None:
    await slurm.reconcile({"gpu-9": "offline"})
    queue.is_down = True
    with pytest.raises(httpx.HTTPStatusError, match="500"):
        await slurm.reconcile(OUT)
