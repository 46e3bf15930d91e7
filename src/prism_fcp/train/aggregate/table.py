"""The server table: what each client has uploaded so far, averaged over time, and a median over all of them.

A rule over ten uploads falls in the rounds where five of them are attackers. The table holds every client's last word
on every coordinate, so that a round's draw does not matter; time-averaging takes the noise out of honest rows, so that
liars stand out, and what stays inside the spread moves the median by little.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from prism_fcp.errors import SettingError, did_you_mean, need_number
from prism_fcp.kernels.codes import NO_WEIGHT, SLACK
from prism_fcp.train.aggregate.clip import clipped_median
from prism_fcp.train.aggregate.ledger import look
from prism_fcp.train.aggregate.lift import admit
from prism_fcp.train.aggregate.order import median
from prism_fcp.types import BoolArray, FloatArray, IntArray, Ledger, Rule, RuleInfo, Uploads

Vote: TypeAlias = Literal["table", "round"]
MOST_POWER: Final = 16


class TableState(NamedTuple):
    """What the server remembers: 2·K·D numbers and the ledger."""

    rounds: int
    average: NDArray[np.float64]  # (K, D) of what client k sent for coordinate d
    weight: NDArray[np.float64]  # (K, D) sum of the weights in it
    ledger: Ledger  # its ids are the rows', ascending
    usual: Any  # the state of the rule that a round's vote goes through


def table(
    power: float = 3.0,
    first_look: int = 100,
    every: int = 20,
    cutoff: float = 5.0,
    aligned: float = 5.0,
    vote: Vote = "table",
    clip: float = 0.0,
) -> Rule:
    """Take the median over all clients of each one's averaged uploads, round n counting n**power in the average.

    A coordinate that somebody sent this round becomes the weighted median over the clients not left out, weights
    min(1, sum of the client's weights / n**power): old news counts less. Others keep their value. From `first_look` on,
    every so many rounds, clients whose row lies too far from the others' are left out until the next look: see
    `look`. `cutoff=0` never leaves anybody out, `aligned=0` nobody for the direction of its row.

    With `vote="round"` the table is only evidence: the model is the plain median over this round's uploads of clients
    not left out, which follows a moving model faster; with `clip` > 0 their changes are clipped first, as
    `clipped_median` does. Reference: this package; the table itself is MIFA's (Gu et al. 2021).
    """
    if vote not in get_args(Vote):
        raise SettingError(f"table: unknown vote {vote!r}{did_you_mean(vote, get_args(Vote))}")
    for name, value in (("power", power), ("cutoff", cutoff), ("aligned", aligned), ("clip", clip)):
        need_number(f"table: {name}", value)
    for name, whole in (("first_look", first_look), ("every", every)):
        need_number(f"table: {name}", whole, integer=True)
        if whole < 1:
            raise SettingError(f"table: {name}={whole}; must be at least 1")
    if not 0 <= power <= MOST_POWER:
        raise SettingError(f"table: power={power}; must lie in 0..{MOST_POWER}")
    for name, value in (("cutoff", cutoff), ("aligned", aligned), ("clip", clip)):
        if value < 0:
            raise SettingError(f"table: {name}={value}; must be 0 (off) or more")
    inner = clipped_median(clip) if clip else median()

    def init(dimension: int) -> TableState:
        none, nothing = np.zeros(0, np.int64), np.zeros((0, dimension))
        unknown = np.zeros(0)
        empty = Ledger(none, none > 0, unknown, np.inf, unknown, none, none, 0)
        return TableState(0, nothing, nothing, empty, None)

    def step(state: TableState, uploads: Uploads, rng: np.random.Generator) -> tuple[TableState, FloatArray, RuleInfo]:
        uploads, refused = admit(uploads)
        n = state.rounds + 1
        gain = float(n) ** power
        average, weight, ledger = _with_room(state, uploads.client_ids)
        rows = np.repeat(np.searchsorted(ledger.client_ids, uploads.client_ids), np.diff(uploads.offsets))
        place = (rows, uploads.coordinates)
        weight[place] += gain
        average[place] += gain / weight[place] * (uploads.values - average[place])
        if cutoff and n >= first_look and (n - first_look) % every == 0:
            ledger = look(ledger, average, weight / gain, n, cutoff, aligned)
        weakened = None if len(uploads) else "table: no upload is left; the model stays as it was"
        if vote == "round":
            trusted = uploads.select(~ledger.excluded[np.searchsorted(ledger.client_ids, uploads.client_ids)])
            usual, model, _ = inner.step(state.usual, trusted, rng)
            return TableState(n, average, weight, ledger, usual), model, RuleInfo(refused, (), weakened, ledger)
        model = uploads.previous.copy()
        touched = np.unique(uploads.coordinates)
        trust = np.minimum(1, weight[:, touched] / gain)
        trust[ledger.excluded] = 0
        trust[trust < NO_WEIGHT] = 0
        model[touched] = weighted_median(average[:, touched], trust, uploads.previous[touched])
        return TableState(n, average, weight, ledger, None), model, RuleInfo(refused, (), weakened, ledger)

    return Rule("table", init, step, uses_rng=False, remembers=True)


def _with_room(state: TableState, ids: IntArray) -> tuple[NDArray[np.float64], NDArray[np.float64], Ledger]:
    """Return copies of the tables and the ledger with a row for each of these clients too."""
    old = state.ledger
    everybody = np.union1d(old.client_ids, ids)
    if len(everybody) == len(old.client_ids):
        return state.average.copy(), state.weight.copy(), old
    rows = np.searchsorted(everybody, old.client_ids)

    def wide(values: Any, empty: float = 0) -> Any:
        found = np.full((len(everybody), *values.shape[1:]), empty, values.dtype)
        found[rows] = values
        return found

    ledger = old._replace(
        client_ids=everybody, excluded=wide(old.excluded), distance=wide(old.distance, np.nan),
        aligned=wide(old.aligned, np.nan),
        first_excluded=wide(old.first_excluded), times_excluded=wide(old.times_excluded),
    )  # fmt: skip
    return wide(state.average), wide(state.weight), ledger


def weighted_median(values: FloatArray, weights: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return each column's weighted median: where half the weight lies below, the mean of the two values around it.

    Columns without weight get `otherwise`.
    """
    if not values.size:
        return otherwise
    order = np.argsort(np.where(weights > 0, values, np.inf), axis=0, kind="stable")
    ordered, total = np.take_along_axis(values, order, axis=0), weights.sum(axis=0)
    below = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    slack = SLACK * total
    first: IntArray = np.argmax(below >= total / 2 - slack, axis=0)
    second: IntArray = np.argmax(below > total / 2 + slack, axis=0)
    column = np.arange(values.shape[1])
    middle = 0.5 * ordered[first, column] + 0.5 * ordered[second, column]
    found: BoolArray = total > 0
    return np.where(found, middle, otherwise)
