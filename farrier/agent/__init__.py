"""Files for machines: their sources go in at a build; the archive of the agent, the template of user data that installs
it, and the script that checks an erased machine come out.

The archive is built from the folder `agent/` of the repository: by `make agent`, and whenever farrier is installed from
its sources.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from farrier.errors import ConfigError

PATH = Path(__file__).parent / "farrier-agent.pyz"
"""The archive. The agents' door serves it."""

CLEAN_CHECK = "farrier-clean-check"
"""The name of the check in MAAS."""

CLEAN_TAG = "farrier-clean"
"""The tag of the check in MAAS, by which people find it."""

_CLEAN_CHECK = Path(__file__).parent / "clean-check"
_TEMPLATE = Path(__file__).parent / "cloud-init.yaml.j2"


@cache
def content() -> bytes:
    """Return the archive. Raises ConfigError if farrier runs from a checkout that was never installed."""
    try:
        return PATH.read_bytes()
    except OSError as error:
        raise ConfigError(f"{PATH} cannot be read: {error.strerror}; run `make agent`, or install farrier") from None


@cache
def sha256() -> str:
    """Return the SHA-256 of the archive, in hexadecimal digits. Raises ConfigError."""
    return hashlib.sha256(content()).hexdigest()


@cache
def template() -> str:
    """Return the template of user data for sites that have no template of their own."""
    return _TEMPLATE.read_text(encoding="utf-8")


@cache
def clean_check() -> str:
    """Return the text of the check of an erased machine."""
    return _CLEAN_CHECK.read_text(encoding="utf-8")


@cache
def clean_check_sha256() -> str:
    """Return the SHA-256 of the check, in hexadecimal digits."""
    return hashlib.sha256(clean_check().encode()).hexdigest()
