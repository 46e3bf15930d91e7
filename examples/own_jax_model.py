"""A JAX model of your own, trained with coordinate-wise and layer-wise sharing, calibrated and shown; run as it stands.

Three functions and one line that registers them. `plugins = ["own_jax_model.py"]` and `model = "bumps"` in an
experiment file make `prism-fcp run` know the model too.
"""

import sys

import jax
import jax.numpy as jnp

from prism_fcp.lab import parse
from prism_fcp.lab.run import run
from prism_fcp.models import MODELS, JaxModel, jax_model


def bumps(num_features: int, count: int = 32) -> JaxModel:
    """A linear part and so many smooth bumps, trained on Huber's loss: far targets pull no harder than near ones."""

    def init(key):  # any tree of arrays; each of them is a layer that can travel on its own
        one, two = jax.random.split(key)
        return {
            "slope": jnp.zeros(num_features),
            "where": jax.random.normal(one, (num_features, count)) / num_features**0.5,
            "shift": jax.random.normal(two, (count,)),
            "height": jnp.zeros(count),
        }

    def apply(p, inputs):  # inputs (n, D) -> one prediction a row (n,)
        return inputs @ p["slope"] + jnp.tanh(inputs @ p["where"] + p["shift"]) @ p["height"]

    def loss(predictions, targets):  # leave it out for half the mean squared error
        far = jnp.abs(predictions - targets)
        return jnp.where(far < 1, 0.5 * far**2, far - 0.5).mean()

    return jax_model(init, apply, loss, name="bumps")


MODELS["bumps"] = bumps  # from here on every experiment may name it, with its options: { name = "bumps", count = 16 }


METHODS = [
    {"method": "PRISM-FCP", "share": 0.3},  # of the coordinates
    {"method": "PRISM-FCP", "variant": "one layer", "layers": "model", "num_shared": 1},  # one array of the four
    {"method": "Rob-FCP", "share": 1.0},
    {"method": "CWMed", "share": 1.0, "rule": "median"},
]

if __name__ == "__main__":  # worker processes import this file, and must not run what follows
    quick = "--quick" in sys.argv
    given = {"filter": {"name": "known_count", "suspects": 4}, "scoring_model": "global"}
    document = {
        "name": "own-jax-model",
        "title": "A JAX model of one's own",
        "data": {"name": "friedman", "samples": 100 if quick else 500, "model": "bumps"},
        "federation": {
            "num_clients": 20, "num_participants": 10, "num_byzantine": 4, "rounds": 60 if quick else 1000, "window": 1,
            "batch_size": 32, "step_size": 0.1, "idle_learning": False,
            "attack": {"name": "gaussian", "variance": 0.1, "probability": 0.2},
        },
        "calibration": {"samples": 100, "test_samples": 100, "bins": 50},
        "attacks": [{"name": "random", "sd": 2.5}],
        "methods": [method | given for method in METHODS],
    }  # fmt: skip
    result = run(parse(document, "own-jax-model"), trials=1 if quick else 5, engine="xla")
    layers = bumps(10).layers
    print(f"bumps: {layers[-1].stop} parameters; layers: {', '.join(f'{one.name} {one.size}' for one in layers)}")
    for row in result.rows:
        if row.width.mean is not None and row.coverage.mean is not None:
            name = f"{row.method}, {row.variant}" if row.variant else row.method
            print(
                f"{name:21} sends {row.bytes_up_per_round:6.0f} bytes a round, "
                f"covers {row.coverage.mean:5.1f} % with width {row.width.mean:.2f}"
            )
