"""The description of the machine in the report's table."""

from __future__ import annotations

import pytest

from bench import report
from bench.yardstick import Speed, Yardstick

THERE = Speed(transitions_per_second=80_000, reaction_p50_ms=0.75)


def test_the_machine_is_shown_before_and_after_beside_the_one_where_the_targets_were_set(
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = Yardstick(Speed(160_000, 0.5), Speed(20_000, 3.0), where_the_targets_were_set=THERE)
    report.show_table(report.report([], machine, {}))
    shown = capsys.readouterr().out.splitlines()
    assert (
        "this machine, before: raw SQL 160,000 transitions/s (80,000 where the targets were set: 200% of its speed), "
        "0.5 ms reaction (0.75 ms: 150%)"
    ) in shown
    assert (
        "this machine, after: raw SQL 20,000 transitions/s (80,000 where the targets were set: 25% of its speed), "
        "3 ms reaction (0.75 ms: 25%)"
    ) in shown
