"""Which coordinates a key stands for: the same subset as `train.sharing` deals, found without sorting."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.federation.keys import Keys
from prism_fcp.streams import EVERYONE, Role
from prism_fcp.train.settings import Masks
from prism_fcp.types import FloatArray

COMPILED_FROM: Final = 100_000  # words from which the compiled kernel is worth loading
BAND: Final = 6.0  # standard deviations around the M-th smallest word within which it is looked for
MOST_KEPT: Final = 2**29  # bytes of masks kept, so that those of a round are found once
MOST_MASKS: Final = 4096


def mask_keys(keys: Keys, masks: Masks, round_number: int, client: int) -> tuple[int, int | None]:
    """Return the keys of a client's upload and download masks; None: the download is everything, or nothing.

    Paper: Alg. 1, phase 1
    """
    who = EVERYONE if masks.coordination == "common" else client
    up = keys.of(Role.UPLOAD_MASK, round_number, who)
    match masks.download:
        case "same":
            return up, up
        case "previous":
            return up, keys.of(Role.UPLOAD_MASK, round_number - 1, who)
        case "independent":
            return up, keys.of(Role.DOWNLOAD_MASK, round_number, who)
    return up, None


def shared(key: int, masks: Masks, dimension: int) -> NDArray[np.int64]:
    """Return the coordinates of the upload mask that hangs on a key, ascending."""
    if masks.num_shared == (len(masks.layers) or dimension):
        return _everything(dimension)
    return _shared(key, masks.num_shared, masks.layers, dimension)


def received(key: int | None, masks: Masks, dimension: int) -> NDArray[np.int64]:
    """Return the coordinates a download stands for."""
    if key is not None:
        return shared(key, masks, dimension)
    return _everything(dimension if masks.download == "full" else 0)


def taken(values: FloatArray, place: NDArray[np.int64]) -> FloatArray:
    """Return the values at these coordinates, without a copy where they are all of them."""
    return values if len(place) == len(values) else values[place]


@lru_cache(maxsize=4)
def _everything(dimension: int) -> NDArray[np.int64]:
    whole = np.arange(dimension)
    whole.flags.writeable = False
    return whole


_kept: dict[tuple[Any, ...], NDArray[np.int64]] = {}  # the oldest first


def _shared(key: int, num_shared: int, layers: tuple[int, ...], dimension: int) -> NDArray[np.int64]:
    address = (key, num_shared, layers, dimension)
    found = _kept.get(address)
    if found is None:
        found = _found(key, num_shared, layers, dimension)
        # Those of one federation are of one size; by layers they differ, and the limit is a rough one.
        while _kept and len(_kept) >= min(MOST_MASKS, MOST_KEPT // found.nbytes):
            del _kept[next(iter(_kept))]
        _kept[address] = found
    return found


def _found(key: int, num_shared: int, layers: tuple[int, ...], dimension: int) -> NDArray[np.int64]:
    units = len(layers) or dimension
    chosen = smallest(_words(key, units), num_shared)
    if layers:
        wanted = np.zeros(units, dtype=np.bool_)
        wanted[chosen] = True
        chosen = np.flatnonzero(np.repeat(wanted, layers))
    chosen.flags.writeable = False
    return chosen


def _words(key: int, count: int) -> NDArray[np.uint64]:
    """Return `streams.words(key, count)`, from the compiled kernel where there are many."""
    compiled = _compiled() if count >= COMPILED_FROM else None
    return streams.words(key, count) if compiled is None else np.asarray(compiled(np.uint64(key), count))


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., Any] | None:
    """Return the kernel that makes words, or nothing without numba: NumPy makes the same ones, more slowly."""
    if find_spec("numba") is None:
        return None
    from prism_fcp.kernels.words import words_of

    return words_of


def smallest(words: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Return the positions of the `count` smallest words, ascending; of equal ones the first.

    Words are uniform, so the last of them is found within a narrow band around its expected place; a band that misses
    it is widened to all words.

    >>> smallest(np.array([5, 1, 9, 1], dtype=np.uint64) << np.uint64(60), 2).tolist()
    [1, 3]
    """
    total = len(words)
    share = count / total
    slack = BAND * (share * (1 - share) / total) ** 0.5 + 4 / total
    low, high = (np.uint64(min(max(bound, 0.0), 1.0) * (2**64 - 2**11)) for bound in (share - slack, share + slack))
    below = int(np.count_nonzero(words < low))
    band = np.flatnonzero((words >= low) & (words <= high))
    if not below < count <= below + len(band):
        below, band = 0, np.arange(total)
    inside = band[np.argsort(words[band], kind="stable")[: count - below]]
    chosen = np.zeros(total, dtype=np.bool_)
    if below:
        chosen |= words < low
    chosen[inside] = True
    return np.flatnonzero(chosen)
