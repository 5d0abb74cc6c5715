"""Changes of details as a person writes them, and the parameters of the intent that makes them."""

from __future__ import annotations

import re

import pytest

from farrier.model.node import detail_changes
from farrier.model.node.details import DETAILS, Details

NODE = Details(site="ams1", model="R760", labels={"row": "a", "spare": "yes"}, macs=("02:00:00:00:00:01",))


@pytest.mark.parametrize(
    ("texts", "params"),
    [
        (["site=fra1", "model=XE9680"], {"site": "fra1", "model": "XE9680"}),
        (["site=ams1"], {}),
        (["rack=", "site="], {"unset": ["site"]}),
        (["label=row=b"], {"labels": {"row": "b", "spare": "yes"}}),
        (["label=spare-", "label=gpu=a=b"], {"labels": {"row": "a", "gpu": "a=b"}}),
        (["label=row=a", "label=absent-"], {}),
        (["agentless=true", "auto_manage=true"], {"agentless": True}),
        (["mac=02-00-00-00-00-01"], {}),
        (["mac=02:00:00:00:00:02", "mac=0200.0000.0003"], {"macs": ["02:00:00:00:00:02", "0200.0000.0003"]}),
    ],
)
def test_only_details_that_differ_are_set_and_labels_are_merged(texts: list[str], params: dict[str, object]) -> None:
    assert detail_changes.params(detail_changes.read(texts), NODE) == params


def test_each_detail_has_a_name_in_texts() -> None:
    assert set(detail_changes.WORDS.values()) == set(DETAILS)
    assert {"label", "mac", "site"} <= set(detail_changes.WORDS)


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (["label=row"], "expected label=KEY=VALUE, or label=KEY- to remove the label; got 'label=row'"),
        (["label=-"], "expected label=KEY=VALUE"),
        (["site=a", "site=b"], "site is given twice"),
        (["label=row=a", "label=row-"], "label=row is given twice"),
        (["site=ams 1"], "site 'ams 1' is not usable: expected the name of the site's file"),
        (["agentless=yes"], "agentless must be true or false"),
        (["mac=02:00"], "mac contains '02:00', which is not a MAC address"),
    ],
)
def test_a_wrong_value_is_refused_with_the_expected_form(texts: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=re.escape(error)):
        detail_changes.read(texts)
