"""The disk of the machines of these tests."""

from __future__ import annotations

import pytest

from tests.support import programs
from tests.support.machine import image as images
from tests.support.machine.image import Image


@pytest.fixture(scope="session")
def image() -> Image:
    """The machine's disk. Skips the test if a program is missing."""
    for name in ("qemu-system-x86_64", "socat", "e2fsck", "debugfs"):
        programs.program(name)
    return images.built()
