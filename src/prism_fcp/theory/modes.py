"""Second moments of model errors in two numbers a pair, and what masks and gradient steps do to them.

Averaged over the order of the coordinates, E[u v^T] of two error vectors is a(I - J) + bJ with J = 11^T/D: `a` across
the direction 1, `b` along it. The inputs' R_k = s_k^2 I + m_k^2 11^T has the same form, and a mask drawn uniformly
never leaves it. So nothing here is larger than the number of clients, whatever D is, and nothing is approximated.
An array of modes has shape (2, ...). Given one mask a pair takes six numbers, `Block`. docs/theory.md derives it all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Real: TypeAlias = NDArray[np.float64]


class Shape(NamedTuple):
    """The model's dimension D and how many coordinates M a mask lets through."""

    dimension: int
    num_shared: int

    @property
    def one(self) -> float:
        """Return the chance that a coordinate is let through."""
        return self.num_shared / self.dimension

    @property
    def two(self) -> float:
        """Return the chance that two given coordinates both are."""
        if self.dimension == 1:
            return self.one
        return self.num_shared * (self.num_shared - 1) / (self.dimension * (self.dimension - 1))


def trace(modes: Real, dimension: int) -> Real:
    """Return the trace of a(I - J) + bJ."""
    return np.asarray((dimension - 1) * modes[0] + modes[1])


def weigh(modes: Real, diagonal: float, off: float, dimension: int) -> Real:
    """Return the modes after the diagonal entries are multiplied by one number and all others by another."""
    entry = trace(modes, dimension) / dimension * diagonal
    other = (modes[1] - modes[0]) / dimension * off
    found = np.empty_like(modes)
    found[1] = entry + (dimension - 1) * other
    found[0] = entry - other if dimension > 1 else found[1]  # there is nothing across, and its number follows the other
    return found


def masked(modes: Real, shape: Shape) -> Real:
    """Return E[S A S] for a random mask S."""
    return weigh(modes, shape.one, shape.two, shape.dimension)


def blend(both: Real, left: Real, right: Real, neither: Real, shape: Shape, *, common: bool) -> Real:
    """Return E of (S u + (I-S) v)(T p + (I-T) q)^T from E[u p^T], E[u q^T], E[v p^T], E[v q^T].

    T is S where `common`, and an independent mask otherwise.
    """
    one, two, d = shape.one, shape.two, shape.dimension
    if not common:
        return np.asarray(one * one * both + one * (1 - one) * (left + right) + (1 - one) ** 2 * neither)
    mixed = weigh(left + right, 0.0, one - two, d)
    return np.asarray(weigh(both, one, two, d) + mixed + weigh(neither, 1 - one, 1 - 2 * one + two, d))


class Inputs(NamedTuple):
    """A step of least mean squares on inputs of mean m_k 1 and covariance s_k^2 I."""

    dimension: int
    step_size: float
    eigenvalues: Real  # (2, G) of R_k: s_k^2, and s_k^2 + D m_k^2
    squared_means: Real  # (G,) m_k^2
    noise_variances: Real  # (G,)

    @property
    def mean_step(self) -> Real:
        """Return the modes (2, G) of I - step_size·R_k."""
        return np.asarray(1 - self.step_size * self.eigenvalues)

    @property
    def noise(self) -> Real:
        """Return the modes (2, G) of what a step's observation noise adds."""
        return np.asarray(self.step_size**2 * self.noise_variances * self.eigenvalues)

    def square(self, modes: Real) -> Real:
        """Return E[(I - step_size·xx^T) A (I - step_size·xx^T)] for each client's own A, modes (2, G).

        E[xx^T A xx^T] = 2 RAR + tr(AR) R - 2 m^4 (1^T A 1) 11^T for Gaussian x of mean m·1.
        """
        mu, e = self.step_size, self.eigenvalues
        energy = (self.dimension - 1) * e[0] * modes[0] + e[1] * modes[1]
        found = modes * (1 - 2 * mu * e + 2 * (mu * e) ** 2) + mu * mu * e * energy
        found[1] -= 2 * (mu * self.dimension * self.squared_means) ** 2 * modes[1]
        if self.dimension == 1:
            found[0] = found[1]
        return np.asarray(found)


