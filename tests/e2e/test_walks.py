"""The walks in docs/walks.md name the functions that run when a node takes them."""

from __future__ import annotations

import subprocess
import sys

import pytest

# By chance, a step reads the region's key again, which is cached for a second.
CHECKS = 3


@pytest.mark.full
@pytest.mark.timeout(400)
def test_the_walks_name_each_function_that_runs_and_no_other() -> None:
    """Each trace is made in a process of its own, because it includes what runs only the first time in a process."""
    for _ in range(CHECKS):
        traced = subprocess.run([sys.executable, "-m", "tools.trace_walk", "--check"], check=False, capture_output=True)
        if traced.returncode == 0:
            break
    assert (traced.returncode, traced.stdout.decode()) == (0, ""), traced.stderr.decode()
