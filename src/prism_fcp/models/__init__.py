"""Models behind one flat vector. A new model is one factory `(num_features, **options) -> Model` and one line here."""

from __future__ import annotations

from collections.abc import Callable

from prism_fcp.models.linear import Linear, linear
from prism_fcp.models.mlp import MLP, mlp
from prism_fcp.models.own import JaxModel, jax_model
from prism_fcp.types import Model

MODELS: dict[str, Callable[..., Model]] = {"linear": linear, "mlp": mlp}  # a user's own joins by assignment

__all__ = ["MLP", "MODELS", "JaxModel", "Linear", "jax_model", "linear", "mlp"]
