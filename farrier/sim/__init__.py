"""Simulators of BMCs, MAAS, UFM and agents. Only the demo, tests and benchmarks import them."""

from __future__ import annotations
