"""Names that operators use for an action with certain parameters, such as `reimage`. Only the command line has them:
an intent has the action and the parameters of its verb.

Each verb fixes some parameters of its action, and may hide others. All other parameters remain those of the action.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from farrier.model.intents import actions
from farrier.model.intents.actions import ACTIONS, Action, rules
from farrier.model.intents.params import ParamsRules, PowerRequest
from farrier.model.node.layers import DecommissionMode


class Verb(msgspec.Struct, frozen=True, kw_only=True):
    """An action with fixed parameters. `without` lists parameters that the verb never has. `description` completes a
    sentence, as that of an action does."""

    action: Action
    description: str
    params: Mapping[str, object] = {}
    without: frozenset[str] = frozenset()

    @property
    def schema(self) -> ParamsRules:
        """The rules for the parameters that the user of the verb may give."""
        known = rules(self.action)
        fields = {name: each for name, each in known.fields.items() if name not in {*self.params, *self.without}}
        any_of = (
            () if self.params.keys() & set(known.any_of) else tuple(name for name in known.any_of if name in fields)
        )
        needs = {flag: other for flag, other in known.needs.items() if flag in fields and other not in self.params}
        return ParamsRules(fields, any_of, needs)

    @property
    def behind(self) -> str:
        """The intent behind the verb, such as `decommission with mode=reimage`."""
        given = ", ".join(f"{name}={str(value).lower()}" for name, value in self.params.items())
        return f"{self.action} with {given}" if given else str(self.action)


def _power(to: PowerRequest, description: str) -> Verb:
    return Verb(action=Action.SET_POWER, params={"power": to.value}, description=description)


def _decommission(mode: DecommissionMode, description: str) -> Verb:
    return Verb(action=Action.DECOMMISSION, params={"mode": mode.value}, description=description)


VERBS: Mapping[str, Verb] = {
    "soft-reset": _decommission(
        DecommissionMode.SOFT_RESET, "drain the node, scrub its GPUs and return it to service; the installation stays"
    ),
    "clean-storage": _decommission(
        DecommissionMode.STORAGE_CLEANUP, "drain the node, erase its local storage and return it to service"
    ),
    "reimage": _decommission(
        DecommissionMode.REIMAGE, "drain and clean the node, release its machine and install it again"
    ),
    "retire": Verb(
        action=Action.DRAIN, description="drain the node and keep it out of service; the machine keeps its installation"
    ),
    "replace-bmc": Verb(
        action=Action.SET_BMC,
        without=frozenset({"replace", "force"}),
        description="set another address or credential of the BMC of the same machine; another machine is refused",
    ),
    "replace-machine": Verb(
        action=Action.SET_BMC,
        params={"replace": True},
        description="accept another machine behind the BMC, or behind another BMC",
    ),
    "power-on": _power(PowerRequest.ON, "switch the machine on"),
    "power-off": _power(PowerRequest.OFF, "switch the machine off"),
    "power-reset": _power(PowerRequest.RESET, "reset the machine"),
}
"""Every verb, by its name on the command line."""


def is_destructive(command: str) -> bool:
    """Return whether a command for an action or a verb may erase, release, delete or switch off a machine. An action
    whose effect depends on its parameters or on the workflow is."""
    if command in VERBS:
        return actions.is_destructive(VERBS[command].action, VERBS[command].params, None)
    action = command.replace("-", "_")
    return action in set(Action) and ACTIONS[Action(action)].destructive is not None
