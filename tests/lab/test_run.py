"""Running: the same numbers whatever the jobs, interruptions and continuations; nothing half-written."""

from __future__ import annotations

import json
import multiprocessing
import warnings
from pathlib import Path

import pytest

from prism_fcp import io
from prism_fcp.calibrate.quantile import TooFewScoresWarning
from prism_fcp.errors import DivergedError, OutputError, PrismError, SettingError
from prism_fcp.lab import sources
from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import judge
from prism_fcp.lab.pool import run_all
from prism_fcp.lab.progress import Lines
from prism_fcp.lab.result import Result, Spread
from prism_fcp.lab.run import Interrupted, explain, run, versions
from prism_fcp.lab.spec import Experiment, parse
from prism_fcp.lab.tables import console, show
from tests.lab.conftest import shrunk


class Counting:
    """A progress that can break a run off after so many trials."""

    def __init__(self, stop_after: int = 10**9) -> None:
        self.trials, self.done, self.stopped, self._stop_after = 0, -1, 0, stop_after

    def start(self, name: str, total: int, done: int) -> None:
        self.done = done

    def advance(self) -> None:
        self.trials += 1
        if self.trials >= self._stop_after:
            raise KeyboardInterrupt

    def stop(self) -> None:
        self.stopped += 1


def numbers(result: Result) -> object:
    return result.rows


@pytest.mark.parametrize("engine", ["readable", "compiled"])
def test_jobs_change_no_number(tiny: Experiment, engine: str) -> None:
    """Exactly: a kernel whose sums depend on where its memory lies would show here, in threads, in the last digits."""
    if engine == "compiled":
        pytest.importorskip("numba")
    one = run(tiny, engine=engine, jobs=1)
    assert all(numbers(run(tiny, engine=engine, jobs=2)) == numbers(one) for _ in range(3))
    assert not multiprocessing.active_children()


def test_an_interrupted_run_continues_to_the_same_result(tiny: Experiment, tmp_path: Path) -> None:
    whole = run(tiny, folder=tmp_path / "whole")
    with pytest.raises(Interrupted) as told:
        run(tiny, folder=tmp_path / "parts", progress=(first := Counting(stop_after=2)))
    assert told.value.finished == 2 and told.value.folder == tmp_path / "parts" and first.stopped == 1
    assert not (tmp_path / "parts" / "result.json").exists()
    second = Counting()
    resumed = run(tiny, folder=tmp_path / "parts", progress=second)
    assert (second.done, second.trials) == (2, 2)
    assert numbers(resumed) == numbers(whole)


def test_more_trials_continue_and_fewer_take_the_first(tiny: Experiment, tmp_path: Path) -> None:
    run(tiny, trials=2, folder=tmp_path)
    progress = Counting()
    four = run(tiny, trials=4, folder=tmp_path, progress=progress)
    assert progress.trials == 2 and four.trials == 4
    again = Counting()
    assert numbers(run(tiny, trials=2, folder=tmp_path, progress=again)) == numbers(run(tiny, trials=2))
    assert again.trials == 0


def test_other_settings_or_seed_in_the_folder_are_refused_until_fresh(
    tiny: Experiment, tiny_text: str, tmp_path: Path
) -> None:
    import tomllib

    run(tiny, trials=1, folder=tmp_path)
    other = parse(tomllib.loads(tiny_text.replace("rounds = 40", "rounds = 30")), "other")
    for experiment, seed, word in ((other, 1, "settings"), (tiny, 2, "seed")):
        with pytest.raises(OutputError, match=f"{word}.*--fresh") as told:
            run(experiment, trials=1, seed=seed, folder=tmp_path)
        assert "\n" not in str(told.value)
    assert Result.load(tmp_path).seed == 1
    assert run(tiny, trials=1, seed=2, folder=tmp_path, fresh=True).seed == 2
    assert Result.load(tmp_path).seed == 2


def test_trials_of_another_version_of_the_code_are_refused_until_fresh(
    tiny: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny, trials=1, folder=tmp_path)
    monkeypatch.setattr(sources, "_own", lambda: "another")
    with pytest.raises(OutputError, match="computed by another version of the code; --fresh starts over"):
        run(tiny, trials=1, folder=tmp_path)
    again = Counting()
    run(tiny, trials=1, folder=tmp_path, fresh=True, progress=again)
    assert again.trials == 1


def test_every_room_below_the_lab_decides_what_version_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Path] = {}
    monkeypatch.setattr(io, "digest", lambda files: seen.update(files) or "")
    sources._own.__wrapped__()
    rooms = {name.partition("/")[0] for name in seen}
    assert {"train", "calibrate", "data", "kernels", "engines"} <= rooms
    assert {"pipeline.py", "scoring.py", "setup.py", "streams.py", "types.py"} <= rooms
    assert not {"lab", "cli.py", "io.py"} & rooms


def test_a_result_comes_back_from_its_file(tiny: Experiment, tmp_path: Path) -> None:
    result = run(tiny, trials=2, folder=tmp_path)
    assert Result.load(tmp_path) == result
    body = json.loads((tmp_path / "result.json").read_text())
    assert body["schema"] == 1 and body["seed"] == 1
    assert set(body["versions"]) == {"python", "numpy", "numba", "jax", "prism_fcp"}
    assert body["spec"]["federation"]["attack"] == {"name": "gaussian", "variance": 0.1, "probability": 0.2}


