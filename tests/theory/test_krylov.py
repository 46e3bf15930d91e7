"""The solver for maps that are known by what they do, against dense algebra and scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, gmres

from prism_fcp.theory.krylov import arnoldi, fixed_point, modes_of, spectral_radius


def positive(size: int, growth: float, seed: int = 0) -> Any:
    """Return a map that keeps positive vectors positive, with this largest eigenvalue."""
    table = np.random.default_rng(seed).random((size, size)) ** 4
    return table * growth / np.abs(np.linalg.eigvals(table)).max()


@pytest.mark.parametrize("growth", [0.3, 0.99, 0.99999])
def test_fixed_point_is_the_dense_solution_and_scipys(growth: float) -> None:
    table = positive(120, growth)
    source = np.linspace(1, 2, 120)
    found = fixed_point(lambda x: table @ x, source)
    np.testing.assert_allclose(found, np.linalg.solve(np.eye(120) - table, source), rtol=1e-5)
    theirs, _ = gmres(
        LinearOperator((120, 120), matvec=lambda x: x - table @ x), source, rtol=1e-9, restart=60, maxiter=5
    )
    np.testing.assert_allclose(found, theirs, rtol=1e-3)
    assert not fixed_point(lambda x: table @ x, 0 * source).any()


@pytest.mark.parametrize("growth", [0.5, 1.0, 1.3])
@pytest.mark.parametrize("size", [1, 2, 30, 200])
def test_spectral_radius(growth: float, size: int) -> None:
    table = positive(size, growth, seed=size)
    assert spectral_radius(lambda x: table @ x, np.ones(size)) == pytest.approx(growth, rel=1e-6)


def test_a_closed_space_ends_early_and_adds_no_eigenvalue() -> None:
    """A map of rank one: two dimensions are all there is, however many are allowed."""
    table = np.outer(np.ones(50), np.linspace(0, 1, 50)) * 0.02
    space = arnoldi(lambda x: table @ x, np.linspace(1, 2, 50))
    assert len(space.basis) == 2
    assert spectral_radius(lambda x: table @ x, np.linspace(1, 2, 50)) == pytest.approx(0.5)


def test_modes_give_back_powers() -> None:
    table = positive(40, 0.9)
    start, read = np.linspace(1, 2, 40), np.linspace(0, 1, 40)
    space = arnoldi(lambda x: table @ x, start)
    rates, sizes = modes_of(space, space.basis @ read)
    for power in (1, 5, 40):
        wanted = read @ np.linalg.matrix_power(table, power) @ start
        assert (sizes * rates**power).sum().real == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("slow", [1e-5, 1e-8])
def test_a_map_that_hardly_moves(slow: float) -> None:
    """Most of it is the identity: what decides is what a step takes away, at least `slow` of it.

    Then the distance of the growth from 1 is known to a thousandth, and the fixed point and the powers to as much.
    """
    losses = np.r_[slow * np.linspace(1, 3, 10), np.linspace(0.1, 1, 20)]
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((30, 30)))[0]

    def step(x: Any) -> Any:
        return x - turn @ (losses * (turn.T @ x))

    source = turn @ np.ones(30)
    assert 1 - spectral_radius(step, source) == pytest.approx(slow, rel=1e-3)
    np.testing.assert_allclose(turn.T @ fixed_point(step, source), 1 / losses, rtol=1e-3)
    space = arnoldi(step, source)
    rates, sizes = modes_of(space, space.basis @ source)
    number = round(1 / slow)
    assert (sizes * rates**number).sum().real == pytest.approx(np.exp(number * np.log1p(-losses[:-1])).sum(), rel=1e-3)
