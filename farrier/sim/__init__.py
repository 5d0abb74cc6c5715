"""Simulators of what farrier talks to, for the demo, tests and benchmarks; nothing else imports them."""

from __future__ import annotations
