"""A table is read from every kind of file, and what no model can be trained on is refused by column and row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prism_fcp.data.table import Table, read_table
from prism_fcp.errors import DataError

ROWS = "ward,age,dose,days\nnorth,30,1.5,4\nsouth,41,2.5,6\nnorth,52,0.5,9\n"


def put(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def same(one: Table, other: Table) -> None:
    np.testing.assert_array_equal(one.features, other.features)
    np.testing.assert_array_equal(one.target, other.target)
    assert (one.names, one.target_name) == (other.names, other.target_name)


def test_csv_parquet_and_npz_give_the_same_table(tmp_path: Path) -> None:
    table = read_table(put(tmp_path, ROWS), "days", client="ward")
    assert table.names == ("age", "dose") and table.owners is not None
    assert table.owners.tolist() == ["north", "south", "north"]
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"ward": table.owners.tolist(), "age": table.features[:, 0], "dose": table.features[:, 1]}
    parquet.write_table(arrow.table({**columns, "days": table.target}), tmp_path / "t.parquet")
    same(read_table(tmp_path / "t.parquet", "days", client="ward"), table)
    np.savez(tmp_path / "t.npz", X=table.features, days=table.target, feature_names=np.array(table.names))
    same(read_table(tmp_path / "t.npz", "days"), table)
    np.savez(tmp_path / "c.npz", age=table.features[:, 0], dose=table.features[:, 1], days=table.target)
    same(read_table(tmp_path / "c.npz", "days"), table)


def test_dropped_columns_are_no_features(tmp_path: Path) -> None:
    assert read_table(put(tmp_path, ROWS), "days", drop=["ward", "dose"]).names == ("age",)


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (ROWS, "day", "no column 'day'; did you mean 'days'"),
        (ROWS, "days", "column 'ward'.*'north'"),  # text where a number is needed
        ("a,y\n1,2\n", "y", "at least 2 rows"),
        ("a,y\n3,2\n3,4\n", "y", r"column 'a' is constant \(3 in all 2 rows\).* leave it out with drop"),
        ("a,y\n3,2\n4,2\n", "y", "column 'y' is constant"),
        ("a,y\n3,2\n4,nan\n5,1\n", "y", "row 2, column 'y': 'nan' is no finite number"),
        ("a,y\n3,2\ninf,3\n", "y", "row 2, column 'a': 'inf' is no finite number"),
        ("a,y\n3,2\nred,3\n", "y", "column 'a'.*'red'"),
        ("y\n3\n4\n", "y", "no feature is left beside 'y'"),
        ("", "y", "empty"),
    ],
)  # fmt: skip
def test_refusals_name_file_column_and_row(tmp_path: Path, text: str, target: str, message: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(DataError, match=message) as told:
        read_table(path, target)
    assert str(path) in str(told.value) and "\n" not in str(told.value)


def test_a_missing_file_and_a_broken_archive(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"none\.csv: No such file"):
        read_table(tmp_path / "none.csv", "y")
    with pytest.raises(DataError, match=r"b\.npz: no whole NumPy archive"):
        read_table(put(tmp_path, "PK nothing", "b.npz"), "y")
    np.savez(tmp_path / "x.npz", X=np.eye(3), y=np.arange(3.0), gaps=np.array([1.0, np.nan, 3.0]))
    with pytest.raises(DataError, match="column 'gaps': 1 of 3 values are NaN or infinite, the first in row 2; fill"):
        read_table(tmp_path / "x.npz", "gaps")
    for target, drop, message in (("z", (), "no array 'z'"), ("y", ("9",), "no column '9'")):
        with pytest.raises(DataError, match=message):
            read_table(tmp_path / "x.npz", target, drop=drop)
