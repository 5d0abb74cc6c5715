"""A shell completes names, actions, sites, kinds and words of the model; without a database it gets nothing."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import anyio.to_thread
import pytest
from typer.testing import CliRunner

from farrier.cli import app
from tests.integration.cli.conftest import Prompt
from tests.support import pg


async def completed(prompt: Prompt, line: str) -> list[str]:
    """What bash would offer at the end of the line."""
    words = line.split(" ")
    asked = {"_FARRIER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    run = partial(CliRunner().invoke, app, [], env=prompt.environment | asked, prog_name="farrier")
    result = await anyio.to_thread.run_sync(run)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.split()


@pytest.fixture
async def _fleet(farrier: Prompt, db: pg.Database) -> None:
    for name in ("gpu-1", "gpu-2", "cpu-1"):
        await farrier("node", "add", name)
    await farrier("segment", "add", "tenant-a", "--site", "ams1", "--prefixes", "10.0.0.0/24")
    async with db.connect() as conn:
        await conn.execute("INSERT INTO farrier.maas_regions (name, url) VALUES ('ams1', 'http://x')")


@pytest.mark.usefixtures("_fleet")
async def test_names_in_the_database_are_completed(farrier: Prompt) -> None:
    for line, expected in (
        ("farrier node show gpu", ["gpu-1", "gpu-2"]),
        ("farrier node list gpu-1 c", ["cpu-1"]),
        ("farrier node why x", []),
        ("farrier node list --site a", ["ams1"]),
        ("farrier resource show netw", ["network_segment"]),
        ("farrier resource show network_segment t", ["tenant-a"]),
        ("farrier resource list node gpu-2", ["gpu-2"]),
        ("farrier resource history network_segment ", ["tenant-a"]),
        ("farrier resource intent network_segment tenant-a d", ["delete"]),
        ("farrier segment why te", ["tenant-a"]),
        ("farrier partition show te", []),
        ("farrier enqueue maas_region ", ["ams1"]),
        ("farrier intent submit gpu-1 quar", ["quarantine"]),
        ("farrier intent list --kind network_segment te", ["tenant-a"]),
        ("farrier task list c", ["cpu-1"]),
        ("farrier node drain gpu-1 c", ["cpu-1"]),
        ("farrier resource act network_segment up", ["update"]),
        ("farrier resource act network_segment delete te", ["tenant-a"]),
        ("farrier resource act network_segment delete --site a", ["ams1"]),
        ("farrier intent list --action quar", ["quarantine"]),
    ):
        assert await completed(farrier, line) == expected, line


async def test_words_of_the_model_are_completed_without_a_database(nowhere: Prompt) -> None:
    for line, expected in (
        ("farrier no", ["node"]),
        ("farrier node li", ["list"]),
        ("farrier node list --status act", ["active"]),
        ("farrier node list --status active,offl", ["active,offline"]),
        ("farrier node list -o js", ["json", "jsonpath="]),
        ("farrier node list --management unm", ["unmanaged"]),
    ):
        assert await completed(nowhere, line) == expected, line


async def test_without_a_reachable_database_nothing_is_completed(nowhere: Prompt, db: pg.Database) -> None:
    for line in (
        "farrier node show g",
        "farrier node show --dsn postgresql://127.0.0.1:1/x g",
        "farrier node show --dsn nonsense g",
        "farrier node show --embedded /nonexistent g",
        "farrier node show --config /nonexistent g",
        "farrier node show --context nosuch g",
        f"farrier resource list nosuch --dsn {db.dsn} g",
        "farrier context use x",
    ):
        assert await completed(nowhere, line) == [], line


def test_the_completion_of_a_shell_can_be_shown() -> None:
    """Run by a bash, because the command prints the completion for the shell that is its parent process."""
    command = ["bash", "-c", f"{sys.executable} -m farrier --show-completion; exit $?"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "COMPLETE=complete_bash" in shown.stdout
