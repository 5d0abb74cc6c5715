"""Converts durations to and from texts such as `30s`, `5m`, `72h` and `4h 12m`.

`human` formats durations for operators, and `parse` reads durations that operators type. All other code uses
`timedelta`.
"""

from __future__ import annotations

import re
from datetime import timedelta

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"([0-9]+)\s*([dhms])\s*")
_NUMBER = re.compile(r"[0-9]+")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


LONGEST = timedelta(days=36_500)
"""The longest duration that farrier accepts, a century: PostgreSQL can subtract it from the present time."""


def parse(text: str) -> timedelta:
    """Parse a text such as `72h`, `1h 30m` or `45s`; a number without a unit is in seconds. Raises ValueError with a
    text that shows the expected form."""
    whole = with_unit(text)
    if not _WHOLE.fullmatch(whole):
        raise ValueError(f"expected a duration such as 30s, 5m or 1h 30m (units d, h, m, s); got {text!r}")
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in _PART.findall(whole))
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"expected a duration of at most {human(LONGEST)}, got {text!r}")
    return timedelta(seconds=seconds)


def with_unit(text: str) -> str:
    """Return a text that `parse` reads with its unit: `60` becomes `60s`."""
    text = text.strip()
    return f"{text}s" if _NUMBER.fullmatch(text) else text


def human(duration: timedelta) -> str:
    """Return the two largest units that are not zero, rounded down: `4h 12m`, `30s`, `2d`. A negative duration gives
    `-5m`, and a duration of less than a second gives `0s`."""
    if duration < timedelta(0):
        return f"-{human(-duration)}" if duration <= timedelta(seconds=-1) else "0s"
    rest = int(duration.total_seconds())
    parts = []
    for unit, size in _SECONDS.items():
        count, rest = divmod(rest, size)
        parts.append((count, unit))
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"
