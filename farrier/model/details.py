"""What a node is registered with and intent `set` may change, and while which workflow each value may change.

Asked by the response to `set`. The names are those of its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping

from farrier.model import workflow_condition
from farrier.model.workflow_condition import Situation

FREE_WHEN: Mapping[str, Situation] = {
    "site": workflow_condition.POWER_IS_FREE,
    "maas_id": workflow_condition.POWER_IS_FREE,
    "model": workflow_condition.NOT_INSTALLED,
    "labels": workflow_condition.NOT_INSTALLED,
    "macs": workflow_condition.NOT_INSTALLED,
    "agentless": workflow_condition.NOT_BEGUN,
    "auto_manage": workflow_condition.ANY,
}
"""By parameter: the live workflows that do not use the value. Site and MAAS id are used where power is, in MAAS;
templates and the search for the machine use model, labels and MAC addresses; tasks and enrolment depend on
`agentless`."""
