"""How the test error falls with the rounds: one trial of every way of training, stopped after fewer rounds.

All draws of a round hang on its number, so a training of r rounds is the beginning of a longer one: nothing has to
be recorded while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.pipeline import TrainFunction
from prism_fcp.scoring import CalibrationDraws, scoring_models
from prism_fcp.setup import Method, Setup


@dataclass(frozen=True, slots=True)
class Curve:
    """Mean squared test error of honest clients, each with the model it predicts with, after so many rounds."""

    method: str
    rounds: tuple[int, ...]
    test_mse: tuple[float, ...]


def stops(rounds: int, count: int = 10) -> list[int]:
    """Return rounds to look at: evenly on a logarithm's scale, the last one among them.

    >>> stops(100, 5)
    [1, 3, 10, 32, 100]
    """
    if rounds < 1 or count < 1:
        raise SettingError(f"stops: rounds={rounds}, count={count}; both must be at least 1")
    return sorted({int(round(stop)) for stop in np.geomspace(1, rounds, count)})


def learning_curves(
    setup: Setup,
    seed: int,
    trial: int,
    train: TrainFunction,
    at: Sequence[int],
    tell: Callable[[int], None] = lambda done: None,
) -> list[Curve]:
    """Return a curve for each way of training and predicting; the floor's is flat. `tell` hears each stop's end."""
    setup.check()
    population = setup.draw(seed, trial)
    draws = CalibrationDraws.of(population, setup.calibration, [])
    alike = _alike(setup.methods)
    errors: dict[str, list[float]] = {method.name: [] for method in alike}
    for rounds in at:
        shorter = replace(setup.federation, rounds=rounds, window=min(setup.federation.window, rounds))
        arms = setup.arms()
        trained = dict(zip(arms, train(population, shorter, arms), strict=True)) if arms else {}
        for method in alike:
            result = trained[method.arm] if method.arm is not None else None
            model = method.scoring_model if method.arm is not None else "global"
            scored = draws.score(scoring_models(result, model, population))
            errors[method.name].append(float(np.square(scored.honest_test, dtype=np.float64).mean()))
        tell(rounds)
    return [Curve(name, tuple(at), tuple(told)) for name, told in errors.items()]


def _alike(methods: Sequence[Method]) -> list[Method]:
    """Return one method of all that train and predict alike: filters and bins change no model."""
    found: dict[object, Method] = {}
    for method in methods:
        found.setdefault((method.arm, method.scoring_model if method.arm else "global"), method)
    return list(found.values())
