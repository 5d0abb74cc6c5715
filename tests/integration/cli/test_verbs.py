"""Each verb of an operator is an action with its parameters, and has no option for what it fixes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from farrier.errors import ExitCode
from farrier.model.intents import actions
from farrier.model.intents.verbs import VERBS
from farrier.model.node.workflow import DecommissionMode
from tests.integration.cli.conftest import Prompt
from tests.support import pg

ASKED = "SELECT action, params::text FROM farrier.intents ORDER BY id"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "reimage": ("decommission", {"mode": "reimage"}),
    "reimage --force --reason dead": ("decommission", {"mode": "reimage", "force": True, "reason": "dead"}),
    "soft-reset --retire": ("decommission", {"mode": "soft_reset", "retire": True}),
    "clean-storage": ("decommission", {"mode": "storage_cleanup"}),
    "retire --reason fans": ("drain", {"reason": "fans"}),
    "replace-bmc --address https://10.0.0.9": ("set_bmc", {"address": "https://10.0.0.9"}),
    "replace-machine": ("set_bmc", {"replace": True}),
    "replace-machine --force --address https://10.0.0.9": (
        "set_bmc",
        {"replace": True, "force": True, "address": "https://10.0.0.9"},
    ),
    "power-on": ("set_power", {"power": "on"}),
    "power-off --enforce": ("set_power", {"power": "off", "enforce": True}),
    "power-reset": ("set_power", {"power": "reset"}),
}


@pytest.mark.parametrize("words", CASES)
async def test_a_verb_submits_its_action_with_its_mode(farrier: Prompt, db: pg.Database, words: str) -> None:
    await farrier("node", "add", "gpu-1")
    verb, *options = words.split()
    said = await farrier("node", verb, "gpu-1", *options, "--no-wait")
    assert said.out.startswith(f"gpu-1: {verb} is submitted (intent ")
    async with db.connect() as conn:
        ((action, params),) = await conn.fetch(ASKED)
    assert (action, msgspec.json.decode(params)) == CASES[words]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("replace-bmc", "at least one of these is needed: address, credential"),
        ("replace-bmc --replace", "No such option: --replace"),
        ("replace-machine --no-replace", "No such option: --no-replace"),
        ("reimage --mode soft_reset", "No such option: --mode"),
        ("reimage --force", "--reason is required with force"),
    ],
)
async def test_a_verb_is_refused_what_it_fixes_and_what_its_action_refuses(
    farrier: Prompt, words: str, text: str
) -> None:
    await farrier("node", "add", "gpu-1")
    verb, *options = words.split()
    assert text in (await farrier("node", verb, "gpu-1", *options, ends=ExitCode.USAGE)).err


def test_every_verb_is_a_valid_intent_and_every_mode_that_keeps_the_node_has_a_verb() -> None:
    for verb in VERBS.values():
        given = {"address": "https://10.0.0.9"} if "address" in verb.schema.any_of else {}
        actions.decode(verb.action, {**verb.params, **given})
    modes = {verb.params.get("mode") for verb in VERBS.values()}
    assert modes >= {str(mode) for mode in DecommissionMode} - {DecommissionMode.FULL_DECOMMISSION.value}
    assert not {name.replace("-", "_") for name in VERBS} & set(actions.Action)
