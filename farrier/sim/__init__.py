"""Simulators of BMCs, MAAS, UFM and agents, for the demo, tests and benchmarks; nothing else imports them."""

from __future__ import annotations
