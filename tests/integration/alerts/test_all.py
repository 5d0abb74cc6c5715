"""All alerts are valid, tested and documented, and query only metrics that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from farrier.config import Config
from farrier.metrics import alerts, gauges
from farrier.metrics.alerts.rules import STALE_AFTER
from farrier.metrics.alerts.upstream import ANSWERS
from farrier.metrics.runbooks import Runbooks
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node import conditions
from farrier.model.node.failures import FailureClass
from farrier.wiring.vocabulary import vocabulary
from tests.architecture import sources
from tests.integration.alerts.test_counts import CASES
from tests.integration.alerts.test_figures import CLASSES, FIGURES
from tests.support import pg, promtool
from tests.support.programs import program
from tests.support.series import FLEET, LABELS

DOCS = sources.ROOT / "docs"
PAGES = DOCS / "operate" / "alerts"
ALERTS = [alert for group in promtool.RULES for alert in group.alerts]
SELECTED = re.compile(r"\b(farrier_[a-z_]+)(?:\{([^}]*)\})?")
MATCHED = re.compile(r'(\w+)(?:=|!=|=~|!~)"')
INSTALL = (DOCS / "operate" / "install.md").read_text(encoding="utf-8")
PSQL = re.compile(r'psql "\$FARRIER_DATABASE_DSN" -c "([^"]+)"')
GROUPED = re.compile(r"\bby \(([^)]+)\)")


def written(config: Config, directory: Path) -> Path:
    file = directory / "rules.yml"
    file.write_text(alerts.yaml(alerts.exposition(alerts.groups(config), runbooks=Runbooks.at("https://docs.example"))))
    return file


@pytest.mark.parametrize("config", [Config(), promtool.quiet()], ids=["defaults", "no names, only short limits"])
def test_promtool_finds_the_rules_right(config: Config, tmp_path: Path) -> None:
    file = written(config, tmp_path)
    done = subprocess.run([program("promtool"), "check", "rules", file], capture_output=True, text=True, check=False)
    assert (done.returncode, "duplicate" in done.stdout) == (0, False), done.stdout + done.stderr


def of_every_alert(faults: Callable[[alerts.AlertRule], Iterator[object]]) -> list[str]:
    """The faults of all alerts, each with the alert's name."""
    return [f"{alert.name} {sorted(alert.labels.values())}: {fault}" for alert in ALERTS for fault in faults(alert)]


def test_every_metric_and_label_of_a_rule_exists() -> None:
    def unknown(alert: alerts.AlertRule) -> Iterator[object]:
        for name, matchers in SELECTED.findall(alert.expr) + SELECTED.findall(alert.description):
            yield from {*MATCHED.findall(matchers)} - LABELS[name] if name in LABELS else [name]
        labels = {label.strip() for grouped in GROUPED.findall(alert.expr) for label in grouped.split(",")}
        metrics = {name for name, _ in SELECTED.findall(alert.expr)} & LABELS.keys()
        yield from labels - {"job", "instance"}.union(*(LABELS[name] for name in metrics))

    assert not of_every_alert(unknown)


def test_no_rule_uses_the_gauge_of_limits() -> None:
    assert not [alert.name for alert in ALERTS if gauges.STATE_SLA.name in alert.expr]


def test_every_rule_on_the_fleet_requires_a_fresh_count_and_a_longer_duration() -> None:
    fresh = f"and on (job, instance) (time() - max_over_time({gauges.COLLECTED.name}[3m]) <"
    of_figures = [alert for alert in ALERTS if FLEET & {name for name, _ in SELECTED.findall(alert.expr)}]
    assert of_figures
    assert not [alert for alert in of_figures if fresh not in alert.expr or not alert.expr.startswith("max ")]
    assert not [alert for alert in of_figures if alert.hold <= STALE_AFTER]


def test_every_alert_has_a_case_that_fires_and_a_case_that_does_not() -> None:
    names = {alert.name for alert in ALERTS}
    figures = {figure.alert for figure in FIGURES}
    assert {case.alert for case in CASES if case.fires} | figures == names
    assert {case.alert for case in CASES if not case.fires} | figures == names
    classes = [figure.labels for figure in CLASSES]
    assert [alert.labels for alert in ALERTS if alert.labels] == classes


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == {alert.name for alert in ALERTS}
    for page in PAGES.glob("Farrier*.md"):
        headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
        assert headings == [page.stem]


