"""Both sides find from a key the coordinates that `train.sharing` deals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp import streams
from prism_fcp.federation import coordinates
from prism_fcp.federation.coordinates import mask_keys, received, shared, smallest
from prism_fcp.federation.keys import SimulatedKeys
from prism_fcp.train.settings import Masks
from prism_fcp.train.sharing import MaskDeck
from tests.contracts.cases import DIMENSION, MASK_ROWS


@pytest.mark.parametrize("masks", MASK_ROWS, ids=str)
def test_they_are_those_of_the_readable_engine(masks: Masks) -> None:
    keys, who = SimulatedKeys(streams.key(4, 1)), np.array([0, 3, 4])
    for number in (1, 2, 9):
        dealt = MaskDeck(keys.trial, DIMENSION)
        ups, downs = dealt.upload(masks, number, who), dealt.download(masks, number, who)
        for row, client in enumerate(who):
            up, down = mask_keys(keys, masks, number, int(client))
            assert shared(up, masks, DIMENSION).tolist() == np.flatnonzero(ups[row]).tolist()
            assert received(down, masks, DIMENSION).tolist() == np.flatnonzero(downs[row]).tolist()


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), min_size=1, max_size=60), st.data())
def test_the_smallest_are_the_first_of_a_stable_sort(told: list[int], data: st.DataObject) -> None:
    words = np.array(told, dtype=np.uint64)
    count = data.draw(st.integers(1, len(words)))
    assert smallest(words, count).tolist() == sorted(np.argsort(words, kind="stable")[:count].tolist())


def test_the_compiled_words_are_the_same_ones() -> None:
    pytest.importorskip("numba")
    masks, dimension = Masks(num_shared=30_000), coordinates.COMPILED_FROM + 7
    words = streams.words(99, dimension)
    wanted = np.sort(np.argsort(words, kind="stable")[:30_000])
    assert (shared(99, masks, dimension) == wanted).all()


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    masks = Masks(num_shared=100)
    monkeypatch.setattr(coordinates, "MOST_KEPT", 10 * 800)
    for key in range(50):
        assert len(shared(key, masks, 1000)) == 100
        assert len(coordinates._kept) <= 10
    first = shared(49, masks, 1000)
    assert shared(49, masks, 1000) is first and not first.flags.writeable
