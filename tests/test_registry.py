"""Members that other packages bring: a real package, installed beside, joins by its entry points alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_fcp import registry
from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.cli import main
from prism_fcp.errors import SettingError
from prism_fcp.lab import regimes
from prism_fcp.lab.spec import parse
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.settings import Federation
from prism_fcp.types import Choice

CODE = """
import numpy as np
from prism_fcp.calibrate.attack import ScoreAttack
from prism_fcp.calibrate.filter import known_count
from prism_fcp.train.aggregate import stateless
from prism_fcp.types import UpdateAttack

def halved(by: float = 2.0):
    return stateless("halved", lambda rows, sent, previous: (previous + (rows - previous).mean(0) / by, None))

def lift(size: float = 3.0):
    return UpdateAttack("lift", 1.0, frozenset(), lambda view: view.own + size)

def strict():
    return known_count(4)

def ones():
    return ScoreAttack("ones", frozenset(), lambda view: np.ones_like(view.own))

number = 7
"""
POINTS = """
[prism_fcp.rules]
halved = visitor.parts:halved
number = visitor.parts:number
gone = visitor.nowhere:gone
leaving = visitor.leaving:rule
median = visitor.parts:halved

[prism_fcp.attacks]
lift = visitor.parts:lift

[prism_fcp.filters]
strict = visitor.parts:strict

[prism_fcp.score_attacks]
ones = visitor.parts:ones
"""


def install(site: Path, name: str, version: str, points: str, sources: dict[str, str]) -> None:
    """Lay a package and its dist-info into a folder, as an installer does."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(points)
    for path, text in sources.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


@pytest.fixture(autouse=True)
def visitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    site = tmp_path / "site"
    sources = {"visitor/__init__.py": "", "visitor/parts.py": CODE, "visitor/leaving.py": "raise SystemExit('no')"}
    install(site, "visitor", "1.2", POINTS, sources)
    monkeypatch.syspath_prepend(str(site))
    tables = (RULES, UPDATE_ATTACKS, FILTERS, SCORE_ATTACKS)
    before = [dict(table) for table in tables]
    yield site
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)
    registry._ORIGINS.clear()
    for name in [name for name in sys.modules if name.partition(".")[0] in ("visitor", "second")]:
        del sys.modules[name]


def test_each_kind_joins_by_its_name_and_only_when_it_is_asked_for() -> None:
    assert "halved" not in RULES and "visitor.parts" not in sys.modules
    assert "halved" in registry.names(RULES, "rule") and "visitor.parts" not in sys.modules
    rule = Choice("halved", {"by": 4.0}).build(RULES, "rule")
    assert rule.name == "halved" and RULES["halved"] is sys.modules["visitor.parts"].halved
    assert Federation(attack=Choice("lift")).attack.build(UPDATE_ATTACKS, "training attack").name == "lift"
    assert Choice("strict").build(FILTERS, "filter") and Choice("ones").build(SCORE_ATTACKS, "score attack")
    assert registry.origin("rule", "halved") == ("visitor 1.2", "visitor.parts")


def test_our_own_names_come_first() -> None:
    ours = RULES["median"]
    assert registry.find(RULES, "rule", "median") is ours and registry.origin("rule", "median") is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "gone",
            r"rule 'gone' of package visitor 1.2 cannot be loaded from 'visitor.nowhere:gone' \(ModuleNotFoundErr",
        ),
        ("leaving", r"rule 'leaving' of package visitor 1.2 cannot be loaded .*\(SystemExit: no\); mend the package"),
        ("number", "rule 'number' of package visitor 1.2: 'visitor.parts:number' is of type int; must be a factory"),
        ("halvd", "unknown rule 'halvd'; did you mean 'halved'"),
    ],
)
def test_a_broken_one_is_an_error_that_names_the_package(name: str, said: str) -> None:
    with pytest.raises(SettingError, match=said) as told:
        Choice(name).build(RULES, "rule")
    assert "\n" not in str(told.value)


def test_two_packages_that_offer_one_name_are_both_named(visitor: Path) -> None:
    install(visitor, "second", "0.1", "[prism_fcp.rules]\nhalved = second:rule\n", {"second.py": "rule = None"})
    with pytest.raises(
        SettingError, match="rule 'halved' is offered by (visitor 1.2 and by second 0.1|second 0.1 and)"
    ):
        Choice("halved").build(RULES, "rule")


def test_an_experiment_names_them_with_their_options_checked() -> None:
    document = {
        "federation": {"num_clients": 10, "num_byzantine": 2, "num_participants": 5, "rounds": 5, "attack": "lift"},
        "attacks": [{"name": "ones"}],
        "methods": [{"method": "mine", "rule": {"name": "halved", "by": 3}, "filter": "strict"}],
    }
    setup = parse(document, "here").setup
    assert ("rule", "halved") in setup.members() and ("filter", "strict") in setup.members()
    assert setup.methods[0].arm is not None and setup.methods[0].arm.rule.options == {"by": 3.0}
    document["methods"][0]["rule"] = {"name": "halved", "by": "three"}  # type: ignore[index]
    with pytest.raises(SettingError, match="'halved': by = 'three' is text"):
        parse(document, "here")


def test_a_rule_inside_a_rule_counts_as_a_member_too() -> None:
    nested = Choice("bucketing", {"then": Choice("halved")})
    assert nested.build(RULES, "rule").name == "bucketing"
    files = registry.files(nested.members("rule"))
    assert [path.name for path in files.values()] == ["__init__.py", "leaving.py", "parts.py"]


def test_the_gauntlet_runs_them_and_does_not_mix_versions_of_their_code(
    visitor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numba")
    small = Federation(num_clients=12, dimension=8, num_participants=4, num_byzantine=2, rounds=40, window=10)
    monkeypatch.setitem(regimes.REGIMES, "small", regimes.Regime(regimes.SyntheticLinear(), small, 4))
    monkeypatch.chdir(tmp_path)
    line = ["gauntlet", "--regime", "small", "--attack", "lift", "--protocol", "halved", "--jobs", "1", "--out", "o"]
    assert main([*line, "--trials", "1"]) == 0, capsys.readouterr().err
    rows = json.loads((tmp_path / "o/gauntlet/gauntlet.json").read_text())["rows"]
    assert {row["protocol"] for row in rows} == {"local only", "halved", "default"}
    assert main([*line, "--trials", "2"]) == 0  # the first is continued
    (visitor / "visitor/__init__.py").write_text("changed = True\n")
    assert main([*line, "--trials", "2"]) == 2
    assert "of another version of the code, a plugin's or another package's" in capsys.readouterr().err
    assert main(["gauntlet", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "protocols of other packages: gone, leaving, number" in listed


def test_importing_the_package_looks_nothing_up(visitor: Path) -> None:
    probe = (
        "import sys; import numpy; had = 'importlib.metadata' in sys.modules; import prism_fcp, prism_fcp.train.loop; "
        "from prism_fcp.types import Choice; from prism_fcp.train.aggregate import RULES; "
        "Choice('median').build(RULES, 'rule'); "
        "assert had or 'importlib.metadata' not in sys.modules; assert 'visitor' not in sys.modules; "
        "print(Choice('halved').build(RULES, 'rule').name)"
    )
    environment = {**os.environ, "PYTHONPATH": str(visitor)}
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment)
    assert run.stdout == "halved\n", run.stderr
