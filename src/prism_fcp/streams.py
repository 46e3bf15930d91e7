"""Keyed random streams: every draw has an address, so engines, processes and restarts agree on it.

An address is `(seed, trial, role, ...)`, folded into one 64-bit key. Two kinds of draws hang on a key:

* `words(keys, count)`: counter-based 64-bit words (splitmix64). They decide masks, participants, hits and
  Byzantine ids. The formula is ours, so it never changes with a NumPy version, and the compiled
  engine evaluates the very same words.
* `generator(key)`: a NumPy generator for bulk normals.

splitmix64 can be inverted: a key tells its holder the seed. Inside one simulation that is harmless; a real
federation must derive the keys it sends to clients with a keyed cryptographic hash instead.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN: Final = 0x9E3779B97F4A7C15
_MASK64: Final = 0xFFFF_FFFF_FFFF_FFFF
EVERYONE: Final = 0xFFFF_FFFF  # the "client" of a draw that all clients of a round share


class Role(IntEnum):
    """What a stream is for. The numbers are part of the reproducibility contract: add, never renumber."""

    POPULATION = 1
    BYZANTINE = 2
    PARTICIPANTS = 3
    UPLOAD_MASK = 4
    DOWNLOAD_MASK = 5
    HITS = 6
    INPUTS = 7
    PERTURBATION = 8
    CALIBRATION = 9
    TEST = 10
    SCORE_ATTACK = 11
    RULE = 12
    PARTITION = 13
    START = 14
    CENTRAL = 15
    SAMPLES = 16


def key(seed: int, *path: int) -> int:
    """Fold an address into a 64-bit key.

    >>> key(7, 0, Role.INPUTS) == key(7, 0, Role.INPUTS), key(7, 0, Role.INPUTS) == key(7, 1, Role.INPUTS)
    (True, False)
    """
    return child(_mix_int((seed & _MASK64) + GOLDEN), *path)


def keys(parent: int, steps: ArrayLike) -> NDArray[np.uint64]:
    """Extend one key by many last steps at once: `keys(k, [3, 5])[1] == key-of(k, 5)`."""
    path = np.asarray(steps).astype(np.uint64) + np.uint64(1)
    return _mix(np.uint64(parent) + path * np.uint64(GOLDEN))


def child(parent: int, *path: int) -> int:
    """Extend a key by further steps: `child(key(s, a), b) == key(s, a, b)`. Step p leads to word p of the parent."""
    folded = parent
    for step in path:
        folded = _mix_int(folded + ((int(step) + 1) * GOLDEN))
    return folded


def words(stream_keys: ArrayLike, count: int) -> NDArray[np.uint64]:
    """Return the first `count` 64-bit words of each key, on a new last axis."""
    base = np.asarray(stream_keys, dtype=np.uint64)[..., None]
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return _mix(base + steps)


def uniforms(drawn: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Turn words into float64 uniforms on [0, 1)."""
    return (drawn >> np.uint64(11)).astype(np.float64) * 2.0**-53


def order(drawn: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return a random permutation of each last axis: positions by ascending word, ties by position.

    Its first M entries are a uniform M-subset, nested in M.
    """
    return np.argsort(drawn, axis=-1, kind="stable")


def subset(stream_keys: ArrayLike, total: int, count: int) -> NDArray[np.bool_]:
    """Return, for each key, a uniform subset of `total` with exactly `count` True."""
    drawn = words(stream_keys, total)
    chosen = np.zeros(drawn.shape, dtype=np.bool_)
    np.put_along_axis(chosen, order(drawn)[..., :count], True, axis=-1)
    return chosen


def generator(stream_key: int) -> np.random.Generator:
    """Return a NumPy generator that depends on the key alone."""
    return np.random.Generator(np.random.SFC64(stream_key))


def _mix_int(value: int) -> int:
    value &= _MASK64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK64
    return value ^ (value >> 31)


def _mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is the point
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))
