"""Structured logs: a constant event name, and keys for everything else.

`cli` calls `configure` once, before anything logs; modules take `structlog.stdlib.get_logger(__name__)`. A
run's context (kind, id) is bound by the loop with structlog's contextvars. Lines go to standard error: JSON
under systemd or when nobody watches, colours on a terminal. Guarantees: what is under a key that names a
secret is masked, at any depth, before any renderer sees it; so are passwords in URLs. Other libraries' logs
(logging) come out in the same form.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?i)passw|secret|token|authorization|cookie|api_?key|agent_?key|private_?key|credential_?value"
)
# Numbers under such a key are fencing tokens and counts of tokens, and those a reader needs.
_HARMLESS = (bool, int, float, type(None))
_URL_PASSWORD = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+(?=@)", re.IGNORECASE)


class Format(StrEnum):
    """How a line looks."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


class Level(StrEnum):
    """The least that is logged. `error` is for what a person must look at, and for nothing else."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def configure(level: Level = Level.INFO, form: Format = Format.AUTO, *, stream: TextIO | None = None) -> None:
    """Set up structlog and logging. May be called again, with other settings."""
    out = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
    ]
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(form, out)],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # They say at `info` what each request of theirs was; ours are metrics.
    for chatty in ("httpx", "httpcore", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A structlog processor: the same event without its secrets."""
    return {key: _masked(key, value) for key, value in event.items()}


def mask_urls(text: str) -> str:
    """The text with every password in a URL masked."""
    return text if "://" not in text else _URL_PASSWORD.sub(rf"\g<before>{MASK}", text)


@lru_cache(maxsize=1024)  # keys are constants of the program, save a few that others made up
def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(key) is not None


def _masked(key: object, value: object) -> object:
    if isinstance(key, str) and not isinstance(value, _HARMLESS) and _is_secret(key):
        return MASK
    if isinstance(value, str):
        return mask_urls(value)
    if isinstance(value, _HARMLESS):
        return value
    if isinstance(value, Mapping):
        return {inner: _masked(inner, held) for inner, held in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_masked(None, held) for held in value]
    return value


def _renderers(form: Format, out: TextIO) -> list[Processor]:
    watched = out.isatty() and "JOURNAL_STREAM" not in os.environ
    if form is Format.CONSOLE or (form is Format.AUTO and watched):
        # Pretty tracebacks show local variables, and those hold secrets.
        plain = structlog.dev.plain_traceback
        return [structlog.dev.ConsoleRenderer(colors=out.isatty(), exception_formatter=plain)]
    return [structlog.processors.JSONRenderer(default=str)]
