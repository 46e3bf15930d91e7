from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
import pytest

from prism_fcp.calibrate import TooFewScoresWarning, pooled_quantile, tdigest_quantile
from prism_fcp.errors import DataError, MissingExtraError, SettingError

pytest.importorskip("fastdigest")


def test_close_to_the_exact_quantile() -> None:
    scores = np.abs(np.random.default_rng(0).standard_normal((100, 1000)))
    for level in (0.5, 0.9, 0.99):
        exact = pooled_quantile(scores, confidence_level=level)
        sketched = tdigest_quantile(scores, confidence_level=level)
        # compared on the scale that matters, the share of scores below: within 0.2 points
        assert abs((scores <= sketched).mean() - (scores <= exact).mean()) < 0.002
    assert sketched != exact  # an estimate, and not the order statistic


def test_without_compression_it_is_the_order_statistic() -> None:
    scores = [np.random.default_rng(k).exponential(size=20) for k in range(5)]
    assert tdigest_quantile(scores, max_centroids=1000) == pytest.approx(pooled_quantile(scores), rel=1e-12)


def test_too_few_scores() -> None:
    with pytest.warns(TooFewScoresWarning, match="rank 9 is needed"):
        assert tdigest_quantile([np.ones(8)]) == math.inf
    with pytest.raises(DataError, match="no scores"):
        tdigest_quantile([np.empty(0)])
    with pytest.raises(SettingError, match="max_centroids=3"):
        tdigest_quantile([np.ones(50)], max_centroids=3)


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "fastdigest":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'prism-fcp\[sketch\]'"):
        tdigest_quantile([np.ones(50)])
