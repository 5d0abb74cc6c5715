"""Restores this process's logging after a test, and reads the JSON lines that a test logged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog


@contextmanager
def restored() -> Iterator[None]:
    """Restore the logging of this process at the end of the block, because tests set it up for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """The JSON lines that were written."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]
