"""One row a kind of site: the same rows behind every kind of model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from prism_fcp.data.friedman import friedman
from prism_fcp.data.table import Table
from prism_fcp.federation.sites import (
    RowsSite,
    SiteRows,
    estimator_site,
    jax_site,
    table_site,
    torch_site,
)
from prism_fcp.types import Choice


def rows(name: str = "north", count: int = 200, seed: int = 1) -> SiteRows:
    """Return rows of a site, in units near one."""
    made = friedman(count, np.random.default_rng(seed))
    table = Table(made.features - 0.5, (made.target - 14) / 5, made.names, made.target_name)
    return SiteRows.cut(name, table)


def linear(own: SiteRows) -> RowsSite:
    return table_site(own, step_size=0.05)


def momentum(own: SiteRows) -> RowsSite:
    return table_site(own, step_size=0.01, local_steps=2, batch_size=8, momentum=0.9)


def mlp(own: SiteRows) -> RowsSite:
    return table_site(own, Choice("mlp", {"hidden": (8,)}), step_size=0.05, local_steps=3, batch_size=16)


def scikit(own: SiteRows) -> RowsSite:
    linear_model = pytest.importorskip("sklearn.linear_model")
    return estimator_site(own, lambda: linear_model.SGDRegressor(), local_steps=2, batch_size=16)


def torch(own: SiteRows) -> RowsSite:
    pytest.importorskip("torch")
    import torch
    from torch import nn

    def make() -> Any:
        return nn.Sequential(nn.Linear(own.width, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))

    return torch_site(own, make, lambda own: torch.optim.SGD(own, lr=0.05), local_steps=3, batch_size=16)


def jax(own: SiteRows) -> RowsSite:
    pytest.importorskip("jax")
    start = {
        "hidden": np.linspace(-0.3, 0.3, own.width * 4, dtype=np.float32).reshape(own.width, 4),
        "out": np.full(4, 0.1, np.float32),
    }

    def predict(tree: Any, inputs: Any) -> Any:
        hidden = inputs @ tree["hidden"]
        return (hidden * (hidden > 0)) @ tree["out"]

    return jax_site(own, start, predict, step_size=0.1, local_steps=5, batch_size=16)


SITES: dict[str, Callable[[SiteRows], RowsSite]] = {
    "linear": linear,
    "momentum": momentum,
    "mlp": mlp,
    "scikit": scikit,
    "torch": torch,
    "jax": jax,
}


def error(site: RowsSite, parameters: NDArray[Any]) -> float:
    """Return the mean absolute error on the test rows."""
    return site.evaluate(parameters, math.inf)[2]
