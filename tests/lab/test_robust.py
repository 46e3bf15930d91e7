"""Files that were damaged, settings that were mistyped, runs that were broken off: one line each, and nothing lost."""

from __future__ import annotations

import json
import multiprocessing
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from prism_fcp import io
from prism_fcp.cli import main
from prism_fcp.errors import DataError, OutputError, PrismError, SettingError
from prism_fcp.lab import pool
from prism_fcp.lab import run as run_module
from prism_fcp.lab.progress import Lines
from prism_fcp.lab.result import Result
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import Experiment, load, parse
from prism_fcp.lab.typed import to_toml
from tests.lab.conftest import TINY

JOURNAL = "trials-readable.jsonl"


def changed(right: str, wrong: str) -> Experiment:
    assert right in TINY
    return parse(tomllib.loads(TINY.replace(right, wrong, 1)), "my.toml")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY.replace(', "histograms", "scores", "intervals"', ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_fresh_in_a_folder_in_use_discards_nothing(tiny: Experiment, tmp_path: Path) -> None:
    run(tiny, trials=1, folder=tmp_path)
    with (
        io.Journal(tmp_path / JOURNAL, "trials").writing({}, fresh=False),
        pytest.raises(OutputError, match="another run"),
    ):
        run(tiny, trials=1, folder=tmp_path, fresh=True)
    assert Result.load(tmp_path).trials == 1


def test_a_failed_training_leaves_nothing_and_the_corrected_run_goes_on(here: Path) -> None:
    text = TINY.replace("rounds = 40", "rounds = 300\nstep_size = 2.0")
    (here / "tiny.toml").write_text(text)
    before = sorted(here.rglob("*"))
    assert main(["run", "tiny.toml", "--jobs", "1"]) == 2
    assert sorted(here.rglob("*")) == before
    (here / "prism-results/tiny").mkdir(parents=True)  # as an older version left it
    (here / f"prism-results/tiny/{JOURNAL}").write_text(
        '{"format": "prism-fcp/trials", "schema": 1, "fingerprint": "other"}\n'
    )
    (here / "tiny.toml").write_text(TINY.replace(', "histograms", "scores", "intervals"', ""))
    assert main(["run", "tiny.toml", "--jobs", "1", "--trials", "1"]) == 0


def test_a_run_of_a_program_leaves_no_folder_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(PrismError, match="diverged"):
        run(changed("rounds = 40", "rounds = 300\nstep_size = 2.0"), folder=tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()


def set_cell(name: str, value: Any) -> Any:
    def damage(record: dict[str, Any]) -> None:
        record["cells"][name][0] = value

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record.update(trial="x"),
        lambda record: record.update(trial=-1),
        lambda record: record.update(seconds="x"),
        lambda record: record.pop("cpu_seconds"),
        lambda record: record.update(cells={}),
        lambda record: record["cells"].update({name: [] for name in record["cells"]}),
        lambda record: record["cells"].update(width=["x"]),
        set_cell("width", "x"),
        set_cell("width", float("nan")),
        set_cell("coverage", True),
        set_cell("coverage", 10**400),
        set_cell("clipped", 1),
        set_cell("true_positives", 1.5),
        set_cell("method", "PRISM"),
        set_cell("attack", None),
    ],
)
def test_a_record_that_does_not_match_is_refused_by_its_line(tiny: Experiment, tmp_path: Path, damage: Any) -> None:
    run(tiny, trials=2, folder=tmp_path)
    lines = (tmp_path / JOURNAL).read_text().splitlines()
    record = json.loads(lines[2])
    damage(record)
    (tmp_path / JOURNAL).write_text("\n".join([*lines[:2], json.dumps(record)]) + "\n")
    with pytest.raises(DataError, match="line 3 is no finished trial.*--fresh") as told:
        run(tiny, trials=2, folder=tmp_path)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("seed", [-1, 2**64, 2**64 - 1 + 2**64, True, "1", 1.5])
def test_a_seed_that_would_be_another_is_refused(tiny: Experiment, seed: Any) -> None:
    with pytest.raises(SettingError, match="seed="):
        run(tiny, trials=1, seed=seed)


