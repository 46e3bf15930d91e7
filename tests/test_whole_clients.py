"""Clients that keep all their rows: how a trial cuts them, and scores of unequal numbers from end to end."""

from __future__ import annotations

import dataclasses
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.engines import ENGINES
from prism_fcp.errors import DataError, SettingError
from prism_fcp.pipeline import explain_trial
from prism_fcp.scoring import CalibrationDraws, scoring_models
from prism_fcp.setup import CalibrationSettings, Method, Setup
from prism_fcp.tables import TableData, prepare
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

SIZES = {"a": 12, "b": 40, "c": 101, "d": 60}


@pytest.fixture
def data(tmp_path: Path) -> TableData:
    rng = np.random.default_rng(3)
    lines = ["x,z,rare,y,site"]
    for site, count in SIZES.items():
        for place in range(count):
            x, z = rng.normal(size=2)
            lines.append(f"{x},{z},{int(site == 'a' and place == 0)},{2 * x - z + rng.normal() / 4},{site}")
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    prepare.cache_clear()
    return TableData(
        name=str(tmp_path / "t.csv"), target="y", client="site", partition=Choice("column"), calibration_share=0.25,
        test_share=0.2, standardise="federated",
    )  # fmt: skip


def setup(data: TableData, **calibration: object) -> Setup:
    settings = CalibrationSettings(samples=25, test_samples=20, bins=20, beyond_range="exact", **calibration)  # type: ignore[arg-type]
    masks = Masks(num_shared=2)
    federation = Federation(
        num_clients=4, dimension=3, num_participants=4, num_byzantine=1, rounds=30, window=1, batch_size=4
    )
    return Setup(
        population=data, federation=federation, calibration=settings,
        attacks=tuple((name, Choice(name)) for name in ("none", "efficiency", "coverage", "random")),
        methods=(Method(name="kept", arm=Arm(masks=masks), filter=Choice("keep_all"), scoring_model="global"),
                 Method(name="told", arm=Arm(masks=masks), filter=Choice("known_count"), scoring_model="global"),
                 Method(name="floor", arm=None, filter=Choice("keep_all"))),
    )  # fmt: skip


def test_a_trial_cuts_what_clients_hold_and_uses_every_row_once(data: TableData) -> None:
    drawn, ready, rows = data.whole_clients(4, 1, seed=1, trial=0)
    assert data.client_names(4) == list(SIZES)
    for (train, calibration, test), count in zip(rows, SIZES.values(), strict=True):
        assert len(calibration) == round(count / 4) and len(test) == round(count / 5)
        assert len({*train, *calibration, *test}) == len(train) + len(calibration) + len(test) == count
    assert (np.diff(np.sort(np.concatenate([np.concatenate(own) for own in rows]))) == 1).all()
    again, other = data.whole_clients(4, 1, 1, 0)[2], data.whole_clients(4, 1, 1, 1)[2]
    assert all((a[1] == b[1]).all() for a, b in zip(rows, again, strict=True))
    assert any((a[1] != b[1]).any() for a, b in zip(rows, other, strict=True))
    assert [set(np.concatenate(a)) for a in rows] == [set(np.concatenate(b)) for b in other]  # clients stay themselves
    assert drawn.train_sizes.tolist() == [len(own[0]) for own in rows]
    trained = np.concatenate([own[0] for own in rows])
    np.testing.assert_allclose(ready.features[trained, :2].mean(axis=0), 0, atol=1e-5)


def test_a_value_that_training_rows_lack_does_not_stop_a_trial(data: TableData) -> None:
    """The rare one lies in client a's first row, which is no training row in about half of the trials."""
    for trial in range(8):
        drawn, ready, rows = data.whole_clients(4, 0, 1, trial)
        assert np.isfinite(ready.features).all() and len(rows) == 4
        assert ready.scaler.sd[2] == 1 or 0 in rows[0][0]


@pytest.mark.parametrize("attack", ["none", "efficiency", "coverage", "random"])
@pytest.mark.parametrize("pilot", ["true", "reported"])
def test_scores_of_unequal_numbers_go_the_same_way_as_equal_ones(attack: str, pilot: str, data: TableData) -> None:
    """A table of scores and the same scores as a list, a client each, must end alike, to the bit."""
    table = dataclasses.replace(data, partition=Choice("iid"), client="", drop=("site",))
    drawn = table.draw(3, 1, 1, 0, 0, 0)  # 71 rows a client
    settings = CalibrationSettings(samples=18, test_samples=14, bins=20, pilot=pilot)  # type: ignore[arg-type]
    forge = SCORE_ATTACKS[attack]()
    draws = CalibrationDraws.of(drawn, settings, [forge])
    equal = draws.score(scoring_models(None, "global", drawn))
    assert isinstance(equal.true, np.ndarray)
    unequal = dataclasses.replace(equal, true=list(equal.true), concluded={})
    one, other = equal.receive("x", forge), unequal.receive("x", forge)
    np.testing.assert_array_equal(one.counts, other.counts)
    np.testing.assert_array_equal(one.scores, np.stack(list(other.scores)))
    for weights in (np.ones(3), np.array([1.0, 0.5, 1.0])):
        assert equal.conclude(one, weights) == unequal.conclude(other, weights)


def test_the_pooled_radius_of_unequal_clients_is_the_order_statistic_of_all_scores(data: TableData) -> None:
    chosen = setup(data)
    cells = {(e.cell.attack, e.cell.method): e for e in explain_trial(chosen, 1, 0, ENGINES["readable"])}
    drawn = chosen.draw(1, 0)
    models = np.broadcast_to(drawn.oracle(), (4, 3))  # type: ignore[union-attr]
    draws = CalibrationDraws.of(drawn, chosen.calibration, [])
    scores = np.sort(np.concatenate(list(draws.score(models).true)))
    assert len(scores) == 3 + 10 + 25 + 15
    wanted = scores[ceil(54 * 0.9) - 1]
    assert cells["none", "floor"].cell.width == pytest.approx(2 * drawn.scale * wanted)  # type: ignore[union-attr]
    assert cells["coverage", "kept"].cell.width > cells["coverage", "told"].cell.width
    assert cells["efficiency", "told"].counts.sum(axis=1).tolist() == [3, 10, 25, 15]


def test_both_engines_train_clients_of_unequal_size_alike(data: TableData) -> None:
    pytest.importorskip("jax")
    chosen = setup(data)
    drawn = chosen.draw(1, 0)
    federation = dataclasses.replace(chosen.federation, attack=Choice("none"))
    told = [ENGINES[name](drawn, federation, chosen.arms())[0].global_model for name in ("readable", "xla")]
    np.testing.assert_allclose(*told, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"test_share": 0.0}, "both must be positive"),
        ({"calibration_share": 0.8}, "their sum below 1"),
        ({"name": "friedman"}, "need a table"),
        ({"partition": Choice("dirichlet")}, "overlap=true gives a row to several clients"),
    ],
)
def test_parts_that_cannot_be(change: dict[str, object], said: str, data: TableData) -> None:
    with pytest.raises(SettingError, match=said):
        dataclasses.replace(data, **change).check()


def test_a_client_with_too_few_rows_is_named(data: TableData) -> None:
    path = Path(data.name)
    path.write_text(path.read_text() + "1,2,0,3,e\n" * 9)
    prepare.cache_clear()
    with pytest.raises(DataError, match="client 'e' has 9 rows; at least 10 are needed"):
        data.whole_clients(5, 0, 1, 0)
