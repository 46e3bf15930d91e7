"""Checking against the paper, and what a second run of the same command need not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prism_fcp.cli import main
from prism_fcp.lab import run as run_module
from tests.lab.conftest import TINY


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare_reads_and_never_computes(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["reproduce", "table-synthetic", "--trials", "1", "--jobs", "1", "--out", "o"]) == 0
    before = {path: path.stat().st_mtime_ns for path in (here / "o").rglob("*")}
    capsys.readouterr()

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("compare computed something")

    monkeypatch.setattr("prism_fcp.lab.run.run_trial", forbidden)
    monkeypatch.setattr("prism_fcp.lab.commands.run_experiment", forbidden)
    assert main(["compare", "o", "--json", "c.json"]) == 0
    assert "tab:synthetic" in capsys.readouterr().out
    assert json.loads((here / "c.json").read_text())[0]["rows"][0]["paper"]["width"] == 1.76
    assert {path: path.stat().st_mtime_ns for path in (here / "o").rglob("*")} == before


def test_check_fails_with_three_when_a_row_does_not_reproduce(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "table-synthetic", "--trials", "1", "--jobs", "1", "--out", "o"]) == 0
    assert main(["compare", "o", "--check"]) == 0
    path = here / "o/table-synthetic/result.json"
    body = json.loads(path.read_text())
    body["rows"][0]["width"] = {"mean": 9.0, "sd": 0.1, "se": 0.1}
    path.write_text(json.dumps(body))
    capsys.readouterr()
    assert main(["compare", "o", "--check"]) == 3
    told = capsys.readouterr().err
    assert "check failed: 1" in told and "width 9 for 1.76" in told


@pytest.mark.parametrize("line", [["run", "tiny.toml"], ["reproduce", "fig-attacks"], ["compare", "o"]])
def test_a_check_that_would_compare_nothing_is_refused(
    line: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "table-synthetic", "--trials", "1", "--jobs", "1", "--out", "o"]) == 0
    path = here / "o/table-synthetic/result.json"
    body = json.loads(path.read_text())
    body["fingerprint"] = "another"
    for row in body["rows"]:
        row["width"] = {"mean": 5.0, "sd": 0.1, "se": 0.1}
    path.write_text(json.dumps(body))
    capsys.readouterr()
    assert main([*line, "--check"]) == 2
    told = capsys.readouterr()
    assert told.out == "" and "--check: nothing published for these settings" in told.err and told.err.count("\n") == 1
    assert not (here / "prism-results").exists()  # found out before anything was computed
    assert main(["compare", "o"]) == 0
    assert "settings differ from the packaged table-synthetic's" in capsys.readouterr().out


def test_a_finished_experiment_computes_nothing_when_run_again(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TINY.replace('["widths", "histograms", "scores", "intervals"]', '["histograms"]')
    (here / "tiny.toml").write_text(text)
    line = ["run", "tiny.toml", "--trials", "2", "--jobs", "1"]
    assert main(line) == 0
    first, calls = (here / "prism-results/tiny/clients.json").read_bytes(), []
    explained = run_module.explain_trial
    monkeypatch.setattr(run_module, "run_trial", lambda *_: pytest.fail("a trial was run again"))
    monkeypatch.setattr(run_module, "explain_trial", lambda *a, **k: calls.append(1) or explained(*a, **k))
    assert main(line) == 0
    assert not calls and (here / "prism-results/tiny/clients.json").read_bytes() == first
    (here / "tiny.toml").write_text(text.replace("trials = 4", "trials = 4\npredict_samples = 7"))
    assert main(line) == 0  # the trials stand, the picture needs other points
    assert len(calls) == 1


def test_a_download_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    from prism_fcp.lab.commands import _Download

    tell = _Download()
    for done in range(0, 2_000_001, 50_000):
        tell(done, 2_000_000)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 11 and told[5] == "prism-fcp: downloading the superconductivity data, 1.0 of 2.0 MB"
