"""A linear map known only by what it does: its fixed point, its largest eigenvalue, its powers. NumPy only.

Slow maps hardly differ from the identity, so everything is done with what a step takes away, x - step(x): the spaces
are the same, and the small differences that decide are not rounded off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp.theory.modes import Real

TINY = 1e-300
SHARE = 1e-6
CONFIRMED = 3e-3
NEAR_ONE = 1e-3  # of an eigenvalue's distance from 1
LOOK = 6  # dimensions between looks
CLOSED = 1e-8  # what is left of a vector that lies within the space; more of it would be rounding, made large again


class Krylov(NamedTuple):
    """An orthonormal basis (m, n) of start, step(start), step^2(start), ..., and x - step(x) on it."""

    basis: Real
    small: Real  # (m + 1, m)
    length: float  # of the start


def arnoldi(
    step: Callable[[Real], Real], start: Real, most: int = 60, enough: Callable[[Real], bool] | None = None
) -> Krylov:
    """Return the Krylov space of `step` from `start`: of `most` dimensions, or as many as are `enough`, or all."""
    most = min(most, len(start))
    length = float(np.linalg.norm(start))
    basis, small = np.empty((most + 1, len(start))), np.zeros((most + 1, most))
    basis[0] = start / max(length, TINY)
    for m in range(most):
        ahead = basis[m] - step(basis[m])
        scale = float(np.linalg.norm(ahead))
        for _ in range(2):
            along = basis[: m + 1] @ ahead
            ahead = ahead - along @ basis[: m + 1]
            small[: m + 1, m] += along
            rest = float(np.linalg.norm(ahead))
            if rest > 0.1 * scale:  # nothing was lost to rounding
                break
        if not rest > CLOSED * scale:
            return Krylov(basis[: m + 1], small[: m + 2, : m + 1], length)
        small[m + 1, m] = rest
        basis[m + 1] = ahead / rest
        if enough is not None and m % LOOK == LOOK - 1 and enough(small[: m + 2, : m + 1]):
            return Krylov(basis[: m + 1], small[: m + 2, : m + 1], length)
    return Krylov(basis[:most], small, length)


def spectral_radius(step: Callable[[Real], Real], start: Real, most: int = 80, tolerance: float = 1e-7) -> float:
    """Return the largest eigenvalue of a map that keeps covariances covariances, from the start of one.

    An eigenvalue of the basis counts if the map confirms it: where the basis is nearly closed, rounding makes others.
    It is sought until it moves little against its distance from 1, as the side of 1 it lies on is what matters.
    """
    seen = [np.inf]

    def settled(small: Real) -> bool:
        seen.append(float(np.abs(1 - _eigen(small)[0]).max()))
        return bool(abs(seen[-1] - seen[-2]) <= min(tolerance * seen[-1], NEAR_ONE * abs(1 - seen[-1])))

    space = arnoldi(step, start, most, settled)
    losses, vectors, _ = _eigen(space.small)
    for place in np.argsort(losses.real):
        value, vector = 1 - float(losses[place].real), vectors[:, place].real @ space.basis
        if np.linalg.norm(step(vector) - value * vector) <= CONFIRMED * np.linalg.norm(vector):
            return value
    return float(np.abs(1 - losses).max())


def fixed_point(step: Callable[[Real], Real], source: Real, most: int = 80, tolerance: float = 1e-10) -> Real:
    """Return x = step(x) + source by restarted GMRES, until rounding lets it come no nearer."""
    found, rest, wanted = np.zeros_like(source), source, tolerance * float(np.linalg.norm(source))
    if wanted == 0:
        return found
    for _ in range(20):
        length = float(np.linalg.norm(rest))
        space = arnoldi(step, rest, most, lambda small, scale=length: _least(small)[1] * scale <= wanted)  # type: ignore[misc]
        found = found + space.length * _least(space.small)[0] @ space.basis
        rest = source + step(found) - found
        if not 2 * wanted < np.linalg.norm(rest) < length / 4:
            break
    return found


def modes_of(space: Krylov, read: Real) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return rates r and sizes c with read(step^n(start)) = sum c r^n, `read` being given on the basis."""
    losses, vectors, shares = _eigen(space.small)
    return 1 - losses, space.length * shares * (read[: len(vectors)] @ vectors)


def _eigen(small: Real) -> tuple[NDArray[np.complex128], NDArray[np.complex128], NDArray[np.complex128]]:
    """Return the eigenvalues on the basis that the start has a share in; others are rounding, made large."""
    values, vectors = np.linalg.eig(small[: small.shape[1]])
    start = np.eye(len(values))[0].astype(np.complex128)
    shares = np.linalg.lstsq(vectors.astype(np.complex128), start, rcond=None)[0]
    real = np.abs(shares) > SHARE * np.abs(shares).max()
    return values[real].astype(np.complex128), vectors[:, real].astype(np.complex128), shares[real]


def _least(small: Real) -> tuple[Real, float]:
    """Return y with y - step(y) nearest to the start, in the basis, and how far it stays."""
    aim = np.eye(len(small))[0]
    found = np.linalg.lstsq(small, aim, rcond=None)[0]
    return found, float(np.linalg.norm(aim - small @ found))
