"""A real Prometheus scrapes two real replicas: an alert names a node while it is stuck, and ends when it moves."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.support import pages, pg, promtool, tokens
from tests.support.listening import listening
from tests.support.process import PATIENCE, Farrier, farrier, replica, until
from tests.support.programs import program

TOKEN = tokens.named("token")

# Prometheus listens before it has read its storage, and responds 503 until it logs this.
IS_READY = "Server is ready to receive web requests"
# The `for` of every alert, instead of five minutes. The fleet is counted at most every five seconds, so with a shorter
# time the test would never see an alert pending.
HELD_FOR = "5s"
# A count that was slow, on a busy machine, serves scrapes for this many seconds.
SLOW_COUNT = 60.0


class Prometheus:
    """The API of a running Prometheus."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def alert(self, name: str, /, **labels: str) -> dict[str, Any] | None:
        """The alert of this name and with these labels, pending or firing."""
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = (await client.get(f"{self._url}/api/v1/alerts")).raise_for_status().json()
        for alert in answer["data"]["alerts"]:
            if alert["labels"]["alertname"] == name and labels.items() <= alert["labels"].items():
                found: dict[str, Any] = alert
                return found
        return None

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule that Prometheus has loaded, with the result of its last evaluation."""
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            answer = (await client.get(f"{self._url}/api/v1/rules")).raise_for_status().json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]


@asynccontextmanager
async def serving(prometheus: str, directory: Path, targets: Iterable[str], rules: Path) -> AsyncIterator[Prometheus]:
    """A Prometheus on a port of its own that scrapes these targets every second; killed at the end."""
    settings = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "farrier", "static_configs": [{"targets": list(targets)}]}],
    }
    file = directory / "prometheus.yml"
    file.write_bytes(msgspec.json.encode(settings))
    command = prometheus, f"--config.file={file}", f"--storage.tsdb.path={directory / 'data'}"
    async with listening(command, ready=IS_READY) as url:
        yield Prometheus(url)


@pytest.fixture
def prometheus() -> str:
    """The path of the program."""
    return program("prometheus")


@pytest.fixture
async def settings(tmp_path: Path) -> Path:
    """Settings with a limit that a node exceeds after one second."""
    file = tmp_path / "farrier.toml"
    file.write_text('[sla]\n"status.bootstrap_issued" = "1s"\n[metrics]\nrunbooks_url = "https://docs.x"\n')
    return file


async def rules_of(settings: Path, directory: Path) -> Path:
    """The rules that the command writes for these settings, with `HELD_FOR` as the `for` of every alert."""
    file = directory / "rules.yml"
    async with farrier("alerts", "--config", str(settings), "--out", str(file)) as made:
        assert await made.ended() == 0
    text, held = re.subn(r"^( +for: )'[^']+'$", rf"\1'{HELD_FOR}'", file.read_text(), flags=re.MULTILINE)
    assert held > len(promtool.BY_NAME) - 1
    file.write_text(text)
    return file


def asked_for() -> set[str]:
    """Every metric that a rule names, and a selector of each class of failures that has an alert of its own."""
    expressions = " ".join(alert.expr for alert in promtool.BY_NAME.values())
    classes = (alert.expr for group in promtool.RULES for alert in group.alerts if alert.labels)
    exact = (re.findall(r'(farrier_\w+){(\w+="\w+")}', expression)[0] for expression in classes)
    return {*re.findall(r"farrier_\w+", expressions), *(f"{name}{{{matcher}}}" for name, matcher in exact)}


async def target(daemon: Farrier) -> str:
    await daemon.until("daemon.ready")
    url: str = (await daemon.until("http.listening"))["url"]
    return url.removeprefix("http://")


@pytest.mark.full
@pytest.mark.timeout(180)  # three processes start, and an alert fires only after its `for`
async def test_an_alert_names_a_stuck_node_until_it_moves(
    prometheus: str, db: pg.Database, settings: Path, tmp_path: Path
) -> None:
    rules = await rules_of(settings, tmp_path)
    async with db.connect() as conn:
        await conn.execute(f"SELECT farrier.register_node('gpu-1', bootstrap_token => '{TOKEN}')")
    config = {"config": str(settings)}
    async with (
        replica(db.dsn, **config) as one,
        replica(db.dsn, **config) as other,
        serving(prometheus, tmp_path, [await target(one), await target(other)], rules) as server,
    ):
        seen: list[str] = []

        async def fires(name: str, /, **labels: str) -> bool:
            alert = await server.alert(name, **labels)
            if alert is not None and [alert["state"]] != seen[-1:]:
                seen.append(alert["state"])
            return alert is not None and alert["state"] == "firing"

        await until(lambda: fires("FarrierResourceStuck", name="gpu-1"))
        assert seen == ["pending", "firing"]
        alert = await server.alert("FarrierResourceStuck", name="gpu-1")
        assert alert is not None
        assert alert["annotations"]["summary"] == "gpu-1 is stuck in node bootstrap_issued"
        assert alert["annotations"]["runbook_url"] == "https://docs.x/operate/alerts/FarrierResourceStuck.md"
        await until(lambda: fires("FarrierStuck", state="bootstrap_issued", severity="ticket"))
        by_state = await server.alert("FarrierStuck", state="bootstrap_issued")
        assert by_state is not None
        assert by_state["annotations"]["description"].endswith("Furthest above the limit: gpu-1")
        assert by_state["annotations"]["summary"] == "1 resource(s) above the limit of node bootstrap_issued"
        assert {rule["health"] for rule in await server.rules()} == {"ok"}
        exposed = (await other.get("/metrics")).text
        assert not [name for name in asked_for() if f"\n{name}" not in exposed and f"# TYPE {name} " not in exposed]

        async with db.connect() as conn:
            await conn.execute(f"SELECT farrier.enroll_agent('{TOKEN}', '{{}}')")

        async def is_clear() -> bool:
            return await server.alert("FarrierResourceStuck") is None and await server.alert("FarrierStuck") is None

        await until(is_clear, patience=SLOW_COUNT + PATIENCE)

        # On a busy machine, a scrape may take more than its second, and then an alert is pending until the next one.
        async def all_respond() -> bool:
            down = [await server.alert(name) for name in ("FarrierReplicaDown", "FarrierControllerDown")]
            return down == [None, None]

        await until(all_respond)


def test_prometheus_accepts_the_settings_that_the_pages_show(tmp_path: Path) -> None:
    found = [block.text for blocks in pages.with_blocks().values() for block in blocks if block.language == "yaml"]
    shown = [text for text in found if "scrape_configs:" in text]
    assert shown
    (tmp_path / "farrier.yml").write_text("groups: []\n")  # the rules that they name
    for text in shown:
        file = tmp_path / "prometheus.yml"
        file.write_text(text)
        done = subprocess.run(
            [program("promtool"), "check", "config", file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, text + done.stdout + done.stderr
