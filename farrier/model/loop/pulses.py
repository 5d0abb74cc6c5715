"""When a pulse counts as lost: of controllers, of doors, and of the agents that doors reach. Pure data.

`farrier.beat` records the times in which a pulse was lost. An agent may not have been able to report in such a time.
"""

from __future__ import annotations

from datetime import timedelta

PULSE_LOST = timedelta(seconds=10)
"""Controllers and doors pulse every two seconds. Calls that wait for each other, and clocks that are adjusted in small
steps, cause smaller gaps, and every limit is longer."""

REACH_LOST = timedelta(seconds=60)
"""Two intervals of an agent's heartbeats. Doors that have reached no agent for this time are dead, although they pulse:
for example, their certificate has expired. If a third of `node.offline_after` is shorter, it applies instead, so that
dead doors are noticed before nodes count as silent."""

REACH_EXPECTED = 5
"""If fewer agents are expected, all of them may be silent by themselves, so doors that reach none may be well."""
