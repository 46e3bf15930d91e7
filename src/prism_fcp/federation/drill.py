"""A client that attacks, so that a federation can see beforehand what its defences do: the attacks of the simulator.

A real client knows its own models, masks and scores. Attacks that need more, such as the honest clients' models, are
played by `prism-fcp gauntlet`, where one program knows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.errors import SettingError
from prism_fcp.federation.keys import Keys, SimulatedKeys
from prism_fcp.streams import Role
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.types import AttackView, Choice, FloatArray, UpdateAttack

ALONE: Final = frozenset({"normals", "masks"})  # what one client knows of a round
ALONE_SCORES: Final = frozenset({"normals", "upper", "honest_mean", "quantiles"})  # or takes its own scores for


@dataclass
class Drill:
    """Attacks one client plays. Without keys of its own its draws hang on the one it is told on joining."""

    attack: UpdateAttack | None = None
    score_attack: ScoreAttack | None = None
    keys: Keys | None = None
    index: int = 0
    told: Keys | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Refuse attacks that no single client can play."""
        if self.attack is not None and not self.attack.sees <= ALONE:
            raise SettingError(
                f"drill: training attack {self.attack.name!r} needs {', '.join(sorted(self.attack.sees - ALONE))}, "
                "which one client does not have; prism-fcp gauntlet plays it"
            )
        if self.attack is not None and self.attack.target_factor != 1:
            raise SettingError(f"drill: {self.attack.name!r} attacks the data; give the site's file altered targets")
        if self.score_attack is not None and not self.score_attack.sees <= ALONE_SCORES:
            raise SettingError(
                f"drill: score attack {self.score_attack.name!r} needs the other clients' scores; prism-fcp gauntlet "
                "calibration plays it"
            )

    @classmethod
    def of(cls, attack: Choice | None, score_attack: Choice | None) -> Drill | None:
        """Return the drill that a site's file asks for, or none."""
        if attack is None and score_attack is None:
            return None
        return cls(
            attack.build(UPDATE_ATTACKS, "training attack") if attack else None,
            score_attack.build(SCORE_ATTACKS, "score attack") if score_attack else None,
        )

    def begin(self, told: Mapping[str, Any]) -> None:
        """Take the key this client was given."""
        self.told = SimulatedKeys(int(told["key"], 16))
        self.index = int(told["index"])

    def upload(
        self, clean: FloatArray, received: FloatArray, number: int, place: NDArray[np.int64], rule: Choice
    ) -> FloatArray:
        """Return what is sent in place of the clean parameters: those, in rounds without an attack."""
        if self.attack is None or not self.attack.probability:
            return clean
        drawn = streams.uniforms(streams.words(self._keys.of(Role.HITS, number, self.index), 1))[0]
        if not drawn < self.attack.probability:
            return clean
        known: dict[str, Any] = {}
        if "normals" in self.attack.sees:
            rng = streams.generator(self._keys.of(Role.PERTURBATION, number, self.index))
            known["normals"] = rng.standard_normal(len(clean), dtype=np.float32)[None]
        if "masks" in self.attack.sees:
            masks = np.zeros((1, len(clean)), dtype=np.bool_)
            masks[0, place] = True
            known["masks"] = masks
        view = AttackView(number, np.array([self.index]), clean[None], received, rule, **known)
        return np.asarray(self.attack.forge(view)[0], dtype=np.float32)

    def report(self, scores: NDArray[Any], spec: CalibrationSpec) -> NDArray[Any]:
        """Return what is counted in place of the scores."""
        if self.score_attack is None:
            return scores
        own = np.asarray(scores, dtype=np.float64)[None]
        edges = np.asarray(spec.grid.edges)
        rng = streams.generator(self._keys.of(Role.SCORE_ATTACK, self.index))
        view = ScoreAttackView(
            own=own, upper=float(edges[np.isfinite(edges)][-1]), honest_mean=float(own.mean()),
            normals=rng.standard_normal(own.shape), quantiles=np.sort(own, axis=None),
        )  # fmt: skip
        return np.asarray(self.score_attack.forge(view)[0])

    @property
    def _keys(self) -> Keys:
        keys = self.keys or self.told
        if keys is None:
            raise SettingError("drill: the client was not set up yet")
        return keys