def test_a_runbook_link_leads_to_a_section() -> None:
    def broken(alert: alerts.AlertRule) -> Iterator[object]:
        file, _, anchor = alert.page.partition("#")
        if anchor and f"\n### {anchor.replace('-', ' ', 1)}\n" not in (DOCS / file).read_text():
            yield alert.page

    assert not of_every_alert(broken)


def test_templates_in_texts_of_alerts_are_well_formed() -> None:
    def misspelled(alert: alerts.AlertRule) -> Iterator[object]:
        text = alert.summary + alert.description
        if "$" in re.sub(r"\{\{.*?\}\}", "", text) or text.count("{{") != text.count("}}"):
            yield text

    assert not of_every_alert(misspelled)


def test_when_no_run_is_committed_the_alert_says_100_percent(tmp_path: Path) -> None:
    told = {
        'farrier_handler_runs_total{kind="node",outcome="wait"}': "0x60",
        'farrier_commit_conflicts_total{kind="node",verdict="lost"}': "0+1x60",
    }
    annotations = {
        "summary": "100% of the runs of node fail to commit",
        "description": promtool.BY_NAME["FarrierCommitConflicts"].description,
        "runbook_url": "https://docs.example/operate/alerts/FarrierCommitConflicts.md",
    }
    alert = {"exp_labels": {"severity": "ticket", "kind": "node"}, "exp_annotations": annotations}
    expected = {"eval_time": "40m", "alertname": "FarrierCommitConflicts", "exp_alerts": [alert]}
    promtool.check(tmp_path, [promtool.Replica("a", told)], expected)


def test_the_alert_about_short_stays_says_a_whole_number(tmp_path: Path) -> None:
    told = {'farrier_short_stays_total{kind="node",state="active"}': "0x20 1x9 2x9 3x9 4x9 5x4 6x200"}
    annotations = {
        "summary": "nodes leave active soon after entering it",
        "description": "In the last hour, resources left active 6 times, each time within 15m of entering it and "
        "without an intent. To list them, run farrier history list --last 1h --from active",
        "runbook_url": "https://docs.example/operate/alerts/FarrierFlapping.md",
    }
    labels = {"severity": "ticket", "kind": "node", "state": "active"}
    alert = {"exp_labels": labels, "exp_annotations": annotations}
    promtool.check(
        tmp_path,
        [promtool.Replica("a", told)],
        {"eval_time": "75m", "alertname": "FarrierFlapping", "exp_alerts": [alert]},
    )


def alertmanager() -> str:
    """The example configuration of Alertmanager on the page."""
    found = re.search(r"```yaml\n(route:\n.+?)```", (PAGES / "README.md").read_text(), re.DOTALL)
    assert found
    return found[1]


