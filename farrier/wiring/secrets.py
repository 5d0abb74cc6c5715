"""Opens the sources of secrets that the configuration names. The other modules of `wiring` call this module."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from farrier import config as settings
from farrier.clock import MonotonicClock
from farrier.protocols import ServiceObserver
from farrier.services.credentials.resolver import Credentials, open_credentials


def credentials(config: settings.Config, *, observer: ServiceObserver) -> AbstractAsyncContextManager[Credentials]:
    """Return a context that opens the sources of secrets. Raises ConfigError."""
    return open_credentials(config.credentials, config.vault, clock=MonotonicClock(), observer=observer)
