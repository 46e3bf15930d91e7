"""Tables at every width: a number is whole or not there."""

from __future__ import annotations

import dataclasses
import io as memory
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import Comparison, judge
from prism_fcp.lab.run import run
from prism_fcp.lab.spec import Experiment, parse
from prism_fcp.lab.tables import comparison_table, plain, show
from tests.lab.conftest import shrunk

WIDTHS = (60, 80, 100, 140)


def printed(comparison: Comparison, width: int) -> str:
    told = memory.StringIO()
    Console(file=told, width=width).print(comparison_table(comparison, width))
    return told.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_no_number_is_cut_at_any_width(name: str) -> None:
    """Judged as published, where the paper gives numbers; the fingerprint is the packaged experiment's."""
    experiment = named(name)
    result = dataclasses.replace(
        run(shrunk(dict(experiment.resolved)), trials=2), experiment=name, fingerprint=experiment.fingerprint
    )
    comparison = judge(result)
    for width in WIDTHS:
        text = printed(comparison, width)
        lines = text.splitlines()
        assert "…" not in text and max(map(len, lines)) <= width
        numbers = [word for line in lines for word in line.split()]
        for judged in comparison.rows:
            assert numbers.count(f"{judged.row.width.mean:.3f}") >= 1, (width, judged.row.label)
        assert sum(f"{judged.row.coverage.mean:.1f}" in numbers for judged in comparison.rows) == len(comparison.rows)
        if comparison.source:
            marks = {
                f"[{mark}]" for mark in range(1, 1 + len({j.verdict for j in comparison.rows} - {"", "reproduced"}))
            }
            assert marks <= set(numbers)


def test_long_names_take_two_lines_and_control_characters_none(tiny: Experiment) -> None:
    result = run(tiny, trials=1)
    rows = tuple(dataclasses.replace(row, method="very " * 60 + "\x1b[31mlong\x07") for row in result.rows)
    text = printed(judge(dataclasses.replace(result, rows=rows)), 80)
    assert "\x1b[31m" not in text and "\x07" not in text
    for row in rows:
        assert f"{row.width.mean:.3f}" in text
    assert plain("a\nb\tc\x00d") == "a b c d" and len(plain("x" * 300)) == 60


def test_who_gives_less_weight_catches_nobody_and_the_engine_is_told_in_words(tiny_text: str, tmp_path: Path) -> None:
    text = tiny_text.replace('filter = "keep_all"', 'filter = { name = "down_weight", threshold = 2.5 }')
    comparison = judge(run(parse(tomllib.loads(text), "tiny"), trials=2))
    told = memory.StringIO()
    show(comparison, Console(file=told, width=142))
    lines = [line.split() for line in told.getvalue().splitlines()]
    assert all(line[-3:-1] == ["-", "-"] for line in lines if line[:1] == ["FCP"])
    assert all("-" not in line for line in lines if line[:1] == ["PRISM-FCP"])
    assert "down_weight leaves nobody out" in told.getvalue()
    assert "NumPy engine: a small job, " in told.getvalue() and "coordinate steps" not in told.getvalue()
