"""Alerts on gauges of the fleet, each with every course of samples that replicas and outages can cause."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from farrier.metrics.alerts import Severity
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.loop.doors import LostPulse
from farrier.model.maas import region
from farrier.model.machine.bmc import BmcFailure
from farrier.model.node.failures import UNSAFE, FailureClass
from farrier.model.node.limits import ClockedState, places_of
from farrier.model.views.census import ObservationSource
from tests.support import promtool
from tests.support.promtool import FRESH, Replica, firing, never

THREE = ("a", "b", "c")
# The times of the last count: the fleet is counted until minute 6, and then no more.
CUT_OFF = "0+60x6 360x200"

UNREAD_FOR_LONG = 'farrier_observations_stale{source="bmc"}'
UNOBSERVED = 'farrier_observations_stale{source="maas"}'
ACTIVE = 'farrier_resources{kind="node",state="active",substate=""}'
PARTITIONS = 'farrier_resources{kind="ib_partition",state="active",substate=""}'
MANAGEABLE = 'farrier_resources{kind="management",state="manageable",substate=""}'
NEWER = "a_class_of_a_newer_release"


class Figure(msgspec.Struct, frozen=True):
    """A gauge with which an alert fires at the value `loud` and not at `quiet`, and the labels of the alert. `beside`
    are other gauges, with constant values."""

    alert: str
    series: str
    severity: Severity
    labels: Mapping[str, str] = {}
    loud: float = 1
    quiet: float = 0
    beside: Mapping[str, float] = {}

    @property
    def alert_labels(self) -> dict[str, str]:
        """The labels of the alert."""
        return {"severity": self.severity, **self.labels}

    @property
    def hold(self) -> int:
        """The minutes for which the value must last before the alert fires."""
        return int(promtool.BY_NAME[self.alert].hold.total_seconds() // 60)


def stuck(kind: str, state: str, substate: str = "") -> Figure:
    labels = {"kind": kind, "state": state, "substate": substate}
    series = promtool.labelled("farrier_resources_above_sla", **labels)
    return Figure("FarrierStuck", series, Severity.TICKET, {k: v for k, v in labels.items() if v}, loud=3)


def many(kind: str, state: str, substate: str = "") -> Figure:
    series = promtool.labelled("farrier_resources_above_sla", kind=kind, state=state, substate=substate)
    total = PARTITIONS if kind == "ib_partition" else ACTIVE
    return Figure("FarrierManyStuck", series, Severity.PAGE, {"kind": kind}, loud=50, quiet=49, beside={total: 1000})


def named(name: str, resource_kind: str, kind: str, state: str) -> Figure:
    labels = {"name": name, "resource_kind": resource_kind, "kind": kind, "state": state}
    series = promtool.labelled("farrier_resource_above_sla_seconds", **labels, substate="")
    return Figure("FarrierResourceStuck", series, Severity.TICKET, labels, loud=90)


def manual(failure: str) -> Figure:
    series = promtool.labelled("farrier_manual_intervention_required", failure_class=failure)
    harmless = failure in set(FailureClass) - UNSAFE
    severity = Severity.TICKET if harmless else Severity.PAGE
    return Figure("FarrierManualInterventionRequired", series, severity, {"failure_class": failure})


def unreadable(failure: str) -> Figure:
    series = promtool.labelled("farrier_power_sync_failing", failure=failure)
    return Figure("FarrierBmcUnreadable", series, Severity.TICKET, {"failure": failure}, beside={UNREAD_FOR_LONG: 1})


FIGURES = (
    stuck("onboarding", "running", "wait_for_ready"),
    stuck("node", "offline"),
    stuck("management", "verifying"),
    stuck("decommission", "compensating"),
    stuck("ib_partition", "error"),
    stuck("network_segment", "deleting", "db_delete"),
    stuck("node", "active"),  # has a limit only at sites that set one
    stuck("node", "quarantined"),
    stuck("onboarding", "failed_manual_intervention"),
    many("node", "offline"),
    many("onboarding", "running", "wait_for_ready"),
    many("ib_partition", "error"),
    named("gpu-1", "node", "management", "verifying"),
    named("ib-1", "ib_partition", "ib_partition", "error"),
    Figure(
        "FarrierEndToEndBreach",
        'farrier_resources_above_sla{kind="onboarding",state="end_to_end",substate=""}',
        Severity.TICKET,
        {"kind": "onboarding", "state": "end_to_end"},
    ),
    manual(FailureClass.STATE_DISAGREEMENT),
    Figure("FarrierBrakeHolds", "farrier_brakes_holding", Severity.PAGE),
    *(
        Figure("FarrierDoorsDead", f'farrier_doors_dead_seconds{{pulse="{lost}"}}', Severity.PAGE, {"pulse": lost})
        for lost in LostPulse
    ),
    Figure("FarrierRestored", 'farrier_resources_restored{kind="node"}', Severity.TICKET),
    Figure("FarrierSameMachine", "farrier_nodes_same_machine", Severity.TICKET, loud=2),
    Figure(
        "FarrierRegionFailing",
        'farrier_resources_above_sla{kind="maas_region",state="failing",substate=""}',
        Severity.PAGE,
        {"kind": "maas_region", "state": "failing"},
    ),
    Figure(
        "FarrierRegionUnconfigured",
        'farrier_resources{kind="maas_region",state="unconfigured",substate=""}',
        Severity.TICKET,
    ),
    manual(NEWER),
    Figure("FarrierObservationsStale", UNOBSERVED, Severity.TICKET, beside={ACTIVE: 1000}),
    Figure("FarrierHardwareCritical", 'farrier_node_conditions{condition="bmc/health"}', Severity.TICKET),
    Figure("FarrierMonitorRefused", 'farrier_monitor_refused{monitor="am"}', Severity.TICKET, {"monitor": "am"}),
    Figure(
        "FarrierMonitorSilent",
        'farrier_monitor_conditions{monitor="am",state="unknown"}',
        Severity.TICKET,
        {"monitor": "am"},
    ),
    Figure("FarrierMaasStatusUnknown", "farrier_maas_status_unknown", Severity.TICKET),
    Figure(
        "FarrierResourcesFailing",
        'farrier_resources_failing{kind="node",error="timeout"}',
        Severity.TICKET,
        {"kind": "node", "error": "timeout"},
    ),
    unreadable(BmcFailure.TIMEOUT),
    unreadable(NEWER),
    Figure("FarrierManyBmcsUnreadable", UNREAD_FOR_LONG, Severity.PAGE, loud=50, quiet=49, beside={MANAGEABLE: 1000}),
    Figure("FarrierIntentsUnanswered", "farrier_intents_oldest_pending_seconds", Severity.TICKET, loud=901, quiet=899),
    Figure(
        "FarrierSweepLate",
        'farrier_shard_oldest_sweep_seconds{kind="node"}',
        Severity.PAGE,
        {"kind": "node"},
        loud=61,
        quiet=59,
    ),
    Figure(
        "FarrierShardsUnowned",
        'farrier_shards_unowned{kind="node"}',
        Severity.PAGE,
        {"kind": "node"},
        loud=64,
        beside={ACTIVE: 1},
    ),
)

CLASSES = (*map(manual, FailureClass), *map(unreadable, BmcFailure))

every_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"{figure.alert}-{figure.series}")


def replicas(figure: Figure, samples: str, *, names: tuple[str, ...] = THREE, counted: str = FRESH) -> list[Replica]:
    """Replicas that all expose the gauge with the same samples."""
    beside = {series: f"{value}x200" for series, value in figure.beside.items()}
    return [Replica(name, {**beside, figure.series: samples}, counted=counted) for name in names]


def replicas_of(told: Mapping[str, str]) -> list[Replica]:
    """Replicas that all expose these series."""
    return [Replica(name, told) for name in THREE]


def with_gap(figure: Figure, value: float, gap: str, counted: str, *, names: tuple[str, ...]) -> list[Replica]:
    """Replicas all of whose gauges have the same gap."""
    told = {series: gap.format(each) for series, each in {**figure.beside, figure.series: value}.items()}
    return [Replica(name, told, counted=counted) for name in names]


@pytest.mark.matrix(keep=4)
@every_figure
def test_an_alert_fires_once_after_its_duration_for_any_number_of_replicas(figure: Figure, tmp_path: Path) -> None:
    late, early = firing(figure.alert, figure.hold, figure.alert_labels), never(figure.alert, figure.hold - 1)
    pending = firing(figure.alert, figure.hold - 1, figure.alert_labels, state="pending")
    for names in (THREE, THREE[:1]):
        promtool.check(tmp_path, replicas(figure, f"{figure.loud}x200", names=names), early, pending, late)


@pytest.mark.matrix(keep=4)
@every_figure
def test_an_alert_is_silent_while_the_value_is_good_or_bad_for_a_moment(figure: Figure, tmp_path: Path) -> None:
    for samples in (f"{figure.quiet}x200", f"{figure.quiet}x9 {figure.loud}x{figure.hold - 2} {figure.quiet}x200"):
        promtool.check(tmp_path, replicas(figure, samples), never(figure.alert, 30 + figure.hold))


@pytest.mark.matrix(keep=4)
@every_figure
def test_an_alert_ends_when_the_value_is_good_again(figure: Figure, tmp_path: Path) -> None:
    samples = f"{figure.loud}x{figure.hold + 2} {figure.quiet}x200"
    fires, clear = firing(figure.alert, figure.hold + 2, figure.alert_labels), firing(figure.alert, figure.hold + 3)
    promtool.check(tmp_path, replicas(figure, samples), fires, clear)


@pytest.mark.matrix(keep=4)
@every_figure
def test_an_alert_goes_on_when_one_replica_of_three_is_gone(figure: Figure, tmp_path: Path) -> None:
    a, b, c = replicas(figure, f"{figure.loud}x200")
    gone = msgspec.structs.replace(c, exposes={figure.series: f"{figure.loud}x1"}, up="1x1 0x200", counted="0+60x1")
    always = [firing(figure.alert, minute, figure.alert_labels) for minute in (figure.hold, figure.hold + 20)]
    promtool.check(tmp_path, (a, b, gone), *always)


@pytest.mark.matrix(keep=4)
@every_figure
def test_a_short_gap_neither_ends_an_alert_nor_restarts_it(figure: Figure, tmp_path: Path) -> None:
    """The only replica restarts: at first the series have stale markers, as Prometheus sets them for a target that does
    not respond; then the new process has not counted yet."""
    last = figure.hold + 2
    gap = f"{{0}}x{last} stale _x1 {{0}}x200"
    for counted in (
        f"0+60x{last} stale _x1 {60 * (last + 3)}+60x200",
        f"0+60x{last} stale 0 {60 * (last + 3)}+60x200",
    ):
        for value, told in ((figure.loud, (figure.alert_labels,)), (figure.quiet, ())):
            minutes = range(figure.hold, last + 6)
            promtool.check(
                tmp_path,
                with_gap(figure, value, gap, counted, names=THREE[:1]),
                *(firing(figure.alert, minute, *told) for minute in minutes),
                *(firing(figure.alert, minute, state="pending") for minute in minutes),
            )


@pytest.mark.matrix(keep=4)
@every_figure
def test_after_a_long_gap_an_alert_fires_again_only_for_a_bad_value(figure: Figure, tmp_path: Path) -> None:
    last = figure.hold + 2
    gap, counted = f"{{0}}x{last} stale _x4 {{0}}x200", f"0+60x{last} stale _x4 {60 * (last + 6)}+60x200"
    for value, told in ((figure.loud, (figure.alert_labels,)), (figure.quiet, ())):
        promtool.check(
            tmp_path,
            with_gap(figure, value, gap, counted, names=THREE),
            firing(figure.alert, last + 3),
            firing(figure.alert, last + 6 + figure.hold, *told),
        )


@pytest.mark.matrix(keep=4)
@every_figure
def test_values_that_are_not_counted_again_fire_no_alert(figure: Figure, tmp_path: Path) -> None:
    begun = f"{figure.quiet}x5 {figure.loud}x200"  # the value changes in the last minute in which the fleet is counted
    for samples, counted in ((f"{figure.loud}x200", "0x200"), (begun, CUT_OFF)):
        promtool.check(tmp_path, replicas(figure, samples, counted=counted), never(figure.alert, 30 + figure.hold))


@pytest.mark.matrix(keep=4)
@every_figure
def test_a_replica_without_the_database_does_not_outvote_the_others(figure: Figure, tmp_path: Path) -> None:
    a, b, c = replicas(figure, f"{figure.loud}x1 {figure.quiet}x200")
    lost = msgspec.structs.replace(c, exposes={figure.series: f"{figure.loud}x200"}, counted="0x200")
    promtool.check(tmp_path, (a, b, lost), never(figure.alert, 30 + figure.hold))


@pytest.mark.parametrize(
    "labels", [{"kind": "maas_region", "state": "failing"}, {"kind": "onboarding", "state": "end_to_end"}]
)
def test_a_state_with_a_separate_alert_does_not_fire_farrierstuck(labels: dict[str, str], tmp_path: Path) -> None:
    series = promtool.labelled("farrier_resources_above_sla", **labels, substate="")
    expected = [never(alert, 60) for alert in ("FarrierStuck", "FarrierManyStuck")]
    promtool.check(tmp_path, [Replica("a", {series: "5x200"})], *expected)


@pytest.mark.parametrize(
    ("clocks", "total", "pages"),
    [
        ({("node", "offline"): 30, ("node", "draining"): 20}, 1000, True),
        ({("node", "offline"): 30, ("management", "verifying"): 30}, 1000, False),  # each layer has its own share
        ({("node", "offline"): 4}, 10, False),
        ({("node", "offline"): 5}, 10, True),
        ({("node", "quarantined"): 500, ("onboarding", "failed_manual_intervention"): 500}, 1000, False),
        ({("onboarding", "end_to_end"): 500}, 1000, False),
    ],
)
def test_many_stuck_nodes_page_unless_operators_do_the_work(
    clocks: dict[tuple[str, str], int], total: int, pages: bool, tmp_path: Path
) -> None:
    told = {
        promtool.labelled("farrier_resources_above_sla", kind=kind, state=state, substate=""): f"{count}x200"
        for (kind, state), count in clocks.items()
    }
    answers = ({"kind": "node", "severity": "page"},) if pages else ()
    promtool.check(tmp_path, replicas_of({ACTIVE: f"{total}x200"} | told), firing("FarrierManyStuck", 6, *answers))


def test_every_state_of_every_other_kind_above_its_limit_fires_farrierstuck(tmp_path: Path) -> None:
    others = [spec for spec in BUILT_IN if spec is not region.SPEC]
    places = [*places_of(others), ClockedState("of_somebody_else", "waiting", "", "", None)]
    figures = [stuck(place.kind, place.state, place.substate) for place in places]
    late = Replica("a", {figure.series: "3x200" for figure in figures})
    promtool.check(
        tmp_path, [late], firing("FarrierStuck", figures[0].hold, *(figure.alert_labels for figure in figures))
    )
    in_time = Replica("a", {figure.series: "0x200" for figure in figures})
    promtool.check(tmp_path, [in_time], never("FarrierStuck", 30))


@pytest.mark.parametrize("alert", sorted({figure.alert for figure in CLASSES}))
def test_each_class_has_its_own_alert_and_its_own_severity(alert: str, tmp_path: Path) -> None:
    classes = [figure for figure in CLASSES if figure.alert == alert]
    told = {series: f"{value}x200" for figure in classes for series, value in figure.beside.items()}
    all_of_them = Replica("a", told | {figure.series: "1x200" for figure in classes})
    minute = classes[0].hold
    promtool.check(tmp_path, [all_of_them], firing(alert, minute, *(figure.alert_labels for figure in classes)))


def test_reads_that_fail_now_and_then_do_not_fire_an_alert(tmp_path: Path) -> None:
    figure = unreadable(BmcFailure.TIMEOUT)
    taking_turns = Replica("a", {figure.series: "3x200", UNREAD_FOR_LONG: "0x200"})
    promtool.check(tmp_path, [taking_turns], never(figure.alert, 100))


def test_a_few_unreadable_bmcs_of_a_small_fleet_do_not_page(tmp_path: Path) -> None:
    for unread, manageable in ((4, 10), (0, 0)):
        few = Replica("a", {UNREAD_FOR_LONG: f"{unread}x200", MANAGEABLE: f"{manageable}x200"})
        promtool.check(tmp_path, [few], never("FarrierManyBmcsUnreadable", 100))


def test_all_bmcs_that_cannot_be_verified_again_page(tmp_path: Path) -> None:
    lost = Replica("a", {UNREAD_FOR_LONG: "16x200", MANAGEABLE: "0x200"})
    promtool.check(tmp_path, [lost], firing("FarrierManyBmcsUnreadable", 10, {"severity": "page"}))


@pytest.mark.parametrize(("unobserved", "pages"), [(60, True), (59, False)])
def test_stale_observations_page_for_many_nodes_and_make_a_ticket_for_few(
    unobserved: int, pages: bool, tmp_path: Path
) -> None:
    offline = 'farrier_resources{kind="node",state="offline",substate=""}'
    told = {UNOBSERVED: f"{unobserved}x200", ACTIVE: "1000x200", offline: "200x200"}
    severities = ("page", "ticket") if pages else ("ticket",)
    expected = firing("FarrierObservationsStale", 15, *({"severity": severity} for severity in severities))
    promtool.check(tmp_path, replicas_of(told), expected, never("FarrierObservationsStale", 14))


def test_stale_observations_of_failing_regions_fire_only_the_alert_about_the_regions(tmp_path: Path) -> None:
    failing = promtool.labelled("farrier_observations_stale", source=ObservationSource.MAAS_FAILING)
    told = {failing: "500x200", UNOBSERVED: "0x200", ACTIVE: "1000x200"}
    promtool.check(tmp_path, replicas_of(told), never("FarrierObservationsStale", 100))


def test_unowned_shards_of_a_kind_without_resources_do_not_page(tmp_path: Path) -> None:
    told = {'farrier_shards_unowned{kind="ib_partition"}': "64x200", ACTIVE: "10x200"}
    told['farrier_resources{kind="ib_partition",state="active",substate=""}'] = "0x200"
    promtool.check(tmp_path, replicas_of(told), never("FarrierShardsUnowned", 100))


def test_a_few_machines_of_a_small_fleet_do_not_page(tmp_path: Path) -> None:
    expected = firing("FarrierObservationsStale", 30, {"severity": "ticket"})
    promtool.check(tmp_path, replicas_of({UNOBSERVED: "4x200", ACTIVE: "10x200"}), expected)


@pytest.mark.parametrize("alert", ["FarrierResourceStuck", "FarrierResourcesFailing"])
def test_an_alert_ends_at_the_scrape_in_which_its_series_is_missing(alert: str, tmp_path: Path) -> None:
    figure = next(figure for figure in FIGURES if figure.alert == alert)
    last = figure.hold + 2
    fires, clear = firing(alert, last, figure.alert_labels), firing(alert, last + 1)
    promtool.check(tmp_path, replicas(figure, f"{figure.loud}x{last} stale"), fires, clear)
