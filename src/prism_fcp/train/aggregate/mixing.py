"""Pre-steps: make uploads alike before another rule judges them, so that honest differences hide no attack.

Each wraps the rule named in `then`: `{ name = "bucketing", size = 2, then = { name = "trimmed_mean", trim = 1 } }`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from prism_fcp.errors import SettingError, need_number
from prism_fcp.train.aggregate.krum import squared_distances
from prism_fcp.train.aggregate.lift import admit
from prism_fcp.types import BoolArray, Choice, FloatArray, IntArray, Rule, RuleInfo, Uploads


def nearest_mixing(then: Choice | str = "median", suspects: int = 2) -> Rule:
    """Replace each upload by the mean of its n - `suspects` nearest, itself included, and hand these to `then`.

    Distances are Krum's, between uploads filled with the previous model. A coordinate is averaged over those of the
    nearest who sent it, and stays one that its client sent: nobody speaks for what it was not asked. Reference: Allouah
    et al. 2023 (whole uploads).
    """
    inner = _inner("nearest_mixing", then)
    _whole("nearest_mixing: suspects", suspects, 0)

    def check(num_uploads: int) -> None:
        if 2 * suspects >= num_uploads:
            raise SettingError(
                f"nearest_mixing: suspects={suspects} of {num_uploads} uploads; need 2*suspects < {num_uploads}"
            )
        inner.check(num_uploads)

    def step(state: Any, uploads: Uploads, rng: np.random.Generator) -> tuple[Any, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        n = len(uploads)
        if n:
            rows, sent = uploads.dense()
            exact = rows.astype(np.float64)
            order = np.argsort(squared_distances(exact), axis=1, kind="stable")[:, : max(1, n - suspects)]
            member = np.zeros((n, n), np.bool_)
            np.put_along_axis(member, order, True, axis=1)
            mixed, _ = _means(member, exact, sent, uploads.previous)
            uploads = Uploads.from_dense(uploads.client_ids, mixed, sent, uploads.previous)
        state, model, info = inner.step(state, uploads, rng)
        return state, _as(model, uploads), info._replace(refused=refused, weakened=_weakened(check, n, info))

    return Rule("nearest_mixing", inner.init, step, check, inner.uses_rng, inner.remembers)


def bucketing(then: Choice | str = "median", size: int = 2) -> Rule:
    """Put the uploads into random buckets of `size`, drawn anew each round, and hand the buckets' means to `then`.

    The last bucket may hold fewer. A coordinate of a bucket is the mean over those in it who sent it. Of a rule that
    selects, all clients of the selected buckets count as selected; one that remembers clients cannot come after it.
    Reference: Karimireddy et al. 2022 (whole uploads).
    """
    inner = _inner("bucketing", then)
    _whole("bucketing: size", size, 1)
    if inner.remembers:
        raise SettingError(
            f"bucketing: then={inner.name!r} remembers clients, and a bucket is none; choose another rule"
        )

    def check(num_uploads: int) -> None:
        inner.check(-(-num_uploads // size))

    def step(state: Any, uploads: Uploads, rng: np.random.Generator) -> tuple[Any, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        n = len(uploads)
        dealt = rng.permutation(n) // size  # by id, so that the order of the uploads decides nothing
        bucket = np.empty(n, np.int64)
        bucket[np.argsort(uploads.client_ids, kind="stable")] = dealt
        if n:
            rows, sent = uploads.dense()
            member: BoolArray = bucket == np.arange(dealt.max() + 1)[:, None]
            means, anyone = _means(member, rows.astype(np.float64), sent, uploads.previous)
            joined = Uploads.from_dense(np.arange(len(member)), means, anyone, uploads.previous)
        else:
            joined = uploads
        state, model, info = inner.step(state, joined, rng)
        chosen: IntArray = uploads.client_ids[np.isin(bucket, info.selected)]
        told = info._replace(
            refused=refused, selected=tuple(int(i) for i in chosen), weakened=_weakened(check, n, info)
        )
        return state, _as(model, uploads), told

    return Rule("bucketing", inner.init, step, check)


def _inner(name: str, then: Choice | str) -> Rule:
    from prism_fcp.train.aggregate import RULES  # of which this rule is one

    return Choice.of(then, f"{name}: then").build(RULES, "rule")


def _whole(what: str, value: int, least: int) -> None:
    need_number(what, value, integer=True)
    if value < least:
        raise SettingError(f"{what}={value}; must be {least} or more")


def _means(member: BoolArray, rows: FloatArray, sent: BoolArray, previous: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return each group's mean (groups, D) over its members who sent the coordinate, and where there are any.

    Sums are of differences from the first who sent it, so that groups of equal uploads keep them to the last digit.
    """
    out = np.empty((len(member), rows.shape[1]))
    there = np.empty(out.shape, np.bool_)
    for group, who in enumerate(member):
        own, given = rows[who], sent[who]
        first = own[np.argmax(given, axis=0), np.arange(rows.shape[1])]
        count = given.sum(axis=0)
        there[group] = count > 0
        out[group] = np.where(
            count > 0, first + np.where(given, own - first, 0).sum(axis=0) / np.maximum(count, 1), previous
        )
    return out, there


def _weakened(check: Callable[[int], None], num_uploads: int, info: RuleInfo) -> str | None:
    if not num_uploads:
        return info.weakened
    try:
        check(num_uploads)
    except SettingError as error:
        return str(error)
    return info.weakened


def _as(model: FloatArray, uploads: Uploads) -> FloatArray:
    return model.astype(uploads.previous.dtype, copy=False)
