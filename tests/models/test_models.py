"""Every model's gradient is its loss's, its layers tile its vector, and leading axes broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prism_fcp.errors import SettingError
from prism_fcp.models import MODELS, jax_model, linear, mlp
from prism_fcp.types import Model


def own(num_features: int) -> Model:
    jax = pytest.importorskip("jax")

    def init(key: Any) -> Any:
        return {"w": 0.3 * jax.random.normal(key, (num_features, 4)), "v": 0.3 * jax.random.normal(key, (4,))}

    return jax_model(init, lambda p, x: jax.numpy.tanh(x @ p["w"]) @ p["v"])


ROWS = {"linear": linear, "mlp": lambda d: mlp(d, (5, 3)), "own": own}


def test_every_model_has_a_row() -> None:
    assert set(MODELS) <= set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_the_gradient_is_the_slope_of_half_the_mean_squared_error(name: str) -> None:
    model, rng = ROWS[name](6), np.random.default_rng(1)
    size = model.layers[-1].stop
    kind = np.float32 if name == "own" else np.float64  # jax computes in float32
    models = (model.init(3) + 0.2 * rng.standard_normal((4, size))).astype(kind)
    inputs, targets = rng.standard_normal((4, 7, 6)).astype(kind), rng.standard_normal((4, 7)).astype(kind)
    slope, step = model.gradient(models, inputs, targets), 1e-3 if name == "own" else 1e-6

    def loss(at: Any) -> Any:
        return 0.5 * np.square(model.predict(at, inputs).astype(np.float64) - targets).mean(-1)

    assert slope.shape == models.shape
    for place in rng.choice(size, min(size, 12), replace=False):
        nudge = np.zeros_like(models)
        nudge[:, place] = step
        measured = (loss(models + nudge) - loss(models - nudge)) / (2 * step)
        np.testing.assert_allclose(slope[:, place], measured, atol=3e-4 if name == "own" else 1e-7)


@pytest.mark.parametrize("name", ROWS)
def test_layers_tile_the_vector(name: str) -> None:
    model = ROWS[name](6)
    assert model.layers[0].start == 0
    assert all(a.stop == b.start for a, b in zip(model.layers[:-1], model.layers[1:], strict=True))
    assert model.layers[-1].stop == sum(layer.size for layer in model.layers) == len(model.init(0))
    np.testing.assert_array_equal(model.init(5), model.init(5))


@pytest.mark.parametrize("name", ROWS)
def test_leading_axes_broadcast(name: str) -> None:
    model, rng = ROWS[name](6), np.random.default_rng(2)
    models = (model.init(1) + 0.1 * rng.standard_normal((2, 3, model.layers[-1].stop))).astype(np.float32)
    inputs = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
    together = model.predict(models, inputs)
    assert together.shape == (2, 3, 5)
    np.testing.assert_allclose(together[1, 2], model.predict(models[1, 2], inputs[1, 2]), rtol=1e-5, atol=1e-6)
    one_for_all = model.predict(models[0, 0], inputs)
    np.testing.assert_allclose(one_for_all[1, 0], model.predict(models[0, 0], inputs[1, 0]), rtol=1e-5, atol=1e-6)


def test_the_papers_network_has_4929_parameters() -> None:
    """(10 + 1)·64 + (64 + 1)·64 + (64 + 1)·1 = 704 + 4,160 + 65."""
    assert [layer.size for layer in mlp(10).layers] == [704, 4160, 65]


def test_a_perceptron_without_hidden_layers_is_linear_with_a_bias() -> None:
    model, x = mlp(3, ()), np.random.default_rng(0).standard_normal((5, 3))
    np.testing.assert_allclose(model.predict(np.array([1.0, -2.0, 0.5, 4.0]), x), x @ [1.0, -2.0, 0.5] + 4.0)


def test_settings_that_cannot_work() -> None:
    with pytest.raises(SettingError, match="each width must lie in 1"):
        mlp(3, (64, 0))
    pytest.importorskip("jax")
    with pytest.raises(SettingError, match="returned no parameters"):
        jax_model(lambda key: {}, lambda p, x: x)
    broken = jax_model(lambda key: __import__("jax").numpy.ones(2), lambda p, x: x, name="flat")
    with pytest.raises(SettingError, match="one number a row is needed"):
        broken.predict(np.ones(2, np.float32), np.ones((3, 2), np.float32))
