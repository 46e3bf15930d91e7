"""Who holds what, as a picture: the shares it shows, and where there is nothing to show."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.data import superconductivity
from prism_fcp.errors import SettingError
from prism_fcp.lab.compare import judge
from prism_fcp.lab.figures import draw, paint
from prism_fcp.lab.plots_partition import holdings, shares
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import parse
from prism_fcp.tables import prepare


def test_shares_of_the_targets_bins_by_hand() -> None:
    """20 values in 10 bins of two: a client with the four lowest holds half of its rows in each of the first two."""
    target = np.arange(20.0)
    found, ends = shares([np.arange(4), np.array([0, 19])], target)
    np.testing.assert_array_equal(found[0], [0.5, 0.5] + [0.0] * 8)
    np.testing.assert_array_equal(found[1], [0.5] + [0.0] * 8 + [0.5])
    np.testing.assert_array_equal(ends, np.arange(1.0, 20.0, 2))


@pytest.mark.parametrize(("clients", "alike"), [(3, True), (3, False), (60, False)])
def test_it_can_be_drawn(clients: int, alike: bool, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(1)
    held = [rng.integers(0, 500, 20 if alike else 10 + 3 * k) for k in range(clients)]
    names = [f"{'a long name ' * 3}{k}" for k in range(clients)]
    paths = paint({"partition": lambda one: holdings(one, "t", names, held, rng.normal(size=500), "y")}, tmp_path)
    assert [path.suffix for path in paths] == [".png", ".svg"]


EXPERIMENT = """
figures = ["partition"]
trials = 1
[data]
name = "superconductivity-twin"
samples = 30
[federation]
num_clients = 5
num_participants = 5
num_byzantine = 1
rounds = 3
[calibration]
samples = 20
test_samples = 20
[[attacks]]
name = "none"
[[methods]]
method = "FCP"
"""


def test_an_experiment_on_a_table_has_one_and_others_have_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    small = superconductivity.twin(1000)
    monkeypatch.setattr(superconductivity, "twin", lambda: small)
    prepare.cache_clear()
    comparison = judge(run(parse(tomllib.loads(EXPERIMENT), "e.toml")))
    assert len(draw(comparison, [], ["partition"], tmp_path)) == 2
    for other in (EXPERIMENT.replace("superconductivity-twin", "friedman"), EXPERIMENT.replace("[data]", "[other]")):
        text = other.replace('[other]\nname = "superconductivity-twin"\nsamples = 30\n', "")
        with pytest.raises(SettingError, match="figure 'partition' needs .data. with a table"):
            parse(tomllib.loads(text), "e.toml")
    prepare.cache_clear()
