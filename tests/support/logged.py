"""Logging of this process as it was, and what was written to a stream of ours."""

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
    """Whatever sets up logging in the block does so for everybody in this process: afterwards all is as before."""
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