def test_the_stored_experiment_is_the_one_that_ran(tiny: Experiment, tmp_path: Path) -> None:
    from prism_fcp.lab.spec import load

    run(tiny, trials=1, folder=tmp_path)
    assert load(tmp_path / "experiment.toml").fingerprint == tiny.fingerprint


def test_csv_and_frame_say_the_same(tiny: Experiment) -> None:
    result = run(tiny, trials=2)
    lines = result.to_csv().splitlines()
    assert len(lines) == 1 + 12
    assert lines[0].startswith("attack,attack_variant,method,variant,share,trials,coverage_mean")
    pandas = pytest.importorskip("pandas")
    frame = result.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == lines[0].split(",")
    assert frame["width_mean"].tolist() == [row.width.mean for row in result.rows]


def test_too_few_scores_are_said_not_averaged(tiny_text: str) -> None:
    import tomllib

    text = tiny_text.replace("samples = 60", "samples = 2")
    text = text.replace("[calibration]", "[calibration]\nconfidence_level = 0.99")
    few = parse(tomllib.loads(text), "few")
    for jobs in (1, 2):  # a worker's warning is this process's
        with pytest.warns(TooFewScoresWarning, match="collect more scores"):
            result = run(few, trials=2, jobs=jobs, engine="readable")
    assert all(row.infinite_widths == 2 and row.width.mean is None and row.coverage.mean == 100 for row in result.rows)


def test_a_workers_warning_is_shown_once_for_its_place() -> None:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("default")
        assert dict(run_all(noisy, range(4), 2, "processes")) == {0: 0, 1: 1, 2: 4, 3: 9}
    assert [str(note.message) for note in noted] == ["mind the gap"]


def noisy(trial: int) -> int:
    warnings.warn("mind the gap", UserWarning, stacklevel=1)
    return trial**2


def test_widths_that_the_range_cut_are_counted(tiny_text: str, capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    narrow = tiny_text.replace("bins = 20", 'bins = 20\nrange = { name = "median_mad", multiples = 0.1 }')
    cut = run(parse(tomllib.loads(narrow), "narrow"), trials=2)
    assert all(row.clipped_widths == 2 for row in cut.rows if row.method == "Floor")
    show(judge(cut), console())
    assert "intervals may cover too little; take a wider range or beyond_range" in " ".join(
        capsys.readouterr().out.split()
    )
    exact = narrow.replace("bins = 20", 'bins = 20\nbeyond_range = "exact"')
    assert not any(row.clipped_widths for row in run(parse(tomllib.loads(exact), "exact"), trials=2).rows)


def test_divergence_is_an_error_of_one_line_and_no_result(tiny_text: str, tmp_path: Path) -> None:
    import tomllib

    text = tiny_text.replace("rounds = 40", "rounds = 400\nstep_size = 2.0")
    with pytest.raises(DivergedError, match="step_size") as told:
        run(parse(tomllib.loads(text), "fast"), folder=tmp_path)
    assert "\n" not in str(told.value)
    assert not (tmp_path / "result.json").exists()


def test_a_worker_that_fails_says_why_and_leaves_nobody(tiny_text: str) -> None:
    import tomllib

    text = tiny_text.replace("rounds = 40", "rounds = 400\nstep_size = 2.0")
    with pytest.raises(DivergedError, match="trial"):
        run(parse(tomllib.loads(text), "fast"), jobs=2, engine="readable")
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("trials", "jobs"), [(0, 1), (-1, 1), (1, 0)])
def test_impossible_counts(tiny: Experiment, trials: int, jobs: int) -> None:
    with pytest.raises(SettingError, match="must be at least 1"):
        run(tiny, trials=trials, jobs=jobs)


def test_unknown_engine(tiny: Experiment) -> None:
    with pytest.raises(PrismError, match="did you mean 'readable'"):
        run(tiny, engine="readible")


@pytest.mark.parametrize("name", NAMES)
def test_every_packaged_experiment_runs_small(name: str) -> None:
    experiment = shrunk(dict(named(name).resolved))
    result = run(experiment, trials=1)
    assert len(result.rows) == len(experiment.setup.attacks) * len(experiment.setup.methods)
    assert all(row.coverage.mean is not None and row.width.mean is not None for row in result.rows)


def test_explained_trials_are_the_trials_of_the_rows(tiny: Experiment) -> None:
    result = run(tiny, trials=1)
    cells = explain(tiny, trials=1)[0]
    assert [row.width for row in result.rows] == [Spread(told.cell.width) for told in cells]
    assert len(cells[0].verdict.reasons) == 12 and len(cells[0].truth) == tiny.predict_samples


def test_explaining_takes_every_engine_that_running_takes(tiny: Experiment) -> None:
    automatic = explain(tiny, trials=1, engine="auto")[0]
    readable = explain(tiny, trials=1, engine="readable")[0]
    assert [told.cell for told in automatic] == [told.cell for told in readable]  # a small job
    with pytest.raises(SettingError, match="did you mean 'readable'"):
        explain(tiny, engine="readible")


def test_lines_tell_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines(every=0.0)
    lines.start("tiny", 10, 4)
    lines.advance()
    told = capsys.readouterr().err
    assert "4 of 10 trials were finished before" in told and "5 of 10 trials, 0 s elapsed, about" in told


def test_cpu_seconds_count(tiny: Experiment) -> None:
    result = run(tiny, trials=2, jobs=2, engine="readable")
    assert result.cpu_seconds > 0 and result.seconds > 0
    assert versions()["prism_fcp"] == result.versions["prism_fcp"]
