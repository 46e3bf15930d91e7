"""The linear tables at 100 trials beside the published numbers: what README and PAPER.md claim, computed."""

from __future__ import annotations

import math

import pytest

from prism_fcp.lab.catalog import named
from prism_fcp.lab.compare import judge
from prism_fcp.lab.result import Result
from prism_fcp.lab.run import run

# (attack, method) of the rows with a number that ours need not meet as published; a reading limits each of them
ATTACKS = ("efficiency", "coverage", "random")
KNOWN = {
    "table-synthetic": set(),
    "table-gaussian": {(attack, method) for attack in ATTACKS for method in ("Krum", "Multi-Krum")},
    "table-alie": {(a, m) for a in ATTACKS for m in ("PRISM-FCP", "CWMed", "CWTrMean", "Krum", "Multi-Krum")}
    | {("random", "Rob-FCP")},  # the published filter fails there
}


def at_seed(name: str, seed: int) -> Result:
    return run(named(name), trials=100, seed=seed, jobs=2, engine="compiled")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-synthetic", "table-gaussian", "table-alie"])
def test_the_linear_tables_come_out(name: str) -> None:
    """Every row meets its published numbers within the stated tolerance, or is excused and meets its reading.

    The seeds are fixed, so this cannot fail by chance. Two seeds must agree within 4 combined standard errors in every
    row: of about 90 rows with three spreads each, some pair of other seeds would fail with probability 2 %.
    """
    result, other = at_seed(name, 1), at_seed(name, 2)
    comparison = judge(result)
    assert not [(j.row.attack, j.row.method, j.verdict) for j in comparison.rows if j.status == "differs"]
    assert not [s.text for s in comparison.statements if s.status == "differs"]
    judged = [j for j in comparison.rows if j.paper]
    excused = {(j.row.attack, j.row.method) for j in judged if j.status in ("known", "not settled")}
    assert excused == KNOWN[name]
    assert all(j.status == "reproduced" for j in judged if (j.row.attack, j.row.method) not in excused)
    for ours, theirs in zip(result.rows, other.rows, strict=True):
        assert (ours.attack, ours.method, ours.share) == (theirs.attack, theirs.method, theirs.share)
        for field in ("coverage", "width"):
            one, two = getattr(ours, field), getattr(theirs, field)
            assert abs(one.mean - two.mean) <= 4 * math.hypot(one.se, two.se) + 1e-12, (ours.attack, ours.method, field)


@pytest.fixture(scope="module")
def sweep() -> Result:
    return at_seed("sweep-count", 1)


@pytest.mark.slow
@pytest.mark.parametrize("attack", ["efficiency", "coverage"])
def test_mad_finds_all_and_accuses_few(attack: str, sweep: Result) -> None:
    """At M/D = 0.3, 100 trials: MAD 20 of 20 with 0.5-2.2 false positives; the known count 20 and none."""
    rows = {r.variant: r for r in sweep.rows if r.attack == attack and r.share == 0.3}
    assert (rows["told 20"].true_positives, rows["told 20"].false_positives) == (20, 0)
    assert rows["MAD"].true_positives == 20
    assert 0.5 <= rows["MAD"].false_positives <= 2.2
