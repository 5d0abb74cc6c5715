"""Prometheus as Debian packages it: its programs, and rules run by promtool against series that a test defines.

A replica exposes the series that a test gives it, and three further series: `up`, its build, and the time of its last
count of the fleet, which by default is in the minute of the scrape. Samples are a minute apart, in promtool's notation:
`3x10` is 3 for 11 minutes, `_x2` is no sample for two minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from farrier.config import Config
from farrier.metrics import alerts
from farrier.metrics.runbooks import Runbooks
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node.limits import KEYS, Limits, keys_of
from tests.support.programs import program

RULES = alerts.groups(Config())
BY_NAME = {alert.name: alert for group in RULES for alert in group.alerts}

FRESH = "0+60x200"  # counted in the minute of each scrape
# promtool ends before its memory matters; its garbage collector would take a third of its time.
_UNCOLLECTED = {**os.environ, "GOGC": "off"}
_SERIES = re.compile(r"(\w+)(?:\{(.*)\})?")


class Replica(msgspec.Struct, frozen=True):
    """The series of one process. `up` and `counted` are the samples of `up` and of the time of its last count."""

    name: str
    exposes: Mapping[str, str]
    up: str = "1x200"
    counted: str = FRESH

    def series(self) -> dict[str, str]:
        """Its series as Prometheus stores them."""
        own = {
            'farrier_build_info{version="1",python="3"}': self.up.replace("0x", "stale _x"),
            "farrier_fleet_collected_timestamp_seconds": self.counted,
            **self.exposes,
        }
        series = {"up": self.up, **own}
        return {labelled(name, job="farrier", instance=self.name): samples for name, samples in series.items()}


def labelled(series: str, **labels: str) -> str:
    """The series with these labels added."""
    found = _SERIES.fullmatch(series)
    assert found, series
    added = [f'{name}="{value}"' for name, value in labels.items()]
    return f"{found[1]}{{{','.join(filter(None, (found[2], *added)))}}}"


class Expected(msgspec.Struct, frozen=True):
    """The expected result of a query at one minute: label sets with their values."""

    minute: int
    query: str
    answers: Iterable[Mapping[str, str]] = ()
    metric: str = "ALERTS"
    value: float = 1
    alert: str = ""  # the alert whose rules the query needs, if any


def firing(alert: str, minute: int, *answers: Mapping[str, str], state: str = "firing") -> Expected:
    """Exactly these alerts of the name fire, identified by their labels."""
    known = {"alertname": alert, "alertstate": state}
    return Expected(minute, labelled("ALERTS", **known), [known | dict(answer) for answer in answers], alert=alert)


def never(alert: str, until: int) -> Expected:
    """No alert of the name has fired up to this minute."""
    query = labelled("ALERTS", alertname=alert, alertstate="firing")
    return Expected(until, f"last_over_time({query}[{until + 1}m])", alert=alert)


def check(directory: Path, replicas: Iterable[Replica], *expected: Expected | Mapping[str, Any]) -> None:
    """Run rules over the replicas' series; the test fails with promtool's message. A mapping is an `alert_rule_test` in
    promtool's format, which compares annotations, too. Only the rules that the checks need run: all take seconds."""
    asked = {one.alert if isinstance(one, Expected) else one["alertname"] for one in expected}
    chosen = tuple(alert for group in RULES for alert in group.alerts if alert.name in asked)
    rules = directory / "rules.yml"
    alone = alerts.exposition([alerts.RuleGroup("alone", chosen)], runbooks=Runbooks.at("https://docs.example"))
    rules.write_text(alerts.yaml(alone))
    series: dict[str, str] = {}
    for replica in replicas:
        series |= replica.series()
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": samples} for name, samples in series.items()],
        "promql_expr_test": [_query(one) for one in expected if isinstance(one, Expected)],
        "alert_rule_test": [one for one in expected if not isinstance(one, Expected)],
    }
    file = directory / "test.yml"
    file.write_bytes(msgspec.json.encode({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [program("promtool"), "test", "rules", file], capture_output=True, text=True, check=False, env=_UNCOLLECTED
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _query(expected: Expected) -> dict[str, Any]:
    samples = [{"labels": labelled(expected.metric, **answer), "value": expected.value} for answer in expected.answers]
    return {"expr": expected.query, "eval_time": f"{expected.minute}m", "exp_samples": samples}


def limits(everywhere: Mapping[str, timedelta], **scopes: Mapping[str, Mapping[str, timedelta]]) -> Config:
    """Settings with these limits, and separate limits for some `sites` and `models`."""
    return msgspec.structs.replace(Config(), sla=Limits(dict(everywhere), **scopes))


def quiet() -> Config:
    """Settings whose alerts name no resources, with a limit of an hour for everything but MAAS regions."""
    short = {key: timedelta(hours=1) for key in KEYS | keys_of(BUILT_IN) if not key.startswith("maas_region")}
    named = msgspec.structs.replace(Config().metrics, name_resources=False)
    return msgspec.structs.replace(limits(short), metrics=named)
