"""docs/data.md can be followed to the letter, and the errors it quotes are those that are printed."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_can_be_followed_to_the_letter(tmp_path: Path) -> None:
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=170,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    printed = re.search(r"it prints\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert printed
    for line in printed[1].splitlines():  # numbers may differ in a last digit from machine to machine
        assert re.sub(r"[\d.]+", "#", line) in re.sub(r"[\d.]+", "#", run.stdout), line
    folder = tmp_path / "prism-results" / "my"
    assert (folder / "page.html").stat().st_size > 20_000 and (folder / "drill" / "widths.png").is_file()
    with (tmp_path / "intervals.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    quoted = re.search(r"prediction,lower_90,upper_90\n([\d.,-]+)", PAGE)
    assert quoted
    found = [float(rows[0][name]) for name in ("prediction", "lower_90", "upper_90")]
    np.testing.assert_allclose(found, [float(cell) for cell in quoted[1].split(",")], atol=5)

    program = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    program = f"rows = [[{', '.join(['50.0'] * 10)}]]\n{program}\nprint(point.shape, bounds.shape)"
    told = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert told.stdout == "(1,) (1, 2, 1)\n", told.stderr


def test_every_key_of_a_project_is_documented() -> None:
    from prism_fcp.own import project, sections

    known = {*project.ABOUT, *sections.COLUMNS, *project.TABLES, *project.TRAINING}
    known |= {*sections.Calibrating.__slots__, *sections.Drill.__slots__}
    assert not [key for key in known if f"`{key}`" not in PAGE and f"`[{key}]`" not in PAGE]
