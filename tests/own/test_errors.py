"""What newcomers get wrong: one line with value, limit and remedy, code 2, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prism_fcp.cli import main
from tests.own.conftest import PROJECT, diabetes, write_table

NAMES, ROWS = diabetes()
Rows = list[list[object]]


def cells(row: int, name: str, value: object) -> Callable[[Rows], Rows]:
    def change(rows: Rows) -> Rows:
        place = NAMES.index(name)
        return [[*own[:place], value, *own[place + 1 :]] if n == row or row < 0 else own for n, own in enumerate(rows)]

    return change


def error(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr()
    assert told.out == "" and "Traceback" not in told.err
    lines = told.err.strip().split("\n")
    assert len(lines) == 1 and lines[0].startswith("prism-fcp: error: ")
    return lines[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cells(-1, "s1", 3), "column 's1' is constant (3 in all 442 rows)"),
        (
            cells(6, "s1", "high"),
            "row 7, column 's1': 'high' is no number; mend or drop this row, or leave the column out",
        ),
        (
            cells(6, "progression", "nan"),
            "row 7, column 'progression': 'nan' is no finite number; mend or drop this row",
        ),
        (
            cells(6, "progression", ""),
            "row 7, column 'progression': empty; a number is needed; mend or drop this row",
        ),
        (lambda rows: rows[:70], "8 clients for 70 rows; at least 10 rows a client are needed"),
        (lambda rows: [row[:-1] for row in rows], "row 1 has 10 cells, the header 11"),
    ],
    ids=["constant", "text", "nan target", "empty target", "few rows", "short rows"],
)
def test_a_table_that_cannot_be_used(
    here: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Rows], Rows], said: str
) -> None:
    write_table(here / "diabetes.csv", NAMES, change(ROWS))
    check(here, capsys, said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"diabetes.csv"', '"none.csv"', "none.csv: No such file"),
        ('"diabetes.csv"', '"diabetes"', "data = 'diabetes' names no kind of file"),
        ('"diabetes.csv"', "3", "data = 3 is a whole number; must be text"),
        ('"progression"', '"progres"', "no column 'progres'; did you mean 'progression'?"),
        ('target = "progression"', "", "target is missing"),
        ("partition = {", "# {", "whose row is which?"),
        ("clients = 8", "clients = 1", "1 client; at least 2 are needed"),
        (", clients = 8", "", "clients is missing"),
        ("clients = 8", "clients = 8, overlap = true", "overlap=true gives a row to several clients"),
        ("dirichlet", "dirichle", "did you mean 'dirichlet'?"),
        ("partition =", 'client = "sex"\npartition =', "both say who holds what"),
        ('partition = { name = "dirichlet", clients = 8 }', 'client = "s3"', "has 1 row; at least 10 are needed"),
        ('partition = { name = "dirichlet", clients = 8 }', 'client = "progression"', "client and target are both"),
        ("partition =", 'drop = ["none"]\npartition =', "no column 'none'"),
        ("partition =", "tset_share = 0.1\npartition =", "unknown key 'tset_share'; did you mean 'test_share'?"),
        ("partition =", "test_share = 0.9\npartition =", "test_share=0.9; both must be positive, and"),
        ("drill = ", 'model = "mpl"\ndrill = ', "did you mean 'mlp'?"),
        ("drill = ", "training = { rounds = 0 }\ndrill = ", "[training]: rounds=0; must lie in 1.."),
        ("drill = ", "training = { share = 2.0 }\ndrill = ", "[training]: share = 2.0 (M/D) of 10 is M = 20"),
        ("drill = ", "training = { step = 2.0 }\ndrill = ", "[training]: unknown key 'step'; did you mean"),
        ("drill = ", "calibration = { levels = [2] }\ndrill = ", "[calibration]: confidence_level=2; must lie"),
        ("drill = ", 'calibration = { filter = "madd" }\ndrill = ', "did you mean 'mad'?"),
        ("drill = ", 'calibration = { filter = "known_count" }\ndrill = ', "suspects"),
        ("drill = ", "calibration = { guard = true }\ndrill = ", "guard: True is no share"),
        ("drill = ", "seed = -1\ndrill = ", "seed=-1"),
        ("trials = 2", "num_byzantine = 4", "num_byzantine = 4; must be less than half of the 8 clients"),
        ("trials = 2", 'attacks = ["efficent"]', "did you mean 'efficiency'?"),
        ("drill = ", "training = { step_size = 50.0 }\ndrill = ", "lower step_size in [training]"),
    ],
)  # fmt: skip
def test_a_project_that_cannot_work(
    here: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    assert old in PROJECT
    (here / "my.toml").write_text(PROJECT.replace(old, new))
    check(here, capsys, said, quiet="50.0" not in new)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--check", "nothing is published of your own data"),
        ("--data diabetes.csv", "--data names the superconductivity file"),
        ("--json my.toml", "would overwrite the experiment's own file"),
        ("--json prism-results/my/model.json", "would overwrite a file that results are kept in"),
        ("--trials 0", "trials=0"),
        ("--engine fast", "unknown engine 'fast'"),
    ],
)
def test_a_line_that_cannot_be_meant(here: Path, capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    check(here, capsys, said, *line.split())


def test_without_jax_the_engine_that_needs_it_says_so(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prism_fcp.engines.has_jax", lambda: False)
    check(here, capsys, "engine 'xla' needs jax: pip install 'prism-fcp[jax]'", "--engine", "xla")


def test_the_superconductivity_file_is_named_on_the_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (
        "reproduce table-uci --trials 1 --data none.csv",
        "reproduce table-uci --data diabetes.csv",
    ):
        assert main(name.split()) == 2
        assert "--data FILE" in error(capsys)


def check(here: Path, capsys: pytest.CaptureFixture[str], said: str, *more: str, quiet: bool = True) -> None:
    before = sorted(here.rglob("*"))
    assert main(["run", "my.toml", "--jobs", "1", *more]) == 2
    told = error(capsys) if quiet else capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert sorted(here.rglob("*")) == before  # nothing half-written
