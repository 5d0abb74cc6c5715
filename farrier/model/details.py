"""What a node is registered with and intent `set` may change, and while which workflow each value may change.

Asked by the response to `set`. The names are those of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

from farrier.model import situation
from farrier.model.situation import Situation

FREE_WHEN: Mapping[str, Situation] = {
    "site": situation.POWER_IS_FREE,
    "maas_id": situation.POWER_IS_FREE,
    "model": situation.NOT_INSTALLED,
    "labels": situation.NOT_INSTALLED,
    "macs": situation.NOT_INSTALLED,
    "agentless": situation.NOT_BEGUN,
    "auto_manage": situation.ANY,
}
"""By parameter: the live workflows that do not use the value. Site and MAAS id are used where power is, in MAAS;
templates and the search for the machine use model, labels and MAC addresses; tasks and enrolment depend on
`agentless`."""
