"""The paper's synthetic federation: one linear truth, clients that differ in mean, spread and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from prism_fcp import streams
from prism_fcp.errors import SettingError, need_number
from prism_fcp.streams import Role
from prism_fcp.types import BoolArray, FloatArray

MOST: Final = 1e15  # moments beyond it overflow float32 when they are squared


@dataclass(frozen=True, slots=True)
class Population:
    """One trial's clients. All draws of the trial hang on `key`.

    Client k observes x ~ N(means[k], variances[k]) in every entry and y = truth.x + N(0, noise_variances[k]).
    """

    key: int
    truth: FloatArray  # (D,)
    means: FloatArray  # (K,)
    variances: FloatArray  # (K,)
    noise_variances: FloatArray  # (K,)
    byzantine: BoolArray  # (K,)
    fixed_samples: int = 0  # how many samples a client has, round after round the same; 0: a new one each round
    own_truths: FloatArray | None = None  # (K, D), where each client's own truth lies off the common one

    def __post_init__(self) -> None:
        """Refuse arrays that do not speak of the same clients: a compiled kernel would read past them."""
        sizes = [np.shape(array) for array in (self.means, self.variances, self.noise_variances, self.byzantine)]
        if len(set(sizes)) > 1:
            raise SettingError(f"means, variances, noise_variances and byzantine have shapes {sizes}; make them equal")

    def inputs(self, normals: FloatArray) -> FloatArray:
        """Turn standard normals (..., K, D) into inputs of every client."""
        spread = np.sqrt(self.variances)[:, None].astype(normals.dtype)
        return self.means[:, None].astype(normals.dtype) + spread * normals

    def targets(self, inputs: FloatArray, normals: FloatArray) -> FloatArray:
        """Return y (..., K) for inputs (..., K, D) and standard normals (..., K)."""
        noise = np.sqrt(self.noise_variances).astype(normals.dtype)
        if self.own_truths is not None:
            told: FloatArray = np.einsum("...kd,kd->...k", inputs, self.own_truths.astype(inputs.dtype))
            return told + noise * normals
        return inputs @ self.truth.astype(inputs.dtype) + noise * normals

    def oracle(self) -> FloatArray:
        """Return the best single model (D,): the truth, or what has the least squared error over honest clients."""
        if self.own_truths is None:
            return self.truth
        moments, wanted = np.zeros((len(self.truth),) * 2), np.zeros(len(self.truth))
        honest = ~self.byzantine
        for mean, variance, own in zip(
            self.means[honest], self.variances[honest], self.own_truths[honest], strict=True
        ):
            second = variance * np.eye(len(self.truth)) + mean**2
            moments, wanted = moments + second, wanted + second @ own
        return np.asarray(np.linalg.solve(moments, wanted))

    def input_energy(self) -> FloatArray:
        """Return E||x||^2 = tr R_k of every client (K,)."""
        return np.asarray(len(self.truth) * (self.variances + self.means**2))

    def stability_limits(self) -> FloatArray:
        """Return the step size (K,) below which each client, learning alone, is stable in the mean square.

        2 / (tr R_k + 2 lambda_max(R_k)) with R_k = variances[k] I + means[k]^2 11^T. Beyond it nothing is promised, and
        clients of mean zero do diverge.
        """
        largest = self.variances + len(self.truth) * self.means**2
        return np.asarray(2 / (self.input_energy() + 2 * largest))


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticLinear:
    """The law a trial's population is drawn from; each pair is the range of a uniform distribution.

    Paper: sec:synth; eq1.
    """

    means: tuple[float, float] = (-0.1, 0.1)
    variances: tuple[float, float] = (0.2, 1.2)
    noise_variances: tuple[float, float] = (0.005, 0.025)
    fixed_samples: int = 0  # of one client, learned from again and again; 0: a new one each round
    truth_spread: float = 0.0  # how far, in norm, a client's own truth lies from the common one

    def __post_init__(self) -> None:
        """Refuse ranges no population can be drawn from."""
        self.check()

    def check(self) -> None:
        """Raise `SettingError` for ranges no population can be drawn from."""
        for name in ("means", "variances", "noise_variances"):
            low, high = getattr(self, name)
            need_number(f"{name}, from", low)
            need_number(f"{name}, to", high)
            if not -MOST <= low <= high <= MOST:
                raise SettingError(
                    f"{name}=[{low}, {high}]; the first must not exceed the second, nor either {MOST:g} in magnitude"
                )
        if self.variances[0] <= 0:
            raise SettingError(
                f"variances=[{self.variances[0]}, {self.variances[1]}]; a feature of zero variance carries nothing: "
                "variances must be positive"
            )
        need_number("fixed_samples", self.fixed_samples, integer=True)
        need_number("truth_spread", self.truth_spread)
        if self.fixed_samples < 0:
            raise SettingError(f"fixed_samples={self.fixed_samples}; must be 0 (new ones each round) or more")
        if not 0 <= self.truth_spread <= MOST:
            raise SettingError(f"truth_spread={self.truth_spread}; must lie in 0..{MOST:g}")
        if self.noise_variances[0] < 0:
            raise SettingError(f"noise_variances start at {self.noise_variances[0]}; they must not be negative")

    def draw(self, num_clients: int, dimension: int, num_byzantine: int, seed: int, trial: int = 0) -> Population:
        """Draw the population of one trial. The Byzantine clients are a random subset, so ids tell nothing."""
        for name, count, least, most in (
            ("num_clients", num_clients, 1, None),
            ("dimension", dimension, 1, None),
            ("num_byzantine", num_byzantine, 0, num_clients),
            ("seed", seed, 0, 2**64 - 1),
            ("trial", trial, 0, None),
        ):
            need_number(name, count, integer=True)
            if count < least or (most is not None and count > most):
                raise SettingError(f"{name}={count}; must be at least {least}" + (f", at most {most}" if most else ""))
        key = streams.key(seed, trial)
        rng = streams.generator(streams.child(key, Role.POPULATION))
        truth = rng.standard_normal(dimension)
        byzantine = streams.subset(streams.child(key, Role.BYZANTINE), num_clients, num_byzantine)
        truth = truth / np.linalg.norm(truth)
        means, variances = rng.uniform(*self.means, num_clients), rng.uniform(*self.variances, num_clients)
        noise_variances = rng.uniform(*self.noise_variances, num_clients)
        own = None
        if self.truth_spread:  # drawn last: the rest of the population is the same with and without
            own = rng.standard_normal((num_clients, dimension))
            own = truth + self.truth_spread * own / np.linalg.norm(own, axis=1, keepdims=True)
        return Population(
            key, truth, means, variances, noise_variances, byzantine, fixed_samples=self.fixed_samples, own_truths=own
        )


def residuals_by_law(population: Population, models: FloatArray, normals: FloatArray) -> FloatArray:
    """Return absolute residuals (K, n) of the models (K, D) from one standard normal each, exactly in law.

    For Gaussian inputs y - w.x is Gaussian with mean m_k * sum(e) and variance s_k^2 * ||e||^2 + noise, e = truth - w:
    a score depends on its input only through x.e, so the input need not be drawn.
    """
    error = (population.truth if population.own_truths is None else population.own_truths) - models
    centre = population.means * error.sum(axis=1)
    spread = np.sqrt(population.variances * np.square(error).sum(axis=1) + population.noise_variances)
    residuals: FloatArray = np.abs(
        centre[:, None].astype(normals.dtype) + spread[:, None].astype(normals.dtype) * normals
    )
    return residuals


def residuals_by_samples(
    population: Population, models: FloatArray, samples: int, rng: np.random.Generator
) -> FloatArray:
    """Return absolute residuals (K, samples) the long way: draw x and y, predict, subtract."""
    columns = []
    for _ in range(samples):
        inputs = population.inputs(rng.standard_normal(models.shape, dtype=np.float32))
        targets = population.targets(inputs, rng.standard_normal(len(models), dtype=np.float32))
        columns.append(np.abs(targets - np.einsum("kd,kd->k", inputs, models)))
    return np.stack(columns, axis=1)
