"""The gauntlet: names are checked, trials are kept, a rerun continues, divergence is never a number."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from prism_fcp.cli import main
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.lab import gauntlet, regimes
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.protocol import Known, protocol
from prism_fcp.train.settings import Federation
from prism_fcp.types import Choice

pytest.importorskip("numba")
SMALL = Federation(
    num_clients=20, dimension=12, num_participants=5, num_byzantine=4, rounds=120, window=20, step_size=0.05
)
ARGUMENTS = ["gauntlet", "--regime", "small", "--attack", "none", "--attack", "inner 10", "--protocol", "paper"]


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(regimes.REGIMES, "small", regimes.Regime(SyntheticLinear(), SMALL, 4))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path: Path) -> dict[tuple[str, str], dict[str, object]]:
    return {(row["attack"], row["protocol"]): row for row in json.loads(path.read_text())["rows"]}


def test_it_prints_draws_writes_and_continues(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*ARGUMENTS, "--trials", "2", "--jobs", "1", "--out", "o"]) == 0
    out = capsys.readouterr().out
    assert {"local", "only", "default", "bytes"} <= set(out.split()) and "default took " in out and "worst cell" in out
    found = {path.name for path in (small / "o/gauntlet").iterdir()}
    assert found == {"gauntlet.json", "gauntlet.png", "gauntlet.svg", "gauntlet.jsonl"}
    rows = rows_of(small / "o/gauntlet/gauntlet.json")
    assert set(rows) == {(a, p) for a in ("none", "inner 10") for p in ("local only", "paper", "default")}
    assert 1 < rows["none", "default"]["mean"] < 3 and rows["none", "default"]["false_exclusions"] == 0
    before = (small / "o/gauntlet/gauntlet.json").read_bytes()

    def forbidden(*_: object) -> None:
        raise AssertionError("a kept trial was played again")

    monkeypatch.setattr(gauntlet, "play", forbidden)
    assert main([*ARGUMENTS, "--trials", "2", "--jobs", "2", "--out", "o"]) == 0
    assert (small / "o/gauntlet/gauntlet.json").read_bytes() == before


def test_an_interrupted_run_keeps_what_is_finished(
    small: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played, real = [], gauntlet.play

    def once(*arguments: object) -> object:
        if played:
            raise KeyboardInterrupt
        played.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(gauntlet, "play", once)
    assert main([*ARGUMENTS, "--trials", "2", "--jobs", "1", "--out", "o"]) == 130
    assert "1 of 4 trials finished" in capsys.readouterr().err
    monkeypatch.setattr(gauntlet, "play", real)
    assert main([*ARGUMENTS, "--trials", "2", "--jobs", "1", "--out", "o"]) == 0
    assert "gauntlet: 1 of 4 trial was finished before; continuing" in capsys.readouterr().err
    assert len((small / "o/gauntlet/gauntlet.jsonl").read_text().splitlines()) == 5
    assert main([*ARGUMENTS, "--trials", "2", "--seed", "2", "--out", "o"]) == 2
    assert "of another seed; --fresh" in capsys.readouterr().err


def test_a_diverged_trial_is_never_a_number() -> None:
    cell = next(c for c in gauntlet.cells(regimes.Gauntlet(("small",), ("none",), ("paper",))))
    fine, lost = gauntlet.Outcome(1.0, 0.9, None, None, 8.0), gauntlet.Outcome(None, None, None, None, 8.0)
    row = gauntlet.summarise(cell, "paper", [fine, lost, fine])
    assert row.diverged == 1 and row.mean is row.worst is row.coverage is None
    assert gauntlet.summarise(cell, "paper", [fine, fine]).mean == 1.0


def test_numbers_do_not_depend_on_the_company() -> None:
    one, many = (
        gauntlet.cells(regimes.Gauntlet(("small",), ("gaussian",), names))[0]
        for names in ((), ("paper", "E table", "A clipped"))
    )
    assert gauntlet.play(one, 3, 1)["default"] == gauntlet.play(many, 3, 1)["default"]


@pytest.mark.parametrize("what", ["regime", "attack", "protocol"])
def test_wrong_names_are_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gauntlet", f"--{what}", "nowhere"]) == 2
    assert "unknown" in capsys.readouterr().err


def test_an_attack_of_ones_own_joins_by_a_plugin_whose_versions_are_not_mixed(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "mine.py").write_text(
        "from prism_fcp.lab.regimes import ATTACKS\n"
        "from prism_fcp.train.attack import UPDATE_ATTACKS\n"
        "from prism_fcp.types import Choice, UpdateAttack\n"
        "UPDATE_ATTACKS['mine'] = lambda: UpdateAttack('mine', 1.0, frozenset(), lambda view: view.own + 3)\n"
        "ATTACKS['mine'] = lambda rounds: Choice('mine')\n"
    )
    line = ["gauntlet", "--plugin", "mine.py", "--regime", "small", "--attack", "mine", "--trials", "1"]
    try:
        assert main(line) == 0
        assert main(line) == 0  # continued: nothing has changed
        source = (small / "mine.py").read_text()
        (small / "mine.py").write_text(source.replace("view.own + 3", "view.own - 3"))
        sys.modules.pop(str(small / "mine.py"))
        assert main(line) == 2
        assert "of another version of the code, a plugin's" in capsys.readouterr().err
    finally:
        regimes.ATTACKS.pop("mine", None)
        UPDATE_ATTACKS.pop("mine", None)
        sys.modules.pop(str(small / "mine.py"), None)
    rows = rows_of(small / "prism-results/gauntlet/gauntlet.json")
    assert rows["mine", "default"]["recall"] == 1.0


def test_every_name_makes_a_cell_and_every_attack_is_in_it() -> None:
    made = gauntlet.cells(regimes.full())
    assert len({cell.key for cell in made}) == len(made)
    attacks = {label(100).name for label in regimes.ATTACKS.values()}
    assert attacks == set(UPDATE_ATTACKS)
    assert all({"local only", "default"} <= set(cell.protocols) for cell in made)


@pytest.mark.parametrize(
    ("change", "name", "why"),
    [
        ({}, "stay", "rounds x step size x input variance = 17.5 reaches 8"),
        ({"samples": 20}, "follow", "20 samples a client for 50 parameters"),
        ({"rounds": 100}, "follow", "= 1.75 is below 8"),
        ({"idle_learning": False}, "follow", "rounds x participation x step size x input variance = 1.75 is below 8"),
        ({"rounds": 100, "local_steps": 5}, "stay", "rounds x local steps x step size x input variance = 8.75 reaches"),
        ({"rounds": 300, "momentum": 0.5}, "stay", "x step size / (1 - momentum) x input variance = 10.5 reaches"),
        (
            {"linear": False, "rounds": 100, "local_steps": 20},
            "follow",
            "coordinate would be downloaded 2 times only",
        ),
        ({"linear": False}, "follow", "nets that never download"),
        ({"samples": 200}, "stay", "samples suffice"),
        ({"correlated": True}, "follow", "columns of a table go together"),
        ({"samples": 20, "num_shared": 2}, "follow", "overfits; each coordinate would be downloaded 4 times only"),
        (
            {"linear": False, "rounds": 500},
            "follow",
            "another order; each coordinate would be downloaded 10 times only",
        ),
        ({"linear": False, "rounds": 2000}, "follow", "stand in another order"),
    ],
)
def test_the_default_chooses_and_says_why(change: dict[str, object], name: str, why: str) -> None:
    known = {
        "num_shared": 10, "dimension": 50, "rounds": 1000, "step_size": 0.025, "participation": 0.1,
        "input_variance": 0.7,
    }  # fmt: skip
    made = protocol("default", Known(**{**known, **change}))  # type: ignore[arg-type]
    assert made.name == name and why in made.why
    assert made.arm == protocol(name, Known(**{**known, **change})).arm  # type: ignore[arg-type]
    full = "so all of the model is" in made.why
    assert made.scoring_model == ("local" if "correlated" in change else "global")
    assert (made.arm.masks.download == "full") == full
    assert protocol("paper", Known(**known)).arm.rule == Choice("mean")  # type: ignore[arg-type]
