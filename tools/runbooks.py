"""Generates parts of runbook pages: when each alert fires, and the model's recommendation for each failure.

`generate_docs` calls this module. People write the text around the generated parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from farrier.config import Config
from farrier.metrics import alerts
from farrier.metrics.alerts import AlertRule
from farrier.model import duration
from farrier.model.advice.recommended import text
from farrier.model.node.conditions import KNOWN
from farrier.model.node.failures import (
    BMC_ADVICE,
    CONDITION_ADVICE,
    FAILURES,
    MAX_ATTEMPTS,
    UNCOUNTED,
    UNSAFE,
    FailureClass,
)
from tools.failure_meanings import BMC_MEANINGS, CONDITION_MEANINGS, FAILURE_MEANINGS


def blocks() -> Mapping[str, str]:
    """Return the text of each marker of a runbook page, by name."""
    return {
        "alerts": _index(),
        **{f"alert-{name}": _facts(rules) for name, rules in by_name().items()},
        "failures-of-workflows": _sections(
            (f"failure {failure}", FAILURE_MEANINGS[failure], _failure(failure)) for failure in FailureClass
        ),
        "failures-of-conditions": _sections(
            (f"condition {known.title}", CONDITION_MEANINGS[known.name], _advice(text(CONDITION_ADVICE[known.name])))
            for known in KNOWN
        ),
        "failures-of-bmcs": _sections(
            (f"bmc {failure}", BMC_MEANINGS[failure], _advice(text(advice))) for failure, advice in BMC_ADVICE.items()
        ),
    }


def _sections(parts: Iterable[tuple[str, str, str]]) -> str:
    """Return a section for each heading, with what it means and what to do. Links lead to these headings."""
    return "\n".join(f"### {heading}\n\n{_capital(meaning)}.\n\n{do}" for heading, meaning, do in parts)


def _capital(meaning: str) -> str:
    """Return a meaning with a capital letter at its beginning."""
    return meaning[0].upper() + meaning[1:]


def by_name() -> Mapping[str, list[AlertRule]]:
    """Return the rules of the default settings, by the name of their alert."""
    found: dict[str, list[AlertRule]] = {}
    for group in alerts.groups(Config()):
        for alert in group.alerts:
            found.setdefault(alert.name, []).append(alert)
    return found


def _index() -> str:
    rows = (
        f"| [{name}]({name}.md) | {_severities(rules)} | {_held(rules[0])} | {rules[0].because} |\n"
        for name, rules in by_name().items()
    )
    return "| alert | severity | fires | reason for the delay |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _facts(rules: list[AlertRule]) -> str:
    return f"Severity: {_severities(rules)}. Fires {_held(rules[0])}, because {rules[0].because}.\n"


def _severities(rules: list[AlertRule]) -> str:
    return " or ".join(dict.fromkeys(rule.severity.value for rule in rules))


def _held(alert: AlertRule) -> str:
    return f"after {duration.human(alert.hold)}" if alert.hold else "at once"


def _failure(failure: FailureClass) -> str:
    advice = FAILURES[failure]
    limit = "until an attempt succeeds" if failure in UNCOUNTED else f"with up to {MAX_ATTEMPTS} attempts"
    tried = f"farrier retries automatically, {limit}." if advice.retryable else "farrier does not retry automatically."
    unsafe = " The failure is unsafe, because farrier may be working on the wrong machine." if failure in UNSAFE else ""
    return f"{_advice(advice.action)}{tried}{unsafe}\n"


def _advice(action: str) -> str:
    return f"**Do:** {action}.\n"
