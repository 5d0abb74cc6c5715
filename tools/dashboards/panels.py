"""Builds the panels of all dashboards. A panel has a title, a sentence of description, one data source, and queries.

The module uses Grafana's typed builders, which define the options of each kind of panel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, Self, TypeVar

import msgspec
from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    statushistory,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""The data source of every panel; the dashboard's variable selects a Prometheus."""

Steps = Mapping[float | None, str]
"""A colour from each value on; None stands for the lowest."""

GREEN: Steps = {None: "green"}
SOME: Steps = {None: "green", 1: "orange"}
"""A value above zero needs attention."""
FATAL: Steps = {None: "green", 1: "red"}
"""A value above zero needs an operator."""
STALE: Steps = {None: "green", 60: "orange", 180: "red"}
"""Seconds; no alert uses figures that are older than three minutes."""


class About(msgspec.Struct, frozen=True):
    """The properties of a panel: its title, its description, and its size in columns (of 24) and rows."""

    title: str
    says: str
    wide: int = 12
    high: int = 8


class Query(msgspec.Struct, frozen=True):
    """An expression, and the legend of its series."""

    expr: str
    legend: str = ""


class _Panel(Protocol):
    """The common interface of the builders of all panels."""

    def title(self, title: str) -> Self: ...
    def description(self, description: str) -> Self: ...
    def datasource(self, datasource: model.DataSourceRef) -> Self: ...
    def span(self, w: int) -> Self: ...
    def height(self, h: int) -> Self: ...
    def unit(self, unit: str) -> Self: ...
    def thresholds(self, thresholds: Builder[model.ThresholdsConfig]) -> Self: ...


P = TypeVar("P", bound=_Panel)


def number(about: About, expr: str, unit: str = "short", steps: Steps = GREEN) -> stat.Panel:
    """Return a panel with one number, coloured by its thresholds."""
    return (
        _set_up(stat.Panel(), about, unit, steps)
        .with_target(_instant(Query(expr)))
        .color_mode(options.BigValueColorMode.VALUE)
        .graph_mode(options.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )


def names(about: About, query: Query) -> stat.Panel:
    """Return a panel with the legends of series, such as versions, whose values have no meaning."""
    panel = number(about, query.expr).text_mode(options.BigValueTextMode.NAME)
    return panel.targets([_instant(query)])


def lines(about: About, queries: Sequence[Query], unit: str = "short") -> timeseries.Panel:
    """Return a panel with series over time."""
    panel = _set_up(timeseries.Panel(), about, unit, GREEN).fill_opacity(8).min(0)
    panel.color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC))
    panel.legend(
        common.VizLegendOptions()
        .display_mode(options.LegendDisplayMode.TABLE)
        .placement(options.LegendPlacement.RIGHT if about.wide > _HALF else options.LegendPlacement.BOTTOM)
        .calcs(["lastNotNull", "max"])
        .show_legend(True)
    )
    panel.tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    return panel.targets([_range(query, ref) for query, ref in zip(queries, _REFS, strict=False)])


def layers(about: About, query: Query, unit: str = "short") -> timeseries.Panel:
    """Return a panel with the parts of a whole over time, one above the other."""
    stacked = common.StackingConfig().mode(options.StackingMode.NORMAL).group("A")
    return lines(about, [query], unit).stacking(stacked).fill_opacity(60).line_width(0)


def bars(about: About, query: Query, unit: str = "short", steps: Steps = GREEN) -> bargauge.Panel:
    """Return a panel with one bar for each series, showing its present value."""
    return (
        _set_up(bargauge.Panel(), about, unit, steps)
        .with_target(_instant(query))
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .min(0)
        .no_value("none")
    )


