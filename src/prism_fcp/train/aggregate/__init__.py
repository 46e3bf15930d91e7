"""Aggregation rules. A new rule is one factory and one line here.

A user's own is registered by `RULES["name"] = factory`; `stateless` makes one from a plain function.
"""

from __future__ import annotations

from collections.abc import Callable

from prism_fcp.train.aggregate.centred import centred_clipping
from prism_fcp.train.aggregate.clip import clipped_median
from prism_fcp.train.aggregate.geometric import geometric_median
from prism_fcp.train.aggregate.krum import krum, multi_krum
from prism_fcp.train.aggregate.lift import packed, stateless
from prism_fcp.train.aggregate.mean import mean, mean_of_sharers
from prism_fcp.train.aggregate.mixing import bucketing, nearest_mixing
from prism_fcp.train.aggregate.order import median, trimmed_mean
from prism_fcp.train.aggregate.table import table
from prism_fcp.types import Rule

RULES: dict[str, Callable[..., Rule]] = {
    "mean": mean,
    "mean_of_sharers": mean_of_sharers,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "krum": krum,
    "multi_krum": multi_krum,
    "clipped_median": clipped_median,
    "table": table,
    "geometric_median": geometric_median,
    "centred_clipping": centred_clipping,
    "nearest_mixing": nearest_mixing,
    "bucketing": bucketing,
}

__all__ = [
    "RULES",
    "bucketing",
    "centred_clipping",
    "clipped_median",
    "geometric_median",
    "krum",
    "mean",
    "mean_of_sharers",
    "median",
    "multi_krum",
    "nearest_mixing",
    "packed",
    "stateless",
    "table",
    "trimmed_mean",
]
