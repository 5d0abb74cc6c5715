"""Effects of conditions: a source requests an effect, the settings may lower it, and only the node's run decides it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from farrier import config, errors
from farrier.config import NodeConfig
from farrier.handlers.node.handler import NodeHandler
from farrier.model.intents.actions import Action
from farrier.model.loop.outcome import Transition, Update, Wait
from farrier.model.node.conditions import AGENT_KEY, CRITICAL, Condition, ConditionRule, Effect, Source, stated
from farrier.model.node.layers import NodeStatus as N
from farrier.model.node.snapshot import Bmc, Node
from tests.support.nodes import MINUTE, NOW, SECOND, agent, answers, hold, intent, node

NOTE, QUARANTINE = Effect.NOTE, Effect.QUARANTINE


def reported(source: str = "agent", id_: str = "xid_63", **fields: object) -> Condition:
    """A condition as a writer outside the run stores it: the run has not decided its effect yet."""
    return replace(stated(source, id_), effect=NOTE, **fields)


def after(it: Node, *rules: ConditionRule) -> tuple[N, dict[str, Effect]]:
    """The status of the node and the effects of its conditions after one run."""
    decision = NodeHandler(NodeConfig(conditions=rules)).handle(it, NOW)
    to = decision.to if isinstance(decision, Transition | Update) else it
    return to.status, {each.name: each.effect for each in to.conditions}


def serving(*conditions: Condition, **fields: object) -> Node:
    return node(N.ACTIVE, agent=agent(), conditions=conditions, **fields)


def test_one_run_decides_the_effect_and_takes_the_node_out_of_service() -> None:
    assert after(serving(reported())) == (N.QUARANTINED, {"agent/xid_63": QUARANTINE})


def test_a_rule_lowers_an_effect_only_of_what_it_matches() -> None:
    lab = ConditionRule(source="agent", id="xid_*", site="lab", model="H100*", effect=NOTE)
    matching = serving(reported(), site="lab", model="H100-SXM")
    assert after(matching, lab) == (N.ACTIVE, {"agent/xid_63": NOTE})
    for other in (
        replace(matching, site="north"),
        replace(matching, model="H200"),
        replace(matching, conditions=(reported(id_="gpu_lost"),)),
        replace(matching, conditions=(reported("monitor:dcgm"),)),
    ):
        assert after(other, lab)[0] is N.QUARANTINED


def test_the_model_is_that_of_the_bmc_unless_one_is_registered() -> None:
    rule = ConditionRule(source="agent", model="XE9680", effect=NOTE)
    assert after(serving(reported(), bmc=Bmc(product="XE9680")), rule)[0] is N.ACTIVE
    assert after(serving(reported(), bmc=Bmc(product="XE9680"), model="H100"), rule)[0] is N.QUARANTINED


def test_the_first_rule_that_matches_applies() -> None:
    first, second = (
        ConditionRule(source="agent", id="xid_63", effect=QUARANTINE),
        ConditionRule(source="a*", effect=NOTE),
    )
    assert after(serving(reported()), first, second)[0] is N.QUARANTINED
    assert after(serving(reported()), second, first)[0] is N.ACTIVE


def test_no_rule_raises_an_effect_above_what_the_source_requests() -> None:
    rule = ConditionRule(source="agent", effect=QUARANTINE)
    assert after(serving(reported(requested=NOTE)), rule) == (N.ACTIVE, {"agent/xid_63": NOTE})
    assert after(serving(reported(released=True)), rule) == (N.ACTIVE, {"agent/xid_63": NOTE})


def test_the_health_critical_of_a_bmc_is_a_note_unless_a_rule_lets_it_quarantine() -> None:
    critical = serving(bmc=Bmc(health=CRITICAL))
    assert after(critical) == (N.ACTIVE, {"bmc/health": NOTE})
    rule = ConditionRule(source="bmc", id="health", effect=QUARANTINE)
    assert after(critical, rule) == (N.QUARANTINED, {"bmc/health": QUARANTINE})


def test_a_change_of_the_rules_is_applied_by_the_next_run() -> None:
    rule = ConditionRule(source="agent", effect=NOTE)
    quarantined = node(N.QUARANTINED, agent=agent(), conditions=(stated("agent", "xid_63"),))
    assert after(quarantined, rule) == (N.ACTIVE, {"agent/xid_63": NOTE})


def test_holds_are_never_lowered() -> None:
    rule = ConditionRule(source="[!w]*", effect=QUARANTINE)
    assert after(serving(hold()), rule) == (N.QUARANTINED, {"default": QUARANTINE})


def test_an_expired_condition_moves_no_node_until_its_monitor_states_it_again() -> None:
    expired = replace(stated("monitor:dcgm", "hot"), expires_at=NOW - SECOND)
    assert after(serving(expired))[0] is N.ACTIVE
    for status in (N.OFFLINE, N.QUARANTINED):
        it = node(status, agent=agent(), conditions=(expired,))
        assert isinstance(NodeHandler(NodeConfig()).handle(it, NOW), Wait), "it does not return to service either"
    assert after(serving(replace(expired, expires_at=NOW + MINUTE)))[0] is N.QUARANTINED


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ('source = "operator"\neffect = "note"', "operator, whose conditions no setting can lower"),
        ('source = "*"\neffect = "note"', "operator and workflow, whose conditions no setting can lower"),
        ('source = "agnet"\neffect = "note"', "no source matches source = 'agnet'; expected agent, bmc"),
        ('source = "agent"\neffect = "ignore"', "ignore"),
        ('source = "agent"', "effect"),
        ('source = "agent"\neffect = "note"\nsites = "lab"', "sites"),
        ('source = ""\neffect = "note"', "length >= 1"),
    ],
)
def test_a_rule_that_cannot_apply_is_refused_with_its_place(tmp_path: Path, written: str, complaint: str) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text(f"[[node.conditions]]\n{written}\n")
    with pytest.raises(errors.ConfigError) as refused:
        config.load(file, environment={})
    assert complaint in str(refused.value) and "'conditions' in [node]" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_rules_are_read_from_the_file_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "farrier.toml"
    file.write_text(
        '[[node.conditions]]\nsource = "monitor:dcgm"\nid = "hot"\neffect = "note"\n'
        '[[node.conditions]]\nsource = "bmc"\neffect = "quarantine"\n'
    )
    assert config.load(file, environment={}).node.conditions == (
        ConditionRule(source="monitor:dcgm", id="hot", effect=NOTE),
        ConditionRule(source=Source.BMC, effect=QUARANTINE),
    )


@pytest.mark.parametrize(("source", "verdict"), [("identity", "accepted"), ("monitor:rack", "rejected")])
def test_only_a_note_about_a_refused_agent_is_released_and_no_note_of_the_same_id(source: str, verdict: str) -> None:
    it = serving(
        reported(source, AGENT_KEY), intents=(intent(Action.RELEASE, key=f"{source}/{AGENT_KEY}", reason="x"),)
    )
    handler = NodeHandler(NodeConfig(conditions=(ConditionRule(source=source, effect=NOTE),)))
    assert [told for told, _ in answers(handler.handle(it, NOW))] == [verdict]
