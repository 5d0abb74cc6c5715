"""The walks in docs/architecture.md name the functions that run when a node takes them."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.full
@pytest.mark.timeout(400)
def test_the_walks_name_each_function_that_runs_and_no_other() -> None:
    """Traced in a process of its own, because the trace includes what runs only the first time in a process."""
    traced = subprocess.run([sys.executable, "-m", "tools.trace_walk", "--check"], check=False, capture_output=True)
    assert (traced.returncode, traced.stdout.decode()) == (0, ""), traced.stderr.decode()
