"""Experiments as data: read one, run it, compare it with the paper, draw it.

`load("my.toml")` or `named("table-synthetic")` gives an `Experiment`, `prism_fcp.lab.run.run(experiment)` its `Result`
with `.rows`, `.to_csv()` and `.to_frame()`, `judge(result)` sets it beside the paper's numbers.
"""

from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import Comparison, judge, stored
from prism_fcp.lab.result import Result, Row, Spread
from prism_fcp.lab.spec import Experiment, load, parse

__all__ = [
    "NAMES",
    "Comparison",
    "Experiment",
    "Result",
    "Row",
    "Spread",
    "judge",
    "load",
    "named",
    "parse",
    "stored",
]
