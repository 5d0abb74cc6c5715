"""Invalid specs that `KindSpec` refuses, so that a kind that cannot work is never installed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import msgspec
import pytest

from farrier.errors import ConfigError
from farrier.model.intents import params
from farrier.model.intents.params import Params
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.spec import KindAction, KindEdge, KindState, label
from farrier.model.node.limits import limit_key
from tests.support.crates import SPEC

LASTS = KindState(why_none="this is where it belongs")


class Filled(Params, frozen=True, kw_only=True):
    version: int


class Share(Params, frozen=True, kw_only=True):
    share: float


class Worded(Params, frozen=True, kw_only=True):
    word: Annotated[str, msgspec.Meta(max_length=9, pattern=r"^\bfoo\b")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "Crate"}, "its name must match"),
        ({"what": " "}, "`what` is missing"),
        ({"relation": "crates"}, "written with its schema"),
        ({"relation": "farrier.crates; DROP"}, "written with its schema"),
        ({"states": {**SPEC.states, "in transit": LASTS}}, "'in transit' must match"),
        ({"states": {**SPEC.states, "a/b/c": LASTS}}, "'a/b/c' must match"),
        ({"states": {**SPEC.states, "lost": LASTS}}, "lost: not reachable by edges from packing"),
        (
            {"edges": (*SPEC.edges[:2], KindEdge("packing", "gone", "x"))},
            "emptying/unpack, packed: no path of edges leads to a terminal state",
        ),
        ({"initial": "raw"}, "its initial state raw is not one of its states; expected one of packing, packed"),
        ({"initial": "gone"}, "its initial state gone is terminal"),
        (
            {"initial": frozenset({"packing", "packed"})},
            "its initial states are packed, packing, and `create` cannot choose between them",
        ),
        ({"terminal": frozenset()}, "no state is terminal"),
        ({"steady": "gone"}, "its steady state gone must be one of its states, and not a terminal one"),
        ({"terminal": frozenset({"sold"})}, "its terminal state sold is not one of its states"),
        ({"terminal": frozenset({"emptying/unpack"})}, "terminal state emptying/unpack must not have a limit"),
        ({"edges": (*SPEC.edges, KindEdge("packed", "sold", "x"))}, "packed -> sold: sold is not one of its states"),
        ({"edges": (*SPEC.edges, KindEdge("packed", "packed", "x"))}, "packed -> packed does not change the state"),
        ({"edges": (*SPEC.edges, KindEdge("gone", "packed", "x"))}, "gone -> packed leaves a terminal state"),
        ({"actions": {"create": KindAction(description="x")}}, "create must not be among the actions"),
        ({"actions": {"Move": KindAction(description="x")}}, "'Move' must match"),
        (
            {"actions": {"move": KindAction(description="x", accepted_in=("packed", "lost"))}},
            "action move: it is accepted in 'lost', which is not one of the kind's states; expected one of packing",
        ),
        (
            {"actions": {"move": KindAction(description="x", accepted_in=("gone",))}},
            "action move: it is accepted in gone, which is terminal",
        ),
        ({"actions": {"move": KindAction(description="x", accepted_in=())}}, "action move: no state accepts it"),
        (
            {"actions": {"move": KindAction(description="x", params=Share)}},
            "action move: parameter share: expected a text, a flag, a choice (a StrEnum), a whole number",
        ),
        ({"create": Filled}, "create must not set version"),
        (
            {"create": Worded},
            "action create: parameter word: the pattern ^\\bfoo\\b has \\b or \\B, which PostgreSQL interprets",
        ),
    ],
)
def test_an_inconsistent_spec_is_refused_with_the_fault(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match="kind ") as refused:
        msgspec.structs.replace(SPEC, **change)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (KindState(), "state packed needs either limit or why_none"),
        (KindState(limit=timedelta(1), why_none="x"), "state packed needs either limit or why_none"),
        (KindState(limit=timedelta(0)), "the limit of state packed must be longer than 0; it is 0:00:00"),
    ],
)
def test_a_state_needs_either_a_limit_or_a_reason_for_none(state: KindState, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"kind {SPEC.name}: {expected}"):
        msgspec.structs.replace(SPEC, states={**SPEC.states, "packed": state})


def test_a_substate_is_part_of_the_label_and_of_the_key_of_its_limit() -> None:
    assert label("emptying/unpack") == ("emptying", "unpack")
    assert label("packed") == ("packed", "")
    assert limit_key(SPEC.every_layer[0].key, "emptying/unpack") == "crate.emptying.unpack"


def test_no_two_kinds_share_a_name_or_a_table() -> None:
    assert len({spec.name for spec in BUILT_IN}) == len({spec.relation for spec in BUILT_IN}) == len(BUILT_IN)


class Everything(Params, frozen=True, kw_only=True):
    number: Annotated[int, msgspec.Meta(ge=1, le=4094)]
    any_number: int | None = None
    names: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=9, pattern="^[a-z]+$")], ...], msgspec.Meta(max_length=2)
    ] = ()
    word: Annotated[str, msgspec.Meta(min_length=1)] = "x"


def test_numbers_and_lists_are_described_for_the_database() -> None:
    fields = params.describe(Everything).fields
    assert fields["number"] == params.FieldRules("integer", True, 4094, min=1)
    assert fields["any_number"] == params.FieldRules("integer")
    assert fields["names"] == params.FieldRules(
        "array", max=2, items=params.FieldRules("string", max=9, pattern="^[a-z]+$")
    )
    assert fields["word"].pattern == "."
