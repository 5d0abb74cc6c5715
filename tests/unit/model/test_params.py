"""Valid parameters of intents; the database has the same rules."""

from __future__ import annotations

import re
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from farrier import errors
from farrier.model.intents import actions, params
from farrier.model.intents.actions import Action
from farrier.model.node.layers import DecommissionMode, OnboardingMode

GOOD: list[tuple[Action, dict[str, Any], params.Params]] = [
    (Action.SET_BMC, {"address": "https://10.0.0.9"}, params.SetBmc(address="https://10.0.0.9")),
    (Action.SET_BMC, {"credential": "file:/run/c"}, params.SetBmc(credential="file:/run/c")),
    (Action.CLEAR_BMC, {}, params.NoParams()),
    (Action.SET_POWER, {"power": "reset"}, params.SetPower(power=params.PowerRequest.RESET)),
    (Action.ONBOARD, {"mode": "manual"}, params.Onboard(mode=OnboardingMode.MANUAL)),
    (Action.QUARANTINE, {"reason": "x" * 500}, params.QuarantineParams(reason="x" * 500)),
    (Action.DRAIN, {}, params.Drain()),
    (Action.DRAIN, {"force": True, "reason": "fire"}, params.Drain(force=True, reason="fire")),
    (Action.REMOVE, {"remove_maas": True}, params.RemoveParams(remove_maas=True)),
    (
        Action.DECOMMISSION,
        {"mode": "soft_reset", "retire": True},
        params.DecommissionParams(mode=DecommissionMode.SOFT_RESET, retire=True),
    ),
    (Action.MARK_MANUAL_INTERVENTION_REQUIRED, {}, params.MaybeBecause()),
    (Action.PAUSE, {"reason": "maintenance"}, params.Because(reason="maintenance")),
]

BAD: list[tuple[Action, Any, str]] = [
    (Action.SET_BMC, {}, "at least one of: address, credential, replace"),
    (Action.SET_BMC, {"address": "10.0.0.9", "force": True}, "force: true requires replace"),
    (Action.SET_BMC, {"address": None}, "must not be null"),
    (Action.SET_BMC, {"address": ""}, "address"),
    (Action.SET_BMC, {"address": "10.0.0.9 "}, "address"),
    (Action.SET_BMC, {"address": "10.0.0.9\n"}, "address"),
    (Action.SET_BMC, {"address": "https://[::1"}, "address"),
    (Action.SET_BMC, {"address": "https://admin:pw@10.0.0.9"}, "address"),
    (Action.SET_BMC, {"credential": "env:" + "x" * 497}, "credential"),
    (Action.SET_BMC, {"credential": "hunter2"}, "credential"),
    (Action.SET_BMC, {"adress": "10.0.0.9"}, "adress"),
    (Action.CLEAR_BMC, {"address": "10.0.0.9"}, "address"),
    (Action.MANAGE, [], "object"),
    (Action.SET, {"labels": {"row": 3}}, "labels"),
    (Action.SET, {"labels": {"row": None}}, "labels"),
    (Action.SET, {"labels": {"row": {"at": "3"}}}, "labels"),
    (Action.SET_POWER, {}, "power"),
    (Action.SET_POWER, {"power": "cycle"}, "cycle"),
    (Action.ONBOARD, {}, "mode"),
    (Action.ONBOARD, {"mode": "reimage"}, "reimage"),
    (Action.QUARANTINE, {}, "reason"),
    (Action.QUARANTINE, {"reason": ""}, "reason"),
    (Action.QUARANTINE, {"reason": " \t"}, "reason"),
    (Action.QUARANTINE, {"reason": "x" * 501}, "reason"),
    (Action.QUARANTINE, {"reason": 5}, "reason"),
    (Action.DRAIN, {"force": True}, "force: true requires reason"),
    (Action.DRAIN, {"force": "yes"}, "force"),
    (Action.REMOVE, {"force": True, "remove_maas": True}, "force: true requires reason"),
    (Action.DECOMMISSION, {"retire": True}, "mode"),
    (Action.DECOMMISSION, {"mode": "deploy"}, "deploy"),
    (Action.PAUSE, {}, "reason"),
]


