"""The words of `prism_fcp.streams`, bit for bit, so that engines agree on masks, participants and hits."""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from prism_fcp.kernels._jit import inlined, kernel, part
from prism_fcp.streams import GOLDEN

_GOLDEN = np.uint64(GOLDEN)
LANES = 16  # 32-bit values in the widest vector register: buffers are padded to multiples of it
SORT_FROM = 512  # ranks of more words than this are found by sorting, not by counting


@inlined
def padded(count):
    """Return the next multiple of the vector width."""
    return -(-count // LANES) * LANES


@inlined
def mix(z):
    """Equal `streams._mix(z)`."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def extend(parent, step):
    """Equal `streams.child(parent, step)`, which is word `step` of the parent."""
    return mix(parent + np.uint64(step + 1) * _GOLDEN)


@inlined
def uniform(key):
    """Equal `streams.uniforms(streams.words(key, 1))[0]`."""
    return np.float64(extend(key, 0) >> np.uint64(11)) * 2.0**-53


@part
def fill_words(key, out):
    """Equal `out[:] = streams.words(key, len(out))`."""
    for j in range(len(out)):
        out[j] = extend(key, j)


@part
def _sort_ranks(key, units, out):
    """Fill `out` like `fill_ranks`, by a radix sort of the full words: stable, and linear in their number."""
    words, order, moved = np.empty(units, np.uint64), np.empty(units, np.int32), np.empty(units, np.int32)
    starts = np.empty(257, np.int64)
    fill_words(key, words)
    for j in range(units):
        order[j] = j
    for shift in range(0, 64, 8):
        for digit in range(257):
            starts[digit] = 0
        for j in range(units):
            starts[np.int64((words[j] >> np.uint64(shift)) & np.uint64(255)) + 1] += 1
        for digit in range(256):
            starts[digit + 1] += starts[digit]
        for j in range(units):
            bucket = np.int64((words[order[j]] >> np.uint64(shift)) & np.uint64(255))
            moved[starts[bucket]] = order[j]
            starts[bucket] += 1
        order, moved = moved, order
    for j in range(units):
        out[order[j]] = j


@part
def fill_ranks(key, units, heads, out):
    """Equal `out[streams.order(streams.words(key, units))] = arange(units)`.

    The M units of rank below M are the subset of size M. Ranks are counted on the words' upper halves, which a
    vector unit does fast; should two halves be equal, the sum of the ranks tells, and the full words are sorted.
    `heads` is scratch, uint32; it and `out` (int32) are padded to the vector width, and padding gets ranks that no M
    below `units` includes.
    """
    total = 0
    if units <= SORT_FROM:
        length = padded(units)
        for j in range(length):
            heads[j] = np.uint32(extend(key, j) >> np.uint64(32))
            out[j] = 0
        for j in range(units, length):
            heads[j] = np.uint32(0xFFFFFFFF)
        for i in range(0, units, 4):  # four at a time, since reading and writing `out` costs more than comparing
            a, b, c, d = heads[i], heads[i + 1], heads[i + 2], heads[i + 3]
            for j in range(length):
                head = heads[j]
                out[j] += np.int32(head > a) + np.int32(head > b) + np.int32(head > c) + np.int32(head > d)
        for j in range(units):
            total += out[j]
    if units > SORT_FROM or total != units * (units - 1) // 2:
        _sort_ranks(key, units, out)


@kernel
def order_of(key, units):
    """Equal `streams.order(streams.words(key, units))`; the training kernel's way, for tests and other rooms."""
    ranks = np.empty(padded(units), np.int32)
    fill_ranks(key, units, np.empty(padded(units), np.uint32), ranks)
    order = np.empty(units, np.int64)
    for j in range(units):
        order[ranks[j]] = j
    return order


@kernel
def words_of(key, count):
    """Equal `streams.words(key, count)`."""
    out = np.empty(count, np.uint64)
    fill_words(key, out)
    return out
