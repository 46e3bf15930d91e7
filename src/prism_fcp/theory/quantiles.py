"""How far training error moves the conformal quantile and the interval width: the paper's chain of bounds.

All of them hold near the quantile only: in a neighbourhood in which the density of the scores lies between `f_min` and
L. A bound that leaves the neighbourhood, with what its proof needs around it, says nothing: `vacuous` means that here.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

from prism_fcp.errors import SettingError
from prism_fcp.theory.bound import Bound, need_at_least
from prism_fcp.theory.steady import Parts
from prism_fcp.theory.width import Scores


class Neighbourhood(NamedTuple):
    """Where the bounds are to hold: so far to either side of the quantile, with these bounds on the density."""

    reach: float
    least_density: float  # f_min
    most_density: float  # L


def neighbourhood(scores: Scores, level: float, reach: float) -> Neighbourhood:
    """Return the bounds on the density of absolute Gaussian residuals within `reach` of their quantile.

    Their density falls, so the ends of the neighbourhood decide.

    Paper: thm:quantile-stability.
    """
    need_at_least("neighbourhood", 0, reach=reach)
    centre = scores.quantile(level)
    return Neighbourhood(reach, scores.density(centre + reach), scores.density(max(centre - reach, 0.0)))


def residual_bound(input_norm: float, model_distance: float) -> float:
    """Return how far one absolute residual can move when the model moves: ||x||·||w - w*||.

    >>> residual_bound(2.0, 0.5)
    1.0

    Paper: lem:residual-lip.
    """
    need_at_least("residual_bound", 0, input_norm=input_norm, model_distance=model_distance)
    return input_norm * model_distance


def quantile_constant(near: Neighbourhood) -> float:
    """Return 2·sqrt(2L)/f_min: the density's floor turns shares into scores, its ceiling moves into shares.

    >>> round(quantile_constant(Neighbourhood(1.0, 0.5, 1.0)), 3)  # L = 1: 2·sqrt(2)/f_min
    5.657

    Paper: rem:quantile-constant.
    """
    if not (near.most_density >= near.least_density >= 0 and near.reach > 0):
        raise SettingError(
            f"quantile_constant: densities {near.least_density} to {near.most_density} within {near.reach}; must be "
            "ascending, 0 or more, within a positive reach"
        )
    return 2 * sqrt(2 * near.most_density) / near.least_density if near.least_density > 0 else inf


def quantile_stability(mean_move: float, near: Neighbourhood) -> Bound:
    """Return how far the quantile moves when scores move by `mean_move` = E|X - Y| on average.

    The proof uses the density at the moved quantile, and its ceiling sqrt(E|X - Y|/(2L)) further on either side, its
    epsilon: both must lie within reach.

    Paper: thm:quantile-stability.
    """
    need_at_least("quantile_stability", 0, mean_move=mean_move)
    constant = quantile_constant(near)
    blur = sqrt(mean_move / (2 * near.most_density)) if near.most_density > 0 else inf
    return Bound(constant * sqrt(mean_move), max(near.reach - blur, 0.0), "the move of the quantile")


def quantile_bound(input_energy: float, deviation: float, near: Neighbourhood) -> Bound:
    """Return how far the quantile lies from the true model's: a constant times L_x^(1/2)·(E||w - w*||^2)^(1/4).

    `input_energy` is L_x^2 = E||x||^2 = tr R_k, `deviation` the mean-square deviation of the model.

    Paper: cor:quantile-ps.
    """
    need_at_least("quantile_bound", 0, input_energy=input_energy, deviation=deviation)
    return quantile_stability(sqrt(input_energy * deviation), near)


def quantile_bound_of_parts(input_energy: float, parts: Parts, near: Neighbourhood) -> Bound:
    """Return the same from the steady state's three parts, which is where it ends as rounds go by.

    Paper: cor:quantile-exact.
    """
    return quantile_bound(input_energy, parts.total, near)


def width_bound(input_energy: float, deviation: float, near: Neighbourhood) -> Bound:
    """Return how far the interval width lies from the true model's: twice the quantile's bound.

    Paper: prop:width.
    """
    one = quantile_bound(input_energy, deviation, near)
    return Bound(2 * one.value, 2 * one.most, "the change of the width")


def width_inflation_bound(input_energy: float, parts: Parts, near: Neighbourhood) -> Bound:
    """Return the bound on Phi(M), the steady state's excess width, from its three parts.

    `theory.width` computes the width itself; the bound's fourth root makes it many times larger.

    Paper: eq:PhiM-bound; theo:width-scaling-total.
    """
    return width_bound(input_energy, parts.total, near)
