"""Fixtures of the tests of the agent: its archive, a machine, and a door."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_agent
from tests.support.agent_machine import Machine
from tests.support.agents_door import Door, serving


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """farrier-agent.pyz of this checkout."""
    path = tmp_path_factory.mktemp("agent") / "farrier-agent.pyz"
    build_agent.write(path)
    return path


@pytest.fixture
def machine(tmp_path: Path, archive: Path) -> Machine:
    """A machine without GPUs and disks."""
    root = tmp_path / "machine"
    root.mkdir()
    return Machine(root, archive, sys.executable)


@pytest.fixture
def door() -> Iterator[Door]:
    """A door without TLS, on loopback."""
    with serving(Door()) as opened:
        yield opened
