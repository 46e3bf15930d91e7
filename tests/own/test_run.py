"""From a table to a predictor and a page, by one command: what newcomers type."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

from prism_fcp import Predictor, load_model
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.cli import main
from tests.own.conftest import diabetes, write_table
from tests.report.browser import Browser

RUN = ["run", "my.toml", "--jobs", "1"]
FILES = (
    "model.json spec.json calibration.json predictor.json evaluation.json summary.json page.html partition.png "
    "partition.svg drill/result.json drill/table.csv drill/widths.png"
).split()


def body(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_one_command_from_a_table_to_a_predictor_and_a_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--json", "all.json"]) == 0
    out, err = capsys.readouterr()
    folder = here / "prism-results" / "my"
    assert not [name for name in FILES if not (folder / name).is_file()]
    assert "442 rows, 10 features, target progression; 8 clients" in out and "training linear with 8 clients" in err
    assert "chosen for 8 clients" in out and "step_size" in out and "worst client" in out
    told = body(here / "all.json")
    worth = {one["name"]: one for one in told["worth"]}  # type: ignore[attr-defined]
    ours, alone, centre = worth.values()
    assert 0.8 < ours["coverage"] <= 1 and ours["low"] < 0.9 < ours["high"]
    assert 0.8 * centre["width"] < ours["width"] < alone["width"]  # on these data federation pays
    rows = {(row["attack"], row["method"]): row for row in told["drill"]["rows"]}  # type: ignore[index]
    undefended, defended = rows["coverage", "FCP"], rows["coverage", "PRISM-FCP"]
    assert undefended["width"]["mean"] > 3 * defended["width"]["mean"]

    # What the console says is what the saved files do with raw rows.
    model = load_model(folder / "model.json")
    names, table = diabetes()
    features, y = np.array(table, dtype=float)[:, :-1], np.array(table, dtype=float)[:, -1]
    predictor = Predictor.load(folder / "predictor.json", model, model_hash=folder / "model.json")
    told_points = predictor.predict_interval(features)
    assert np.mean((told_points.lower <= y) & (y <= told_points.upper)) > 0.85
    assert np.corrcoef(told_points.point, y)[0, 1] > 0.65
    assert body(folder / "predictor.json")["model_hash"] == model_hash(folder / "model.json")

    write_table(here / "new.csv", [*names[-2::-1], names[-1]], [[*row[-2::-1], row[-1]] for row in table[:20]])
    line = ["predict", "new.csv", "--model", str(folder / "model.json"), "--predictor", str(folder / "predictor.json")]
    assert main([*line, "-o", "intervals.csv"]) == 0  # the columns stand in another order
    with (here / "intervals.csv").open() as file:
        found = list(csv.DictReader(file))
    np.testing.assert_allclose([float(row["prediction"]) for row in found], told_points.point[:20])
    np.testing.assert_allclose([float(row["upper_90"]) for row in found], told_points.upper[:20])


def test_interrupted_and_continued_is_the_same_as_not_interrupted(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from prism_fcp.lab import run as lab_run

    assert main([*RUN, "--out", "whole"]) == 0
    played, real = [], lab_run.run_trial

    def once(*given: object) -> object:
        if played:
            raise KeyboardInterrupt
        played.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(lab_run, "run_trial", once)
    assert main([*RUN, "--out", "parts"]) == 130
    assert "1 of 2 trials finished, kept in" in capsys.readouterr().err
    monkeypatch.setattr(lab_run, "run_trial", real)
    before = (here / "parts/my/model.json").stat().st_mtime_ns
    assert main([*RUN, "--out", "parts"]) == 0
    assert "fitted before; kept" in capsys.readouterr().err
    assert (here / "parts/my/model.json").stat().st_mtime_ns == before
    for name in ("model.json", "predictor.json", "evaluation.json", "spec.json", "drill/table.csv"):
        assert (here / "parts/my" / name).read_bytes() == (here / "whole/my" / name).read_bytes(), name


def test_an_interruption_before_the_end_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prism_fcp.own import fit

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "_calibrate", stop)
    assert main(RUN) == 130
    assert not (here / "prism-results").exists()


def test_the_page_opens(here: Path, browser: Browser) -> None:
    (here / "my.toml").write_text((here / "my.toml").read_text().replace("{ trials = 2 }", "false"))
    assert main(RUN) == 0
    browser.open(here / "prism-results/my/page.html")
    assert browser.run("document.documentElement.dataset.ready") and not browser.errors
    assert "progression of diabetes.csv" in browser.run("document.body.innerText")
    assert "client-8" in browser.run("document.body.innerText") and "On test data" in browser.run(
        "document.body.innerText"
    )
    assert not [url for url in browser.requests if not url.startswith("file:")]


def test_clients_named_by_a_column_and_a_perceptron(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names, rows = diabetes()
    sites = ["north", "south", "east", "west"]
    held = [["id", *row, sites[place % 3 if place % 5 else 3]] for place, row in enumerate(rows)]
    write_table(here / "sites.csv", ["who", *names, "site"], held)
    text = """
    data = "sites.csv"
    target = "progression"
    client = "site"
    drop = ["who"]
    drill = false
    model = { name = "mlp", hidden = [8] }
    [training]
    rounds = 60
    layers = "model"
    num_shared = 1
    rule = "median"
    [calibration]
    levels = [0.8, 0.5]
    guard = 0.05
    """
    (here / "my.toml").write_text(text)
    assert main(RUN) == 0
    out = capsys.readouterr().out
    assert "4 clients with 89 to 118 rows (partition column)" in out and "no drill: switched off" in out
    summary = body(here / "prism-results/my/summary.json")
    assert {one["client"] for one in summary["clients"]} == set(sites)  # type: ignore[attr-defined]
    assert summary["settings"]["federation"]["rounds"] == 60  # type: ignore[index]
    assert summary["settings"]["methods"][0]["layers"] == [88, 9]  # type: ignore[index]
    calibration = body(here / "prism-results/my/calibration.json")
    assert calibration["guarded"]["fraction"] == 0.05  # type: ignore[index]
    line = ["--model", "prism-results/my/model.json", "--predictor", "prism-results/my/predictor.json"]
    assert main(["predict", "sites.csv", *line, "--client", "north"]) == 0  # its other columns are known, and unused
    write_table(here / "odd.csv", [*names[:-2], "s66", "site"], [row[:-1] + ["x"] for row in rows])
    for odd, said in (("odd.csv", "no column 's6'; did you mean 's66'?"), ("more.csv", "column 'extra' is no feature")):
        write_table(here / "more.csv", [*names[:-1], "extra"], rows)
        capsys.readouterr()
        assert main(["predict", odd, *line]) == 2
        assert said in capsys.readouterr().err


def test_the_example_shows_every_key_and_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from prism_fcp.own import project, sections

    assert main(["run", "--example", "data"]) == 0
    text = capsys.readouterr().out
    known = {*project.ABOUT, *sections.COLUMNS, *project.TABLES, *project.TRAINING}
    known |= {*sections.Calibrating.__slots__, *sections.Drill.__slots__}
    assert not [key for key in known if not re.search(rf"\b{key}\b\]? ?", text)]
    text = text.replace("table.csv", "diabetes.csv").replace('"target" ', '"progression" ')
    (here / "my.toml").write_text(text.replace("rounds = 300", "rounds = 20").replace("trials = 20", "trials = 1"))
    assert main(RUN) == 0
    assert "chosen for" not in capsys.readouterr().out  # the file says it all


def test_another_seed_is_another_federation(here: Path) -> None:
    (here / "my.toml").write_text((here / "my.toml").read_text().replace("{ trials = 2 }", "false"))
    models = []
    for seed in ("1", "2", "1"):
        assert main([*RUN, "--seed", seed, "--fresh"]) == 0
        models.append((here / "prism-results/my/model.json").read_bytes())
    assert models[0] == models[2] != models[1]


def test_a_project_without_a_drill_does_not_take_an_earlier_ones_for_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "prism-results" / "my" / "drill").mkdir(parents=True)
    (here / "my.toml").write_text((here / "my.toml").read_text().replace("drill = { trials = 2 }", "drill = false"))
    assert main(["run", "my.toml"]) == 2
    assert "holds the drill of an earlier project, and this one has none; give another --out" in capsys.readouterr().err