class Block(NamedTuple):
    """A matrix given one mask: a number on either side of it, across 1, and a 2x2 core along both sides' 1."""

    shared: Real
    other: Real
    core: Real  # (..., 2, 2)

    def __add__(self, more: Block) -> Block:  # type: ignore[override]
        """Add entry by entry."""
        return Block(self.shared + more.shared, self.other + more.other, self.core + more.core)

    def __sub__(self, less: Block) -> Block:
        """Subtract entry by entry."""
        return Block(self.shared - less.shared, self.other - less.other, self.core - less.core)

    @property
    def transposed(self) -> Block:
        """Return the transposed matrix."""
        return Block(self.shared, self.other, np.swapaxes(self.core, -1, -2))

    @property
    def other_client(self) -> Block:
        """Return the same with the two clients, the first two axes, exchanged."""
        shared, other = np.swapaxes(self.shared, 0, 1), np.swapaxes(self.other, 0, 1)
        return Block(shared, other, np.swapaxes(self.core, 0, 1))

    @property
    def shared_rows(self) -> Block:
        """Return S times this matrix."""
        core = self.core.copy()
        core[..., 1, :] = 0
        return Block(self.shared, np.zeros_like(self.other), core)


def axis(shape: Shape) -> Real:
    """Return 1 = (sqrt M, sqrt(D - M)) in the core's coordinates."""
    return np.sqrt(np.array([shape.num_shared, shape.dimension - shape.num_shared], dtype=np.float64))


def block(modes: Real, shape: Shape) -> Block:
    """Return the matrix a(I - J) + bJ as a block."""
    v = axis(shape)
    along = (modes[1] - modes[0]) / shape.dimension
    core = modes[0][..., None, None] * np.eye(2) + along[..., None, None] * np.outer(v, v)
    return Block(modes[0], modes[0], core)


def rows(shared: Block, other: Block) -> Block:
    """Return the matrix whose rows come from one where the mask is set, and from the other elsewhere."""
    top, bottom = np.broadcast_arrays(shared.core, other.core)
    return Block(shared.shared, other.other, np.stack([top[..., 0, :], bottom[..., 1, :]], axis=-2))


def columns(shared: Block, other: Block) -> Block:
    """Return the matrix whose columns come from one where the mask is set, and from the other elsewhere."""
    left, right = np.broadcast_arrays(shared.core, other.core)
    return Block(shared.shared, other.other, np.stack([left[..., :, 0], right[..., :, 1]], axis=-1))


def average(given: Block, shape: Shape) -> Real:
    """Return the modes of a block averaged over the mask."""
    d, m, v = shape.dimension, shape.num_shared, axis(shape)
    total = (m - 1) * given.shared + (d - m - 1) * given.other + given.core[..., 0, 0] + given.core[..., 1, 1]
    along = np.einsum("i,...ij,j->...", v, given.core, v) / d
    return np.stack([(total - along) / (d - 1) if d > 1 else along, along])


def step_left(given: Block, inputs: Inputs, shape: Shape, *, second: bool = False) -> Block:
    """Return (I - step_size·R_k) times a block; the client k is the first axis, or the second."""
    place = (1, -1) if second else (-1,) + (1,) * (given.shared.ndim - 1)
    still = inputs.mean_step[0].reshape(place)
    pull = (inputs.step_size * inputs.squared_means).reshape(place)[..., None, None]
    v = axis(shape)
    along = np.einsum("j,...jl->...l", v, given.core)
    core = still[..., None, None] * given.core - pull * v[:, None] * along[..., None, :]
    return Block(still * given.shared, still * given.other, core)


def square_block(given: Block, inputs: Inputs, shape: Shape) -> Block:
    """Return `Inputs.square` of symmetric blocks, one a client (G,)."""
    mu, spread, lift = inputs.step_size, inputs.eigenvalues[0], inputs.squared_means
    v, d, m = axis(shape), shape.dimension, shape.num_shared
    outer = np.outer(v, v)
    r = spread[:, None, None] * np.eye(2) + lift[:, None, None] * outer
    c = given.core
    flow = np.trace(c @ r, axis1=-2, axis2=-1)
    energy = spread * ((m - 1) * given.shared + (d - m - 1) * given.other) + flow
    along = np.einsum("i,kij,j->k", v, c, v)
    core = c - mu * (r @ c + c @ r) + mu * mu * (2 * r @ c @ r + energy[:, None, None] * r)
    core = core - 2 * (mu * mu * lift * lift * along)[:, None, None] * outer
    keep, gain = 1 - 2 * mu * spread + 2 * (mu * spread) ** 2, mu * mu * spread * energy
    return Block(keep * given.shared + gain, keep * given.other + gain, core)
