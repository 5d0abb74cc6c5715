"""A site's file may require only evidence that somebody at the site can give."""

from __future__ import annotations

import pytest

from farrier.config import site_checks
from farrier.config.sites import CleaningSite, Erase, MaasSite, ReleaseSite, Site
from farrier.model.node.evidence import Require
from farrier.model.node.layers import CleaningBy

MAAS = MaasSite(url="http://maas.test/MAAS", key="env:MAAS_KEY")
NO_SOURCE = "no source of this site can give the evidence"
NOT_OUTSIDE = "only the region gives evidence from outside"
LEAVES = "leaves data on the disks"
N, E, OUT = Require.NONE, Require.EVIDENCE, Require.OUTSIDE
AGENT, WORKER, REGION = CleaningBy.AGENT, CleaningBy.WORKER, CleaningBy.REGION


@pytest.mark.parametrize(
    ("maas", "by", "require", "erase", "fault"),
    [
        (None, None, N, None, None),
        (None, None, E, None, NO_SOURCE),
        (None, AGENT, E, None, NO_SOURCE),
        (None, WORKER, E, None, None),
        (None, WORKER, OUT, None, NOT_OUTSIDE),
        (None, None, OUT, None, NOT_OUTSIDE),
        (None, REGION, N, None, "region needs the table [maas]"),
        (MAAS, None, E, None, None),
        (MAAS, None, OUT, None, None),
        (MAAS, REGION, OUT, Erase.FULL, None),
        (MAAS, REGION, OUT, Erase.QUICK, LEAVES),
        (MAAS, None, E, Erase.NONE, LEAVES),
        (MAAS, None, N, Erase.QUICK, None),
        (MAAS, AGENT, OUT, None, NOT_OUTSIDE),
        (MAAS, AGENT, E, None, NO_SOURCE),
        (MAAS, WORKER, E, Erase.NONE, None),
    ],
)
def test_a_requirement_that_no_source_can_satisfy_is_a_fault(
    maas: MaasSite | None, by: CleaningBy | None, require: Require, erase: Erase | None, fault: str | None
) -> None:
    site = Site(maas=maas, cleaning=CleaningSite(by=by, require=require), release=ReleaseSite(erase=erase))
    found = [each.text for each in site_checks.faults(site) if each.where.startswith(("[cleaning]", "[release]"))]
    assert len(found) == (fault is not None) and all(fault is not None and fault in text for text in found)
