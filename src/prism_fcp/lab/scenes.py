"""Federations whose clients' scores have known laws: what coverage really is needs no test samples there.

A factory `scene(seed, trial)` draws one; the same seed and trial give every attack and filter the same honest scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import erf, sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prism_fcp import streams
from prism_fcp.calibrate.attack import HONEST_SHAPE, ScoreAttack, ScoreAttackView
from prism_fcp.calibrate.grid import Grid, LinearGrid, LogGrid
from prism_fcp.data.synthetic import Population, residuals_by_law
from prism_fcp.engines import train
from prism_fcp.lab.catalog import named
from prism_fcp.lab.regimes import ATTACKS as TRAINING_ATTACKS
from prism_fcp.lab.regimes import REGIMES as TRAINING_REGIMES
from prism_fcp.scoring import scoring_models
from prism_fcp.setup import CalibrationSettings
from prism_fcp.streams import Role
from prism_fcp.train.protocol import protocol
from prism_fcp.types import BoolArray, FloatArray

Array = NDArray[np.float64]
CLIENTS: Final = 100
LIARS: Final = 20
RANGE: Final = 1.1  # the announced range, in largest true scores
FINE: Final = 1 << 16  # quantiles by which an exact law is told


@dataclass(frozen=True, eq=False)
class Scene:
    """One draw of a federation: true scores, who lies, and each client's law."""

    scores: Array  # (K, n), what every client would truly report
    lying: BoolArray  # (K,)
    share_below: Callable[[float], Array]  # each client's true share of scores below a radius, (K,)
    grid: Grid
    cells: int | None  # how filters see the grid: None drawn together, 0 as it is
    normals: Array  # (b, n): the attack's randomness
    quantiles: Array | None = None  # of the honest mixture, where its law is one formula
    evidence: Mapping[int | str, float] = field(default_factory=dict)  # from training
    coalition: bool = False  # the liars attacked training as well: naming them is right, whatever they report

    def view(self, attack: ScoreAttack) -> ScoreAttackView:
        """Show an attack what it declares."""
        sees, honest = attack.sees, self.scores[~self.lying]
        exact = self.quantiles if self.quantiles is not None or "quantiles" not in sees else np.sort(honest, axis=None)
        return ScoreAttackView(
            own=self.scores[self.lying],
            upper=RANGE * float(self.scores.max()) if "upper" in sees else None,
            honest_mean=float(honest.mean()) if "honest_mean" in sees else None,
            normals=self.normals if "normals" in sees else None,
            honest=honest if "honest" in sees else None,
            quantiles=exact if "quantiles" in sees else None,
        )

    def narrowest(self, level: float, honest: BoolArray) -> float:
        """Return these clients' mixture's own quantile: the radius that covers exactly."""
        low, high = 0.0, float(self.scores.max()) * 10
        for _ in range(80):
            middle = (low + high) / 2
            if self.share_below(middle)[honest].mean() < level:
                low = middle
            else:
                high = middle
        return high


class Regime(NamedTuple):
    """A kind of federation, by name."""

    title: str
    draw: Callable[[int, int], Scene]
    core: bool = True  # part of the default matrix


def beta(seed: int, trial: int, *, samples: int, bins: int | None = None, hint: float | None = None) -> Scene:
    """Honest scores are Beta(2, 5), alike for all; `bins` equal ones, or the log grid.

    `hint` simulates evidence from training: standard normal, and so much larger for liars.
    """
    key, lying, rng = _begin(seed, trial)
    x = np.linspace(0, 1, FINE + 1)
    law = 1 - (1 - x) ** HONEST_SHAPE * (1 + HONEST_SHAPE * x)
    evidence = streams.generator(streams.child(key, Role.CALIBRATION, 1)).standard_normal(CLIENTS)
    return Scene(
        scores=rng.beta(2, HONEST_SHAPE, (CLIENTS, samples)),
        lying=lying,
        share_below=lambda radius: np.full(CLIENTS, np.interp(radius, x, law)),
        grid=LogGrid() if bins is None else LinearGrid(RANGE, bins),
        cells=None if bins is None else 0,
        normals=_attack_normals(key, samples),
        quantiles=np.interp((np.arange(FINE) + 0.5) / FINE, law, x),
        evidence={} if hint is None else dict(enumerate((evidence + hint * lying).tolist())),
    )


def scales(seed: int, trial: int, *, samples: int, spread: float = 0.0, second: float = 1.0) -> Scene:
    """Honest scores are |normal|: each client's scale log-normal, every fifth client's `second` times as large."""
    key, lying, rng = _begin(seed, trial)
    size = np.exp(spread * rng.standard_normal(CLIENTS)) * np.where(np.arange(CLIENTS) % 5 == 0, second, 1.0)
    return _folded(key, lying, np.zeros(CLIENTS), size, rng.standard_normal((CLIENTS, samples)))


def linear(seed: int, trial: int, *, trained: bool) -> Scene:
    """The paper's federation under the paper's attack: its local models at 30 % sharing, or the true model, score."""
    setup = named("table-synthetic").setup
    population = setup.draw(seed, trial)
    assert isinstance(population, Population)  # the catalogue's first table is synthetic
    arm = setup.methods[0].arm
    models = np.broadcast_to(population.truth, (len(population.byzantine), len(population.truth)))
    if trained and arm is not None:
        models = train(population, setup.federation, [arm])[0].local_models
    return _by_law(population, models, setup.calibration.samples)


