"""Turn a plain function of one round's uploads into a `Rule`, with the checks every rule needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from prism_fcp.errors import SettingError
from prism_fcp.types import BoolArray, FloatArray, IntArray, Rule, RuleInfo, Uploads

# rows (n, D) hold the previous model where nothing was sent; sent (n, D); previous (D,) -> (model, selected rows)
RoundFunction: TypeAlias = Callable[[FloatArray, BoolArray, FloatArray], tuple[FloatArray, IntArray | None]]
PackedFunction: TypeAlias = Callable[[Uploads], tuple[FloatArray, IntArray | None]]

# An upload with a value beyond this is refused: no sum over 10^8 clients overflows in float32, and no sum of squares in
# float64. Models worth averaging stay some thirty orders of magnitude below.
LARGEST: Final = 1e30


def stateless(name: str, function: RoundFunction, check: Callable[[int], None] | None = None) -> Rule:
    """Lift `function` to a rule without memory.

    A client with a NaN, an Inf or an absurd value anywhere in its upload is refused by id; with nobody left the model
    stays as it was.
    """
    return packed(name, lambda uploads: function(*uploads.dense(), uploads.previous), check)


def packed(name: str, function: PackedFunction, check: Callable[[int], None] | None = None) -> Rule:
    """Lift a function of the packed uploads, as `stateless` does one of rows."""
    check = check or (lambda num_uploads: None)

    def step(state: Any, uploads: Uploads, rng: np.random.Generator) -> tuple[Any, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        weakened = _weakened(name, check, len(uploads))
        if not len(uploads):
            return state, uploads.previous, RuleInfo(refused, weakened=weakened)
        model, selected = function(uploads)
        names = () if selected is None else tuple(int(i) for i in uploads.client_ids[selected])
        return state, model.astype(uploads.previous.dtype, copy=False), RuleInfo(refused, names, weakened)

    return Rule(name, lambda dimension: None, step, check, uses_rng=False)


def admit(uploads: Uploads) -> tuple[Uploads, dict[int, str]]:
    """Return the uploads whose values are all at most `LARGEST` in size, and why the others were refused."""
    usable = np.abs(uploads.values) <= LARGEST  # a NaN is not
    if usable.all():
        return uploads, {}
    owner = np.repeat(np.arange(len(uploads)), np.diff(uploads.offsets))
    bad = np.bincount(owner[~usable], minlength=len(uploads))
    refused = {
        int(client): f"client {client}: {count} of {total} uploaded values are NaN, Inf or beyond {LARGEST:g}"
        for client, count, total in zip(uploads.client_ids, bad, np.diff(uploads.offsets), strict=True)
        if count
    }
    return uploads.select(bad == 0), refused


def _weakened(name: str, check: Callable[[int], None], num_uploads: int) -> str | None:
    if not num_uploads:
        return f"{name}: no upload is left; the model stays as it was"
    try:
        check(num_uploads)
    except SettingError as error:
        return str(error)
    return None
