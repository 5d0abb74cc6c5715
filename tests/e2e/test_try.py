"""The lines of the page on trying farrier, run in two shells with a home directory of their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from farrier.io.connections.embedded import EmbeddedServer
from tests.support import pages

ROOT = pages.ROOT
BLOCKS = {block.marker: block.text for block in pages.blocks(ROOT / "docs" / "try.md")}
# What the second shell sets once, for all later commands.
SECOND_SHELL, LOOK = re.split(r"^(?=farrier )", BLOCKS["sh: intent"], maxsplit=1, flags=re.MULTILINE)


@pytest.mark.full
@pytest.mark.timeout(600)  # an installation from a registry
def test_the_commands_of_the_page_start_a_fleet_drain_a_node_and_explain_a_stuck_one() -> None:
    """Run outside of pytest's directory, which the account of the PostgreSQL server of root may not enter."""
    with tempfile.TemporaryDirectory(prefix="farrier-try-") as name:
        home = Path(name).resolve()
        run(home, BLOCKS["sh: install"])
        try:
            with demo(home) as printed:
                assert any("20 active" in line for line in printed), "the demo ended before all nodes were active"
                drained = run(home, SECOND_SHELL + LOOK)
                explained = run(home, SECOND_SHELL + BLOCKS["sh: stuck"])
                while "error " not in explained:  # the BMC is being verified
                    explained = run(home, f"{SECOND_SHELL}farrier node why lab-01")
                run(home, SECOND_SHELL + BLOCKS["sh: delete"])
        finally:
            EmbeddedServer(home / "farrier-demo/fleet/postgresql").stop()
    assert len(set(re.findall(r"gpu-00\d\d", drained))) == 20, drained
    assert re.search(r"draining +retired", drained), drained
    assert set(without_numbers(BLOCKS["said: stuck"])) <= set(without_numbers(explained)), explained


@contextmanager
def demo(home: Path) -> Iterator[Iterator[str]]:
    """The fleet of the page, with the lines that it prints. It ends as with Ctrl-C."""
    lines = f"source ~/farrier-demo/bin/activate\nexec {BLOCKS['sh: demo']}"
    with subprocess.Popen(
        ["bash", "-euc", lines], cwd=ROOT, env=environment(home), stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        try:
            yield running.stdout
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait() == 0


def run(home: Path, lines: str) -> str:
    """What a shell prints that runs these lines."""
    done = subprocess.run(
        ["bash", "-euc", lines], cwd=ROOT, env=environment(home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(home: Path) -> dict[str, str]:
    return {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(home)}


def without_numbers(text: str) -> list[str]:
    return [re.sub(r"\d+", "0", line).rstrip() for line in text.splitlines()]
