"""Clients that hold rows: every engine that knows them trains as the readable one does, on the same draws."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from prism_fcp.data.clients import ClientData
from prism_fcp.data.friedman import friedman
from prism_fcp.engines import ENGINES, choose
from prism_fcp.errors import SettingError
from prism_fcp.models import jax_model, linear, mlp
from prism_fcp.train.loop import Draws, train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice, Model

from .cases import RULE_ROWS
from .test_engines import assert_equal

jax = pytest.importorskip("jax")
CLIENTS = 9


def clients(model: Model, sizes: Any = (14, 20, 11), seed: int = 1) -> ClientData:
    """Nine clients with unlike numbers of training rows."""
    table = friedman(400, np.random.default_rng(seed))
    features, target = table.features - 0.5, (table.target - table.target.mean()) / table.target.std()
    order = np.random.default_rng(seed + 1).permutation(400)
    rows = [
        (
            order[40 * k : 40 * k + sizes[k % len(sizes)]],
            order[40 * k + 20 : 40 * k + 30],
            order[40 * k + 30 : 40 * k + 40],
        )
        for k in range(CLIENTS)
    ]
    return ClientData.of(7, model, features, target, rows, 3)


@dataclass(frozen=True)
class Case:
    label: str
    model: Model = field(default_factory=lambda: linear(10))
    settings: dict[str, Any] = field(default_factory=dict)


def own_model(num_features: int) -> Model:
    """A model and a loss of a user's own."""
    jnp = jax.numpy

    def init(key: Any) -> Any:
        return {"w": 0.3 * jax.random.normal(key, (num_features, 3)), "v": jnp.ones(3) / 3}

    return jax_model(
        init, lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"], lambda told, wanted: jnp.log(jnp.cosh(told - wanted)).mean()
    )


NET = mlp(10, (6, 4))
SIZES = tuple(layer.size for layer in NET.layers)
CASES = [
    Case("linear"),
    Case("linear, steps on batches", settings={"local_steps": 3, "batch_size": 4}),
    Case("linear, a batch longer than the data", settings={"batch_size": 25}),
    Case("linear, momentum", settings={"local_steps": 2, "batch_size": 3, "momentum": 0.8}),
    Case("net", NET, {"batch_size": 5}),
    Case("net, idle clients rest", NET, {"batch_size": 5, "idle_learning": False, "local_steps": 2}),
    Case("net, momentum, idle clients rest", NET, {"batch_size": 5, "idle_learning": False, "momentum": 0.5}),
    Case("net, alie", NET, {"batch_size": 4, "attack": Choice("alie", {"z": 0.5, "probability": 0.8})}),
    Case("a model and a loss of one's own", own_model(10), {"batch_size": 5, "local_steps": 2}),
    Case("net, no attack, everybody, one round", NET, {"attack": Choice("none"), "num_participants": 9, "rounds": 1}),
]


def arms_of(model: Model) -> list[Arm]:
    size = model.layers[-1].stop
    found = [
        Arm(masks=Masks(num_shared=max(1, size // 3), download=download, coordination=coordination), rule=row.choice)
        for row, download, coordination in zip(
            RULE_ROWS, ["same", "previous", "independent", "full"] * 3, ["client", "common", "client"] * 3, strict=False
        )
    ]
    sizes = tuple(layer.size for layer in model.layers)
    found += [Arm(masks=Masks(num_shared=1, layers=sizes)), Arm(masks=Masks(num_shared=size), exchange=False)]
    return found


def federation_of(case: Case) -> Federation:
    told = {
        "rounds": 15,
        "window": 5,
        "step_size": 0.05,
        "attack": Choice("gaussian", {"variance": 0.2}),
    } | case.settings
    size = case.model.layers[-1].stop
    return Federation(**{"num_clients": CLIENTS, "dimension": size, "num_participants": 7, "num_byzantine": 3} | told)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_equals_the_readable_engine_on_the_same_draws(case: Case) -> None:
    federation, population, arms = federation_of(case), clients(case.model), arms_of(case.model)
    draws = Draws.sample(federation, 3, np.float64)
    oracle = train_readable(population, federation, arms, draws, np.float64)
    found = ENGINES["xla"](population, federation, arms, draws)
    for arm, one, expected in zip(arms, found, oracle, strict=True):
        assert expected.diverged_at is None
        assert_equal(one, expected, arm)
    assert np.abs(oracle[0].local_models - population.start).max() > 0.01  # something was learned


def test_many_trials_at_once_are_the_trials_one_by_one() -> None:
    from prism_fcp.engines.xla import train_many

    case = CASES[1]
    federation, arms = federation_of(case), arms_of(case.model)[::4]
    trials = [clients(case.model, seed=seed) for seed in (1, 2, 3)]
    for own, together in zip(trials, train_many(trials, federation, arms), strict=True):
        for one, expected, arm in zip(together, ENGINES["xla"](own, federation, arms), arms, strict=True):
            assert_equal(one, expected, arm)


def test_a_step_is_what_the_formula_says() -> None:
    """One client, one step on rows 0 and 1: w <- w - mu·mean((w.x - y)·x), from zero: mu·(y1·x1 + y2·x2)/2."""
    model = linear(10)
    population = clients(model, sizes=(2,))
    federation = federation_of(Case("", settings={"rounds": 1, "batch_size": 2, "attack": Choice("none")}))
    (one,) = train_readable(population, federation, [Arm(masks=Masks(num_shared=10), exchange=False)])
    for k in range(CLIENTS):
        rows = population.train[k, :2]
        expected = 0.05 * (population.target[rows, None] * population.features[rows]).mean(axis=0)
        np.testing.assert_allclose(one.local_models[k], expected, rtol=1e-5)


def test_training_goes_round_each_clients_own_rows() -> None:
    population = clients(linear(10), sizes=(5, 7))
    for n in (1, 2, 3):
        places = population.places(n, 2, 3)
        assert (places == (6 * (n - 1) + np.arange(6)) % np.array([5, 7] * 4 + [5])[:, None]).all()


def test_who_may_train_what() -> None:
    population = clients(linear(10))
    federation, arms = federation_of(Case("")), [Arm(masks=Masks(num_shared=10))]
    with pytest.raises(SettingError, match="knows no clients with rows of a table"):
        ENGINES["compiled"](population, federation, arms)
    assert choose("auto", 10**9, federation, arms, rows=True).name == "xla"
    assert choose("auto", 10**6, federation, arms, rows=True).name == "readable"
    from prism_fcp.data.synthetic import SyntheticLinear

    stream = SyntheticLinear().draw(CLIENTS, 10, 3, 1)
    for name in ENGINES:
        with pytest.raises(SettingError, match="momentum=0.5; clients that observe one sample a round"):
            ENGINES[name](stream, federation_of(Case("", settings={"momentum": 0.5})), arms)