def test_the_example_for_alertmanager_is_valid(tmp_path: Path) -> None:
    amtool = program("amtool")
    file = tmp_path / "alertmanager.yml"
    file.write_text(alertmanager())
    done = subprocess.run([amtool, "check-config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_for_alertmanager_names_existing_alerts_labels_and_severities() -> None:
    example = alertmanager()
    named = {name for names in re.findall(r'alertname=~?"([^"]+)"', example) for name in names.split("|")}
    assert named
    assert named <= {alert.name for alert in ALERTS}
    assert set(re.findall(r'severity="(\w+)"', example)) <= {alert.severity.value for alert in ALERTS}
    lists = re.findall(r"(?:group_by|equal): \[([^]]+)\]", example)
    labels = {label.strip() for each in lists for label in each.split(",")}
    assert labels <= {"alertname"}.union(*LABELS.values())


async def test_queries_on_the_pages_succeed_with_the_readers_role(db: pg.Database) -> None:
    """The queries in descriptions of alerts and on pages succeed with the rights of farrier_reader."""
    asked = [each for alert in ALERTS for each in re.findall(r"To list [a-z ]+: (SELECT .+)$", alert.description)]
    pages = [question for page in PAGES.glob("*.md") for question in PSQL.findall(page.read_text())]
    assert pages
    asked += pages
    assert len(asked) > len(CLASSES)
    async with db.connect() as conn:
        await conn.execute("SET ROLE farrier_reader")
        for question in asked:
            await conn.fetch(question)


async def test_a_shell_finds_the_transaction_that_keeps_a_row_locked(db: pg.Database) -> None:
    _, query = PSQL.findall((PAGES / "FarrierResourcesFailing.md").read_text())
    granted = re.search(r"<!-- sql: operator -->\n```sql\n(.*?)```", INSTALL, re.DOTALL)
    assert granted
    async with db.connect() as owner, db.connect() as other, db.connect() as shell:
        name = f"ada_in_{await owner.fetchval('SELECT current_database()')}"
        await owner.execute("SELECT farrier.register_node('gpu-1')")
        await owner.execute(f"CREATE ROLE {name};" + re.sub(r"\bada\b", name, granted[1]))
        try:
            await shell.execute(f"SET ROLE {name}")
            async with other.transaction():
                await other.execute("SELECT FROM farrier.nodes FOR UPDATE")
                oldest = (await shell.fetch(query))[0]
                assert oldest["pid"] == await other.fetchval("SELECT pg_backend_pid()")
                assert oldest["query"] == "SELECT FROM farrier.nodes FOR UPDATE"
        finally:
            await owner.execute(f"DROP ROLE {name}")


async def test_the_query_for_failing_resources_names_resources_of_every_kind(db: pg.Database) -> None:
    query, _ = PSQL.findall((PAGES / "FarrierResourcesFailing.md").read_text())
    async with db.connect() as conn:
        node = await conn.fetchval("SELECT farrier.register_node('gpu-1')")
        region = await conn.fetchval(
            "INSERT INTO farrier.maas_regions (name, site, url) VALUES ('ams1', 'ams1', 'http://ams1') RETURNING id"
        )
        for kind, id_ in (("node", node), ("maas_region", region)):
            await conn.execute(
                "INSERT INTO farrier.outcomes (kind, id, at, outcome) VALUES ($1, $2, farrier.now(), $3)",
                kind,
                id_,
                '{"error": "ERROR", "reason": "no response"}',
            )
        assert {(row["kind"], row["name"]) for row in await conn.fetch(query)} == {
            ("node", "gpu-1"),
            ("maas_region", "ams1"),
        }


def test_the_page_of_failures_has_exactly_one_section_for_each_failure() -> None:
    sections = re.findall(r"^### (.+)$", (DOCS / "reference" / "failures.md").read_text(), re.MULTILINE)
    assert sections == [
        *(f"failure {failure}" for failure in FailureClass),
        *(f"condition {known.title}" for known in conditions.KNOWN),
        *(f"bmc {failure}" for failure in BmcFailure),
    ]


def test_results_that_count_as_answers_are_results_of_services() -> None:
    services = vocabulary().services.values()
    results = {result for operations in services for each in operations.values() for result in each}
    assert results >= ANSWERS
    assert results - ANSWERS >= {"unreachable", "timeout", "tls", "auth", "denied", "upstream"}


def paged(config: Config) -> str:
    """The expression of FarrierManyStuck, which names the places that do not page."""
    (expr,) = (alert.expr for alert in alerts.groups(config)[0].alerts if alert.name == "FarrierManyStuck")
    return expr


def test_a_limit_of_a_day_does_not_page_unless_a_site_or_a_model_has_a_shorter_one() -> None:
    place = 'kind="onboarding",state="running",substate="wait_for_ready"'
    day = timedelta(days=1)
    with_day = promtool.limits({"onboarding.running.wait_for_ready": day})
    assert place not in paged(Config())
    assert place in paged(with_day)
    shorter = {"onboarding.running.wait_for_ready": timedelta(hours=1)}
    for scope in ("sites", "models"):
        both = promtool.limits(with_day.sla.everywhere, **{scope: {"north": shorter}})
        assert place not in paged(both)


def test_a_limit_of_a_day_does_not_page_for_other_kinds_either() -> None:
    ours = 'kind="ib_partition",state="error",substate=""'
    theirs = 'kind="crate",state="emptying",substate="unpack"'
    config = promtool.limits({"ib_partition.error": timedelta(days=1), "crate.emptying.unpack": timedelta(days=2)})
    controller = type(config.controller)(kinds=("tests.support.crates:SPEC",))
    with_both = paged(msgspec.structs.replace(config, controller=controller))
    assert ours in with_both
    assert theirs in with_both
    assert ours not in paged(Config())


def test_lag_is_measured_by_the_period_of_the_settings() -> None:
    config = msgspec.structs.replace(Config(), controller=type(Config().controller)(period=timedelta(minutes=4)))
    lag = next(alert for alert in alerts.groups(config)[1].alerts if alert.name == "FarrierSweepLate")
    assert lag.expr.endswith("> 480")


@pytest.mark.parametrize("named", [True, False], ids=["named", "named under another clock"])
def test_an_alert_has_the_named_nodes_the_numbers_and_a_link(named: bool, tmp_path: Path) -> None:
    labels = {"kind": "onboarding", "state": "running", "substate": "wait_for_ready"}
    elsewhere = {"kind": "node", "state": "offline", "substate": ""}
    worst = labels if named else elsewhere
    told = {
        promtool.labelled("farrier_resources_above_sla", **labels): "2x20",
        promtool.labelled("farrier_resource_above_sla_seconds", name="gpu-1", **worst): "5400x20",
        promtool.labelled("farrier_resource_above_sla_seconds", name="gpu-2", **worst): "60x20",
    }
    expected = {
        "eval_time": "6m",
        "alertname": "FarrierStuck",
        "exp_alerts": [
            {
                "exp_labels": {"severity": "ticket", **labels},
                "exp_annotations": {
                    "summary": "2 resource(s) above the limit of onboarding running wait_for_ready",
                    "description": "To list them, run farrier sla breaches."
                    + (" Furthest above the limit: gpu-1 gpu-2" if named else ""),
                    "runbook_url": "https://docs.example/operate/alerts/FarrierStuck.md",
                },
            }
        ],
    }
    promtool.check(tmp_path, [promtool.Replica("a", told)], expected)


def test_the_page_about_failing_regions_names_them_and_no_other_alert_does(tmp_path: Path) -> None:
    labels = {"kind": "maas_region", "state": "failing"}
    told = {
        promtool.labelled("farrier_resources_above_sla", **labels): "1x20",
        promtool.labelled(
            "farrier_resource_above_sla_seconds", name="ams1", resource_kind="maas_region", **labels
        ): "60x20",
    }
    page = {
        "exp_labels": {"severity": "page", **labels},
        "exp_annotations": {
            "summary": "1 MAAS region(s) cannot be read (failing)",
            "description": "farrier does not act on outdated observations of the machines of these regions. To see the "
            "error, run farrier site list. Furthest above the limit: ams1",
            "runbook_url": "https://docs.example/operate/alerts/FarrierRegionFailing.md",
        },
    }
    expected = {"eval_time": "6m", "alertname": "FarrierRegionFailing", "exp_alerts": [page]}
    replicas = [promtool.Replica("a", told)]
    promtool.check(tmp_path, replicas, expected, promtool.never("FarrierResourceStuck", 20))


def test_the_ticket_about_long_workflows_says_how_many_nodes_have_them_and_which(tmp_path: Path) -> None:
    labels = {"kind": "onboarding", "state": "end_to_end"}
    told = {
        promtool.labelled("farrier_resources_above_sla", **labels): "2x20",
        promtool.labelled("farrier_resource_above_sla_seconds", name="gpu-1", resource_kind="node", **labels): "60x20",
    }
    ticket = {
        "exp_labels": {"severity": "ticket", **labels},
        "exp_annotations": {
            "summary": "2 onboarding workflow(s) take longer than the limit for the whole workflow",
            "description": "To list the 2 node(s), run farrier sla breaches, and look for the clock onboarding "
            "end_to_end. A change of the stage does not reset this clock. General limits, which limits of sites and "
            "models override: onboarding 4h, decommission 8h. Furthest above the limit: gpu-1",
            "runbook_url": "https://docs.example/operate/alerts/FarrierEndToEndBreach.md",
        },
    }
    expected = {"eval_time": "6m", "alertname": "FarrierEndToEndBreach", "exp_alerts": [ticket]}
    promtool.check(tmp_path, [promtool.Replica("a", told)], expected)
