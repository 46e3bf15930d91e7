"""The paper's synthetic clients as sites: the same draws as a simulation's, for drills, tests and measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.data.synthetic import Population, residuals_by_law
from prism_fcp.federation.agreement import Common
from prism_fcp.federation.site import Site
from prism_fcp.models import linear
from prism_fcp.streams import Role
from prism_fcp.train.local import lms_step
from prism_fcp.types import FloatArray, Layer

ENDLESS = 10**9  # training rows of a client that observes a new one in every round


@dataclass
class SyntheticClients:
    """What a trial's clients share: the population, and the samples of each round, drawn once for all of them.

    Paper: sec:synth
    """

    population: Population
    names: tuple[str, ...]  # of the clients, in the order of the agreement
    calibration_samples: int = 100
    test_samples: int = 100
    _rounds: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    def site(self, name: str, settings: Mapping[str, Any], agreement: Common) -> Site:
        """Return a client's site."""
        return SyntheticSite(self, self.names.index(name), agreement.training.step_size)

    def samples(self, number: int) -> tuple[FloatArray, FloatArray]:
        """Return inputs (K, D) and targets (K,) of a round, as the readable engine draws them."""
        population = self.population
        if population.fixed_samples:
            number = 1 + (number - 1) % population.fixed_samples
        if number not in self._rounds:
            shape = (len(population.means), len(population.truth) + 1)
            rng = streams.generator(streams.child(population.key, Role.INPUTS, number))
            normals = rng.standard_normal(shape, dtype=np.float32)
            inputs = population.inputs(normals[:, :-1])
            self._rounds[number] = inputs, population.targets(inputs, normals[:, -1])
        return self._rounds[number]

    def residuals(self, parameters: FloatArray, client: int, role: Role, samples: int) -> NDArray[Any]:
        """Return one client's absolute residuals, from the normals a simulation would give it."""
        rng = streams.generator(streams.child(self.population.key, role))
        normals = rng.standard_normal((len(self.population.means), samples), dtype=np.float32)[client : client + 1]
        own, told = slice(client, client + 1), self.population
        alone = Population(
            told.key, told.truth, told.means[own], told.variances[own], told.noise_variances[own], told.byzantine[own],
            own_truths=None if told.own_truths is None else told.own_truths[own],
        )  # fmt: skip
        return np.asarray(residuals_by_law(alone, parameters[None], normals)[0])


@dataclass(frozen=True, slots=True)
class SyntheticSite:
    """One of them."""

    clients: SyntheticClients
    index: int
    step_size: float

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Return a linear model's one stretch."""
        return linear(len(self.clients.population.truth)).layers

    @property
    def samples(self) -> int:
        """Return how many samples it learns from."""
        return self.clients.population.fixed_samples or ENDLESS

    def step(self, parameters: FloatArray, round_number: int) -> FloatArray:
        """Take a least-mean-squares step on the round's sample.

        Paper: Alg. 1, phase 1
        """
        inputs, targets = self.clients.samples(round_number)
        own = slice(self.index, self.index + 1)
        return np.asarray(lms_step(parameters[None], inputs[own], targets[own], self.step_size)[0])

    def scores(self, parameters: FloatArray) -> NDArray[Any]:
        """Return the calibration scores."""
        return self.clients.residuals(parameters, self.index, Role.CALIBRATION, self.clients.calibration_samples)

    def evaluate(self, parameters: FloatArray, radius: float) -> tuple[int, int, float]:
        """Count the test samples inside the radius."""
        found = self.clients.residuals(parameters, self.index, Role.TEST, self.clients.test_samples)
        return int((found <= radius).sum()), len(found), float(found.mean())
