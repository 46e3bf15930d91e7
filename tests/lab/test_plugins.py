"""Rules, filters and attacks of the user's own, named in an experiment: known everywhere, whatever the jobs."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.cli import main
from prism_fcp.errors import OutputError, PrismError, SettingError
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import load, parse
from prism_fcp.train.aggregate import RULES, stateless
from prism_fcp.train.attack import UPDATE_ATTACKS
from tests.lab.conftest import TINY

MINE = """
import numpy as np
from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack
from prism_fcp.calibrate.filter import FILTERS, known_count
from prism_fcp.train.aggregate import RULES, stateless
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.types import UpdateAttack

def halved(by=2.0):
    return stateless("halved", lambda rows, sent, previous: (previous + (rows - previous).mean(0) / by, None))

RULES["halved"] = halved
FILTERS["strict"] = lambda: known_count(4)
SCORE_ATTACKS["ones"] = lambda: ScoreAttack("ones", frozenset(), lambda view: np.ones_like(view.own))
UPDATE_ATTACKS["sleep"] = lambda: UpdateAttack("sleep", 1.0, frozenset(), lambda view: view.previous + 0 * view.own)
"""


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Take out again what a test puts in."""
    sys.modules.pop("mine_in_a_module", None)
    tables = (RULES, FILTERS, SCORE_ATTACKS, UPDATE_ATTACKS)
    before = [dict(table) for table in tables]
    yield
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


def with_mine(plugin: str) -> str:
    text = TINY.replace('name = "tiny"', f'name = "tiny"\nplugins = ["{plugin}"]', 1)
    text = text.replace("rounds = 40", 'rounds = 40\nattack = "sleep"').replace('"random"', '"ones"')
    return text.replace("share = 0.5", 'share = 0.5\nrule = { name = "halved", by = 3.0 }').replace(
        '"keep_all"', '"strict"'
    )


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("plugin", ["mine.py", "mine_in_a_module"])
def test_from_the_command_line_with_any_jobs(
    plugin: str, jobs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/mine.py").write_text(MINE)
    (tmp_path / "mine_in_a_module.py").write_text(MINE)
    (tmp_path / "deep/my.toml").write_text(with_mine(plugin))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    line = ["--trials", "2", "--jobs", jobs, "--engine", "readable"]
    assert main(["run", "deep/my.toml", "--out", "o", *line]) == 0, capsys.readouterr().err
    again = load(tmp_path / "o/tiny/experiment.toml")  # names the file wherever it is read
    assert again.plugins == ((str(tmp_path / "deep/mine.py"),) if plugin == "mine.py" else (plugin,))
    assert again.resolved["methods"][0]["rule"] == {"name": "halved", "by": 3.0}


def test_a_changed_plugin_is_another_version_of_the_code(tmp_path: Path) -> None:
    (tmp_path / "changing.py").write_text(MINE)
    experiment = parse(tomllib.loads(with_mine("changing.py")), str(tmp_path / "my.toml"))
    run(experiment, trials=1, folder=tmp_path / "o")
    (tmp_path / "changing.py").write_text(MINE.replace("/ by", "* by"))
    with pytest.raises(OutputError, match="another version of the code"):
        run(experiment, trials=1, folder=tmp_path / "o")


@pytest.mark.parametrize(
    ("plugin", "content", "said"),
    [
        ("nowhere.py", None, "no file .*nowhere.py; a path is relative to the experiment file, or without"),
        ("no_such_module", None, "cannot import 'no_such_module' .*it must be on Python's path"),
        ("broken.py", "def broken(:", "cannot import 'broken.py' .SyntaxError"),
        ("needy.py", "import no_such_module", "cannot import 'needy.py' .ModuleNotFoundError"),
        ("leaving.py", "raise SystemExit(0)", "cannot import 'leaving.py' .SystemExit"),
    ],
)
def test_what_cannot_be_imported_is_one_line(plugin: str, content: str | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / plugin).write_text(content)
    with pytest.raises(SettingError, match=said) as told:
        parse({"plugins": [plugin]}, str(tmp_path / "my.toml"))
    assert "\n" not in str(told.value)


def test_what_worker_processes_do_not_know_is_said_with_the_remedy() -> None:
    RULES["only_here"] = lambda: stateless("only_here", lambda rows, sent, previous: (rows.mean(0), None))
    experiment = parse(tomllib.loads(TINY.replace("share = 0.5", 'rule = "only_here"')), "here")
    assert run(experiment, trials=2, jobs=1, engine="readable").rows
    with pytest.raises(PrismError, match="unknown rule 'only_here'.*name its file in plugins"):
        run(experiment, trials=2, jobs=2, engine="readable")
