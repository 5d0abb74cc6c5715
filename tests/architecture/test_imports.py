"""No modules import each other in a circle; the package of the node's handler has short chains of imports, and no
rule, response or stage in it imports another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from graphlib import TopologicalSorter
from itertools import permutations

import grimp
import pytest

from farrier.handlers.node.handler import RESPONSES, RULES, RULES_FOR, NodeHandler
from farrier.handlers.node.workflow.stages import DECOMMISSION
from farrier.model.intents.actions import Action
from farrier.model.node.layers import Management
from farrier.model.node.stages import OnboardingStage

NODE = "farrier.handlers.node"
FLOORS = 7

GRAPH = grimp.build_graph("farrier", cache_dir=None)
MODULES = {module for module in GRAPH.modules if f"{module}.".startswith(f"{NODE}.")}


def longest_chain() -> list[str]:
    """The longest chain of imports inside the package, from the module on top."""
    below = {module: GRAPH.find_modules_directly_imported_by(module) & MODULES for module in MODULES}
    chains: dict[str, list[str]] = {}
    for module in TopologicalSorter(below).static_order():
        chains[module] = [module, *max((chains[each] for each in sorted(below[module])), key=len, default=[])]
    return max(chains.values(), key=len)


def modules_of(functions: Iterable[Callable[..., object]]) -> set[str]:
    """The modules that define these functions, without the handler's own."""
    return {function.__module__ for function in functions} - {NodeHandler.__module__}


ALIKE = {
    "rules": modules_of(rule.decide for rule in RULES),
    "responses": modules_of(RESPONSES.values()),
    "stages": {
        *(f"{NODE}.onboarding.{stage}" for stage in OnboardingStage),
        *(f"{NODE}.decommission.{stage}" for stage, run in DECOMMISSION.items() if not isinstance(run, partial)),
    },
}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports under TYPE_CHECKING count, too."""
    TopologicalSorter({module: GRAPH.find_modules_directly_imported_by(module) for module in GRAPH.modules}).prepare()


def test_the_longest_chain_of_imports_in_the_package_is_bounded() -> None:
    chain = longest_chain()
    assert len(chain) <= FLOORS, " → ".join(module.removeprefix(f"{NODE}.") for module in chain)


@pytest.mark.parametrize("kind", ALIKE)
def test_no_rule_response_or_stage_imports_another_of_its_sort(kind: str) -> None:
    """This includes indirect imports: what two of them share is in a module below both."""
    assert len(ALIKE[kind]) > 1
    assert ALIKE[kind] <= MODULES
    chains = (
        GRAPH.find_shortest_chain(importer=one, imported=other) for one, other in permutations(sorted(ALIKE[kind]), 2)
    )
    assert not [" → ".join(chain) for chain in chains if chain is not None]


def test_every_rule_is_for_a_state_and_no_state_has_more_than_one_rule_of_the_bmc() -> None:
    called = {rule for rules in RULES_FOR.values() for rule in rules}
    assert called == {rule.decide for rule in RULES}
    for management in Management:
        of_the_bmc = [rule for rule in RULES if set(rule.managements) == {management}]
        left_alone = management in (Management.UNMANAGED, Management.ERROR)
        assert len(of_the_bmc) == (0 if left_alone else 1)
        assert all(rule in RULES[-5:] for rule in of_the_bmc), "`_the_bmc_first` expects the BMC's rules last"


def test_every_module_of_intents_is_in_the_table_of_responses() -> None:
    assert RESPONSES.keys() == set(Action)
    shared = {f"{NODE}.intents.{name}" for name in ("alternatives", "dispatch", "reply")}
    assert {module for module in MODULES if module.startswith(f"{NODE}.intents.")} - shared == ALIKE["responses"]


def test_a_server_loads_no_client_of_other_services() -> None:
    """Strangers reach a server. The less it loads, the less there is to attack, and the sooner it starts again."""
    loads = "import sys, farrier.server, farrier.cli.service.process; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", loads], check=True, capture_output=True, text=True).stdout.split()
    assert "starlette" in loaded
    assert {"aiohttp", "httpx", "redfish"}.isdisjoint(loaded)
