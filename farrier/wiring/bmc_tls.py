"""Checks the TLS settings of BMCs without a connection, for `farrier config check`."""

from __future__ import annotations

from farrier import config as settings
from farrier.services.http import trust


def require_trust(config: settings.BmcConfig) -> None:
    """Raise `ConfigError` for a TLS policy with which no client could be opened."""
    for each in (config, *config.hosts.values()):
        trust.policy_of(each)
