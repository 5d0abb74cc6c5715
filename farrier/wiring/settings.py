"""Converts the configuration to the settings of external services: BMCs, and the sources of secrets.

The other modules of `wiring` call this module, which opens no file and no connection.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_network
from pathlib import Path

from farrier import config as settings
from farrier.clock import MonotonicClock
from farrier.protocols import ServiceObserver
from farrier.services.bmc_settings import BmcSettings
from farrier.services.credentials import Credentials, open_credentials


def credentials(config: settings.Config, *, observer: ServiceObserver) -> AbstractAsyncContextManager[Credentials]:
    """Return a context that opens the sources of secrets. Raises ConfigError."""
    return open_credentials(config.credentials, config.vault, clock=MonotonicClock(), observer=observer)


def bmc_settings(config: settings.Config) -> BmcSettings:
    """Return the settings of the BMC client."""
    return BmcSettings(
        trust=settings.BmcTrustConfig(
            ca_file=config.bmc.ca_file, fingerprint=config.bmc.fingerprint, insecure=config.bmc.insecure
        ),
        trust_by_host={name.lower(): host for name, host in config.bmc.hosts.items()},
        auth=config.bmc.auth,
        session_directory=_session_directory(config.bmc),
        networks=tuple(ip_network(network) for network in config.bmc.allowed_networks),
        deadline=config.node.probe_deadline,
        connect_timeout=config.bmc.connect_timeout,
        concurrency=config.bmc.concurrency,
    )


def _session_directory(config: settings.BmcConfig) -> Path | None:
    # systemd separates several directories by colons; the first directory belongs to farrier.
    state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if config.session_directory:
        return Path(config.session_directory)
    return Path(state, "bmc-sessions") if state else None
