"""The command line and a daemon on one database: the daemon answers the intents that commands insert."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from farrier.config import Config, DatabaseConfig, MetricsConfig
from farrier.daemon import Daemon
from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.support import pg


@pytest.fixture
async def _daemon(db: pg.Database) -> AsyncIterator[None]:
    stop = anyio.Event()
    config = Config(database=DatabaseConfig(dsn=db.dsn), metrics=MetricsConfig(port=0))
    async with anyio.create_task_group() as tasks:
        await tasks.start(Daemon(config, stop).run)
        yield
        stop.set()


@pytest.mark.usefixtures("_daemon")
async def test_commands_take_a_node_from_registration_to_deletion(farrier: Prompt) -> None:
    await farrier("node", "add", "gpu-1")
    refused = await farrier("intent", "submit", "gpu-1", "drain", "--wait", ends=ExitCode.REFUSED)
    assert "is accepted in status active, offline, quarantined; this node is enrolling" in refused.err
    begun = await farrier("intent", "submit", "gpu-1", "onboard", "mode=manual", "--wait")
    assert "accepted: onboarding (manual) begins" in begun.out
    why = (await farrier("node", "why", "gpu-1", "--json")).json
    assert "agent" in why["reason"]
    assert why["source"].startswith("farrier/handlers/node/")
    deleted = await farrier("intent", "submit", "gpu-1", "delete", "--until", "deleted")
    assert deleted.out.splitlines()[-1] == "gpu-1 is deleted"
    assert (await farrier("node", "list", "--json")).json == []
    story = (await farrier("node", "history", "gpu-1", "--layer", "status", "--json")).json
    assert [change["to"] for change in story] == [
        "enrolling",
        "quarantined",
        "draining",
        "retired",
        "removing",
        "deleted",
    ]
    late = await farrier("intent", "submit", "gpu-1", "drain", ends=ExitCode.REFUSED)
    assert "no node is named 'gpu-1'" in late.err
