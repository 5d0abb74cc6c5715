"""The checkout's files that run farrier in containers: Dockerfile and deploy/."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "Dockerfile"
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = msgspec.yaml.decode((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
# The services that run the image of farrier.
OWN = {name: service for name, service in SERVICES.items() if service["image"] == "farrier"}


def instructions() -> Iterator[tuple[str, str]]:
    """The Dockerfile's instructions in their order, each with its arguments on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for line in text.replace("\\\n", " ").splitlines():
        if line:
            word, _, rest = line.partition(" ")
            yield word, " ".join(rest.split())


def copied() -> set[str]:
    """The files and directories of the checkout that the image copies."""
    sources = [words.split()[:-1] for word, words in instructions() if word == "COPY"]
    return {name for names in sources for name in names if not name.startswith("--from") and "/" not in name}


def image() -> dict[str, str]:
    """The instructions of the last stage that occur once in it, by their name."""
    found: dict[str, str] = {}
    for word, arguments in instructions():
        if word == "FROM":
            found = {}
        found[word] = arguments
    return found


def variables() -> dict[str, str]:
    """The environment of the image."""
    return dict(pair.split("=", 1) for pair in image()["ENV"].split())


def health_check() -> list[str]:
    """The command with which the engine asks the container for its health."""
    _, _, command = image()["HEALTHCHECK"].partition("CMD ")
    return msgspec.json.decode(command, type=list[str])
