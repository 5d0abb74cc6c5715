"""Defines, for all dashboards, the variables, the links to each other, the time range, and the rows of panels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from farrier.metrics import gauges
from tools.dashboards.panels import SOURCE

Panels = Sequence[Builder[model.Panel]]

_TAG = "farrier"


class Part(msgspec.Struct, frozen=True):
    """Panels under a heading, arranged from left to right and line by line. Each line fills the width."""

    heading: str
    panels: Panels


class Board(msgspec.Struct, frozen=True):
    """A dashboard: its name on the command line and in its file, its title, and the question that it answers."""

    name: str
    title: str
    answers: str
    parts: Sequence[Part]
    variables: Sequence[Builder[model.VariableModel]] = ()

    def build(self) -> model.Dashboard:
        """Return the dashboard in Grafana's form. Every call returns the same result."""
        board = (
            dashboard.Dashboard(f"Farrier / {self.title}")
            .uid(f"farrier-{self.name}")
            .description(self.answers)
            .tags([_TAG])
            .time("now-6h", "now")
            .refresh("30s")
            .timezone("browser")
            .tooltip(model.DashboardCursorSync.CROSSHAIR)
            .link(_others())
            .variables([*_variables(), *self.variables])
        )
        for part in self.parts:
            board.with_row(dashboard.Row(part.heading))
            for panel in part.panels:
                board.with_panel(panel)
        built = board.build()
        for number, placed in enumerate(built.panels or (), start=1):
            placed.id_val = number
        return built


def choice(name: str, label: str, says: str, query: str) -> dashboard.QueryVariable:
    """Return a variable with values from Prometheus."""
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .description(says)
        .datasource(SOURCE)
        .query({"query": query, "refId": name})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )


def _variables() -> Iterator[Builder[model.VariableModel]]:
    yield dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")
    yield choice(
        "job",
        "Fleet",
        "The scrape job: the replicas that share one database.",
        f"label_values({gauges.BUILD_INFO.name}, job)",
    )


def address(name: str, label: str, says: str, default: str) -> dashboard.TextBoxVariable:
    """Return a variable with the address at which links begin; `farrier dashboard` has an option for it."""
    return (
        dashboard.TextBoxVariable(name)
        .label(label)
        .description(says)
        .default_value(default)
        .current(model.VariableOption(text=default, value=default))
    )


def _others() -> dashboard.DashboardLink:
    return (
        dashboard.DashboardLink("Farrier")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([_TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
    )
