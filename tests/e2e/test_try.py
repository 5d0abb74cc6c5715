"""The lines of the page on trying farrier, run in one shell with its own home directory."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from farrier.io.connections.embedded import EmbeddedServer
from tests.support import pages

ROOT = pages.ROOT
BLOCKS = {block.marker: block.text for block in pages.blocks(ROOT / "docs" / "try.md")}


@pytest.mark.full
@pytest.mark.timeout(600)  # an installation from a registry
def test_the_commands_of_the_page_install_farrier_and_start_a_fleet() -> None:
    """Run outside of pytest's directory, which the account of the PostgreSQL server of root may not enter."""
    with tempfile.TemporaryDirectory(prefix="farrier-try-") as name:
        home = Path(name).resolve()
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        lines = "".join(BLOCKS[f"sh: {block}"] for block in ("install", "demo", "look"))
        try:
            done = subprocess.run(
                ["bash", "-euc", lines],
                cwd=ROOT,
                env={"PATH": path, "HOME": str(home)},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            EmbeddedServer(home / "farrier-demo/fleet/postgresql").stop()
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "20 of 20 nodes active" in said
    listed = said.partition("next:\n")[2]
    assert len(set(re.findall(r"gpu-00\d\d", listed))) == 20
