"""The compiled rules against the readable ones, one round at a time, at every number of uploads."""

from __future__ import annotations

import numpy as np
import pytest

from prism_fcp.train.aggregate import krum, mean, mean_of_sharers, median, multi_krum, trimmed_mean
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.types import Uploads

numba = pytest.importorskip("numba")
from prism_fcp.kernels import rules  # noqa: E402

WIDTH = 16


@numba.njit
def call_sort(values, n):
    rules.sort_columns(values, n)


def one_round(seed, n):
    rng = np.random.default_rng(seed)
    sent = rng.random((n, WIDTH)) < 0.5
    sent[:, 1], sent[:, 2] = False, True
    previous = rng.standard_normal(WIDTH).astype(np.float32)
    rows = np.where(sent, rng.standard_normal((n, WIDTH)), previous).astype(np.float32)
    return rows, sent, previous


def readable(rule, rows, sent, previous):
    return rule.step(None, Uploads.from_dense(np.arange(len(rows)), rows, sent, previous), None)[1]


def kernel(name, rows, sent, previous, *options):
    n = len(rows)
    flags, out = sent.astype(np.int32), np.full(WIDTH, np.nan, np.float32)
    counts = [np.empty(WIDTH, np.int32) for _ in range(2)]
    if name == "mean":
        rules.mean(rows, n, out)
    elif name == "mean_of_sharers":
        rules.mean_of_sharers(rows, flags, previous, n, counts[0], out)
    elif name == "trimmed_mean":
        rules.trimmed_mean(rows, flags, previous, n, *options, np.empty_like(rows), *counts, out)
    else:
        rules.krum(rows, n, *options, np.full((n, n), np.nan), np.empty(n), out)
    return out


@pytest.mark.parametrize("n", [*range(1, 40), 64, 100])
def test_columns_are_sorted(n):
    values = np.random.default_rng(n).standard_normal((n, 5))
    values[0, 0] = values[-1, 1] = np.inf
    expected = np.sort(values, axis=0)
    call_sort(values, n)
    assert (values == expected).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 10, 33])
def test_every_rule(n):
    for seed in range(20):
        given = one_round(seed, n)
        pairs = [
            (mean(), ("mean",)),
            (mean_of_sharers(), ("mean_of_sharers",)),
            (median(), ("trimmed_mean", n)),
            *((trimmed_mean(t), ("trimmed_mean", t)) for t in (0, 1, 3)),
            *((krum(f), ("krum", f, -1, 1)) for f in (0, 1, 2)),
            (krum(1, closest=1), ("krum", 1, 1, 1)),
            (multi_krum(2), ("krum", 2, -1, -1)),
            (multi_krum(0, selected=2, closest=3), ("krum", 0, 3, 2)),
        ]
        for rule, (name, *options) in pairs:
            np.testing.assert_allclose(
                kernel(name, *given, *options), readable(rule, *given), atol=1e-6, err_msg=f"{rule.name} {options}"
            )


def test_huge_values_do_not_overflow():
    rows = np.full((4, WIDTH), LARGEST, np.float32)
    sent, previous = np.ones((4, WIDTH), bool), np.zeros(WIDTH, np.float32)
    rows[0] = -LARGEST
    for name in ("mean", "mean_of_sharers"):
        np.testing.assert_allclose(kernel(name, rows, sent, previous), rows[1] / 2, rtol=1e-6)
    np.testing.assert_allclose(kernel("trimmed_mean", rows, sent, previous, 4), rows[1], rtol=1e-6)
    np.testing.assert_allclose(kernel("krum", rows, sent, previous, 0, -1, 1), rows[1], rtol=1e-6)


def test_krum_sees_close_models():
    """PEERS.md's trap in the compiled engine: float32 rows, differences in float64."""
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal(1008) + 1e-4 * rng.standard_normal((40, 1008))).astype(np.float64)
    liars = rng.permutation(40)[:8]
    rows[liars] += 1e-4 * rng.standard_normal((8, 1008))
    rows = rows.astype(np.float32)
    out = np.empty(1008, np.float32)
    rules.krum(rows, 40, 8, -1, -1, np.empty((40, 48)), np.empty(40), out)
    np.testing.assert_allclose(out, np.delete(rows, liars, axis=0).mean(axis=0), rtol=1e-6, atol=1e-6)
