"""Alerts that go by figures of the fleet, each in every situation that replicas and outages can make of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from farrier.metrics.alerts import Severity
from farrier.model.bmc import BmcFailure
from farrier.model.failures import UNSAFE, FailureClass
from tests.support import promtool
from tests.support.promtool import FRESH, Replica, firing, never

THREE = ("a", "b", "c")
# Counted until minute 6, and then no more.
CUT_OFF = "0+60x6 360x200"


class Figure(msgspec.Struct, frozen=True):
    """A figure that makes an alert fire with `loud` and not with `quiet`, and the labels with which it does."""

    alert: str
    series: str
    severity: Severity
    labels: Mapping[str, str] = {}
    loud: float = 1
    quiet: float = 0

    @property
    def told(self) -> dict[str, str]:
        """Labels of the alert."""
        return {"severity": self.severity, **self.labels}

    @property
    def hold(self) -> int:
        """Minutes that it must stand."""
        return int(promtool.BY_NAME[self.alert].hold.total_seconds() // 60)


def stuck(kind: str, state: str, substate: str = "", *, severity: Severity = Severity.PAGE) -> Figure:
    labels = {"kind": kind, "state": state, "substate": substate}
    series = promtool.labelled("farrier_resources_above_sla", **labels)
    return Figure("FarrierStuck", series, severity, {k: v for k, v in labels.items() if v}, loud=3)


def manual(failure: FailureClass) -> Figure:
    series = promtool.labelled("farrier_manual_intervention_required", failure_class=failure)
    severity = Severity.PAGE if failure in UNSAFE else Severity.TICKET
    return Figure("FarrierManualInterventionRequired", series, severity, {"failure_class": failure})


def unreadable(failure: BmcFailure) -> Figure:
    series = promtool.labelled("farrier_power_sync_failing", failure=failure)
    return Figure("FarrierBmcUnreadable", series, Severity.TICKET, {"failure": failure})


FIGURES = (
    stuck("onboarding", "running", "wait_for_ready"),
    stuck("node", "offline"),
    stuck("management", "verifying"),
    stuck("decommission", "compensating"),
    stuck("node", "active"),  # has no limit but where a site gives it one
    stuck("node", "quarantined", severity=Severity.TICKET),
    stuck("onboarding", "failed_manual_intervention", severity=Severity.TICKET),
    Figure(
        "FarrierNodeStuck",
        'farrier_node_above_sla_seconds{node="gpu-1",kind="node",state="offline",substate=""}',
        Severity.TICKET,
        {"node": "gpu-1", "kind": "node", "state": "offline"},
        loud=90,
    ),
    Figure(
        "FarrierEndToEndBreach",
        'farrier_resources_above_sla{kind="onboarding",state="end_to_end",substate=""}',
        Severity.TICKET,
        {"kind": "onboarding"},
    ),
    manual(FailureClass.STATE_DISAGREEMENT),
    Figure(
        "FarrierRegionFailing",
        'farrier_resources_above_sla{kind="maas_region",state="failing",substate=""}',
        Severity.PAGE,
        {"state": "failing"},
    ),
    unreadable(BmcFailure.TIMEOUT),
    Figure("FarrierIntentsUnanswered", "farrier_intents_oldest_pending_seconds", Severity.TICKET, loud=901, quiet=899),
    Figure(
        "FarrierScheduleLag",
        'farrier_schedule_oldest_due_seconds{kind="node"}',
        Severity.PAGE,
        {"kind": "node"},
        loud=61,
        quiet=59,
    ),
)

CLASSES = (*map(manual, FailureClass), *map(unreadable, BmcFailure))

every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.alert}-{figure.series}")


def replicas(figure: Figure, samples: str, *, names: tuple[str, ...] = THREE, counted: str = FRESH) -> list[Replica]:
    """Replicas that all tell the same of the figure."""
    return [Replica(name, {figure.series: samples}, counted=counted) for name in names]


@every_figure
def test_it_fires_once_when_it_has_stood_long_enough_however_many_replicas_tell(figure: Figure, tmp_path: Path) -> None:
    late, early = firing(figure.alert, figure.hold, figure.told), never(figure.alert, figure.hold - 1)
    pending = firing(figure.alert, figure.hold - 1, figure.told, state="pending")
    for names in (THREE, THREE[:1]):
        promtool.check(tmp_path, replicas(figure, f"{figure.loud}x200", names=names), early, pending, late)


@every_figure
def test_it_is_silent_while_all_is_well_or_was_wrong_for_a_moment(figure: Figure, tmp_path: Path) -> None:
    for samples in (f"{figure.quiet}x200", f"{figure.quiet}x9 {figure.loud}x{figure.hold - 2} {figure.quiet}x200"):
        promtool.check(tmp_path, replicas(figure, samples), never(figure.alert, 30 + figure.hold))


@every_figure
def test_it_clears_when_the_figure_does(figure: Figure, tmp_path: Path) -> None:
    samples = f"{figure.loud}x{figure.hold + 2} {figure.quiet}x200"
    fires, clear = firing(figure.alert, figure.hold + 2, figure.told), firing(figure.alert, figure.hold + 3)
    promtool.check(tmp_path, replicas(figure, samples), fires, clear)


@every_figure
def test_it_does_not_notice_that_one_replica_of_three_is_gone(figure: Figure, tmp_path: Path) -> None:
    a, b, c = replicas(figure, f"{figure.loud}x200")
    gone = msgspec.structs.replace(c, exposes={figure.series: f"{figure.loud}x1"}, up="1x1 0x200", counted="0+60x1")
    always = [firing(figure.alert, minute, figure.told) for minute in (figure.hold, figure.hold + 20)]
    promtool.check(tmp_path, (a, b, gone), *always)


@every_figure
def test_after_a_gap_in_which_every_replica_restarts_it_is_right_again(figure: Figure, tmp_path: Path) -> None:
    """Stale markers, as Prometheus sets them for targets that do not answer."""
    for value, told in ((figure.loud, (figure.told,)), (figure.quiet, ())):
        samples = f"{value}x10 stale _x2 {value}x200"
        counted = "0+60x10 stale _x2 840+60x200"
        after = 14 + figure.hold
        promtool.check(
            tmp_path,
            replicas(figure, samples, counted=counted),
            firing(figure.alert, 12),
            firing(figure.alert, after, *told),
        )


@every_figure
def test_figures_that_nobody_renews_make_nothing_fire(figure: Figure, tmp_path: Path) -> None:
    begun = f"{figure.quiet}x5 {figure.loud}x200"  # in the last minute that was counted
    for samples, counted in ((f"{figure.loud}x200", "0x200"), (begun, CUT_OFF)):
        promtool.check(tmp_path, replicas(figure, samples, counted=counted), never(figure.alert, 30 + figure.hold))


@every_figure
def test_a_replica_that_lost_the_database_does_not_outvote_those_that_know_better(
    figure: Figure, tmp_path: Path
) -> None:
    a, b, c = replicas(figure, f"{figure.loud}x1 {figure.quiet}x200")
    lost = msgspec.structs.replace(c, exposes={figure.series: f"{figure.loud}x200"}, counted="0x200")
    promtool.check(tmp_path, (a, b, lost), never(figure.alert, 30 + figure.hold))


@pytest.mark.parametrize(
    "labels", [{"kind": "maas_region", "state": "failing"}, {"kind": "onboarding", "state": "end_to_end"}]
)
def test_what_has_an_alert_of_its_own_is_not_told_as_stuck(labels: dict[str, str], tmp_path: Path) -> None:
    series = promtool.labelled("farrier_resources_above_sla", **labels, substate="")
    promtool.check(tmp_path, [Replica("a", {series: "5x200"})], never("FarrierStuck", 60))


@pytest.mark.parametrize("alert", sorted({figure.alert for figure in CLASSES}))
def test_each_class_has_its_own_alert_and_its_own_severity(alert: str, tmp_path: Path) -> None:
    classes = [figure for figure in CLASSES if figure.alert == alert]
    all_of_them = Replica("a", {figure.series: "1x200" for figure in classes})
    minute = classes[0].hold
    promtool.check(tmp_path, [all_of_them], firing(alert, minute, *(figure.told for figure in classes)))
