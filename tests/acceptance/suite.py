"""Runs NVIDIA's acceptance suite itself on a site, if FARRIER_ACCEPTANCE_SUITE names a checkout with its environment.

The suite does the steps of the provider and judges their answers; `results` is what its report says of each check.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import anyio

from tests.acceptance.site import Site, target
from tests.acceptance.steps import STEPS
from tests.acceptance.table import CHECKS, Verdict
from tests.support import pages

CHECKOUT = "FARRIER_ACCEPTANCE_SUITE"
_STEP_WITHIN = 600  # seconds
# These log in to machines, or run workloads on them.
_NOT_OURS = ["ssh", "workload"]


def checkout() -> Path | None:
    """The checkout of the suite, whose `.venv` has its programs."""
    named = os.environ.get(CHECKOUT)
    return Path(named) if named else None


async def results(suite: Path, site: Site, directory: Path) -> Mapping[str, str]:
    """Run the suite, and return `passed`, `failed` or `skipped` for each check by name."""
    config, report = directory / "farrier.yaml", directory / "report.xml"
    config.write_text(json.dumps(_config(suite)))  # JSON is YAML
    command = ["test", "run", "-f", str(config), "--no-user-config", "--no-upload", "--junitxml", str(report)]
    done = await anyio.run_process(
        [str(suite / ".venv/bin/isvctl"), *command],
        env={**os.environ, **site.environment, "ISVTEST_INCLUDE_UNRELEASED": "1"},
        cwd=directory,
        check=False,
    )
    assert report.exists(), done.stdout.decode() + done.stderr.decode()
    return {case.get("name", ""): _outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def _config(suite: Path) -> dict[str, object]:
    """The provider's configuration. A check that is answered by the step of another one, and not met, is left out."""
    unanswered = [check.name for check in CHECKS if not check.step and check.verdict is not Verdict.PASS]
    return {
        "import": [str(suite / "isvctl/configs/suites/bare_metal.yaml")],
        "version": "1.0",
        "commands": {"bare_metal": {"phases": ["setup", "test"], "steps": [_step(name) for name in STEPS]}},
        "tests": {"cluster_name": "farrier", "exclude": {"labels": _NOT_OURS, "tests": unanswered}},
    }


def _step(name: str) -> dict[str, object]:
    return {
        "name": name,
        "phase": "setup" if name == "launch_instance" else "test",
        "command": f"{sys.executable} -m tests.acceptance",
        "args": [name, *target(name)],
        "working_dir": str(pages.ROOT),
        "timeout": _STEP_WITHIN,
        "continue_on_failure": True,
    }


def _outcome(case: ElementTree.Element) -> str:
    if case.find("skipped") is not None:
        return "skipped"
    return "passed" if case.find("failure") is None and case.find("error") is None else "failed"
