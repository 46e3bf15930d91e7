"""Laws of the training attacks: what they add, how often, and what they leave alone."""

from __future__ import annotations

import itertools
import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.streams import key
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Masks
from prism_fcp.train.sharing import MaskDeck, hits, participants
from prism_fcp.types import SEES, AttackView, Choice, UpdateAttack, Uploads

from .cases import ATTACK_ROWS, changed

NOT_FINITE = (math.nan, math.inf)
every_attack = pytest.mark.parametrize("choice", ATTACK_ROWS, ids=str)
# What an attack may ask to see, and the entries of the view that hold it.
PARTS = {
    "honest": ("honest", "honest_ids"),
    "masks": ("masks", "honest_masks"),
    "normals": ("normals",),
    "truth": ("truth",),
}
RULE = Choice("median")


def view_of(seed: int, honest: int = 4, attackers: int = 3, dimension: int = 6) -> AttackView:
    rng = np.random.default_rng(seed)
    return AttackView(
        round=1,
        client_ids=np.arange(attackers),
        own=rng.standard_normal((attackers, dimension)),
        previous=rng.standard_normal(dimension),
        normals=rng.standard_normal((attackers, dimension)),
        rule=RULE,
        honest=rng.standard_normal((honest, dimension)),
        honest_ids=attackers + np.arange(honest),
        masks=rng.random((attackers, dimension)) < 0.5,
        honest_masks=rng.random((honest, dimension)) < 0.5,
        truth=rng.standard_normal(dimension),
    )


def train(attack: Choice, num_shared: int = 5, trial: int = 0, **changes):
    federation = changed(attack=attack, **changes)
    population = SyntheticLinear().draw(
        federation.num_clients, federation.dimension, federation.num_byzantine, 9, trial
    )
    (out,) = train_readable(population, federation, [Arm(masks=Masks(num_shared=num_shared))])
    return population, federation, out


def test_every_attack_of_the_registry_has_a_row():
    assert {choice.name for choice in ATTACK_ROWS} == set(UPDATE_ATTACKS)


@every_attack
@given(seed=st.integers(0, 2**32 - 1))
def test_forging_is_pure_and_keeps_shape_and_type(choice, seed):
    attack = choice.build(UPDATE_ATTACKS, "training attack")
    view, same = view_of(seed), view_of(seed)
    forged = attack.forge(view)
    assert forged.shape == view.own.shape and forged.dtype == view.own.dtype
    assert set(PARTS) == set(SEES)
    for name in ("own", "previous", *itertools.chain(*PARTS.values())):
        assert (getattr(view, name) == getattr(same, name)).all()
    assert (attack.forge(same) == forged).all()


@every_attack
@given(seed=st.integers(0, 2**32 - 1))
def test_an_attack_uses_no_more_than_it_says_it_sees(choice, seed):
    attack = choice.build(UPDATE_ATTACKS, "training attack")
    view, other = view_of(seed), view_of(seed + 1)
    hidden = [name for part, names in PARTS.items() if part not in attack.sees for name in names]
    blind = replace(view, **{name: getattr(other, name) for name in hidden})
    assert (attack.forge(blind) == attack.forge(view)).all()


@every_attack
def test_the_attackers_own_model_stays_clean(choice):
    """After one round nobody has downloaded a poisoned model: every local model is as without the attack."""
    certain = choice
    if "probability" in choice.options:
        certain = Choice(choice.name, {**choice.options, "probability": 1.0})
    _, _, attacked = train(certain, rounds=1)
    _, _, clean = train(Choice("none"), rounds=1)
    if choice.name == "label_flip":  # the one attack on the data: no upload of an honest client changes, though
        population = SyntheticLinear().draw(19, 13, 6, 9, 0)
        assert (attacked.local_models == clean.local_models)[~population.byzantine].all()
    else:
        assert (attacked.local_models == clean.local_models).all()
    assert (attacked.injections > 0) == (choice.name != "none")
    assert (attacked.global_model != clean.global_model).any() == (choice.name not in ("none", "sleeper"))


@every_attack
def test_nobody_attacks_without_byzantine_clients(choice):
    _, _, out = train(choice, num_byzantine=0)
    assert out.injections == 0 and out.injected_energy == 0


@pytest.mark.statistical
@pytest.mark.parametrize("num_shared", [1, 5, 13])
def test_gaussian_energy_is_m_sigma_squared_a_hit(num_shared):
    """The energy of h hits is sigma^2 chi^2(M h), sd sqrt(2/(M h)) relative: |z| < 5, false alarm 6e-7 (and a tail)."""
    outs = [train(Choice("gaussian", {"variance": 0.3, "probability": 0.5}), num_shared, t)[2] for t in range(20)]
    count = sum(out.injections for out in outs)
    energy = sum(out.injected_energy for out in outs)
    assert count > 300
    assert abs(energy / (0.3 * num_shared * count) - 1) < 5 * math.sqrt(2 / (num_shared * count))


