"""A site's rows: cut once, gone through in passes, in units of others' or their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.data.clients import ClientData
from prism_fcp.data.friedman import friedman
from prism_fcp.data.standardise import Scaler
from prism_fcp.data.table import Table
from prism_fcp.errors import DataError, SettingError
from prism_fcp.federation.sites import Agreed, SiteRows, as_table
from prism_fcp.federation.sites.example import as_csv
from prism_fcp.federation.sites.file import SiteFile
from prism_fcp.models import linear
from tests.federation.sites.cases import rows


def test_every_row_is_for_one_thing() -> None:
    own = rows(count=203)
    assert [len(part) for part in (own.train, own.calibration, own.test)] == [101, 51, 51]
    together = np.concatenate([own.train, own.calibration, own.test])
    assert sorted(together.tolist()) == list(range(203))


def test_name_and_rows_decide_the_cut_unless_a_key_does() -> None:
    one, again, renamed = rows("a"), rows("a"), rows("b")
    np.testing.assert_array_equal(one.train, again.train)
    assert one.key == again.key and not np.array_equal(one.train, renamed.train)
    changed = one.table.target.copy()
    changed[0] += 1
    assert SiteRows.cut("a", replace(one.table, target=changed)).key != one.key
    keyed = [SiteRows.cut(name, one.table, key=5).train for name in "ab"]
    np.testing.assert_array_equal(*keyed)


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((0.5, 0.5), "sum below 1"), ((0.0, 0.2), "must be positive"), ((0.2, -0.1), "must be positive"),
        ((float("nan"), 0.2), "calibration_share"), (("0.2", 0.2), "calibration_share"),
        ((0.49, 0.5), "none is left to train on"),
    ],
)  # fmt: skip
def test_shares_leave_rows_for_everything(shares: tuple[Any, Any], message: str) -> None:
    with pytest.raises(SettingError if "left" not in message else DataError, match=message):
        SiteRows.cut("a", rows(count=10).table, calibration_share=shares[0], test_share=shares[1])


def test_too_few_rows_are_refused_by_site() -> None:
    with pytest.raises(DataError, match="site 'a': 9 rows; at least 10"):
        SiteRows.cut("a", friedman(9, np.random.default_rng(1)))


def test_each_pass_takes_every_row_once_in_an_order_of_its_own() -> None:
    own = rows(count=40)  # 20 to train on
    taken = np.concatenate([own.batches(number, 2, 3)[0].reshape(6, -1) for number in range(1, 11)])
    known = own.table.features[own.train].astype(np.float32)
    places = np.array([int(np.flatnonzero((known == row).all(axis=1))[0]) for row in taken])
    passes = places.reshape(3, 20)
    for one in passes:
        assert sorted(one.tolist()) == list(range(20))
    assert len({tuple(one) for one in passes.tolist()}) == 3


def test_a_round_is_the_same_whatever_came_before() -> None:
    own, fresh = rows(count=30), rows(count=30)
    for number in (1, 7, 3, 20, 2):
        own.batches(number, 4, 5)
    for kept, new in zip(own.batches(9, 4, 5), fresh.batches(9, 4, 5), strict=True):
        np.testing.assert_array_equal(kept, new)
    inputs, targets = own.batches(1, 3, 50)  # more than there are: rows come again
    assert inputs.shape == (3, 50, 10) and targets.shape == (3, 50)


def test_in_turn_is_what_a_simulated_client_learns_from() -> None:
    table = friedman(60, np.random.default_rng(2))
    cut = np.split(np.random.default_rng(3).permutation(60), [30, 45])
    drawn = ClientData.of(7, linear(10), table.features, table.target, [tuple(cut)], 0)
    pairs = [(table.features[part], table.target[part]) for part in cut]
    own = SiteRows.parts("a", *pairs, key=1)
    for number in (1, 4, 11):
        inputs, targets = drawn.batches(number, 2, 7)
        mine = own.batches(number, 2, 7)
        np.testing.assert_array_equal(mine[0], inputs[0])
        np.testing.assert_array_equal(mine[1], targets[0])


def test_a_column_may_be_constant_at_one_site() -> None:
    features = np.column_stack([np.full(20, 3.0), np.arange(20.0)])
    own = SiteRows.cut("a", as_table("a", features, np.arange(20.0)))
    assert own.describe().sd[0] == 0
    agreed = Agreed(("x1", "x2"), "target", Scaler(np.array([2.0, 10, 10]), np.array([0.5, 6, 6])), {})
    inputs, _ = own.standardised(agreed).batches(1, 1, 4)
    np.testing.assert_array_equal(inputs[0, :, 0], 2)


def test_columns_follow_the_order_agreed_on() -> None:
    table = Table(np.arange(40.0).reshape(20, 2), np.arange(20.0), ("a", "b"), "y")
    own = SiteRows.cut("s", table)
    units = Scaler(np.zeros(3), np.ones(3))
    turned = own.standardised(Agreed(("b", "a"), "y", units, {}))
    np.testing.assert_array_equal(turned.batches(1, 1, 5)[0], own.batches(1, 1, 5)[0][..., ::-1])
    with pytest.raises(DataError, match="site 's': .*no column 'c'"):
        own.standardised(Agreed(("a", "c"), "y", units, {}))
    with pytest.raises(DataError, match="site 's': .*too many columns"):
        own.standardised(Agreed(("a",), "y", Scaler(np.zeros(2), np.ones(2)), {}))


def test_scores_are_in_the_targets_own_units() -> None:
    own = rows(count=80)
    mean, sd = np.append(np.zeros(10), 100.0), np.append(np.ones(10), 7.0)
    scaled = own.standardised(Agreed(own.table.names, "y", Scaler(mean, sd), {}))
    told = scaled.scores(lambda inputs: np.full(len(inputs), 2.0, np.float32))
    np.testing.assert_allclose(told, np.abs(own.table.target[own.calibration] - 114))
    covered, count, error = scaled.evaluate(lambda inputs: np.zeros(len(inputs)), 100.0)
    missed = np.abs(own.table.target[own.test] - 100)
    assert (covered, count) == ((missed <= 100).sum(), 20) and error == pytest.approx(missed.mean())


@pytest.mark.parametrize("answer", [np.zeros(3), np.zeros((20, 1)), 0.0])
def test_a_model_that_answers_in_another_shape_is_refused(answer: Any) -> None:
    with pytest.raises(DataError, match="site 'north': the model returned shape"):
        rows(count=80).scores(lambda inputs: answer)


def test_a_model_that_answers_nan_is_refused() -> None:
    with pytest.raises(DataError, match="site 'north': .*NaN"):
        rows(count=80).scores(lambda inputs: np.full(len(inputs), np.nan))


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        (np.zeros(5), np.zeros(5), r"features of shape \(5,\)"),
        (np.zeros((5, 2)), np.zeros(4), r"targets \(4,\)"),
        (np.zeros((5, 2)), np.zeros((5, 1)), r"targets \(5, 1\)"),
        ([["a"], ["b"]], [1, 2], "arrays of numbers"),
        ([[1.0], [np.nan]], [1, 2], "column 'x1': 1 of 2 values are NaN"),
        ([[1.0], [2.0]], [1, np.inf], "column 'target'"),
    ],
)
def test_arrays_that_are_no_table_are_refused(features: Any, target: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"site 'a': .*{message}"):
        as_table("a", features, target)


def test_parts_must_fit_each_other() -> None:
    one, other = (np.ones((3, 2)), np.ones(3)), (np.ones((3, 1)), np.ones(3))
    with pytest.raises(DataError, match="must have the same"):
        SiteRows.parts("a", one, other, one, key=1)
    with pytest.raises(SettingError, match="did you mean 'in turn'"):
        SiteRows.parts("a", one, one, one, key=1, order="inturn")  # type: ignore[arg-type]


def test_a_value_too_large_for_float32_is_named() -> None:
    features = np.ones((20, 1)) * np.arange(20)[:, None]
    features[4] = 1e39
    with pytest.raises(DataError, match="site 'a': column 'x1', row 5: 1e\\+39 is too large"):
        SiteRows.cut("a", as_table("a", features, np.arange(20.0))).batches(1, 1, 1)


def test_every_kind_of_file_gives_the_same_cut(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text(as_csv(friedman(30, np.random.default_rng(4))))
    own = SiteFile(data=str(tmp_path / "n.csv")).rows("n", "y")
    np.savez(tmp_path / "n.npz", X=own.table.features, y=own.table.target, feature_names=np.array(own.table.names))
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(own.table.names, own.table.features.T, strict=True))
    parquet.write_table(arrow.table({**columns, "y": own.table.target}), tmp_path / "n.parquet")
    (tmp_path / "n.tsv").write_text((tmp_path / "n.csv").read_text().replace(",", "\t"))
    for kind in ("npz", "parquet", "tsv"):
        other = SiteFile(data=str(tmp_path / f"n.{kind}")).rows("n", "y")
        assert other.key == own.key
        np.testing.assert_array_equal(other.train, own.train)
