"""Settings: flags, environment and files go in; checked structs come out, or errors that name the source.

`groups` defines the settings, `reading` reads them, and `describing` describes them. If several sources set a key, the
order of precedence is: flag, environment, file, default.
"""

from __future__ import annotations

from farrier.config.agents import AgentsConfig
from farrier.config.client import ClientConfig
from farrier.config.credentials import CredentialBinding, CredentialsConfig
from farrier.config.database import DatabaseConfig
from farrier.config.description import Setting, SiteSetting, as_toml, settings, site_settings
from farrier.config.groups import (
    BmcConfig,
    BmcHostConfig,
    BmcTrustConfig,
    Config,
    ControllerConfig,
    HistoryConfig,
    NodeConfig,
    SitesConfig,
    VaultConfig,
)
from farrier.config.observability import HttpConfig, LogConfig, MetricsConfig, TracesConfig
from farrier.config.reading import load
from farrier.config.segments import SegmentsConfig

__all__ = [
    "AgentsConfig",
    "BmcConfig",
    "BmcHostConfig",
    "BmcTrustConfig",
    "ClientConfig",
    "Config",
    "ControllerConfig",
    "CredentialBinding",
    "CredentialsConfig",
    "DatabaseConfig",
    "HistoryConfig",
    "HttpConfig",
    "LogConfig",
    "MetricsConfig",
    "NodeConfig",
    "SegmentsConfig",
    "Setting",
    "SiteSetting",
    "SitesConfig",
    "TracesConfig",
    "VaultConfig",
    "as_toml",
    "load",
    "settings",
    "site_settings",
]
