"""A site's file and the example data: read with one-line errors, written the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_fcp.data.friedman import friedman
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation.sites import agree_on, table_site
from prism_fcp.federation.sites.example import as_csv, write_example
from prism_fcp.federation.sites.file import SiteFile
from prism_fcp.types import Choice

WHOLE = """
data = "../data/north.csv"
target = "y"
drop = ["x10"]
key = "north.key"
passphrase_file = "north.pass"
state = "../state/north"
calibration_share = 0.3
test_share = 0.1
attack = { name = "gaussian", variance = 4.0 }
score_attack = "efficiency"
"""


def put(folder: Path, text: str) -> Path:
    path = folder / "sites" / "north.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_whole_file_is_read_and_its_paths_lie_beside_it(tmp_path: Path) -> None:
    write_example(tmp_path / "data", ["north"])
    made = SiteFile.load(put(tmp_path, WHOLE))
    folder = tmp_path / "sites"
    assert (made.key, made.passphrase_file) == (str(folder / "north.key"), str(folder / "north.pass"))
    assert made.state is not None and Path(made.state).resolve() == tmp_path / "state" / "north"
    assert made.attack is not None and made.attack.name == "gaussian" and made.attack.options["variance"] == 4.0
    assert made.score_attack is not None and made.score_attack.name == "efficiency"
    rows = made.rows("north")
    assert rows.table.names == tuple(f"x{place}" for place in range(1, 10))
    assert [len(part) for part in (rows.calibration, rows.test, rows.train)] == [120, 40, 240]


def test_the_shortest_file_and_the_federations_target(tmp_path: Path) -> None:
    write_example(tmp_path / "sites", ["north"])
    made = SiteFile.load(put(tmp_path, 'data = "north.csv"'))
    rows = made.rows("north", "y")
    assert [len(part) for part in (rows.train, rows.calibration, rows.test)] == [200, 100, 100]
    with pytest.raises(SettingError, match="site 'north': target is missing"):
        made.rows("north")
    with pytest.raises(DataError, match="no column 'z'"):
        made.rows("north", "z")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "data is missing"),
        ("data = ''", "data is empty"),
        ("data = 3", "data = 3 is a whole number; must be text"),
        ("data = 'a.csv'\ntarget = 'y'\nsecret = 1", "unknown key 'secret'"),
        ("data = 'a.csv'\ntraget = 'y'", "unknown key 'traget'; did you mean 'target'"),
        ("data = 'a.csv'\ndrop = 'x1'", "drop = 'x1' is text; must be a list"),
        ("data = 'a.csv'\ntarget = 'y'\ndrop = ['y']", "stands in drop too"),
        ("data = 'a.csv'\npassphrase_file = 'p'", "passphrase_file without key"),
        ("data = 'a.csv'\ncalibration_share = 1.0", "their sum below 1"),
        ("data = 'a.csv'\ntest_share = nan", "must be a finite number"),
        ("data = 'a.csv'\nattack = 'gausian'", "unknown training attack 'gausian'; did you mean 'gaussian'"),
        ("data = 'a.csv'\nattack = { name = 'gaussian', varance = 1 }", "did you mean 'variance'"),
        ("data = 'a.csv'\nscore_attack = 'effort'", "unknown score attack 'effort'"),
        ("data = 'a.csv", "not valid TOML"),
    ],
)
def test_what_cannot_be_used_names_file_and_remedy(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PrismError, match=f"north.toml: .*{message}"):
        SiteFile.load(put(tmp_path, text))


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PrismError, match="cannot read"):
        SiteFile.load(tmp_path / "none.toml")
    with pytest.raises(PrismError, match="cannot read .*north.csv"):
        SiteFile.load(put(tmp_path, 'data = "north.csv"')).rows("north", "y")


def test_the_same_seed_writes_the_same_example(tmp_path: Path) -> None:
    one = write_example(tmp_path / "a", ["north", "süd"], seed=3, rows=20)
    again = write_example(tmp_path / "b", ["north", "süd"], seed=3, rows=20)
    other = write_example(tmp_path / "c", ["north", "süd"], seed=4, rows=20)
    assert [path.name for path in one] == ["north.csv", "süd.csv"]
    texts = [[path.read_text() for path in paths] for paths in (one, again, other)]
    assert texts[0] == texts[1] and len({*texts[0], *texts[2]}) == 4
    assert all(text.count("\n") == 21 for text in texts[0])


@pytest.mark.parametrize(
    ("names", "rows"), [(["../out"], 20), ([""], 20), (["a"], 9), (["a"], 2_000_000), (["a"], 1.5)]
)
def test_an_example_that_cannot_be_written_is_refused(tmp_path: Path, names: Any, rows: Any) -> None:
    with pytest.raises(PrismError):
        write_example(tmp_path / "data", names, rows=rows)
    assert not (tmp_path / "out.csv").exists()


def test_text_keeps_six_digits() -> None:
    table = friedman(50, np.random.default_rng(1))
    lines = as_csv(table).splitlines()
    assert lines[0] == "x1,x2,x3,x4,x5,x6,x7,x8,x9,x10,y"
    numbers = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_allclose(numbers[:, :-1], table.features, rtol=1e-5)
    np.testing.assert_allclose(numbers[:, -1], table.target, rtol=1e-5)


def test_an_example_is_worth_learning(tmp_path: Path) -> None:
    (path,) = write_example(tmp_path, ["north"])
    rows = SiteFile(data=str(path)).rows("north", "y")
    site = table_site(rows, Choice("mlp", {"hidden": (16,)}), step_size=0.05, local_steps=5, batch_size=16)
    site.standardise(agree_on({"north": site.describe()})[0])
    model = site.start()
    before = site.evaluate(model, 1.0)[2]
    for number in range(1, 101):
        model = site.step(model, number)
    assert site.evaluate(model, 1.0)[2] < 0.6 * before
