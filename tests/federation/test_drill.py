"""A drill plays what one client can play, as the simulator draws it, and refuses the rest."""

from __future__ import annotations

import numpy as np
import pytest

from prism_fcp import streams
from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.errors import SettingError
from prism_fcp.federation.drill import ALONE, ALONE_SCORES, Drill
from prism_fcp.federation.keys import SimulatedKeys
from prism_fcp.streams import Role
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.sharing import hits
from prism_fcp.types import AttackView, Choice

TOLD = {"key": "00000000000000ff", "index": 3}
SPEC = CalibrationSpec(title="trial", model="0" * 64, grid=LinearGrid(8.0, 20))


@pytest.mark.parametrize("name", UPDATE_ATTACKS)
def test_a_training_attack_is_played_or_refused_with_the_reason(name: str) -> None:
    attack = UPDATE_ATTACKS[name]()
    if attack.sees <= ALONE and attack.target_factor == 1:
        made = Drill(attack)
        made.begin(TOLD)
        clean = np.linspace(-1, 1, 9, dtype=np.float32)
        kept = clean.copy()
        sent = made.upload(clean, np.zeros(9, np.float32), 2, np.arange(4), Choice("mean"))
        assert sent.shape == (9,) and sent.dtype == np.float32 and (clean == kept).all()
        assert made.upload(clean, np.zeros(9, np.float32), 2, np.arange(4), Choice("mean")).tobytes() == sent.tobytes()
    else:
        with pytest.raises(SettingError, match=r"drill: .*(gauntlet plays it|altered targets)"):
            Drill(attack)


@pytest.mark.parametrize("name", SCORE_ATTACKS)
def test_a_score_attack_is_played_or_refused_with_the_reason(name: str) -> None:
    attack = SCORE_ATTACKS[name]()
    if attack.sees <= ALONE_SCORES:
        made = Drill(score_attack=attack)
        made.begin(TOLD)
        scores = np.linspace(0, 2, 30)
        told = made.report(scores, SPEC)
        assert told.shape == scores.shape and np.isfinite(told).all() and (scores == np.linspace(0, 2, 30)).all()
    else:
        with pytest.raises(SettingError, match="drill: score attack .* gauntlet calibration plays it"):
            Drill(score_attack=attack)


def test_gaussian_is_the_simulator_s_draw() -> None:
    trial, index = streams.key(8, 1), 4
    attack = UPDATE_ATTACKS["gaussian"](variance=0.3, probability=0.5)
    made = Drill(attack, keys=SimulatedKeys(trial), index=index)
    clean, before = np.ones(6, np.float32), np.zeros(6, np.float32)
    attacked = []
    for number in range(1, 40):
        sent = made.upload(clean, before, number, np.arange(6), Choice("mean"))
        key = streams.child(trial, Role.PERTURBATION, number, index)
        normals = streams.generator(key).standard_normal(6, dtype=np.float32)[None]
        view = AttackView(number, np.array([index]), clean[None], before, Choice("mean"), normals=normals)
        hit = bool(hits(trial, number, np.array([index]), 0.5)[0])
        assert sent.tobytes() == (attack.forge(view)[0] if hit else clean).tobytes()
        attacked.append(hit)
    assert 10 < sum(attacked) < 30  # these keys; not chance


def test_a_drill_is_made_of_a_site_s_file_and_needs_its_key() -> None:
    assert Drill.of(None, None) is None
    made = Drill.of(Choice("gaussian"), Choice("efficiency"))
    assert made is not None and made.attack is not None and made.score_attack is not None
    with pytest.raises(SettingError, match="not set up yet"):
        made.upload(np.ones(3, np.float32), np.ones(3, np.float32), 1, np.arange(3), Choice("mean"))
    with pytest.raises(SettingError, match="unknown training attack 'gausian'; did you mean 'gaussian'"):
        Drill.of(Choice("gausian"), None)
