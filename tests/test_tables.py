"""From a table to a trial's clients: who trains on what, in which units, refused where it cannot work."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from prism_fcp import tables
from prism_fcp.data import superconductivity
from prism_fcp.data.clients import ClientData
from prism_fcp.errors import DataError, SettingError
from prism_fcp.tables import TableData, origin, prepare
from prism_fcp.types import Choice

TWIN = TableData(name="superconductivity-twin", samples=50)


@pytest.fixture(autouse=True)
def _small_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    small = superconductivity.twin(3000)
    monkeypatch.setattr(superconductivity, "twin", lambda: small)
    prepare.cache_clear()


def draw(data: TableData, trial: int = 0, seed: int = 1) -> ClientData:
    return data.draw(8, 2, seed, trial, calibration=20, test=30)


def test_each_client_trains_calibrates_and_is_tested_on_rows_of_its_own() -> None:
    """Drawn without replacement inside a bin: a client's three parts share rows only where a bin ran out."""
    drawn = draw(dataclasses.replace(TWIN, partition=Choice("iid")))
    assert drawn.train.shape == (8, 50) and len(drawn.features) == 3000
    for train, calibration, test in zip(drawn.train, drawn.calibration, drawn.test, strict=True):
        assert len(calibration) == 20 and len(test) == 30
        assert len({*train, *calibration, *test}) == 100
    assert drawn.byzantine.sum() == 2


def test_trials_differ_and_a_trial_comes_again() -> None:
    assert (draw(TWIN).train == draw(TWIN).train).all()
    assert (draw(TWIN).train != draw(TWIN, trial=1).train).any()
    assert (draw(TWIN).train != draw(TWIN, seed=2).train).any()


def test_residuals_are_in_the_targets_unit_by_the_scale() -> None:
    told = prepare(TWIN)
    assert told.scale == pytest.approx(told.table.target.std())
    assert draw(TWIN).scale == told.scale
    assert draw(dataclasses.replace(TWIN, original_units=False)).scale == 1
    np.testing.assert_allclose(told.target * told.scale + told.table.target.mean(), told.table.target, atol=1e-3)


def test_federated_standardisation_uses_the_training_rows_alone() -> None:
    data = dataclasses.replace(TWIN, standardise="federated")
    drawn, whole = draw(data), prepare(data)
    rows = whole.table.features[drawn.train.ravel()]
    wanted = (whole.table.features - rows.mean(axis=0)) / rows.std(axis=0)
    np.testing.assert_allclose(drawn.features, wanted, rtol=1e-4, atol=1e-4)
    assert drawn.scale == pytest.approx(whole.table.target[drawn.train.ravel()].std())


def test_friedman_is_drawn_anew_for_each_trial() -> None:
    data = TableData(name="friedman", samples=50)
    one, other = draw(data), draw(data, trial=1)
    assert one.features.shape == (800, 10) and (one.features != other.features).any()
    assert len(np.unique(one.train)) == 400  # nobody shares a row
    assert origin(data) == "friedman"


def test_the_floor_knows_all_honest_rows() -> None:
    drawn = draw(TWIN)
    oracle = drawn.oracle()
    rows = np.unique(drawn.train[~drawn.byzantine])
    slope = drawn.features[rows].T @ (drawn.features[rows] @ oracle - drawn.target[rows]) / len(rows)
    assert np.abs(slope).max() < 1e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "superconductivty"}, "target is missing"),
        ({"name": "superconductivty", "target": "y"}, "unknown data 'superconductivty'; did you mean 'superconductiv"),
        ({"name": "my.csv"}, "data 'my.csv': target is missing; name the column to predict"),
        ({"samples": 0}, r"samples=0; must lie in 1\.\.10,000,000"),
        ({"partition": Choice("dirichelt")}, "did you mean 'dirichlet'"),
        ({"partition": Choice("column")}, "partition 'column' needs client"),
        ({"standardise": "centrl"}, "unknown standardise 'centrl'; did you mean 'central'"),
    ],
)
def test_settings_are_refused_without_reading_data(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        dataclasses.replace(TWIN, **changes).check()


def test_a_model_that_does_not_exist() -> None:
    with pytest.raises(SettingError, match="unknown model 'mpl'; did you mean 'mlp'"):
        dataclasses.replace(TWIN, model=Choice("mpl")).learner()


def test_a_files_content_is_its_origin(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,3\n4,6,5\n7,8,8\n")
    data = TableData(name=str(path), target="y")
    before = origin(data)
    path.write_text("a,b,y\n1,2,3\n4,6,5\n7,8,9\n")
    assert origin(data) != before


def test_a_constant_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,3\n4,2,5\n7,2,8\n")
    with pytest.raises(DataError, match="column 'b' is constant"):
        tables.prepare(TableData(name=str(path), target="y"))


def test_a_client_with_nothing_left_to_train_on_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{k},{k * k % 7}\n" for k in range(20)))
    data = TableData(
        name=str(path), target="y", partition=Choice("iid"), calibration_share=0.49, test_share=0.49,
        standardise="federated",
    )  # fmt: skip
    with pytest.raises(DataError, match="client 'client-1': of its 10 rows 5 go to calibration and 5 to the test, and"):
        data.whole_clients(2, 0, 1, 0)


def test_rows_with_several_owners_are_refused_where_all_are_dealt(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = lambda table, clients, samples, rng: [np.arange(len(table.target))] * clients  # noqa: E731
    monkeypatch.setitem(tables.PARTITIONERS, "everything", lambda: everything)
    data = dataclasses.replace(TWIN, partition=Choice("everything"), calibration_share=0.2, test_share=0.2)
    with pytest.raises(SettingError, match="gives a row to several clients, so that one trains on what another is"):
        data.whole_clients(3, 0, 1, 0)


def test_a_model_is_built_once() -> None:
    assert draw(TWIN).model is draw(TWIN, trial=1).model


def test_values_too_large_to_square_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,1e200,3\n4,-1e200,5\n7,2,8\n")
    with pytest.raises(DataError, match="column 1 has values too large to square; give it a larger unit"):
        tables.prepare(TableData(name=str(path), target="y"))


def test_the_central_net_is_trained_on_small_tables_too() -> None:
    """Eight passes over 289 rows were eight steps, and the floor lay above everybody."""
    from prism_fcp.data.clients import train_centrally
    from prism_fcp.models import mlp

    rng = np.random.default_rng(1)
    x = rng.standard_normal((289, 4)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + np.abs(x[:, 2])).astype(np.float32)
    y = (y - y.mean()) / y.std()
    model = mlp(4, (16,))
    found = train_centrally(model, model.init(1), x, y, 2)
    assert np.square(model.predict(found, x) - y).mean() < 0.1
