"""What the gauntlet is made of: regimes, training attacks, protocols. A new one is one line here, or in a plugin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.registry import find
from prism_fcp.registry import names as names_of
from prism_fcp.setup import known_of
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.protocol import PROTOCOLS, Known, Protocol
from prism_fcp.train.protocol import protocol as protocol_of
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice


@dataclass(frozen=True, slots=True)
class Regime:
    """A kind of federation: the law of its clients, its size and habits, and how much is shared."""

    population: SyntheticLinear
    federation: Federation
    num_shared: int

    @property
    def known(self) -> Known:
        """Return what is known of it before training."""
        return known_of(self.population, self.federation, Masks(num_shared=self.num_shared))


_LAW, _SIZE = SyntheticLinear(), Federation()
_POOR, _SLOW = SyntheticLinear(fixed_samples=20), SyntheticLinear(means=(-2, 2))
_SLOWLY = replace(_SIZE, step_size=0.0025, rounds=2000)

REGIMES: dict[str, Regime] = {
    "paper .2": Regime(_LAW, _SIZE, 10),
    "paper .04": Regime(_LAW, _SIZE, 2),
    "paper 1": Regime(_LAW, _SIZE, 50),
    "20 samples": Regime(_POOR, _SIZE, 10),
    "20 samples .04": Regime(_POOR, _SIZE, 2),
    "40 samples": Regime(SyntheticLinear(fixed_samples=40), _SIZE, 10),
    "slow": Regime(_SLOW, _SLOWLY, 10),
    "slow .04": Regime(_SLOW, _SLOWLY, 2),
    "when selected": Regime(_LAW, replace(_SIZE, idle_learning=False, rounds=5000), 10),
    "when selected, short": Regime(_LAW, replace(_SIZE, idle_learning=False), 10),
    "own truths .1": Regime(SyntheticLinear(truth_spread=0.1), _SIZE, 10),
    "own truths .3": Regime(SyntheticLinear(truth_spread=0.3), _SIZE, 10),
    "rare": Regime(_LAW, replace(_SIZE, num_participants=3), 10),
    "half take part": Regime(_LAW, replace(_SIZE, num_participants=50), 10),
    "0 % Byzantine": Regime(_LAW, replace(_SIZE, num_byzantine=0), 10),
    "10 % Byzantine": Regime(_LAW, replace(_SIZE, num_byzantine=10), 10),
    "30 % Byzantine": Regime(_LAW, replace(_SIZE, num_byzantine=30), 10),
    "40 % Byzantine": Regime(_LAW, replace(_SIZE, num_byzantine=40), 10),
}

# label -> the attack in a federation of so many rounds; each declares what it knows in `sees`
ATTACKS: dict[str, Callable[[int], Choice]] = {
    "none": lambda rounds: Choice("none"),
    "gaussian": lambda rounds: Choice("gaussian"),
    "noise 1": lambda rounds: Choice("gaussian", {"variance": 1.0, "probability": 1.0}),
    "noise 100": lambda rounds: Choice("gaussian", {"variance": 100.0, "probability": 1.0}),
    "ALIE .5": lambda rounds: Choice("alie", {"z": 0.5}),
    "ALIE 1.5": lambda rounds: Choice("alie", {"z": 1.5}),
    "ALIE 3": lambda rounds: Choice("alie", {"z": 3.0}),
    "inner .5": lambda rounds: Choice("inner_product", {"strength": 0.5}),
    "inner 2": lambda rounds: Choice("inner_product", {"strength": 2.0}),
    "inner 10": lambda rounds: Choice("inner_product", {"strength": 10.0}),
    "sign flip": lambda rounds: Choice("sign_flip"),
    "shift .005": lambda rounds: Choice("shift", {"size": 0.005}),
    "shift .01": lambda rounds: Choice("shift", {"size": 0.01}),
    "shift .02": lambda rounds: Choice("shift", {"size": 0.02}),
    "shift .1": lambda rounds: Choice("shift", {"size": 0.1}),
    "shift 1": lambda rounds: Choice("shift", {"size": 1.0}),
    "mimic": lambda rounds: Choice("mimic"),
    "mimic noisiest": lambda rounds: Choice("mimic", {"whom": "noisiest"}),
    "min-max": lambda rounds: Choice("min_max"),
    "min-sum": lambda rounds: Choice("min_sum"),
    "edge": lambda rounds: Choice("edge"),
    "sleeper": lambda rounds: Choice("sleeper", {"size": 1.0, "after": 7 * rounds // 10}),
    "label flip": lambda rounds: Choice("label_flip"),
    "push": lambda rounds: Choice("push"),
    "mask-aware": lambda rounds: Choice("concentrate", {"size": 0.1}),
}


def _rule(name: str, download: str, averaging: float = 0.0, **options: Any) -> Callable[[Known], Protocol]:
    def made(known: Known) -> Protocol:
        masks = Masks(num_shared=known.num_shared, coordination="common", download=download)  # type: ignore[arg-type]
        return Protocol(name, Arm(masks=masks, rule=Choice(name, options), averaging=averaging), "global", "")

    return made


def _local(known: Known) -> Protocol:
    return Protocol("local only", Arm(masks=Masks(num_shared=known.num_shared), exchange=False), "local", "")


def _full(known: Known) -> Protocol:
    masks = Masks(num_shared=known.dimension, coordination="common", download="previous")
    return Protocol("full sharing", Arm(masks=masks, rule=Choice("median")), "global", "")


RIVALS: dict[str, Callable[[Known], Protocol]] = {
    "local only": _local,
    "paper": PROTOCOLS["paper"],
    "mean": _rule("mean", "previous"),
    "A median": _rule("median", "previous", averaging=0.5),
    "A clipped": _rule("clipped_median", "previous", averaging=0.5),
    "full median": _full,
    "G table": _rule("table", "never", aligned=0.0),
    "E table": lambda known: _rule("table", "previous", power=8.0, aligned=0.0)(known)._replace(
        arm=replace(_rule("table", "previous", power=8.0, aligned=0.0)(known).arm, mixing=0.2)
    ),
    "stay": PROTOCOLS["stay"],
    "follow": PROTOCOLS["follow"],
    "geometric": _rule("geometric_median", "previous", averaging=0.5),
    "centred": _rule("centred_clipping", "previous", averaging=0.5),
    "mixing": _rule("nearest_mixing", "previous", averaging=0.5, then=Choice("trimmed_mean", {"trim": 2})),
    "bucketing": _rule("bucketing", "previous", averaging=0.5, then="median"),
}


class Gauntlet(NamedTuple):
    """A choice of each: which cells to run. The default and `local only` are in every one."""

    regimes: tuple[str, ...]
    attacks: tuple[str, ...]
    protocols: tuple[str, ...]


CORE: Final = Gauntlet(
    ("paper .2", "paper .04", "20 samples", "slow"),
    (
        "none", "gaussian", "ALIE .5", "ALIE 1.5", "inner 10", "sign flip", "shift .01", "shift 1", "mimic noisiest",
        "edge", "sleeper", "label flip", "push", "mask-aware",
    ),
    ("local only", "paper", "A median", "G table", "stay", "follow"),
)  # fmt: skip


def full() -> Gauntlet:
    """Return everything there is, what plugins have added included."""
    return Gauntlet(tuple(REGIMES), tuple(ATTACKS), tuple(RIVALS))


def attack_named(name: str) -> Callable[[int], Choice]:
    """Return the gauntlet's attack of this name; any other training attack joins under its own, with its defaults."""
    if name in ATTACKS:
        return ATTACKS[name]
    if find(UPDATE_ATTACKS, "training attack", name) is None:
        known = [*ATTACKS, *names_of(UPDATE_ATTACKS, "training attack")]
        raise SettingError(f"unknown gauntlet attack {name!r}{did_you_mean(name, known)}")
    return lambda rounds: Choice(name)


def rival_named(name: str) -> Callable[[Known], Protocol]:
    """Return the gauntlet's protocol of this name; any other rule joins under its own: its defaults, last mask down."""
    if name in RIVALS:
        return RIVALS[name]
    if find(RULES, "rule", name) is None:
        known = [*RIVALS, *names_of(RULES, "rule")]
        raise SettingError(f"unknown gauntlet protocol {name!r}{did_you_mean(name, known)}")
    return _rule(name, "previous", averaging=0.5)


def protocols(names: tuple[str, ...], regime: Regime) -> dict[str, Protocol]:
    """Return these protocols as this regime gets them, and what the default chose there."""
    made = {name: rival_named(name)(regime.known) for name in names}
    return {**made, "default": protocol_of("default", regime.known)}
