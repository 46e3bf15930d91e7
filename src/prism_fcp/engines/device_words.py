"""The keyed words of `streams`, on the device: participants, masks and hits come out the same as everywhere.

Traced under 64-bit mode: words are uint64, and every float is float32 by name.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prism_fcp.streams import GOLDEN

_GOLDEN = np.uint64(GOLDEN)
SEARCHED: Final = 256  # units beyond which the smallest words are searched for and not sorted


def child(key: Any, *path: Any) -> Any:
    """Extend keys by steps; see `streams.child`. Steps may be arrays: each leads to a key of its own."""
    for step in path:
        key = _mix(key + (jnp.asarray(step).astype(jnp.uint64) + np.uint64(1)) * _GOLDEN)
    return key


def words(keys: Any, count: int) -> Any:
    """Return the first `count` words of each key, on a new last axis."""
    steps = jnp.arange(1, count + 1, dtype=jnp.uint64) * _GOLDEN
    return _mix(keys[..., None] + steps)


def uniform(keys: Any) -> Any:
    """Return one uniform on [0, 1) a key, in float64 as `streams.uniforms` has it."""
    return (words(keys, 1)[..., 0] >> np.uint64(11)).astype(jnp.float64) * 2.0**-53


class Deal(NamedTuple):
    """Words in their places: masks of any number of ones are cut from the same deal, at its smallest words."""

    drawn: Any  # (..., units)
    ordered: Any  # the same in order and where each stood, ties by place; None where a search is quicker than a sort
    places: Any

    @classmethod
    def of(cls, keys: Any, units: int) -> Deal:
        """Draw so many words of each key."""
        drawn = words(keys, units)
        if units > SEARCHED:
            return cls(drawn, None, None)
        place = jnp.broadcast_to(jnp.arange(units, dtype=jnp.int32), drawn.shape)
        return cls(drawn, *jax.lax.sort((drawn, place), dimension=-1, is_stable=True, num_keys=1))

    def smallest(self, count: int) -> Any:
        """Return masks (..., units) with exactly `count` ones, ties by place."""
        if self.ordered is None:
            return _searched(self.drawn, count)
        last, at = self.ordered[..., count - 1 : count], self.places[..., count - 1 : count]
        place = jnp.arange(self.drawn.shape[-1], dtype=jnp.int32)
        return (self.drawn < last) | ((self.drawn == last) & (place <= at))


def _searched(drawn: Any, count: int) -> Any:
    """Find a bound with exactly `count` words at or below it by halving; a dozen passes, since words are uniform."""
    shape = (*drawn.shape[:-1], 1)
    low, high = jnp.zeros(shape, jnp.uint64), jnp.full(shape, np.uint64(2**64 - 1))

    def going(state: Any) -> Any:
        return ~state[2].all()

    def halve(state: Any) -> Any:
        low, high, done = state
        middle = low + (high - low) // np.uint64(2)
        below = (drawn <= middle).sum(-1, keepdims=True, dtype=jnp.int32)
        high = jnp.where(below >= count, middle, high)
        low = jnp.where(below < count, middle + np.uint64(1), low)
        return low, high, done | (below == count) | (low >= high)

    _, bound, _ = jax.lax.while_loop(going, halve, (low, high, jnp.zeros(shape, bool)))
    less = drawn < bound
    missing = count - less.sum(-1, keepdims=True, dtype=jnp.int32)
    same = drawn == bound  # one, or none where the bound lies between two words; more only where words are equal

    def by_place() -> Any:
        return less | (same & (jnp.cumsum(same, axis=-1, dtype=jnp.int32) <= missing))

    return jax.lax.cond((same.sum(-1, keepdims=True, dtype=jnp.int32) > missing).any(), by_place, lambda: less | same)


def participants(key: Any, clients: int, count: int) -> Any:
    """Return the ids of a round's participants, ascending."""
    return jnp.nonzero(Deal.of(key, clients).smallest(count), size=count)[0].astype(jnp.int32)


def _mix(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
