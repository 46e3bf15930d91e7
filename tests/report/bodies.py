"""Calibration and evaluation files of federations in which clients lie, for the tests of the page."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from prism_fcp.calibrate import FILTERS, CalibrationServer, TooFewScoresWarning, encode, summarize
from prism_fcp.evaluation import evaluate
from prism_fcp.exchange import document
from tests.calibrate.sites import NOW, spec

HOSTILE = "<img src=x onerror=alert(1)>"


def bodies(
    clients: int = 8,
    liars: int = 1,
    samples: int = 200,
    filter: str = "cautious",
    refused: bool = True,
    **settings: Any,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return both files of a federation whose first `liars` clients send zeros; one more is of another round."""
    agreed = spec(confidence_levels=("0.9", "0.5"))
    rng = np.random.default_rng([clients, samples])
    own = {f"site-{place}": np.abs(rng.standard_normal(samples)) for place in range(clients)}
    for place in range(liars):
        own[f"site-{place}"] = np.zeros(samples)
    with CalibrationServer(agreed, filter=FILTERS[filter]()) as server:
        for client, scores in own.items():
            assert server.submit(encode(summarize(scores, agreed, client, created=NOW))).accepted
        if refused:
            stale = spec(round=7)
            receipt = server.submit(encode(summarize(own["site-1"], stale, "late", created=NOW)))
            assert not receipt.accepted
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", TooFewScoresWarning)
            found = server.finalise()
    body = document.describe(found, agreed, FILTERS[filter](), NOW, warnings=[str(one.message) for one in told])
    tests = {name: (rng.standard_normal(50), np.zeros(50)) for name in list(own)[:60]}
    return body, evaluate(tests, found, confidence_level=[0.9, 0.5]).to_json()


def rename(body: dict[str, Any], place: int, name: str) -> None:
    """Give a client a name that no summary may carry, as a forged calibration file could."""
    body["clients"][place]["client"] = name
