"""A newcomer's folder: a table that scikit-learn ships, and a project of four lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.datasets import load_diabetes

from tests.report.conftest import browser as browser

PROJECT = """
data = "diabetes.csv"
target = "progression"
partition = { name = "dirichlet", clients = 8 }
drill = { trials = 2 }
"""


def write_table(path: Path, names: list[str], rows: list[list[object]]) -> None:
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def diabetes() -> tuple[list[str], list[list[object]]]:
    data = load_diabetes(scaled=False)
    rows = [[*own, y] for own, y in zip(data.data.tolist(), data.target.tolist(), strict=True)]
    return [*data.feature_names, "progression"], rows


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "diabetes.csv", *diabetes())
    (tmp_path / "my.toml").write_text(PROJECT)
    return tmp_path
