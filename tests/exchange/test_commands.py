"""Calibration by files from the command line: what newcomers type, and what they mistype."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp import Predictor
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.wire import decode, encode
from prism_fcp.cli import main
from prism_fcp.exchange.arguments import HELP

SITES = ("north", "south", "east", "west", "lake", "hill", "harbour")


def run(*line: str, code: int = 0) -> None:
    assert main([*line]) == code


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Seven sites with tables of truth and prediction; the model is a file; lake claims to be perfect."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "model.bin").write_bytes(b"weights")
    for site in SITES:
        y = rng.normal(10, 3, 300)
        predicted = y if site == "lake" else y + rng.normal(0, 1, 300)
        rows = [f"{a:.6f},{b:.6f},{'mf'[place % 2]}" for place, (a, b) in enumerate(zip(y, predicted, strict=True))]
        (tmp_path / f"{site}.csv").write_text("\n".join(["days,predicted,sex", *rows]) + "\n")
    return tmp_path


def agree(*more: str) -> None:
    run("spec", "--title", "length of stay", "--model", "model.bin", "--level", "0.9", "--level", "0.5", *more)


def send(*sites: str, more: tuple[str, ...] = ()) -> None:
    for site in sites:
        run(
            "summarize", f"{site}.csv", "--spec", "spec.json", "--client", site, "--y", "days",
            "--prediction", "predicted", "-o", f"inbox/{site}.summary", *more,
        )  # fmt: skip


def error(capsys: pytest.CaptureFixture[str]) -> str:
    told = capsys.readouterr().err
    assert told.count("\n") >= 1 and "Traceback" not in told
    last = told.strip().split("\n")[-1]
    assert last.startswith("prism-fcp: error: ")
    return last


def test_from_scores_to_intervals_and_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agree()
    send(*SITES)
    assert "it tells the coordinator how many errors lie in each bin" in capsys.readouterr().out
    run("calibrate", "inbox", "--spec", "spec.json", "-o", "result")
    told = capsys.readouterr().out
    assert "7 clients: 6 count, 1 left out, 0 refused" in told and "lake: left out: " in told
    assert "lie in one bin, zero or next to it" in told and "honest kept clients are covered" in told
    body = json.loads((here / "result/calibration.json").read_text())
    scores = []
    for site in SITES:
        table = np.loadtxt(here / f"{site}.csv", delimiter=",", skiprows=1, usecols=(0, 1))
        scores += [] if site == "lake" else [np.abs(table[:, 0] - table[:, 1])]
    exact = np.sort(np.concatenate(scores))[int(np.ceil(1801 * 0.9)) - 1]
    assert exact <= body["levels"][0]["radius"] <= exact * (1 + 1 / 64)

    run("predict", "north.csv", "--prediction", "predicted", "--predictor", "result/predictor.json", "--model",
        "model.bin", "-o", "intervals.csv")  # fmt: skip
    rows = (here / "intervals.csv").read_text().splitlines()
    assert rows[0] == "prediction,lower_90,upper_90,lower_50,upper_50" and len(rows) == 301
    first = [float(cell) for cell in rows[1].split(",")]
    assert first[2] - first[1] == pytest.approx(2 * body["levels"][0]["radius"])

    files = [f"{site}.csv" for site in SITES if site != "lake"]
    run("evaluate", *files, "--y", "days", "--prediction", "predicted", "--group", "sex", "--predictor",
        "result/predictor.json", "--model", "model.bin", "-o", "evaluation.json")  # fmt: skip
    told = capsys.readouterr().out
    assert "group f" in told and "client north" in told and "Winkler" in told
    run("report", "result/calibration.json", "--evaluation", "evaluation.json", "-o", "page.html")
    page = (here / "page.html").read_text()
    assert "length of stay" in page and "lake" in page and page.startswith("<!doctype html>")
    run("audit", "result/calibration.json", "lake", "north")
    told = capsys.readouterr().out
    assert "with it the radius would be" in told and "without it the radius would be" in told


def test_json_is_all_that_goes_to_standard_output(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("spec", "--title", "t", "--model", "model.bin", "--json", "-")
    agreed = json.loads(capsys.readouterr().out)
    assert agreed["hash"] == CalibrationSpec.load(here / "spec.json").hash
    for site in SITES[:3]:
        run("summarize", f"{site}.csv", "--spec", "spec.json", "--client", site, "--y", "days", "--prediction",
            "predicted", "-o", f"inbox/{site}.summary", "--json", "-")  # fmt: skip
        told = json.loads(capsys.readouterr().out)
        assert told["client"] == site and told["scores"] == 300 and told["signed"] is None
    run("calibrate", "inbox", "--spec", "spec.json", "--json", "-")
    assert json.loads(capsys.readouterr().out)["totals"]["kept"] == 3
    run("audit", "calibration/calibration.json", "north", "--json", "audit.json")
    assert (
        json.loads((here / "audit.json").read_text())[0]["client"] == "north"
        and "north: kept" in capsys.readouterr().out
    )


def test_signed_summaries_and_a_trust_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agree("--quorum", "2")
    for site in ("north", "south", "east"):
        capsys.readouterr()
        run("keygen", site, "-o", f"{site}.pem", "--json", "-")
        line = json.loads(capsys.readouterr().out)["line"]
        run("trust", "trust", "--add", site, line)
        send(site, more=("--key", f"{site}.pem"))
    send("west")
    capsys.readouterr()
    run("calibrate", "inbox", "--spec", "spec.json", "--trust", "trust", "-o", "result")
    out, err = capsys.readouterr()
    assert "refused west.summary: " in err and "4 clients: 3 count" in out
    capsys.readouterr()
    run("trust", "trust", "--json", "-")
    key = json.loads(capsys.readouterr().out)[0]["fingerprint"]
    run("trust", "trust", "--revoke", key, "--why", "laptop stolen")
    assert "revoked: laptop stolen" in capsys.readouterr().out
    run("calibrate", "inbox", "--spec", "spec.json", "--trust", "trust", "-o", "result")
    assert "laptop stolen" in capsys.readouterr().err
    run("keygen", "north", "-o", "north.pem", code=2)
    assert "never overwritten" in error(capsys)


def test_a_state_takes_what_comes_late_and_gives_back_what_was_wrong(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agree("--client", "north", "--client", "south", "--client", "east", "--quorum", "2")
    send("north", "south", "east")
    line = ["--spec", "spec.json", "--state", "desk.sqlite", "-o", "result"]
    run("calibrate", "inbox/north.summary", *line, code=2)
    assert "no quorum: 1 of 1 summaries can be used; the spec needs 2" in error(capsys)
    assert not (here / "result").exists()  # nothing half-written
    run("calibrate", "inbox/south.summary", *line)
    assert "version 1" in (told := capsys.readouterr().out) and "not heard of: east" in told
    run("calibrate", "inbox/east.summary", *line)
    assert "version 2" in capsys.readouterr().out
    run("withdraw", "east", "--spec", "spec.json", "--state", "desk.sqlite", "--why", "wrong model")
    run("calibrate", "inbox/east.summary", *line)
    out, err = capsys.readouterr()
    assert "a replay: withdrawn" in err and "version 3" in out


def test_a_guarded_predictor_is_wider_and_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agree()
    send(*SITES)
    for folder, more in (("plain", ()), ("guarded", ("--guard", "0.1"))):
        run("calibrate", "inbox", "--spec", "spec.json", "-o", folder, *more)
    assert "guarded against liars with 10.0 % of the kept mass" in capsys.readouterr().out
    radii = [
        Predictor.load(here / folder / "predictor.json", model_hash=here / "model.bin").radius
        for folder in ("plain", "guarded")
    ]
    assert radii[0] is not None and radii[1] is not None and radii[0] < radii[1]


def test_the_paper_s_grid_from_a_pilot(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for site in SITES[:3]:
        table = np.loadtxt(here / f"{site}.csv", delimiter=",", skiprows=1, usecols=(0, 1))
        np.save(here / f"{site}.npy", np.abs(table[:, 0] - table[:, 1]))
    pilot = [f"{site}.npy" for site in SITES[:3]]
    agree("--grid", "linear", "--range", "max", "--bins", "50", "--pilot", *pilot)
    largest = max(np.load(here / name).max() for name in pilot)
    body = json.loads((here / "spec.json").read_text())
    assert body["grid"] == {"kind": "linear", "upper": 1.1 * largest, "bins": 50, "overflow": False}
    run("summarize", "north.npy", "--spec", "spec.json", "--client", "north")
    assert decode((here / "north.summary").read_bytes()).size == 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("score\n", "0 rows; at least one score is needed"),
        ("score\n1.0\nnan\n", "row 2, column 'score'"),
        ("score\n1.0\n-2.0\n", "negative"),
        ("score\n1.0\nn/a\n", "row 2, column 'score': 'n/a' is no number"),
        ("score\n1.0\n\n2.0\n", "row 2"),
        ("score,other\n1.0,2.0\n", "2 columns ('score', 'other'); say"),
        ("score\n1e400\n", "row 1"),
    ],
)
def test_scores_that_are_none(here: Path, capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    agree()
    (here / "scores.csv").write_text(text)
    capsys.readouterr()
    run("summarize", "scores.csv", "--spec", "spec.json", "--client", "north", code=2)
    assert said in error(capsys) and not (here / "north.summary").exists()


def test_one_score_is_enough_for_a_summary_and_too_few_for_a_radius(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    agree()
    (here / "one.csv").write_text("score\n1.5\n")
    run("summarize", "one.csv", "--spec", "spec.json", "--client", "north", "-o", "inbox/north.summary")
    assert "1 scores of north in 1 bin" in capsys.readouterr().out
    run("calibrate", "inbox", "--spec", "spec.json", "-o", "result")
    out, err = capsys.readouterr()
    assert "1 scores cannot give confidence 0.9: rank 2 is needed; the radius is infinite" in err
    assert "infinite" in out
    assert Predictor.load(here / "result/predictor.json", model_hash=here / "model.bin").radius == float("inf")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("summarize north.csv --spec none.json --client north", "cannot read none.json"),
        ("summarize north.csv --spec model.bin --client north", "model.bin"),
        ("summarize north.csv --spec spec.json --client ../x --scores days", "must be usable as a file's name"),
        ("summarize north.csv --spec spec.json --client north --y dys --prediction predicted", "did you mean 'days'"),
        ("summarize north.csv --spec spec.json --client north --y days", "--prediction is missing"),
        ("summarize north.csv --spec spec.json --client north --scores days --y days", "--scores beside --y"),
        ("summarize north.csv --spec spec.json --client north", "3 columns ('days', 'predicted', 'sex'); say"),
        (
            "summarize north.csv --spec spec.json --client n --y days --prediction predicted --model north.csv",
            "is not the",
        ),
        (
            "summarize north.csv --spec spec.json --client n --y days --prediction predicted --sigma sex",
            "--sigma given",
        ),
        ("calibrate none.summary --spec spec.json", "cannot read none.summary"),
        ("calibrate empty --spec spec.json", "no *.summary in this folder"),
        ("calibrate north.csv --spec spec.json", "no quorum: 0 of"),
        ("calibrate north.csv --spec spec.json --filter cautios", "did you mean 'cautious'"),
        (
            "calibrate north.csv --spec spec.json --filter mad --suspects 3",
            "--suspects goes with the filter known_count",
        ),
        ("audit model.bin", "model.bin"),
        ("report spec.json", "is it the right file"),
        ("predict north.csv --predictor spec.json", "is it the right file"),
        ("withdraw north --spec spec.json --state none.sqlite --why x", "no such file"),
        ("spec --title t --model none.bin", "none.bin"),
        ("spec --title t --model model.bin --level 1.5", "strictly between 0 and 1"),
        ("spec --title t --model model.bin --grid log --upper 3", "the log grid needs no range"),
        ("spec --title t --model model.bin --grid linear", "--grid linear needs --upper"),
        ("spec --title t --model model.bin --grid lin", "did you mean 'linear'"),
        ("trust none", "none"),
        ("calbrate inbox", "did you mean 'calibrate'"),
    ],
)
def test_mistakes_are_one_line_and_code_two(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    agree()
    (here / "empty").mkdir()
    before = sorted(here.rglob("*"))
    capsys.readouterr()
    run(*line.split(), code=2)
    assert said in error(capsys)
    assert sorted(here.rglob("*")) == before  # nothing half-written


def test_another_spec_is_a_refusal_with_its_reason(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agree()
    send("north", "south")
    agree("--round", "2")
    send("east")
    capsys.readouterr()
    run("calibrate", "inbox", "--spec", "spec.json", "-o", "result")
    out, err = capsys.readouterr()
    assert err.count("made for another calibration") == 2 and "3 clients: 1 count, 0 left out, 2 refused" in out
    receipts = json.loads((here / "result/receipts.json").read_text())["receipts"]
    assert [receipt["status"] for receipt in receipts] == ["accepted", "refused", "refused"]
    (here / "inbox/broken.summary").write_bytes(encode(decode((here / "inbox/east.summary").read_bytes()))[:-3])
    run("calibrate", "inbox", "--spec", "spec.json", "-o", "result")
    assert "refused broken.summary: " in capsys.readouterr().err


@pytest.mark.parametrize("command", HELP)
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(command, "--help")
    told: Any = capsys.readouterr().out
    assert "example" in told and f"prism-fcp {command}" in told and "--json" in told
