"""A JAX model of your own, behind the flat vector: three functions and it trains in every engine.

`init(key) -> parameters` (any tree of arrays), `apply(parameters, inputs (n, D)) -> predictions (n,)`, and, if half the
mean squared error is not what you train on, `loss(predictions (n,), targets (n,)) -> number`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from prism_fcp.errors import MissingExtraError, SettingError
from prism_fcp.types import FloatArray, Layer


@dataclass(frozen=True, eq=False)
class JaxModel:
    """What `jax_model` returns; two are the same only if they are one object."""

    name: str
    layers: tuple[Layer, ...]
    start: Callable[[int], FloatArray] = field(repr=False)
    device_predict: Callable[[Any, Any], Any] = field(repr=False)  # one flat model (P,), inputs (n, D) -> (n,)
    device_gradient: Callable[[Any, Any, Any], Any] = field(repr=False)  # (P,), (n, D), (n,) -> (P,), of the loss

    def init(self, key: int) -> FloatArray:
        """Return the parameters training starts from."""
        return self.start(key)

    def predict(self, models: FloatArray, inputs: FloatArray) -> FloatArray:
        """Return predictions (..., n) of models (..., P)."""
        return self._mapped(self.device_predict, models, inputs)

    def gradient(self, models: FloatArray, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        """Return the gradient of the loss for each model."""
        return self._mapped(self.device_gradient, models, inputs, targets)

    def _mapped(self, function: Any, models: FloatArray, *others: FloatArray) -> FloatArray:
        """Apply a function of one flat model over all leading axes, which broadcast."""
        lead = np.broadcast_shapes(models.shape[:-1], others[0].shape[:-2])
        parts = [np.broadcast_to(models, (*lead, models.shape[-1]))]
        parts += [np.broadcast_to(o, (*lead, *o.shape[len(o.shape) - (2 - k) :])) for k, o in enumerate(others)]
        return np.asarray(_compiled(function, len(lead))(*parts))


@lru_cache(maxsize=64)
def _compiled(function: Any, axes: int) -> Any:
    """Map a function over so many leading axes; kept, since jax compiles a function it has not seen."""
    import jax

    for _ in range(axes):
        function = jax.vmap(function)
    return jax.jit(function)


def jax_model(
    init: Callable[[Any], Any],
    apply: Callable[[Any, Any], Any],
    loss: Callable[[Any, Any], Any] | None = None,
    *,
    name: str = "own",
) -> JaxModel:
    """Put a JAX model behind one flat vector; each array of its parameters is a layer that can travel on its own.

    Register it for experiments with `MODELS["name"] = lambda num_features: jax_model(...)` in a plugin.
    """
    try:
        import jax
        from jax.flatten_util import ravel_pytree
    except ImportError as error:
        raise MissingExtraError("jax_model needs jax: pip install 'prism-fcp[jax]'") from error
    sample = init(jax.random.key(0))
    flat, unravel = ravel_pytree(sample)
    if not flat.size:
        raise SettingError(f"jax_model {name!r}: init returned no parameters; it must return arrays")
    layers, start = [], 0
    for path, leaf in jax.tree_util.tree_leaves_with_path(sample):
        layers.append(Layer(jax.tree_util.keystr(path) or "parameters", start, start + leaf.size))
        start += leaf.size

    def told(parameters: Any, inputs: Any) -> Any:
        predicted = apply(parameters, inputs)
        if predicted.shape != inputs.shape[:-1]:
            raise SettingError(
                f"jax_model {name!r}: apply returned shape {predicted.shape} for inputs {inputs.shape}; one number a "
                f"row is needed: {inputs.shape[:-1]}"
            )
        return predicted

    def predict(model: Any, inputs: Any) -> Any:
        return told(unravel(model), inputs)

    def measured(parameters: Any, inputs: Any, targets: Any) -> Any:
        predicted = told(parameters, inputs)
        return loss(predicted, targets) if loss is not None else 0.5 * ((predicted - targets) ** 2).mean()

    def slope(model: Any, inputs: Any, targets: Any) -> Any:
        return ravel_pytree(jax.grad(measured)(unravel(model), inputs, targets))[0]

    def begin(key: int) -> FloatArray:
        made = init(jax.random.key(key % 2**32))
        return np.asarray(ravel_pytree(made)[0], dtype=np.float32)

    return JaxModel(name, tuple(layers), begin, predict, slope)
