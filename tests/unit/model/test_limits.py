"""The limit that applies: of the site, else of the model, else the general one, else the default. Each has a key."""

from __future__ import annotations

from datetime import timedelta

from farrier.model.node import edges, layers, limits
from farrier.model.node.layers import Layer
from farrier.model.node.limits import PLACES, STATES, Limits

HOUR = timedelta(hours=1)
SOME = Limits(
    everywhere={"status.offline": HOUR, "status.draining": HOUR, "status.removing": HOUR},
    models={"h100": {"status.offline": 2 * HOUR, "status.draining": 2 * HOUR}},
    sites={"north": {"status.offline": 3 * HOUR, "maas_region.failing": HOUR}},
)


def test_the_most_specific_limit_wins() -> None:
    assert SOME.of("north", "h100") == {
        "status.offline": 3 * HOUR,
        "status.draining": 2 * HOUR,
        "status.removing": HOUR,
        "maas_region.failing": HOUR,
    }
    assert SOME.of("south", "h100")["status.offline"] == 2 * HOUR
    assert SOME.of(None, None) == SOME.everywhere


def test_all_returns_the_limits_of_each_configured_site_and_model_and_of_the_others() -> None:
    assert SOME.all() == {(site, model): SOME.of(site, model) for site in ("north", None) for model in ("h100", None)}


def test_every_state_that_is_not_terminal_has_a_key_in_the_configuration() -> None:
    for layer in Layer:
        kind = layers.LAYER_KIND[layer]
        states = {place.state for place in STATES if place.kind == kind}
        assert states == set(map(str, layers.STATES[layer])) - edges.TERMINAL[layer]
    keys = [place.key for place in PLACES]
    assert len(keys) == len(set(keys))
    assert set(keys) == limits.KEYS


def test_there_is_a_rule_for_exactly_the_limits_that_apply() -> None:
    default = {(rule.kind, rule.state, rule.substate): rule.lasts for rule in limits.rules(Limits())}
    assert default == {(p.kind, p.state, p.substate): p.default for p in PLACES if p.default is not None}
    scoped = {(rule.kind, rule.state, rule.substate, rule.scope, rule.name): rule.lasts for rule in limits.rules(SOME)}
    assert scoped["node", "offline", "", "", ""] == HOUR
    assert scoped["node", "offline", "", "model", "h100"] == 2 * HOUR
    assert scoped["node", "offline", "", "site", "north"] == 3 * HOUR
    assert len(scoped) == len(default) + 3
