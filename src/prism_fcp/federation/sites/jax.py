"""A model written in JAX: a tree of arrays and a function that predicts from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prism_fcp.federation.sites.learning import RowsSite
from prism_fcp.federation.sites.rows import SiteRows
from prism_fcp.federation.sites.table import table_site
from prism_fcp.models.own import jax_model


def jax_site(
    rows: SiteRows,
    parameters: Any,
    predict: Callable[[Any, Any], Any],
    loss: Callable[[Any, Any], Any] | None = None,
    *,
    step_size: float,
    local_steps: int = 1,
    batch_size: int = 32,
    momentum: float = 0.0,
    start_key: int = 0,
) -> RowsSite:
    """Return a site that trains `predict(parameters, inputs (n, D)) -> (n,)` by gradient descent on `loss`.

    `parameters` is the tree everybody starts with, or a function of a JAX key that makes it; each array of it is a
    layer. Without `loss(predictions, targets) -> number` it is half the mean squared error.
    """
    model = jax_model(parameters if callable(parameters) else lambda key: parameters, predict, loss)
    return table_site(
        rows, model, step_size=step_size, local_steps=local_steps, batch_size=batch_size, momentum=momentum,
        start_key=start_key,
    )  # fmt: skip
