"""tab:UCI, tab:H_sensitivity and tab:nonlinear_results beside the published numbers, at fixed seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from prism_fcp.lab.catalog import named
from prism_fcp.lab.compare import judge
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import parse


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table-uci", "table-h"])
def test_the_superconductivity_tables_come_out(name: str, superconductivity: Path) -> None:
    """Ten trials, so noise may leave a row undecided; none may differ, and most must come out."""
    pytest.importorskip("jax")
    comparison = judge(run(named(name), trials=10, seed=1, jobs=2, engine="xla"))
    assert not comparison.failures
    judged = [j for j in comparison.rows if j.paper]
    settled = [j for j in judged if j.status == "reproduced"]
    assert len(settled) >= (13 if name == "table-uci" else 9), [j.verdict for j in judged]
    rows = {(j.row.attack, j.row.method, round(j.row.share, 2)): j.row for j in comparison.rows}
    if name == "table-uci":  # these clients can do without the federation, which a reader must see
        widths = [rows["efficiency", *key].width.mean for key in (("Floor", 0.0), ("Local", 0.0), ("PRISM-FCP", 0.25))]
        assert widths == sorted(widths)  # type: ignore[type-var]


@pytest.mark.slow
def test_partial_sharing_beats_full_sharing_with_a_neural_network() -> None:
    """Three trials of the three published arms: narrower and with a smaller error in each of them."""
    pytest.importorskip("jax")
    whole = named("table-nonlinear").resolved
    rows = [m for m in whole["methods"] if m["method"] in ("PRISM-FCP", "Rob-FCP")]
    result = run(parse({**whole, "methods": rows, "attacks": whole["attacks"][:1]}, "three arms"), trials=3, seed=1)
    told = {(row.method, row.variant): row for row in result.rows}
    full = told["Rob-FCP", ""]
    for key in (("PRISM-FCP", ""), ("PRISM-FCP", "one layer")):
        assert told[key].test_mse_db < full.test_mse_db - 0.5  # type: ignore[operator]
        assert told[key].width.mean < full.width.mean  # type: ignore[operator]
        assert (told[key].true_positives, told[key].false_positives) == (20, 0)
