"""From a population, or the law it is drawn from, to kinds of clients."""

from __future__ import annotations

import numpy as np

from prism_fcp.data.synthetic import Population, SyntheticLinear
from prism_fcp.theory.modes import Real
from prism_fcp.theory.recursion import Kinds
from prism_fcp.types import IntArray

MOST_KINDS = 24
PLASTIC = 1.32471795724474602596  # its powers' fractional parts fill a square evenly (Roberts' sequence)


def kinds_of(population: Population) -> Kinds:
    """Return the clients of one trial, each a kind of its own.

    Paper: A1.
    """
    return Kinds(
        counts=np.ones(len(population.means)),
        variances=np.asarray(population.variances, dtype=np.float64),
        means=np.asarray(population.means, dtype=np.float64),
        noise_variances=np.asarray(population.noise_variances, dtype=np.float64),
        byzantine=population.byzantine.astype(np.float64),
    )


def typical_kinds(law: SyntheticLinear, num_clients: int, num_byzantine: int, most: int = MOST_KINDS) -> Kinds:
    """Return a typical draw of a law in few kinds: each figure in equal steps, in three orders that are unlike.

    A Byzantine client is a typical one, so each kind has the same share of them.

    Paper: sec:synth.
    """
    number = max(min(most, num_clients), 1)
    places = np.arange(number)
    return Kinds(
        counts=np.full(number, num_clients / number),
        variances=_spread(law.variances, places),
        means=_spread(law.means, np.argsort(np.argsort((places + 1) / PLASTIC % 1))),
        noise_variances=_spread(law.noise_variances, np.argsort(np.argsort((places + 1) / PLASTIC**2 % 1))),
        byzantine=np.full(number, num_byzantine / num_clients),
    )


def _spread(ends: tuple[float, float], places: IntArray) -> Real:
    """Return the middles of equal steps between two ends, in the order of these places."""
    return np.asarray(ends[0] + (ends[1] - ends[0]) * (places + 0.5) / len(places))
