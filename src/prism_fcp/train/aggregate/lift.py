"""Turn a plain function of one round's uploads into a `Rule`, with the checks every rule needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from prism_fcp.types import BoolArray, FloatArray, IntArray, Rule, RuleInfo, Uploads

# rows (n, D) hold the previous model where nothing was sent; sent (n, D); previous (D,) -> (model, selected rows)
RoundFunction: TypeAlias = Callable[[FloatArray, BoolArray, FloatArray], tuple[FloatArray, IntArray | None]]


def stateless(name: str, function: RoundFunction, check: Callable[[int], None] | None = None) -> Rule:
    """Lift `function` to a rule without memory.

    A client with a NaN or Inf anywhere in its upload is refused by id; with nobody left the model stays as it was.
    """

    def step(state: Any, uploads: Uploads, rng: np.random.Generator) -> tuple[Any, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        if not len(uploads):
            return state, uploads.previous, RuleInfo(refused)
        rows, sent = uploads.dense()
        model, selected = function(rows, sent, uploads.previous)
        names = () if selected is None else tuple(int(i) for i in uploads.client_ids[selected])
        return state, model, RuleInfo(refused, names)

    return Rule(name, lambda dimension: None, step, check or (lambda num_uploads: None))


def admit(uploads: Uploads) -> tuple[Uploads, dict[int, str]]:
    """Return the uploads whose values are all finite, and why the others were refused."""
    finite = np.isfinite(uploads.values)
    if finite.all():
        return uploads, {}
    owner = np.repeat(np.arange(len(uploads)), np.diff(uploads.offsets))
    bad = np.bincount(owner[~finite], minlength=len(uploads))
    refused = {
        int(client): f"client {client}: {count} of {total} uploaded values are NaN or Inf"
        for client, count, total in zip(uploads.client_ids, bad, np.diff(uploads.offsets), strict=True)
        if count
    }
    return uploads.select(bad == 0), refused
