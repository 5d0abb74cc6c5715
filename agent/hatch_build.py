"""Hatch's hook: puts farrier-agent.pyz into the package before a wheel, or an editable installation, is made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AgentBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Builds the agent's archive from the folder of its sources."""

    def initialize(self, _version: str, _build_data: dict[str, Any]) -> None:
        """Write the archive. hatchling calls this at the beginning of a build."""
        sys.path.insert(0, str(Path(self.root) / "agent"))
        from build_agent import write

        write()