def joint(
    seed: int, trial: int, *, attack: str, ledger: bool = True, minority: float = 0.0, regime: str = "paper .2"
) -> Scene:
    """Train with the default protocol while the liars attack, and score with its model; `ledger`: filters get it.

    `attack` and `regime` are the training gauntlet's; the same coalition lies in calibration. Every fifth client's true
    model lies `minority` away from the others'.
    """
    setting = TRAINING_REGIMES[regime]
    size = replace(setting.federation, attack=TRAINING_ATTACKS[attack](setting.federation.rounds))
    population = setting.population.draw(size.num_clients, size.dimension, size.num_byzantine, seed, trial)
    if minority:
        apart = streams.generator(streams.child(population.key, Role.POPULATION, 2)).standard_normal(size.dimension)
        apart *= minority / np.linalg.norm(apart)
        own = population.truth + np.where(np.arange(size.num_clients) % 5 == 0, 1, 0)[:, None] * apart
        population = replace(population, own_truths=own.astype(np.float32))
    chosen = protocol("default", setting.known)
    trained = train(population, size, [chosen.arm])[0]
    models = scoring_models(trained, chosen.scoring_model, population)
    scene = _by_law(population, models, CalibrationSettings().samples)
    told = trained.ledger.suspicion() if ledger and trained.ledger else {}
    return replace(scene, evidence=told, coalition=attack != "none")


REGIMES: Final[dict[str, Regime]] = {
    "beta-50": Regime("Beta(2,5), alike, 50 scores each", partial(beta, samples=50)),
    "beta-50-bins": Regime("Beta(2,5), 50 scores, 100 equal bins", partial(beta, samples=50, bins=100)),
    "beta-200": Regime("Beta(2,5), alike, 200 scores each", partial(beta, samples=200)),
    "scales-200": Regime("scales log-normal 30 %, 200 scores", partial(scales, samples=200, spread=0.3)),
    "linear": Regime("the paper's: local models, 1,000 scores", partial(linear, trained=True)),
    "joint": Regime("default protocol, attacked in training too", partial(joint, attack="gaussian")),
    "joint-blind": Regime("the same, ledger withheld", partial(joint, attack="gaussian", ledger=False)),
    "joint-alie": Regime("as joint, ALIE .5 in training", partial(joint, attack="ALIE .5"), core=False),
    "joint-shift": Regime("as joint, shift .01 in training", partial(joint, attack="shift .01"), core=False),
    "joint-flip": Regime("as joint, sign flip in training", partial(joint, attack="sign flip"), core=False),
    "joint-quiet": Regime("as joint, no attack in training", partial(joint, attack="none"), core=False),
    "joint-kinds": Regime(
        "joint-quiet, a fifth's truth .1 apart", partial(joint, attack="none", minority=0.1), core=False
    ),
    "beta-25": Regime("Beta(2,5), alike, 25 scores each", partial(beta, samples=25), core=False),
    "beta-50-hint": Regime("as beta-50, and training hints", partial(beta, samples=50, hint=3.0), core=False),
    "beta-1000": Regime("Beta(2,5), alike, 1,000 scores each", partial(beta, samples=1000), core=False),
    "scales-50": Regime("scales log-normal 30 %, 50 scores", partial(scales, samples=50, spread=0.3), core=False),
    "linear-truth": Regime("the paper's, scored with the truth", partial(linear, trained=False), core=False),
    "two-kinds": Regime("a fifth 1.5 times as large, 200 scores", partial(scales, samples=200, second=1.5), core=False),
}  # a user's own joins by assignment


def _begin(seed: int, trial: int) -> tuple[int, BoolArray, np.random.Generator]:
    key = streams.key(seed, trial)
    lying = streams.subset(streams.child(key, Role.BYZANTINE), CLIENTS, LIARS)
    return key, lying, streams.generator(streams.child(key, Role.CALIBRATION))


def _attack_normals(key: int, samples: int) -> Array:
    return streams.generator(streams.child(key, Role.SCORE_ATTACK)).standard_normal((LIARS, samples))


def _by_law(population: Population, models: FloatArray, samples: int) -> Scene:
    """Return the scene of these models' residuals, (K, D): normal in each client, about a mean of its own."""
    error = (population.truth if population.own_truths is None else population.own_truths) - models
    centre = population.means * error.sum(axis=1)
    spread = np.sqrt(population.variances * np.square(error).sum(axis=1) + population.noise_variances)
    rng = streams.generator(streams.child(population.key, Role.CALIBRATION))
    normals = rng.standard_normal((len(centre), samples))
    scene = _folded(population.key, population.byzantine, centre, spread, normals)
    assert np.allclose(scene.scores, residuals_by_law(population, models, normals), rtol=1e-4)
    return scene


def _folded(key: int, lying: BoolArray, centre: Array, spread: Array, normals: Array) -> Scene:
    def share_below(radius: float) -> Array:
        ends = zip(((radius - centre) / spread).tolist(), ((-radius - centre) / spread).tolist(), strict=True)
        return np.array([(erf(high / sqrt(2)) - erf(low / sqrt(2))) / 2 for high, low in ends])

    scores = np.abs(centre[:, None] + spread[:, None] * normals)
    return Scene(scores, lying, share_below, LogGrid(), None, _attack_normals(key, normals.shape[1]))
