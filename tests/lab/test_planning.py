"""The command `plan`: table, picture, JSON, and one line where it cannot be done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prism_fcp.cli import main
from prism_fcp.lab import planning


def test_table_and_notes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["plan", "--share", "0.3", "--wanted-coverage", "0.88", "--liars", "1"]) == 0
    told = capsys.readouterr().out
    pieces = (
        "figures are", "predicted", "1.756", "narrowest intervals", "more bytes only widen them",
        "converges below 0.04",
        "to certify 88 % with 1 liar kept", "thm:detection, efficiency attack", "for clients unlike as these",
        "note: clients that never share",
    )  # fmt: skip
    for piece in pieces:
        assert piece in told, piece
    assert "knee of width" not in told  # nothing is bought with more bytes under this attack
    assert main(["plan", "--share", "0.3", "--byzantine", "0"]) == 0
    assert "knee of width against bytes" in (told := capsys.readouterr().out) and "best step size" not in told


def test_an_interruption_promises_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """There are no trials to keep and nothing to continue."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "planned", stop)
    assert main(["plan"]) == 130
    assert capsys.readouterr().err.strip() == "prism-fcp: interrupted"


def test_picture_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    picture, file = tmp_path / "width.svg", tmp_path / "plan.json"
    line = ["plan", "--num-shared", "15", "--step-size", "best", "--plot", str(picture), "--json", str(file)]
    assert main(line) == 0
    assert picture.read_text().lstrip().startswith("<?xml") and f"drawn: {picture}" in capsys.readouterr().out
    body = json.loads(file.read_text())
    assert body["step_size"] == body["best_step_size"] and body["bytes_up"] == 600
    assert main(["plan", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["num_shared"] == 50 and "figures are" in printed.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--share 2", "--share 2.0; must be above 0 and at most 1 (M/D)"),
        ("--share 0.3 --num-shared 15", "give one of them"),
        ("--step-size fast", "--step-size 'fast'; must be a number, or best"),
        ("--step-size 0.1", "step_size=0.1; must lie below 0.05"),
        ("--dimension 1000000", "step_size=0.025; must lie below 2.4"),
        ("--wanted-coverage 0.95", "must lie above 0 and below 0.9"),
        ("--plot x.jpg", "must end in .png or .svg"),
        ("--rule median --plot x.png", "there is no curve for rule 'median'"),
        ("--download sam", "did you mean 'same'"),
        ("--byzantine 100", "num_byzantine=100; must lie in 0..99"),
        ("--clients ten", "not a whole number"),
        ("--sahre 0.3", "did you mean '--share'"),
        ("--noise 0 0 --byzantine 0", "make one of them positive"),
    ],
)
def test_a_mistake_is_one_line_and_code_two(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *line.split()]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--help"]) == 0
    assert "prism-fcp plan --share 0.3 --step-size best --plot width.png" in capsys.readouterr().out
