"""The command line as its users meet it: exit codes, one-line errors, files, interruptions."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from prism_fcp.cli import main
from prism_fcp.lab.catalog import NAMES
from tests.lab.conftest import TINY

COMMAND = [sys.executable, "-m", "prism_fcp"]
SOURCE = str(Path(__file__).resolve().parents[1] / "src")


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": SOURCE, "MPLBACKEND": "Agg", **extra}


def call(*arguments: str, cwd: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd, env=environment(**extra), capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WRONG = [
    (["demoo"], "unknown command 'demoo'; did you mean 'demo'"),
    (["reproduce", "table-synthetc"], "did you mean 'table-synthetic'"),
    (["reproduce"], "required: NAME"),
    (["reproduce", "table-synthetic", "--trails", "3"], "did you mean '--trials'"),
    (["reproduce", "table-synthetic", "--trials", "many"], "'many' is not a whole number"),
    (["reproduce", "table-synthetic", "--trials", "0"], "trials=0; must be at least 1"),
    (["reproduce", "table-synthetic", "--jobs", "0"], "jobs=0; must be at least 1"),
    (["reproduce", "table-synthetic", "--engine", "compild"], "did you mean 'compiled'"),
    (["reproduce", "table-synthetic", "--out", "tiny.toml"], "cannot write"),
    (["run"], "run --example"),
    (["run", "nowhere.toml"], "cannot read nowhere.toml"),
    (["run", "tiny.toml", "--json", "."], "is a folder"),
    (["compare", "nowhere"], "no such folder"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(a) for a, _ in WRONG])
def test_a_mistake_is_one_line_and_code_two(
    arguments: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(here.rglob("*"))
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert told.out == "" and said in told.err and "Traceback" not in told.err
    assert told.err.startswith("prism-fcp: error: ") and told.err.count("\n") == 1
    assert sorted(here.rglob("*")) == before  # nothing half-written


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("share = 0.5", "num_shared = 7", "must lie in 1..6"),
        ("suspects = 3", "suspects = 6", "fewer than half"),
        ("share = 0.5", 'rule = { name = "trimmed_mean", trim = 3 }', "2*trim < 6"),
        ("samples = 60", "confidence_level = 1.5", "strictly between 0 and 1"),
        ("rounds = 40", "step_size = inf", "must be a finite number"),
    ],
)
def test_a_mistake_in_a_file_is_code_two(
    right: str, wrong: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tiny.toml").write_text(TINY.replace(right, wrong, 1))
    assert main(["run", "tiny.toml"]) == 2
    told = capsys.readouterr().err
    assert said in told and "tiny.toml" in told and told.count("\n") == 1
    assert not (here / "prism-results").exists()


def test_divergence_is_said_and_nothing_is_reported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tiny.toml").write_text(TINY.replace("rounds = 40", "rounds = 300\nstep_size = 2.0"))
    assert main(["run", "tiny.toml", "--jobs", "1", "--json", "a.json"]) == 2
    told = capsys.readouterr()
    assert "diverged" in told.err and "lower step_size" in told.err and told.out == ""
    assert not (here / "prism-results/tiny/result.json").exists() and not (here / "a.json").exists()


def test_a_bug_of_ours_is_code_one_with_a_way_to_the_traceback(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from prism_fcp.lab import catalog

    monkeypatch.setattr(catalog, "example", lambda: 1 / 0)
    assert main(["run", "--example"]) == 1
    told = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in told and "--debug" in told and told.count("\n") == 1
    with pytest.raises(ZeroDivisionError):
        main(["run", "--example", "--debug"])


def test_run_writes_everything_and_prints_a_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--trials", "2", "--jobs", "1", "--json", "out.json"]) == 0
    told = capsys.readouterr().out
    assert "PRISM-FCP" in told and "Floor" in told and "\x1b[" not in told
    folder = here / "prism-results/tiny"
    assert {"result.json", "table.csv", "experiment.toml", "clients.json", "trials-readable.jsonl"} <= {
        path.name for path in folder.iterdir()
    }
    assert {"widths.png", "widths.svg", "scores.png", "intervals.svg"} <= {path.name for path in folder.iterdir()}
    (body,) = json.loads((here / "out.json").read_text())
    assert body["experiment"] == "tiny" and body["trials"] == 2 and len(body["rows"]) == 12


def test_json_on_standard_output_is_alone_there(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny.toml", "--trials", "1", "--jobs", "1", "--json", "-"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["experiment"] == "tiny"
    assert "PRISM-FCP" in told.err


def test_the_example_runs_as_it_stands(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--example"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["name"] == "my-experiment"
    (here / "my.toml").write_text(text)
    assert main(["run", "my.toml", "--trials", "1", "--jobs", "1"]) == 0
    assert "PSO-CWMed" in capsys.readouterr().out


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert all(name in told for name in NAMES)
    assert main(["list", "--json"]) == 0
    assert [entry["name"] for entry in json.loads(capsys.readouterr().out)] == list(NAMES)


def test_another_seed_in_the_same_folder_is_refused_until_fresh(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["run", "tiny.toml", "--trials", "1", "--jobs", "1", "--seed"]
    assert main([*line, "1"]) == 0
    assert main([*line, "2"]) == 2
    assert "--fresh" in capsys.readouterr().err
    assert main([*line, "2", "--fresh"]) == 0


def test_without_matplotlib_tables_are_complete(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["run", "tiny.toml", "--trials", "1", "--jobs", "1"]) == 0
    assert "prism-fcp[plots]" in capsys.readouterr().out
    assert (here / "prism-results/tiny/table.csv").exists()


def gone(group: int) -> bool:
    """Return whether a process group empties within a few seconds (the last helper leaves when its pipe closes)."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_the_demo_starts_afresh_whatever_lies_there(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prism_fcp.lab import demo
    from prism_fcp.lab.spec import load
    from tests.lab.conftest import shrunk

    small = shrunk(dict(demo.demo_experiment().resolved))
    monkeypatch.setattr(demo, "demo_experiment", lambda: small)
    assert main(["demo"]) == 0
    assert main(["demo", "--seed", "2"]) == 0
    assert json.loads((here / "prism-results/demo/result.json").read_text())["seed"] == 2
    assert load(here / "prism-results/demo/experiment.toml").name == "demo"


