"""Simulators of BMCs, MAAS, UFM and agents: requests go in; what the real services would respond comes out.

Only the demo, tests and benchmarks import them.
"""

from __future__ import annotations