def test_seeds_in_files_and_on_the_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert changed("trials = 4", f"trials = 4\nseed = {2**63 - 1}").seed == 2**63 - 1
    for wrong in ("-1", str(2**64), "0x1" + "0" * 3000):
        with pytest.raises(SettingError, match=r"my.toml: seed=.*2\^64"):
            changed("trials = 4", f"trials = 4\nseed = {wrong}")
    assert main(["run", "tiny.toml", "--seed", str(2**64)]) == 2
    assert "must lie in 0..2^64-1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("tiny.toml", "overwrite the experiment"),
        ("./tiny.toml", "overwrite the experiment"),
        ("prism-results/tiny/result.json", "results are kept in"),
        ("prism-results/tiny/trials-readable.jsonl", "results are kept in"),
        ("", "no file's name"),
        ("pipe", "no regular file"),
        ("tiny.toml/a.json", "give --json another file"),
    ],
)
def test_json_never_goes_over_something_else(
    here: Path, target: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (here / "tiny.toml").read_text()
    os.mkfifo(here / "pipe")
    assert main(["run", "tiny.toml", "--json", target]) == 2
    told = capsys.readouterr().err
    assert said in told and "--out" not in told and told.count("\n") == 1
    assert (here / "tiny.toml").read_text() == before and not (here / "prism-results").exists()


def put(*path: Any, value: Any) -> Any:
    def damage(body: Any) -> None:
        for key in path[:-1]:
            body = body[key]
        body[path[-1]] = value

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (put("rows", value="ab"), "rows must be"),
        (put("rows", value=[]), "rows must be"),
        (put("rows", 0, value="ab"), r"rows\[0\] must be"),
        (put("rows", 1, "width", "mean", value="x"), r"rows\[1\].width.mean = 'x' must be"),
        (put("rows", 0, "width", value=3), r"rows\[0\].width must be"),
        (put("rows", 0, "width", "mean", value=float("nan")), "broken JSON"),
        (put("rows", 0, "width", "mean", value=10**400), r"rows\[0\].width.mean = an integer"),
        (put("rows", 0, "method", value=3), r"rows\[0\].method = 3"),
        (put("rows", 0, "method", value=None), r"rows\[0\].method = None"),
        (put("spec", value=None), "spec = None"),
        (put("spec", value={}), "spec.population"),
        (put("trials", value="x"), "trials = 'x'"),
        (put("versions", value={"numpy": 2}), "versions"),
        (put("surplus", value=1), "surplus"),
    ],
)
def test_a_damaged_result_is_told_field_by_field(
    tiny: Experiment, tmp_path: Path, damage: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tiny, trials=1, folder=tmp_path)
    path = tmp_path / "result.json"
    body = json.loads(path.read_text())
    damage(body)
    path.write_text(json.dumps(body))
    with pytest.raises(DataError, match=said):
        Result.load(tmp_path)
    assert main(["compare", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert str(path) in told and "run the experiment again" in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("rounds = 40", "rounds = 0x1" + "0" * 5000, "rounds = an integer of 20001 bits is too large"),
        ("rounds = 40", "step_size = 1" + "0" * 400, "is too large"),
        ("rounds = 40", "rounds = 2000000000", "rounds"),
        ("samples = 60", "samples = 2000000000", "samples"),
        ("samples = 60", 'samples = "' + "x" * 5000 + '"', r"x\.\.\. \(5002 characters\) is text"),
        ("trials = 4", "trials = 10000001", "must be at most 10,000,000"),
        ("trials = 4", "trials = 4\nexplain = 5", "explain = 5; must be at most trials = 4"),
        ("trials = 4", "trials = 4\npredict_samples = 51", "predict_samples = 51; must be at most test_samples = 50"),
        ("window = 10", "window = 41", "window = 41; must be at most rounds = 40"),
        ('name = "tiny"', 'name = "a\\u0007b"', "printable"),
        ('name = "tiny"', 'name = "-rf"', "not beginning with . or -"),
        ('name = "tiny"', 'name = "  "', "no blanks around it"),
        ('name = "tiny"', f'name = "{"n" * 300}"', "has 300 characters; .* shorten the name"),
        ("samples = 60", "samples = 2026-01-01", "samples = '2026-01-01' is a date; must be a whole number"),
        ("share = 0.5", 'rule = { name = "median", x = 1 }', "has no option 'x'; it takes no options"),
        (
            "share = 0.5",
            'rule = { name = "krum", suspects = 9 }',
            r"my.toml \[\[methods\]\] 1 \(PRISM-FCP 1.0\): krum: .* or more participants",
        ),
        ("suspects = 3", "suspects = 11", r"\[\[methods\]\] 1 \(PRISM-FCP 0.5\)"),
    ],
)
def test_mistakes_a_tester_made(right: str, wrong: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as told:
        changed(right, wrong)
    assert "\n" not in str(told.value) and str(told.value).count("my.toml") == 1 and len(str(told.value)) < 600


def test_one_table_where_a_list_is_meant() -> None:
    with pytest.raises(SettingError, match=r"must be a table: write \[population\]"):
        parse({**tomllib.loads(TINY), "population": 3}, "my.toml")
    document = {**tomllib.loads(TINY), "methods": {"method": "FCP"}}
    with pytest.raises(SettingError, match=r"write \[\[methods\]\]"):
        parse(document, "my.toml")


def test_parts_left_at_their_defaults_fit_the_whole() -> None:
    text = TINY.replace("window = 10\n", "").replace("test_samples = 50", "test_samples = 20")
    experiment = parse(tomllib.loads(text), "my.toml")
    assert experiment.setup.federation.window == 40 and experiment.predict_samples == 20
    again = parse(tomllib.loads(to_toml(experiment.resolved)), "again")
    assert again.fingerprint == experiment.fingerprint


def test_texts_with_control_characters_come_back(tmp_path: Path) -> None:
    ugly = "a\x00\x07\x1b\x7f\r\b\"\\\n\t'é"
    document = {**tomllib.loads(TINY), "title": ugly}
    experiment = parse(document, "my.toml")
    io.write_text(tmp_path / "experiment.toml", to_toml(experiment.resolved))
    assert load(tmp_path / "experiment.toml").title == ugly


def test_millions_of_trials_are_looked_at_a_few_at_a_time() -> None:
    seen: list[int] = []

    def endless() -> Any:
        for number in range(10**9):
            seen.append(number)
            yield number

    found = pool.run_all(lambda trial: trial, endless(), 2, "threads")
    assert next(found)[1] in range(9) and len(seen) < 20
    found.close()  # type: ignore[attr-defined]
    assert dict(pool.run_all(abs, range(50), 10**6, "threads")) == {number: number for number in range(50)}
    assert not multiprocessing.active_children()


def test_too_little_memory_names_the_large_setting(
    tiny: Experiment, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(run_module, "run_trial", greedy)
    with pytest.raises(SettingError, match="trial 0: tiny: not enough memory; the largest setting is samples = 60"):
        run(tiny, trials=1)
    monkeypatch.setattr("prism_fcp.lab.commands.judge", greedy)
    assert main(["run", "tiny.toml", "--jobs", "1"]) == 2
    assert "not enough memory" in capsys.readouterr().err


def test_changed_settings_are_named(tiny: Experiment, tmp_path: Path) -> None:
    run(tiny, trials=1, folder=tmp_path)
    for right, wrong, said in (
        ("rounds = 40", "rounds = 30", "federation.rounds is 40 there and 30 here"),
        ("share = 0.5", "share = 0.34", r"methods\[1\].num_shared is 3 there and 2 here"),
        ('name = "random"', 'name = "random"\nsd = 0.75', r"attacks\[3\].sd is 0.5 there and 0.75 here"),
    ):
        with pytest.raises(OutputError, match=f"holds 1 trial with other settings; {said}; add --fresh"):
            run(changed(right, wrong), trials=1, folder=tmp_path)
    (tmp_path / "experiment.toml").unlink()
    with pytest.raises(OutputError, match="settings of its own; add --fresh"):
        run(changed("rounds = 40", "rounds = 30"), trials=1, folder=tmp_path)


def test_auto_stays_with_the_engine_whose_trials_are_kept(
    tiny: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    run(tiny, trials=1, folder=tmp_path)
    monkeypatch.setattr("prism_fcp.engines.COMPILE_FROM", 1)  # now auto takes the compiled one
    result = run(tiny, trials=2, folder=tmp_path)
    assert (result.engine, result.engine_reason) == ("readable", "the trials kept in this folder are its")
    assert run(tiny, trials=1, seed=2, folder=tmp_path).engine == "compiled"  # those are another run's
    assert run(tiny, trials=1, folder=tmp_path, fresh=True).engine == "compiled"


def test_an_interruption_among_the_pictures_names_folder_and_count(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prism_fcp.lab.commands.draw", interrupted)
    assert main(["run", "tiny.toml", "--trials", "1", "--jobs", "1"]) == 130
    told = capsys.readouterr().err
    assert "tiny: 1 of 1 trial finished, kept in prism-results/tiny; run the same command again" in told


def test_compiling_is_said_and_is_not_in_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("prism_fcp.lab.progress.time.monotonic", lambda: now[0])
    lines = Lines(every=0.0)
    lines.start("tiny", 5, 0)
    lines.wait("compiling (first use, about 15 s)")
    for now[0] in (20.0, 21.0):
        lines.advance()
    assert capsys.readouterr().err.splitlines() == [
        "tiny: compiling (first use, about 15 s)",
        "tiny: 1 of 5 trials, 20 s elapsed",
        "tiny: 2 of 5 trials, 21 s elapsed, about 3 s left",
    ]
