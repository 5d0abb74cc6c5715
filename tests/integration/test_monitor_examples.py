"""The example of a monitor: alerts on the metrics of DCGM exporter are conditions that its grant allows."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from farrier.io.connections.pool import Connection
from farrier.model.duration import parse
from tests.architecture.sources import ROOT
from tests.support import pg
from tests.support.monitors import grant, logged_in, report
from tests.support.programs import program

EXAMPLE = ROOT / "examples" / "monitors"
PAGE = ROOT / "docs" / "integrate" / "monitors.md"
# The metrics of faults that DCGM exporter exposes by default: lines of its etc/default-counters.csv at d5e5f510 that
# are no comments.
EXPOSED = {
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_XID_ERRORS",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE",
}
METRIC = re.compile(r"\b(DCGM_\w+|up)\b")


def rules() -> list[dict[str, Any]]:
    read = yaml.safe_load((EXAMPLE / "dcgm-rules.yml").read_text())
    return [rule for group in read["groups"] for rule in group["rules"]]


@pytest.mark.parametrize(
    "command",
    [
        ("promtool", "check", "rules", "dcgm-rules.yml"),
        ("promtool", "test", "rules", "dcgm-rules-test.yml"),
        ("promtool", "check", "config", "--syntax-only", "prometheus.yml"),
        ("amtool", "check-config", "alertmanager.yml"),
    ],
    ids=" ".join,
)
def test_the_programs_of_prometheus_accept_the_example(command: tuple[str, ...]) -> None:
    executable, *arguments = command
    done = subprocess.run(
        [program(executable), *arguments], cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_use_only_metrics_that_the_exporter_has() -> None:
    used = {metric for rule in rules() for metric in METRIC.findall(rule["expr"])}
    assert used <= EXPOSED | {"up"}
    assert len(used) > 5


async def test_every_rule_is_a_condition_that_the_grant_allows(conn: Connection) -> None:
    await conn.execute((EXAMPLE / "grant.sql").read_text())
    await conn.execute("SELECT farrier.register_node('gpu-017')")
    stated = [rule["labels"] for rule in rules()]
    reports = [
        {
            "node": "gpu-017",
            "id": each["condition"].replace("{{ $value }}", "79"),
            "target": each.get("target", "").replace("{{ $labels.UUID }}", "GPU-5e"),
            "effect": each["effect"],
        }
        for each in stated
    ]
    assert await report(conn, *reports, monitor="dcgm") == [("taken", None)] * len(stated)


async def test_the_conditions_of_the_example_are_repeated_before_they_expire(db: pg.Database) -> None:
    route = yaml.safe_load((EXAMPLE / "alertmanager.yml").read_text())["route"]["routes"][0]
    async with db.connect() as conn:
        await conn.execute((EXAMPLE / "grant.sql").read_text())
        lasts = await conn.fetchval("SELECT lasts FROM farrier.monitors")
    assert parse(route["repeat_interval"]) + parse(route["group_interval"]) < lasts


async def test_the_statements_of_the_page_work(db: pg.Database) -> None:
    grants, calls = re.findall(r"```sql\n(.+?)```", PAGE.read_text(), re.DOTALL)
    async with db.connect() as conn, logged_in(db, conn) as (monitor, login):
        await conn.execute(grants)
        await conn.execute("SELECT farrier.register_node(n) FROM unnest('{gpu-017,gpu-018}'::text[]) n")
        await grant(conn, "watchdog", login=login, ids=["fabric/*"], effect="quarantine")
        answers = [await monitor.fetch(call) for call in calls.strip().split(";\n")]
    assert [[row["verdict"] for row in rows] for rows in answers] == [["taken"], ["taken"], ["taken", "taken"]]
