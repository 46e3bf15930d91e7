"""The paper's synthetic federation: one linear truth, clients that differ in mean, spread and noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_fcp import streams
from prism_fcp.errors import SettingError
from prism_fcp.streams import Role
from prism_fcp.types import BoolArray, FloatArray


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

    def inputs(self, normals: FloatArray) -> FloatArray:
        """Turn standard normals (..., K, D) into inputs of every client."""
        spread = np.sqrt(self.variances)[:, None].astype(normals.dtype)
        return self.means[:, None].astype(normals.dtype) + spread * normals

    def targets(self, inputs: FloatArray, normals: FloatArray) -> FloatArray:
        """Return y (..., K) for inputs (..., K, D) and standard normals (..., K)."""
        noise = np.sqrt(self.noise_variances).astype(normals.dtype)
        return inputs @ self.truth.astype(inputs.dtype) + noise * normals

    def input_energy(self) -> FloatArray:
        """Return E||x||^2 = tr R_k of every client (K,)."""
        return np.asarray(len(self.truth) * (self.variances + self.means**2))


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticLinear:
    """The law a trial's population is drawn from; each pair is the range of a uniform distribution.

    Paper: sec:synth; eq1.
    """

    means: tuple[float, float] = (-0.1, 0.1)
    variances: tuple[float, float] = (0.2, 1.2)
    noise_variances: tuple[float, float] = (0.005, 0.025)

    def check(self) -> None:
        """Raise `SettingError` for ranges no population can be drawn from."""
        for name in ("means", "variances", "noise_variances"):
            low, high = getattr(self, name)
            if not low <= high:
                raise SettingError(f"{name}=[{low}, {high}]; the first must not exceed the second")
        if self.variances[0] <= 0:
            raise SettingError(
                f"variances=[{self.variances[0]}, {self.variances[1]}]; a feature of zero variance carries nothing: "
                "variances must be positive"
            )
        if self.noise_variances[0] < 0:
            raise SettingError(f"noise_variances start at {self.noise_variances[0]}; they must not be negative")

    def draw(self, num_clients: int, dimension: int, num_byzantine: int, seed: int, trial: int = 0) -> Population:
        """Draw the population of one trial. The Byzantine clients are a random subset, so ids tell nothing."""
        self.check()
        key = streams.key(seed, trial)
        rng = streams.generator(streams.child(key, Role.POPULATION))
        truth = rng.standard_normal(dimension)
        byzantine = streams.subset(streams.child(key, Role.BYZANTINE), num_clients, num_byzantine)
        return Population(
            key=key,
            truth=truth / np.linalg.norm(truth),
            means=rng.uniform(*self.means, num_clients),
            variances=rng.uniform(*self.variances, num_clients),
            noise_variances=rng.uniform(*self.noise_variances, num_clients),
            byzantine=byzantine,
        )


def residuals_by_law(population: Population, models: FloatArray, normals: FloatArray) -> FloatArray:
    """Return absolute residuals (K, n) of the models (K, D) from one standard normal each, exactly in law.

    For Gaussian inputs y - w.x is Gaussian with mean m_k * sum(e) and variance s_k^2 * ||e||^2 + noise, e = truth - w:
    a score depends on its input only through x.e, so the input need not be drawn.
    """
    error = population.truth - models
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