@pytest.mark.slow
def test_the_demo_answers_the_questions(here: Path) -> None:
    begun = time.monotonic()
    run = call("demo", "--json", "demo.json", cwd=here)
    assert time.monotonic() - begun < 15 * 4  # the limit is 15 s on an idle machine; tests share theirs
    assert run.returncode == 0, run.stderr
    told = " ".join(run.stdout.split())  # however the lines were broken
    body = json.loads((here / "prism-results/demo/clients.json").read_text())["cells"][0]
    attackers = [client for client, bad in enumerate(body["byzantine"]) if bad]
    assert ", ".join(map(str, attackers)) in told
    for words in ("Who attacked", "Who was caught", "wrongly accused", "How wide", "undefended", "What was sent",
                  "600 bytes a round", "clients that never share", "What was saved", "widths.png"):  # fmt: skip
        assert words in told
    assert json.loads((here / "demo.json").read_text())[0]["experiment"] == "demo"


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_run_keeps_its_trials_and_continues(here: Path, jobs: str) -> None:
    text = TINY.replace("rounds = 40", "rounds = 800").replace("trials = 4", "trials = 20")
    text = text.replace(', "histograms", "scores", "intervals"', "").replace('"tiny"', '"long"')
    (here / "long.toml").write_text(text)
    line = ["run", "long.toml", "--jobs", jobs, "--engine", "readable"]
    journal = here / "prism-results/long/trials-readable.jsonl"
    process = subprocess.Popen(
        [*COMMAND, *line], cwd=here, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text().count("\n") > 4):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers too
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err and "run the same command again to continue" in err and "long" in err
    assert out == "" and not (journal.parent / "result.json").exists()
    kept = journal.read_text().count("\n") - 1
    assert 4 <= kept < 20 and journal.read_text().endswith("\n")
    assert gone(process.pid), "an orphan is left in the process group"

    resumed = call(*line, cwd=here)
    assert resumed.returncode == 0 and f"{kept} of 20 trials were finished before" in resumed.stderr
    whole = call(*line, "--out", "whole", cwd=here)
    assert whole.returncode == 0
    tables = [(here / folder / "long/table.csv").read_text() for folder in ("prism-results", "whole")]
    assert tables[0] == tables[1]


