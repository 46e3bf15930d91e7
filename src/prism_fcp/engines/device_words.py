"""The keyed words of `streams`, on the device: participants, masks and hits come out the same as everywhere.

Traced under 64-bit mode: words are uint64, and every float is float32 by name.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prism_fcp.streams import GOLDEN

_GOLDEN = np.uint64(GOLDEN)
SEARCHED: Final = 256  # units beyond which the smallest words are searched for and not sorted
LOOKS: Final = 8  # after which the search gives up, and the words are sorted; six do for a thousand keys


def child(key: Any, *path: Any) -> Any:
    """Extend keys by steps; see `streams.child`. Steps may be arrays: each leads to a key of its own."""
    for step in path:
        key = _mix(key + (jnp.asarray(step).astype(jnp.uint64) + np.uint64(1)) * _GOLDEN)
    return key


def words(keys: Any, count: int) -> Any:
    """Return the first `count` words of each key, on a new last axis."""
    steps = jnp.arange(1, count + 1, dtype=jnp.uint64) * _GOLDEN
    return _mix(keys[..., None] + steps)


def once(made: Any) -> Any:
    """Return an array that is made once and kept, and not made anew wherever it is read."""
    kept: Any = jax.lax.optimization_barrier(made)  # type: ignore[no-untyped-call]
    return kept


def uniform(keys: Any) -> Any:
    """Return one uniform on [0, 1) a key, in float64 as `streams.uniforms` has it."""
    return (words(keys, 1)[..., 0] >> np.uint64(11)).astype(jnp.float64) * 2.0**-53


def normals(keys: Any, count: int) -> Any:
    """Return `count` standard normals of each key on a new last axis, float32: two of each word, by the inverse.

    23 bits each, so they end at 5.3; `jax.random` has as many, and takes ten times as long on a CPU.
    """
    drawn = words(keys, (count + 1) // 2)
    halves = jnp.concatenate([(drawn >> np.uint64(41)), (drawn >> np.uint64(9)) & np.uint64(2**23 - 1)], axis=-1)
    level = (halves[..., :count].astype(jnp.int32).astype(jnp.float32) + jnp.float32(0.5)) * jnp.float32(2.0**-22)
    return jnp.float32(sqrt(2)) * jax.lax.erf_inv(level - jnp.float32(1))


class Deal(NamedTuple):
    """Words in their places: masks of any number of ones are cut from the same deal, at its smallest words."""

    keys: Any
    units: int
    ordered: tuple[Any, Any, Any] | None  # drawn, in order, where each stood; None where a search is quicker

    @classmethod
    def of(cls, keys: Any, units: int) -> Deal:
        """Draw so many words of each key."""
        return cls(keys, units, None if units > SEARCHED else _in_order(words(keys, units)))

    def smallest(self, count: int) -> Any:
        """Return masks (..., units) with exactly `count` ones, ties by place."""
        if self.ordered is None:
            return _search(self.units, count)(self.keys)
        return _up_to(*self.ordered, count)


def _in_order(drawn: Any) -> tuple[Any, Any, Any]:
    place = jnp.broadcast_to(jnp.arange(drawn.shape[-1], dtype=jnp.int32), drawn.shape)
    ordered, places = jax.lax.sort((drawn, place), dimension=-1, is_stable=True, num_keys=1)
    return drawn, ordered, places


def _up_to(drawn: Any, ordered: Any, places: Any, count: int) -> Any:
    last, at = ordered[..., count - 1 : count], places[..., count - 1 : count]
    place = jnp.arange(drawn.shape[-1], dtype=jnp.int32)
    return (drawn < last) | ((drawn == last) & (place <= at))


@lru_cache(maxsize=64)
def _search(units: int, count: int) -> Any:
    """Return what finds the masks of many keys together: mapped over trials it is one search, not one a trial."""

    @jax.custom_batching.custom_vmap
    def find(keys: Any) -> Any:
        return _searched(keys, units, count)

    @find.def_vmap
    def _mapped(size: int, batched: list[bool], keys: Any) -> tuple[Any, bool]:
        return find(keys), True

    return find


def _searched(keys: Any, units: int, count: int) -> Any:
    """Find the masks without a sort: a bound with exactly `count` words at or below it, in their upper halves.

    Words are uniform, so a line through what is known of their counts nearly hits: eight looks for ten keys, where
    halving takes two dozen. Where the upper halves of two words are equal at the bound, and where luck is very bad, the
    words are sorted.
    """
    # Kept, and not made anew by each look: a word takes longer to make than to read.
    upper = once((words(keys, units) >> np.uint64(32)).astype(jnp.uint32))
    edge = jnp.zeros((*keys.shape, 1), jnp.int64)
    state = (edge, edge + (2**32 - 1), edge, edge + units)
    if jax.default_backend() == "cpu":

        def looking(turned: Any) -> Any:
            return (turned[0][3] != count).any() & (turned[1] < 4 * LOOKS)

        def turn(turned: Any) -> Any:
            return _look(upper, count, turned[0]), turned[1] + 1

        state, _ = jax.lax.while_loop(looking, turn, (state, jnp.int32(0)))
    else:
        for _ in range(LOOKS):  # a loop that asks whether to go on waits for the device each time
            state = _look_around(upper, count, state)
    masks = upper <= state[1].astype(jnp.uint32)
    right = (masks.sum(-1, dtype=jnp.int32) == count).all()
    return jax.lax.cond(right, lambda: masks, lambda: _up_to(*_in_order(words(keys, units)), count))


def _look(upper: Any, count: int, state: Any) -> Any:
    """Narrow (low, high, how many words lie below low, how many at or below high) by one count of the words."""
    low, high, under, upto = state
    bound = low + ((high - low) * ((count - under + 0.5) / (upto - under + 1))).astype(jnp.int64)
    below = (upper <= bound.astype(jnp.uint32)).sum(-1, keepdims=True, dtype=jnp.int32).astype(jnp.int64)
    down, up = (upto != count) & (below >= count), (upto != count) & (below < count)
    return (
        jnp.where(up, bound + 1, low), jnp.where(down, bound, high),
        jnp.where(up, below, under), jnp.where(down, below, upto),
    )  # fmt: skip


def _look_around(upper: Any, count: int, state: Any) -> Any:
    """Do the same, and see the words next to the bound too, so that one too many or too few is enough.

    Six looks for a thousand keys, where counting alone takes fourteen; but on a CPU, a look then takes five times as
    long.
    """
    low, high, under, upto = state
    bound = low + ((high - low) * ((count - under + 0.5) / (upto - under + 1))).astype(jnp.int64)
    inside = upper <= bound.astype(jnp.uint32)
    below = inside.sum(-1, keepdims=True, dtype=jnp.int32).astype(jnp.int64)
    last = jnp.where(inside, upper, np.uint32(0)).max(-1, keepdims=True).astype(jnp.int64)
    following = jnp.where(inside, np.uint32(2**32 - 1), upper).min(-1, keepdims=True).astype(jnp.int64)
    looking, one_short = upto != count, below == count - 1
    down, up = looking & (below >= count - 1), looking & (below < count)
    new_high = jnp.where(one_short, following, jnp.where(below == count, bound, last - 1))
    return (
        jnp.where(up, following, low), jnp.where(down, new_high, high),
        jnp.where(up, below, under), jnp.where(down, jnp.where(below <= count, count, below - 1), upto),
    )  # fmt: skip


def participants(key: Any, clients: int, count: int) -> Any:
    """Return the ids of a round's participants, ascending."""
    return jnp.nonzero(Deal.of(key, clients).smallest(count), size=count)[0].astype(jnp.int32)


def _mix(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