@pytest.mark.statistical
def test_hits_come_with_the_probability_asked_for():
    """20,000 draws: |z| < 5, false alarm 6e-7 for each of the probabilities; 0 and 1 exactly."""
    for probability in (0.0, 0.05, 0.2, 0.5, 1.0):
        hit = np.array([hits(key(3, 1), n, np.arange(100), probability) for n in range(200)])
        spread = math.sqrt(probability * (1 - probability) / hit.size)
        assert abs(hit.mean() - probability) <= 5 * spread


def test_injections_are_the_selected_byzantine_hits():
    choice = ATTACK_ROWS[1]
    population, federation, out = train(choice)
    expected = 0
    for n in range(1, federation.rounds + 1):
        selected = participants(population.key, n, federation.num_clients, federation.num_participants)
        hit = hits(population.key, n, selected, choice.options["probability"])
        expected += int((hit & population.byzantine[selected]).sum())
    assert out.injections == expected > 10


def test_alie_by_hand():
    """Honest uploads 1 and 3 (mean 2, population sd 1) and 0 and 0: with z = 0.5 the lie is 1.5 and 0."""
    attack = Choice("alie", {"z": 0.5}).build(UPDATE_ATTACKS, "training attack")
    own, honest = np.full((2, 2), 9.0), np.array([[1.0, 0.0], [3.0, 0.0]])
    view = AttackView(1, np.arange(2), own, np.zeros(2), RULE, honest=honest)
    assert attack.forge(view).tolist() == [[1.5, 0.0], [1.5, 0.0]]
    assert attack.probability == 1.0


def test_alie_with_nobody_to_imitate_sends_its_own():
    attack = Choice("alie").build(UPDATE_ATTACKS, "training attack")
    for honest in (None, np.zeros((0, 2))):
        view = AttackView(1, np.arange(2), np.full((2, 2), 9.0), np.zeros(2), RULE, honest=honest)
        assert (attack.forge(view) == view.own).all()


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice("gaussian", {"variance": -1}), "variance=-1; must be 0 or more"),
        (Choice("gaussian", {"probability": 1.5}), r"probability=1.5; must lie in \[0, 1\]"),
        (Choice("alie", {"probability": -0.1}), r"probability=-0.1; must lie in \[0, 1\]"),
        *((Choice("gaussian", {"variance": v}), f"variance={v}; must be a finite number") for v in NOT_FINITE),
        *((Choice("alie", {"z": z}), f"z={z}; must be a finite number") for z in (*NOT_FINITE, -math.inf)),
        (Choice("gausian"), "did you mean 'gaussian'"),
        (Choice("alie", {"probabilty": 1}), "no option 'probabilty'; did you mean 'probability'"),
    ],
)
def test_attacks_that_cannot_work_are_refused(choice, message):
    with pytest.raises(SettingError, match=message):
        choice.build(UPDATE_ATTACKS, "training attack")


@pytest.mark.parametrize("sees", [(), ("honest",), ("masks",), ("normals",), ("truth",), SEES])
def test_an_attacker_is_told_what_it_declares_and_no_more(monkeypatch, sees):
    views = []
    spy = UpdateAttack("spy", 0.8, frozenset(sees), lambda view: views.append(view) or view.own)
    monkeypatch.setitem(UPDATE_ATTACKS, "spy", lambda: spy)
    masks, federation = Masks(num_shared=5), changed(attack=Choice("spy"))
    population = SyntheticLinear().draw(19, 13, 6, 9)
    train_readable(population, federation, [Arm(masks=masks, rule=RULE)])
    assert len(views) > 10
    for view in views:
        selected = participants(population.key, view.round, 19, 7)
        deck = MaskDeck(population.key, 13)
        assert view.rule == RULE and view.own.shape == (len(view.client_ids), 13)
        for part, names in PARTS.items():
            assert all((getattr(view, name) is not None) == (part in sees) for name in names)
        honest = selected[~population.byzantine[selected]]
        if "honest" in sees:
            assert view.honest.shape == (len(honest), 13) and (view.honest_ids == honest).all()
        if "normals" in sees:
            assert view.normals.shape == view.own.shape
        if "masks" in sees:
            assert (view.masks == deck.upload(masks, view.round, view.client_ids)).all()
            assert (view.honest_masks == deck.upload(masks, view.round, honest)).all()


def test_an_attack_cannot_ask_for_what_there_is_not():
    with pytest.raises(SettingError, match="spy attack: sees unknown part 'honst'; did you mean 'honest'"):
        UpdateAttack("spy", 1.0, frozenset({"honst"}), lambda view: view.own)


def test_gaussian_without_its_normals_says_so():
    attack = Choice("gaussian").build(UPDATE_ATTACKS, "training attack")
    with pytest.raises(SettingError, match="the view lacks 'normals'"):
        attack.forge(replace(view_of(1), normals=None))


def test_an_upload_has_no_place_for_a_claimed_weight():
    """PEERS' trap: a client that claims 10^15 samples owns a weighted mean. Here nobody can claim any."""
    assert [field.name for field in fields(Uploads)] == [
        "client_ids", "values", "coordinates", "offsets", "previous",
    ]  # fmt: skip
