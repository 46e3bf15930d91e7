"""An aggregation rule of your own beside the others in a table; run as it stands.

Registering is one line. `plugins = ["own_rule.py"]` in an experiment file makes `prism-fcp run` know the rule too.
"""

import sys

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.lab import named, parse
from prism_fcp.lab.run import run
from prism_fcp.train.aggregate import RULES, stateless
from prism_fcp.types import Rule


def clipped_mean(limit: float = 0.1) -> Rule:
    """Average over all uploads after cutting every step away from the previous model to +-limit."""
    if limit <= 0:
        raise SettingError(f"clipped_mean: limit={limit}; must be positive")

    def step(rows: np.ndarray, sent: np.ndarray, previous: np.ndarray) -> tuple[np.ndarray, None]:
        return previous + np.clip(rows - previous, -limit, limit).mean(axis=0), None

    return stateless("clipped_mean", step)


RULES["clipped_mean"] = clipped_mean  # from here on every experiment may name it


if __name__ == "__main__":  # worker processes import this file, and must not run what follows
    document = dict(named("table-synthetic").resolved)
    document["name"] = "own-rule"
    document["federation"] = document["federation"] | {"rounds": 300 if "--quick" in sys.argv else 1000}
    template = document["methods"][1]  # Rob-FCP: full sharing, filter told the count
    document["methods"] = [
        template | {"method": "Rob-FCP"},
        template | {"method": "clipped mean", "rule": {"name": "clipped_mean", "limit": 0.05}},
        template | {"method": "CWMed", "rule": "median"},
        *document["methods"][-2:],  # Local and Floor
    ]
    result = run(parse(document, "own-rule"), trials=2, jobs=2, engine="readable")
    for row in result.rows:
        if row.attack == "random" and row.width.mean is not None and row.coverage.mean is not None:
            print(f"{row.method:13} covers {row.coverage.mean:5.1f} % with width {row.width.mean:.3f}")