@pytest.mark.parametrize(("action", "given", "expected"), GOOD)
def test_good_parameters_are_read(action: Action, given: dict[str, Any], expected: params.Params) -> None:
    assert actions.decode(action, given) == expected
    assert obeys(msgspec.to_builtins(actions.rules(action)), given)


@pytest.mark.parametrize(("action", "given", "names"), BAD)
def test_bad_parameters_are_refused_with_the_action_and_the_fault(action: Action, given: Any, names: str) -> None:
    with pytest.raises(errors.RefusedByModel, match=f"^{action}: .*{re.escape(names)}"):
        actions.decode(action, given)
    assert not obeys(msgspec.to_builtins(actions.rules(action)), given)


def test_every_action_has_a_schema_of_known_types() -> None:
    for action in Action:
        rules = actions.rules(action)
        for name in (*rules.any_of, *rules.needs, *rules.needs.values()):
            assert name in rules.fields
        for field in rules.fields.values():
            assert field.type in {"string", "boolean", "integer", "enum", "array", "object"}
            assert bool(field.enum) == (field.type == "enum")
            assert (field.max is not None and field.pattern is not None) == (field.type == "string")
            assert (field.items is not None and field.max is not None) == (field.type == "array")


def obeys(schema: dict[str, Any], given: Any) -> bool:
    """The database's check of a schema, in Python."""
    if not isinstance(given, dict) or set(given) - set(schema["fields"]):
        return False
    fields = schema["fields"]
    needed = all(name in given for name, field in fields.items() if field.get("required"))
    some = not schema["any_of"] or any(name in given for name in schema["any_of"])
    paired = all(not given.get(flag) or other in given for flag, other in schema["needs"].items())
    return needed and some and paired and all(fits(fields[name], value) for name, value in given.items())


def fits(field: dict[str, Any], value: object) -> bool:
    match field["type"]:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return is_number and field.get("min", value) <= value <= field.get("max", value)
        case "enum":
            return value in field["enum"]
        case "object":
            return isinstance(value, dict) and all(fits(field["items"], each) for each in value.values())
        case "array":
            return (
                isinstance(value, list)
                and len(value) <= field["max"]
                and all(fits(field["items"], item) for item in value)
            )
        case _:
            return (
                isinstance(value, str) and len(value) <= field["max"] and re.search(field["pattern"], value) is not None
            )


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(["on", "off", "deploy", "adopt", "reimage", "", " ", "a b", "a\n", "x" * 500, "x" * 501]),
    st.text(alphabet="az/:\t \n", max_size=8),
    st.lists(st.sampled_from(["site", "maas_id", "name", ""]), max_size=4),
    st.dictionaries(st.just("rack"), st.integers(), max_size=1),
)
PARAMETERS = {name for action in Action for name in actions.rules(action).fields}
NAMES = st.sampled_from(sorted(PARAMETERS | {"other"}))


@hypothesis.given(action=st.sampled_from(Action), given=st.dictionaries(NAMES, VALUES, max_size=4))
@hypothesis.settings(max_examples=600)
def test_schema_and_struct_accept_the_same(action: Action, given: dict[str, Any]) -> None:
    try:
        actions.decode(action, given)
        accepted = True
    except errors.RefusedByModel:
        accepted = False
    assert obeys(msgspec.to_builtins(actions.rules(action)), given) == accepted


def test_a_parameter_type_without_a_rule_in_the_database_is_refused() -> None:
    class Odd(params.NoParams, frozen=True, kw_only=True):
        share: float

    with pytest.raises(TypeError, match="a text, a flag, a choice"):
        params.describe(Odd)
