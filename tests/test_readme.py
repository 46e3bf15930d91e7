"""The README's program runs as printed."""

import re
import runpy
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def programs():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_small_program_leaves_out_the_liar(tmp_path):
    script = tmp_path / "small.py"
    script.write_text(programs()[0])
    names = runpy.run_path(str(script))
    assert list(names["calibration"].left_out) == ["lake"]
    assert (names["low"] < names["high"]).all()


def test_the_program_in_the_readme_runs(tmp_path):
    program = programs()[1]
    script = tmp_path / "readme.py"
    script.write_text(program)
    names = runpy.run_path(str(script))
    assert sorted(names["calibration"].left_out) == np.flatnonzero(names["clients"].byzantine).tolist()
    lower, upper = names["bounds"][:, :, 0].T
    assert (lower < names["point"]).all() and (names["point"] < upper).all()
    assert 0.40 < names["calibration"].width < 0.43  # the true model's is 0.404
    assert len([line for line in program.splitlines() if line and not line.startswith("#")]) <= 20
