"""Whom a training's ledger left out stands in the result, survives an interruption, and is shown."""

from __future__ import annotations

import io as memory
import json
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from prism_fcp.errors import DataError
from prism_fcp.lab.compare import judge
from prism_fcp.lab.result import Result
from prism_fcp.lab.run import Interrupted, run
from prism_fcp.lab.spec import Experiment, parse
from prism_fcp.lab.tables import show
from tests.lab.conftest import TINY
from tests.lab.test_run import Counting

LEDGER = """
[[methods]]
method = "Table"
share = 1.0
coordination = "common"
rule = { name = "table", first_look = 20, every = 10 }
download = "never"
client_averaging = 2.0
scoring_model = "global"
"""


@pytest.fixture
def loud() -> Experiment:
    """Attackers that shout in every round: whoever looks at the table sees them."""
    text = TINY.replace("rounds = 40", 'rounds = 200\nattack = { name = "shift", size = 3.0 }') + LEDGER
    return parse(tomllib.loads(text), "loud.toml")


def test_the_result_says_who_when_and_why(loud: Experiment, tmp_path: Path) -> None:
    result = run(loud, trials=1, folder=tmp_path)
    (ledger,) = result.ledgers
    assert ledger["method"] == "Table 1.0" and ledger["trial"] == 0
    assert [entry["byzantine"] for entry in ledger["left_out"]] == [True, True, True]
    for entry in ledger["left_out"]:
        assert entry["now"] and 20 <= entry["first_round"] <= 200 and entry["times"] <= entry["looks"] == 19
        assert entry["reason"].startswith(f"client {entry['client']}: left out; its averaged uploads lie ")
        assert f"first in round {entry['first_round']}" in entry["reason"]
    stored = Result.load(tmp_path)
    assert stored.ledgers == result.ledgers and stored.rows == result.rows
    for row in result.rows:
        if row.method == "Table":
            assert row.training_true_positives == 3 and row.training_false_positives == 0
        else:
            assert row.training_true_positives is row.training_false_positives is None


def test_a_continued_run_has_the_same_ledger(loud: Experiment, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        run(loud, trials=3, folder=tmp_path, progress=Counting(stop_after=2))
    resumed = run(loud, trials=3, folder=tmp_path)
    whole = run(loud, trials=3)
    assert resumed.ledgers == whole.ledgers and resumed.rows == whole.rows


@pytest.mark.parametrize("width", [60, 142])
def test_it_is_shown_with_one_reason_in_words(loud: Experiment, width: int) -> None:
    result, text = run(loud, trials=2), memory.StringIO()
    show(judge(result), Console(file=text, width=width, highlight=False, markup=False))
    shown = " ".join(text.getvalue().split())
    ids = ", ".join(str(entry["client"]) for entry in result.ledgers[0]["left_out"])
    assert f"Table 1.0: left out when training ended, trial 1: Byzantine {ids}; honest none" in shown
    assert "mean of 2 trials: 3 of 3 Byzantine, 0 honest" in shown
    assert f"for example, {result.ledgers[0]['left_out'][0]['reason']}" in shown


def test_without_a_rule_that_remembers_nothing_is_said(tiny: Experiment) -> None:
    result, text = run(tiny, trials=1), memory.StringIO()
    assert result.ledgers == ()
    show(judge(result), Console(file=text, width=142))
    assert "left out when training ended" not in text.getvalue()


@pytest.mark.parametrize("broken", [[3], [{"method": 1, "left_out": []}], [{"method": "m", "left_out": [{}]}], "no"])
def test_a_broken_ledger_is_refused(loud: Experiment, tmp_path: Path, broken: object) -> None:
    run(loud, trials=1, folder=tmp_path)
    body = json.loads((tmp_path / "result.json").read_text())
    (tmp_path / "result.json").write_text(json.dumps({**body, "ledgers": broken}))
    with pytest.raises(DataError, match="ledgers.* must be a .*delete the file"):
        Result.load(tmp_path)


@pytest.mark.parametrize("broken", ["x", [[1, 2]], [["one", True, True, 1, 1, 1, 0.1, 0.1, 0.1]]])
def test_a_broken_ledger_of_a_kept_trial_is_refused(loud: Experiment, tmp_path: Path, broken: object) -> None:
    run(loud, trials=1, folder=tmp_path)
    (path,) = tmp_path.glob("trials-*.jsonl")
    header, line = path.read_text().splitlines()
    record = json.loads(line)
    record["cells"]["left_out"][-1] = broken
    path.write_text(f"{header}\n{json.dumps(record)}\n")
    with pytest.raises(DataError, match="line 2 is no finished trial"):
        run(loud, trials=2, folder=tmp_path)
