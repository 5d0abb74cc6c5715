"""Limits of kinds in the configuration: of kinds that settings name, by the keys that their specs have."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from farrier import config
from farrier.errors import ConfigError
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.node import limits
from farrier.model.node.limits import KindRule, Limits
from tests.support import crates

BY_MODEL = msgspec.structs.replace(crates.SPEC, by_model=True)
CRATES = '[controller]\nkinds = ["tests.support.crates:SPEC"]\n'


def load(tmp_path: Path, text: str) -> Limits:
    file = tmp_path / "farrier.toml"
    file.write_text(text)
    return config.load(file, environment={}).sla


def test_a_kind_that_settings_name_has_limits_for_all_and_for_a_site(tmp_path: Path) -> None:
    text = f'{CRATES}[sla]\ncrate.emptying.unpack = "1h"\n[sla.site.north]\ncrate.packed = "2h"\n'
    hour = timedelta(hours=1)
    assert set(limits.kind_rules(load(tmp_path, text))) == {
        KindRule("crate", "emptying/unpack", "", "", hour),
        KindRule("crate", "packed", "site", "north", 2 * hour),
    }


def test_a_kind_with_a_model_has_limits_for_one(tmp_path: Path) -> None:
    text = '[controller]\nkinds = ["tests.unit.test_kind_limits:BY_MODEL"]\n[sla.model.flat]\ncrate.packed = "2h"\n'
    assert set(limits.kind_rules(load(tmp_path, text))) == {
        KindRule(BY_MODEL.name, "packed", "model", "flat", timedelta(hours=2))
    }


def test_every_state_of_a_built_in_kind_but_its_last_may_have_a_limit(tmp_path: Path) -> None:
    keys = limits.keys_of(BUILT_IN)
    held = load(tmp_path, "[sla]\n" + "".join(f'{key} = "1h"\n' for key in keys))
    assert set(held.everywhere) == set(keys)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[sla]\ncrate.packed = 60\n", "'crate' is neither a layer nor a kind; expected one of: "),
        ("[sla]\ncrate.packed = 60\n", "List a kind of another package in controller.kinds"),
        (f"{CRATES}[sla]\ncrate.paked = 60\n", "did you mean 'crate.packed'?"),
        (f"{CRATES}[sla]\ncrate.gone = 60\n", "unknown limit 'crate.gone'"),
        (f"{CRATES}[sla.model.x]\ncrate.packed = 60\n", "'crate.packed' in [sla.model.x]"),
        ('[controller]\nkinds = ["nowhere:SPEC"]\n[sla]\ncrate.packed = 60\n', "nowhere:SPEC cannot be imported"),
        ('[controller]\nkinds = ["tests.support.crates:NONE"]\n[sla]\ncrate.packed = 60\n', "has no NONE"),
        ('[controller]\nkinds = ["tests.support.crates:ask"]\n[sla]\ncrate.packed = 60\n', "ask is not a kind"),
        ('[controller]\nkinds = ["tests.support.crates"]\n[sla]\ncrate.packed = 60\n', "package.module:NAME"),
    ],
)
def test_a_limit_of_a_kind_that_cannot_be_is_refused_with_what_can(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text)
    assert complaint in str(refused.value)


def test_limits_of_nodes_alone_need_no_package_of_others(tmp_path: Path) -> None:
    held = load(tmp_path, '[controller]\nkinds = ["nowhere:SPEC"]\n[sla]\nstatus.offline = "1h"\n')
    assert held.everywhere == {"status.offline": timedelta(hours=1)}
