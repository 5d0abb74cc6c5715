"""Which conditions of nodes the alerts of a group are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from farrier.model.monitors.alertmanager import Labels, Webhook, reports
from farrier.model.monitors.monitor import Report

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
BY_DEFAULT = {"node": "gpu-1", "condition": "gpu/xid-79", "target": "GPU-5e", "effect": "quarantine"}


def alert(status: str = "firing", ends_at: str = "0001-01-01T00:00:00Z", text: str = "", **labels: str) -> Any:
    annotations = {"summary": text} if text else {}
    return {
        "status": status,
        "labels": {"alertname": "GpuXid", **labels},
        "annotations": annotations,
        "startsAt": "2026-11-29T11:59:12.123456789Z",
        "endsAt": ends_at,
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "a1",
    }


def read(*alerts: Any, labels: Labels | None = None) -> tuple[Report, ...]:
    """The reports of a payload as Alertmanager writes it, with a field that is newer than this release."""
    payload = {"version": "4", "groupKey": "{}:{}", "truncatedAlerts": 0, "status": "firing", "newer": 1}
    group = msgspec.json.decode(msgspec.json.encode(payload | {"alerts": alerts}), type=Webhook)
    return reports(group.alerts, labels or Labels(), NOW)


def test_a_firing_alert_states_the_condition_that_its_labels_name() -> None:
    (report,) = read(alert(text="fallen off\n  the bus", **BY_DEFAULT))
    assert report == Report(
        node="gpu-1",
        by="name",
        id="gpu/xid-79",
        target="GPU-5e",
        message="fallen off the bus",
        effect="quarantine",
        expires_at=None,
    )


def test_a_resolved_alert_ends_its_condition() -> None:
    (report,) = read(alert("resolved", "2026-11-29T11:59:59Z", **BY_DEFAULT))
    assert (report.ends, report.expires_at) == (True, None)


def test_an_alert_without_an_annotation_says_its_name_and_is_a_note() -> None:
    (report,) = read(alert(node="gpu-1", condition="gpu/hot"))
    assert (report.message, report.effect, report.target) == ("GpuXid", "note", "")


@pytest.mark.parametrize(
    ("ends_at", "expires_at"),
    [
        ("0001-01-01T00:00:00Z", None),
        ("2026-11-29T11:00:00Z", None),
        ("2026-11-29T12:30:00+00:00", NOW + timedelta(minutes=30)),
        ("2030-01-01T00:00:00Z", NOW + timedelta(days=30)),
    ],
)
def test_an_end_in_the_future_is_the_expiry_and_any_other_leaves_it_to_the_grant(
    ends_at: str, expires_at: datetime | None
) -> None:
    (report,) = read(alert("firing", ends_at, **BY_DEFAULT))
    assert report.expires_at == expires_at


def test_the_grant_says_which_labels_name_the_node_and_the_condition() -> None:
    labels = Labels(node="Hostname", id="farrier", target="UUID", effect="severity", message="description")
    given = alert(Hostname="gpu-2", farrier="gpu/ecc", UUID="GPU-1", severity="quarantine")
    (report,) = read(given | {"annotations": {"description": "ECC"}}, labels=labels)
    assert (report.node, report.id, report.target, report.effect) == ("gpu-2", "gpu/ecc", "GPU-1", "quarantine")
    assert report.message == "ECC"


def test_a_serial_number_names_the_node_only_if_no_label_has_its_name() -> None:
    labels = Labels(serial="chassis")
    by_serial, by_name = read(
        alert(chassis="SN-7", condition="bmc/fan"),
        alert(chassis="SN-8", node="gpu-8", condition="bmc/fan"),
        labels=labels,
    )
    assert (by_serial.node, by_serial.by) == ("SN-7", "serial")
    assert (by_name.node, by_name.by) == ("gpu-8", "name")


def test_alerts_with_the_same_condition_are_one_report_which_stands_while_one_of_them_fires() -> None:
    same = {"node": "gpu-1", "condition": "gpu/xid-79"}
    together = read(
        alert("firing", text="first", gpu="0", **same),
        alert("resolved", gpu="1", **same),
        alert("firing", text="worse", gpu="2", effect="quarantine", **same),
        alert("resolved", gpu="3", effect="quarantine", **same),
    )
    assert [(each.ends, each.effect, each.message) for each in together] == [(False, "quarantine", "worse")]


def test_alerts_without_the_labels_are_reports_that_name_nothing() -> None:
    assert [(each.node, each.id) for each in read(alert(), alert(node="gpu-1"), alert(condition="x"))] == [
        (None, None),
        ("gpu-1", None),
        (None, "x"),
    ]


@pytest.mark.parametrize("wrong", [{"version": "5"}, {"truncatedAlerts": -1}, {"alerts": [{"status": "pending"}]}])
def test_another_payload_is_refused(wrong: dict[str, Any]) -> None:
    payload = {"version": "4", "truncatedAlerts": 0, "alerts": []} | wrong
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(payload, Webhook)
