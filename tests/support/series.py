"""Every series that farrier exports, with its labels, for tests of the queries of alerts and dashboards."""

from __future__ import annotations

from farrier.metrics import definitions, gauges
from farrier.metrics.families import Definition, Gauge

_OF_A_PROCESS = (gauges.BUILD_INFO, gauges.BMC_TLS_INSECURE, gauges.BMC_TLS_CIPHERS, gauges.COLLECTED)
_GAUGES = [gauge for gauge in vars(gauges).values() if isinstance(gauge, Gauge)]

FLEET = {gauge.name for gauge in _GAUGES if gauge not in _OF_A_PROCESS}
"""Figures that every replica exports alike."""

LABELS: dict[str, set[str]] = {gauge.name: set(gauge.labels) for gauge in _GAUGES}
for _counted in vars(definitions).values():
    if isinstance(_counted, Definition):
        LABELS[_counted.series] = set(_counted.labels)
        if _counted.buckets:
            LABELS |= {f"{_counted.series}_{part}": set(_counted.labels) for part in ("count", "sum")}
            LABELS[f"{_counted.series}_bucket"] = {*_counted.labels, "le"}