def timeline(about: About, query: Query, unit: str, steps: Steps, zero: str) -> statetimeline.Panel:
    """Return a panel with a band for each series, coloured by its thresholds. `zero` is the text for the value 0."""
    return (
        _set_up(statetimeline.Panel(), about, unit, steps)
        .with_target(_range(query))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .mappings([model.ValueMap(options={"0": model.ValueMappingResult(text=zero, color="green")})])
        .merge_values(True)
        .row_height(0.8)
        .per_page(_ROWS)
        .fill_opacity(70)
        .line_width(0)
        .show_value(options.VisibilityMode.AUTO)
        .no_value("none")
    )


def heat(about: About, query: Query, steps: Steps) -> statushistory.Panel:
    """Return a panel with a row of cells for each series. The colour of a cell shows a share between 0 and 1."""
    return (
        _set_up(statushistory.Panel(), about, "percentunit", steps)
        .with_target(_range(query))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .max_data_points(96)  # cells that are wide enough to be distinguished
        .show_value(options.VisibilityMode.NEVER)
        .row_height(0.9)
        .per_page(_ROWS)
        .fill_opacity(70)
        .line_width(0)
        .col_width(0.95)
    )


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its source (a label, or `Value`, which is `Value #B` if there are several queries), its
    heading, and how it is shown."""

    source: str
    heading: str
    unit: str = ""
    steps: Steps | None = None
    links: Mapping[str, str] = {}  # title → URL


def rows(about: About, queries: Sequence[str], columns: Sequence[Column], worst: str) -> table.Panel:
    """Return a table of current values. Queries are joined by the labels that they share. The largest value of column
    `worst` is first."""
    panel = _set_up(table.Panel(), about, "short", GREEN).no_value("none").filterable(True)
    panel.targets([_table(expr, ref) for expr, ref in zip(queries, _REFS, strict=False)])
    if len(queries) > 1:
        panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        model.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {column.source: index for index, column in enumerate(columns)},
                "renameByName": {column.source: column.heading for column in columns},
            },
        )
    )
    for column in columns:
        if properties := list(_properties(column)):
            panel.override_by_name(column.heading, properties)
    return panel.sort_by([common.TableSortByFieldState().display_name(worst).desc(True)])


# Beyond half of the width, a legend beside the lines leaves enough room for them.
_HALF = 12
_REFS = "ABCDEFGH"
_ROWS = 24  # the number of bands or rows of cells on one page; in the tallest panel, each is still as high as its name


def _set_up(panel: P, about: About, unit: str, steps: Steps) -> P:
    thresholds = dashboard.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(_steps(steps))
    panel.title(about.title).description(about.says).datasource(SOURCE).span(about.wide).height(about.high)
    return panel.unit(unit).thresholds(thresholds)


def _steps(steps: Steps) -> list[model.Threshold]:
    return [model.Threshold(value=value, color=color) for value, color in steps.items()]


def _range(query: Query, ref: str = "A") -> prometheus.Dataquery:
    return _target(query.expr, ref).range().legend_format(query.legend or "__auto")


def _instant(query: Query) -> prometheus.Dataquery:
    return _target(query.expr, "A").instant().legend_format(query.legend or "__auto")


def _table(expr: str, ref: str) -> prometheus.Dataquery:
    return _target(expr, ref).instant().format(PromQueryFormat.TABLE)


def _target(expr: str, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().expr(expr).ref_id(ref).datasource(SOURCE)


def _properties(column: Column) -> list[model.DynamicConfigValue]:
    found = []
    if column.unit:
        found.append(model.DynamicConfigValue(id_val="unit", value=column.unit))
    if column.steps is not None:
        config = model.ThresholdsConfig(mode=model.ThresholdsMode.ABSOLUTE, steps=_steps(column.steps))
        found.append(model.DynamicConfigValue(id_val="thresholds", value=config))
        found.append(model.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
    if column.links:
        links = [{"title": title, "url": url, "targetBlank": True} for title, url in column.links.items()]
        found.append(model.DynamicConfigValue(id_val="links", value=links))
    return found
