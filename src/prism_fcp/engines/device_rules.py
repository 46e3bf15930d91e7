"""Aggregation rules and attacks on the device: rows (S, P), which of their entries were sent, the previous model.

Each line must equal its readable twin in `train/aggregate` and `train/attack`; contract tests compare them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import reduce
from math import sqrt
from operator import add
from typing import Any, Final

import jax
import jax.numpy as jnp

from prism_fcp.train import aggregate, attack
from prism_fcp.train.aggregate.lift import LARGEST
from prism_fcp.types import Choice

NETWORK: Final = 64  # rows up to which they are sorted by a network of minima and maxima, and added one by one


def forge(choice: Choice, rows: Any, honest: Any, attacking: Any, normals: Any) -> Any:
    """Return the rows (S, P) as they are uploaded: those of the attackers forged."""
    factory = attack.UPDATE_ATTACKS[choice.name]
    options = _options(factory, choice)
    if factory is attack.gaussian:
        return jnp.where(attacking[:, None], rows + jnp.float32(sqrt(options["variance"])) * normals, rows)
    if factory is attack.alie:
        weight = honest.astype(jnp.float32)[:, None]
        count = jnp.maximum(weight.sum(), 1)
        middle = jnp.where(weight > 0, rows, 0).sum(0) / count
        spread = jnp.sqrt(jnp.where(weight > 0, jnp.square(rows - middle), 0).sum(0) / count)
        imitated = middle - jnp.float32(options["z"]) * spread
        return jnp.where(attacking[:, None] & honest.any(), imitated, rows)
    return rows


def step(choice: Choice, rows: Any, sent: Any, previous: Any) -> tuple[Any, Any, Any]:
    """Return (model, uploads refused, whether fewer were left than the rule's settings need)."""
    factory = aggregate.RULES[choice.name]
    options, total = _options(factory, choice), rows.shape[0]
    usable = (~sent | (jnp.abs(rows) <= jnp.float32(LARGEST))).all(axis=1)
    left = usable.sum()
    sent = sent & usable[:, None]
    rows = jnp.where(sent, rows, previous)  # what was refused counts nowhere below
    if factory in (aggregate.mean, aggregate.mean_of_sharers):
        summed, count = added(jnp.where(sent, rows, 0)), added(sent.astype(jnp.int32))
        if factory is aggregate.mean:
            model = (summed + (left - count) * previous) / jnp.maximum(left, 1)
        else:
            model = jnp.where(count > 0, summed / jnp.maximum(count, 1), previous)
        needed = 1
    elif factory in (aggregate.median, aggregate.trimmed_mean):
        trim = options.get("trim", total)
        model = _trimmed(rows, sent, previous, trim)
        needed = 1 if factory is aggregate.median else 2 * trim + 1
    else:
        model = _krum(rows, usable, left, options, single=factory is aggregate.krum)
        needed = 2 * options["suspects"] + 3
        if options.get("closest") is not None:
            needed = max(needed, options["closest"] + 1)
        if options.get("selected") is not None:
            needed = max(needed, options["selected"])
    model = jnp.where(left > 0, model, previous).astype(jnp.float32)
    return model, total - left, left < needed


def added(rows: Any) -> Any:
    """Return the sum over the first axis; one after the other where they are few, so that it joins what is around."""
    return reduce(add, list(rows)) if rows.shape[0] <= NETWORK else rows.sum(0)


def total(rows: Any) -> Any:
    """Return the sum of all entries (S, P), in two steps: the one a CPU does in vectors, or a GPU in many blocks."""
    return (added(rows) if jax.default_backend() == "cpu" else rows.sum(-1)).sum()


def _trimmed(rows: Any, sent: Any, previous: Any, trim: int) -> Any:
    count = added(sent.astype(jnp.int32))
    ordered = _sorted(jnp.where(sent, rows, jnp.inf))
    cut = jnp.minimum(trim, (count - 1) // 2)
    place = jnp.arange(rows.shape[0], dtype=jnp.int32)[:, None]
    inside = (place >= cut) & (place < count - cut)
    kept = jnp.maximum(count - 2 * cut, 1).astype(jnp.float32)
    return jnp.where(count > 0, added(jnp.where(inside, ordered, 0)) / kept, previous)


def _sorted(rows: Any) -> Any:
    """Sort whole rows against each other, every coordinate for itself: Batcher's odd-even merges."""
    n = rows.shape[0]
    if n > NETWORK:
        return jnp.sort(rows, axis=0)
    lines = list(rows)
    span = 1
    while span < n:
        gap = span
        while gap >= 1:
            for first in range(gap % span, n - gap, 2 * gap):
                for k in range(min(gap, n - first - gap)):
                    a, b = first + k, first + k + gap
                    if a // (2 * span) == b // (2 * span):
                        lines[a], lines[b] = jnp.minimum(lines[a], lines[b]), jnp.maximum(lines[a], lines[b])
            gap //= 2
        span *= 2
    return jnp.stack(lines)


def _krum(rows: Any, usable: Any, left: Any, options: dict[str, Any], *, single: bool) -> Any:
    n = rows.shape[0]
    exact = rows.astype(jnp.float64)
    squared = jax.lax.map(lambda row: jnp.square(exact - row).sum(-1), exact)
    apart = jnp.eye(n, dtype=bool) | ~usable[None, :] | ~usable[:, None]
    near = jnp.sort(jnp.where(apart, jnp.inf, squared), axis=1)
    closest = options["closest"] if options.get("closest") is not None else left - options["suspects"] - 2
    closest = jnp.minimum(left - 1, jnp.maximum(1, closest))
    place = jnp.arange(n)
    scores = jnp.where(place[None, :] < closest, jnp.where(jnp.isfinite(near), near, 0), 0).sum(1)
    scores = jnp.where(usable, scores, jnp.inf)
    rank = jnp.argsort(jnp.argsort(scores, stable=True), stable=True)
    take: Any = 1
    if not single:
        take = options["selected"] if options.get("selected") is not None else left - options["suspects"]
        take = jnp.minimum(left, jnp.maximum(1, take))
    chosen = rank < take
    return jnp.where(chosen[:, None], rows, 0).sum(0) / jnp.maximum(chosen.sum(), 1)


def _options(factory: Callable[..., Any], choice: Choice) -> dict[str, Any]:
    defaults = {n: p.default for n, p in inspect.signature(factory).parameters.items() if p.default is not p.empty}
    return {**defaults, **choice.options}
