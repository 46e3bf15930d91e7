"""Laws of the masks: exactly M ones, uniform, nested, and related as the settings say."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.engines.encode import check_known
from prism_fcp.errors import SettingError
from prism_fcp.streams import key
from prism_fcp.train.settings import COORDINATIONS, DOWNLOADS, Arm, Masks
from prism_fcp.train.sharing import MaskDeck, participants

from .cases import DIMENSION, LAYERS, MASK_ROWS, changed

CLIENTS = np.array([3, 4, 11, 17, 18])
every_mask = pytest.mark.parametrize(
    "masks", MASK_ROWS, ids=lambda m: f"{m.num_shared}{'L' * bool(m.layers)}-{m.coordination}-{m.download}"
)
trials = st.integers(0, 2**32 - 1)


def deck(trial: int = 0) -> MaskDeck:
    return MaskDeck(key(5, trial), DIMENSION)


@every_mask
@given(trial=trials, n=st.integers(1, 10_000))
def test_exactly_m_units_travel(masks, trial, n):
    for dealt in (deck(trial).upload(masks, n, CLIENTS), deck(trial).download(masks, n, CLIENTS)):
        assert dealt.shape == (len(CLIENTS), DIMENSION) and dealt.dtype == np.bool_
        starts = np.cumsum((0, *masks.layers))[:-1] if masks.layers else np.arange(DIMENSION)
        shared = DIMENSION if dealt.all() else masks.num_shared if dealt.any() else 0
        units = dealt[:, starts]
        assert (units.sum(axis=1) == (len(units.T) if dealt.all() else shared)).all()
        if masks.layers:
            assert (dealt == np.repeat(units, masks.layers, axis=1)).all(), "a layer travels whole or not at all"
    if masks.download == "full":
        assert dealt.all()
    assert dealt.any() == (masks.download != "never")


@every_mask
@given(trial=trials, n=st.integers(2, 1000))
def test_a_mask_depends_on_its_address_alone(masks, trial, n):
    """Not on who else takes part, on what was asked before, or on the deck that deals it."""
    together = deck(trial)
    together.upload(masks, n - 1, np.array([0, 3, 17]))
    for deal in ("upload", "download"):
        dealt = getattr(together, deal)(masks, n, CLIENTS)
        for client, row in zip(CLIENTS, dealt, strict=True):
            alone = getattr(deck(trial), deal)(masks, n, np.array([client]))[0]
            assert (alone == row).all()


@pytest.mark.parametrize("layers", [(), LAYERS])
@pytest.mark.parametrize("coordination", ["client", "common"])
@pytest.mark.parametrize("download", ["same", "previous", "independent"])
@given(trial=trials, n=st.integers(1, 1000))
def test_sharing_more_shares_a_superset(layers, coordination, download, trial, n):
    smaller = np.zeros((len(CLIENTS), DIMENSION), bool)
    for m in range(1, (len(layers) or DIMENSION) + 1):
        masks = Masks(num_shared=m, layers=layers, coordination=coordination, download=download)
        dealt = deck(trial).download(masks, n, CLIENTS)
        assert (dealt >= smaller).all()
        smaller = dealt
    assert smaller.all()


@given(trial=trials, n=st.integers(1, 1000))
def test_common_masks_are_equal_and_those_per_client_are_not(trial, n):
    common = deck(trial).upload(Masks(num_shared=6, coordination="common"), n, CLIENTS)
    assert (common == common[0]).all()
    single = deck(trial).upload(Masks(num_shared=6), n, np.arange(19))
    assert (single != single[0]).any()  # 18 masks equal to the first among 1716: never


@pytest.mark.parametrize("coordination", ["client", "common"])
@given(trial=trials, n=st.integers(2, 1000))
def test_how_the_download_relates_to_the_upload(coordination, trial, n):
    def masks(download):
        return Masks(num_shared=5, coordination=coordination, download=download)

    same, upload = (f(masks("same"), n, CLIENTS) for f in (deck(trial).download, deck(trial).upload))
    assert (same == upload).all()
    previous = deck(trial).download(masks("previous"), n, CLIENTS)
    assert (previous == deck(trial).upload(masks("previous"), n - 1, CLIENTS)).all()
    independent = [deck(trial + i).download(masks("independent"), n, CLIENTS) for i in range(4)]
    assert (np.array(independent) != [deck(trial + i).upload(masks("independent"), n, CLIENTS) for i in range(4)]).any()


@pytest.mark.statistical
@pytest.mark.parametrize("direction", ["upload", "download"])
@pytest.mark.parametrize("coordination", ["client", "common"])
@pytest.mark.parametrize(("m", "layers"), [(1, ()), (4, ()), (12, ()), (2, LAYERS)])
def test_every_unit_is_as_likely(direction, coordination, m, layers):
    """Inclusion counts of units and of pairs over 4000 masks: |z| < 6, false alarm below 1500 * 2e-9 = 3e-6."""
    masks = Masks(num_shared=m, layers=layers, coordination=coordination, download="independent")
    dealt = np.concatenate([getattr(deck(i), direction)(masks, 1, np.array([2])) for i in range(4000)])
    starts = np.cumsum((0, *layers))[:-1] if layers else np.arange(DIMENSION)
    units = dealt[:, starts].astype(float)
    total = units.shape[1]
    single, pair = m / total, m * (m - 1) / (total * (total - 1))
    for count, chance in ((units.sum(axis=0), single), ((units.T @ units)[np.triu_indices(total, 1)], pair)):
        spread = math.sqrt(4000 * chance * (1 - chance))
        assert (np.abs(count - 4000 * chance) <= 6 * spread).all()


@pytest.mark.statistical
def test_masks_of_clients_rounds_and_directions_are_independent():
    """Overlaps of masks that differ in one part of the address: mean M^2/D over 2000, |z| < 6, false alarm 6e-9."""
    masks, m = Masks(num_shared=5, download="independent"), 5
    dealt = np.array([deck().upload(masks, n, np.array([1, 2])) for n in range(1, 2001)])
    down = np.array([deck().download(masks, n, np.array([1, 2])) for n in range(1, 2001)])
    variance = m * (m / DIMENSION) * (1 - m / DIMENSION) * (DIMENSION - m) / (DIMENSION - 1)  # hypergeometric
    for one, other in (
        (dealt[:, 0], dealt[:, 1]),
        (dealt[:-1, 0], dealt[1:, 0]),
        (dealt[:, 0], down[:, 0]),
    ):
        overlap = (one & other).sum(axis=1)
        assert abs(overlap.mean() - m * m / DIMENSION) < 6 * math.sqrt(variance / len(overlap))


@given(trial=trials, n=st.integers(1, 1000), total=st.integers(1, 60), data=st.data())
def test_participants_are_a_subset_of_the_size_asked_for(trial, n, total, data):
    count = data.draw(st.integers(1, total))
    chosen = participants(key(5, trial), n, total, count)
    assert len(chosen) == len(set(chosen.tolist())) == count
    assert (np.diff(chosen) > 0).all() and 0 <= chosen[0] and chosen[-1] < total


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_shared": 0}, r"num_shared=0 \(M\); must be at least 1"),
        ({"num_shared": 5, "layers": LAYERS}, "num_shared=5 layers; must lie in 1..4"),
        ({"num_shared": 0, "layers": LAYERS}, "num_shared=0 layers; must lie in 1..4"),
        ({"num_shared": 1, "layers": (14, -1)}, "positive"),
        ({"num_shared": 1, "coordination": "comon"}, "did you mean 'common'"),
        ({"num_shared": 1, "download": "ful"}, "did you mean 'full'"),
    ],
)
def test_masks_that_fit_no_model_cannot_be_made(settings, message):
    with pytest.raises(SettingError, match=message):
        Masks(**settings)


@pytest.mark.parametrize(
    ("masks", "message"),
    [(Masks(num_shared=14), "M=13 shares everything"), (Masks(num_shared=1, layers=(6, 6)), "add up to 12")],
)
def test_masks_that_do_not_fit_are_refused(masks, message):
    with pytest.raises(SettingError, match=message):
        masks.check(DIMENSION)


@pytest.mark.parametrize(("name", "kind"), [("download", "download mask"), ("coordination", "coordination")])
def test_a_setting_added_in_one_place_only_is_not_taken_for_another(name, kind):
    """As if a new name had passed the settings' own check: nobody may deal the masks of some other name for it."""
    masks = Masks(num_shared=5)
    object.__setattr__(masks, name, "newest")
    with pytest.raises(SettingError, match=f"unknown {kind} 'newest'; known: "):
        deck().download(masks, 2, CLIENTS)
    with pytest.raises(SettingError, match=f"{kind} 'newest' is not one the compiled engine knows"):
        check_known(changed(), [Arm(masks=masks)])


def test_every_mask_setting_has_a_row():
    assert {(m.coordination, m.download) for m in MASK_ROWS} == set(itertools.product(COORDINATIONS, DOWNLOADS))
    assert {bool(m.layers) for m in MASK_ROWS} == {False, True}
