"""Settings: flags, environment and files go in; checked structs come out, or errors that name the source.

`groups` defines the settings, `reading` reads them, and `description` describes them. If several sources set a key, the
order of precedence is: flag, environment, file, default.
"""

from __future__ import annotations

from farrier.config.credentials import CredentialBinding, CredentialsConfig
from farrier.config.database import DatabaseConfig
from farrier.config.description import as_toml, settings
from farrier.config.groups import (
    BmcConfig,
    BmcHostConfig,
    BmcTrustConfig,
    Config,
    ControllerConfig,
    NodeConfig,
    SitesConfig,
    VaultConfig,
)
from farrier.config.processes import AgentsConfig, ClientConfig, HttpConfig, MetricsConfig, TracesConfig
from farrier.config.reading import load

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
    "HttpConfig",
    "MetricsConfig",
    "NodeConfig",
    "SitesConfig",
    "TracesConfig",
    "VaultConfig",
    "as_toml",
    "load",
    "settings",
]