def test_help_is_quick_and_heavy_imports_wait(here: Path) -> None:
    probe = (
        "import sys; from prism_fcp.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'rich', 'matplotlib', 'pandas', 'numba', 'prism_fcp.lab'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", probe], env=environment(), capture_output=True, text=True, cwd=here)
    assert run.stdout.strip().endswith("[]"), run.stdout[-300:]
    assert "exit codes" in run.stdout
    assert "examples, on simulated federations:" in run.stdout
    assert "examples, calibrating a model of your own by files:" in run.stdout


def test_version_and_python_m(here: Path) -> None:
    run = call("--version", cwd=here)
    assert run.returncode == 0 and run.stdout.startswith("prism-fcp ")


def test_a_reader_that_goes_away_is_no_error(here: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "list", "--json"], cwd=here, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-x"], "unknown argument '-x'"),
        (["--"], "unknown argument '--'"),
        (["--seed", "1", "demo"], "options follow the command: prism-fcp COMMAND --seed"),
        (["--jsn"], "unknown argument '--jsn'"),
        (["reproduce", "all", "nope"], "unknown experiment 'nope'"),
        (["run", "tiny.toml", "--trials", "1000000000"], "must be at most 10,000,000"),
        (["run", "tiny.toml", "--jobs", "9" * 4000], "jobs="),
        (["run", "tiny.toml", "--seed", "-1"], "must lie in 0..2^64-1"),
        (["run", "long.toml"], "shorten the name"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_more_mistakes_on_the_line(
    arguments: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "long.toml").write_text(TINY.replace('"tiny"', f'"{"ü" * 100}{"n" * 200}"'))
    test_a_mistake_is_one_line_and_code_two(arguments, said, here, capsys)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("list >&-", 0, ""),
        ("demoo 2>&-", 2, ""),
        ("list > /dev/full", 2, "cannot write standard output: [Errno 28]"),
        ("list --json > /dev/full", 2, "cannot write standard output: [Errno 28]"),
        ("list > /dev/full 2>&1", 2, ""),
    ],
)
def test_output_that_leads_nowhere(here: Path, line: str, code: int, said: str) -> None:
    command = f"{shlex.join(COMMAND)} {line}"
    run = subprocess.run(["sh", "-c", command], cwd=here, env=environment(), capture_output=True, text=True, timeout=60)
    assert run.returncode == code, run.stderr
    assert said in run.stderr and "Traceback" not in run.stderr and run.stderr.count("\n") <= 1


def test_a_terminal_that_can_only_say_ascii(here: Path) -> None:
    (here / "tiny.toml").write_text(TINY.replace("A tiny federation", "Größe → 1"))
    line = ["run", "tiny.toml", "--trials", "1", "--jobs", "1"]
    run = call(*line, cwd=here, PYTHONIOENCODING="ascii")
    assert run.returncode == 0, run.stderr
    run = call(*line, "--json", "-", cwd=here, PYTHONIOENCODING="ascii")
    assert run.returncode == 0 and json.loads(run.stdout)[0]["experiment"] == "tiny"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_a_terminal_is_an_interruption(here: Path, number: signal.Signals) -> None:
    text = TINY.replace("rounds = 40", "rounds = 800").replace("trials = 4", "trials = 50")
    (here / "tiny.toml").write_text(text)
    process = subprocess.Popen(
        [*COMMAND, "run", "tiny.toml", "--jobs", "1", "--engine", "readable"], cwd=here, env=environment(),
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    journal, deadline = here / "prism-results/tiny/trials-readable.jsonl", time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_text().count("\n") > 2):
        time.sleep(0.02)
    process.send_signal(number)
    assert process.communicate(timeout=60)[1].count("of 50 trials finished, kept in") == 1
    assert process.returncode == 130
    assert (here / "prism-results/tiny/experiment.toml").exists()
