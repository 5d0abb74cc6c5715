"""The live workflow that an action requires. This is the third condition of `farrier.model.intents.actions`.

A condition is data, so that it can be listed, drawn and checked for completeness. An onboarding without a mode is live
but has not begun, so conditions distinguish it from other onboardings.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from farrier.model.node import layers
from farrier.model.node.layers import LIVE, DecommissionMode, Mode, OnboardingMode, WorkflowKind
from farrier.model.node.layers import WorkflowStatus as W
from farrier.model.node.stages import OUTSIDE_MAAS


class LiveWorkflow(Protocol):
    """The fields of a live workflow that conditions need. In a view, the values may come from a newer release."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def mode(self) -> str | None: ...


class WorkflowCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on the live workflow, under which an action is accepted. `text` completes the sentence 'is accepted
    …'."""

    text: str
    none: bool  # no workflow may be live
    modeless: bool  # an onboarding without a mode
    statuses: frozenset[W] = frozenset()
    kinds: frozenset[WorkflowKind] = frozenset(WorkflowKind)
    modes: frozenset[Mode] | None = None  # None: any

    def fits(self, live: LiveWorkflow | None) -> bool:
        """Return whether the live workflow fits the condition."""
        if live is None:
            return self.none
        if live.mode is None:
            return self.modeless
        of_mode = self.modes is None or live.mode in self.modes
        return live.kind in self.kinds and live.status in self.statuses and of_mode


ANY = WorkflowCondition(text="with or without a workflow", none=True, modeless=True, statuses=LIVE)
IDLE = WorkflowCondition(text="when no workflow is live", none=True, modeless=False)
NOT_BEGUN = WorkflowCondition(
    text="when no workflow is live, or when the live workflow is an onboarding without a mode",
    none=True,
    modeless=True,
)
ADOPTABLE = WorkflowCondition(
    text="when no workflow is live, when an onboarding has no mode yet, or when an adoption waits for an operator",
    none=True,
    modeless=True,
    statuses=frozenset({W.FAILED_MANUAL_INTERVENTION}),
    kinds=frozenset({WorkflowKind.ONBOARDING}),
    modes=frozenset({OnboardingMode.ADOPT}),
)
POWER_IS_FREE = WorkflowCondition(
    text="when no workflow that uses MAAS is live",
    none=True,
    modeless=True,
    statuses=LIVE,
    modes=OUTSIDE_MAAS,
)
NOT_INSTALLED = WorkflowCondition(
    text="when no onboarding in mode deploy or adopt is live",
    none=True,
    modeless=True,
    statuses=LIVE,
    modes=frozenset({OnboardingMode.MANUAL, *DecommissionMode}),
)
NO_DECOMMISSION = WorkflowCondition(
    text="when no decommission is live",
    none=True,
    modeless=True,
    statuses=LIVE,
    kinds=frozenset({WorkflowKind.ONBOARDING}),
)
RAISABLE = WorkflowCondition(
    text="when no workflow is live, or when the intent extends the options of a live decommission",
    none=True,
    modeless=False,
    statuses=LIVE - {W.COMPENSATING},
    kinds=frozenset({WorkflowKind.DECOMMISSION}),
)
DEPLOYS = WorkflowCondition(
    text="with an onboarding in mode deploy",
    none=False,
    modeless=False,
    statuses=LIVE,
    modes=frozenset({OnboardingMode.DEPLOY}),
)
CHANGES_THE_MACHINE = WorkflowCondition(
    text="with an onboarding in mode deploy, or a decommission in another mode than soft_reset",
    none=False,
    modeless=False,
    statuses=LIVE,
    modes=frozenset({OnboardingMode.DEPLOY, *DecommissionMode} - {DecommissionMode.SOFT_RESET}),
)
UNDER_WAY = WorkflowCondition(text="with a live workflow", none=False, modeless=True, statuses=LIVE)


def _in(statuses: frozenset[W]) -> WorkflowCondition:
    names = " or ".join(status for status in W if status in statuses)
    return WorkflowCondition(text=f"with a workflow that is {names}", none=False, modeless=False, statuses=statuses)


FAILED = _in(layers.FAILED)
BEGUN = _in(layers.FAILED | {W.RUNNING})
FREEZABLE = _in(layers.AT_WORK)
