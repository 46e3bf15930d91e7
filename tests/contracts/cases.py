"""The table every rule, mask, attack and engine is a row of. A new member joins by adding its rows here.

`test_*.py` beside this file hold the laws; each runs over the whole table, and a registry member without a row fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice


@dataclass(frozen=True)
class RuleRow:
    """A rule with arguments, and how many hostile uploads of `n` it promises to stand."""

    choice: Choice
    stands: Any = staticmethod(lambda n: 0)
    selects: bool = False  # does it go by distances, so that a lie close to the honest is not one it promises to see?
    pulls: bool = False  # does it hold back, so that its model may lie between the uploads and the previous one?

    @property
    def label(self) -> str:
        return ",".join([self.choice.name, *(f"{k}={v}" for k, v in self.choice.options.items())])


RULE_ROWS = [
    RuleRow(Choice("mean")),
    RuleRow(Choice("mean_of_sharers")),
    RuleRow(Choice("median"), lambda n: (n - 1) // 2),
    RuleRow(Choice("trimmed_mean", {"trim": 0})),
    RuleRow(Choice("trimmed_mean", {"trim": 2}), lambda n: 2),
    RuleRow(Choice("krum", {"suspects": 2}), lambda n: 2, selects=True),
    RuleRow(Choice("krum", {"suspects": 1, "closest": 2}), lambda n: 1, selects=True),
    RuleRow(Choice("multi_krum", {"suspects": 2}), lambda n: 2, selects=True),
    RuleRow(Choice("multi_krum", {"suspects": 1, "selected": 3, "closest": 4}), lambda n: 1, selects=True),
    RuleRow(Choice("clipped_median"), pulls=True),
    RuleRow(Choice("clipped_median", {"factor": 2.5}), pulls=True),
    RuleRow(Choice("table"), lambda n: (n - 1) // 2),
    RuleRow(Choice("table", {"power": 1.5, "first_look": 4, "every": 3, "cutoff": 2}), lambda n: (n - 1) // 2),
    RuleRow(Choice("table", {"power": 8, "first_look": 7, "every": 1, "cutoff": 3}), lambda n: (n - 1) // 2),
    RuleRow(Choice("table", {"first_look": 4, "every": 2, "aligned": 1.5}), lambda n: (n - 1) // 2),
    RuleRow(Choice("table", {"first_look": 4, "vote": "round", "aligned": 2}), lambda n: (n - 1) // 2),
    RuleRow(Choice("table", {"first_look": 3, "vote": "round", "clip": 1.5}), pulls=True),
    RuleRow(Choice("geometric_median")),
    RuleRow(Choice("geometric_median", {"steps": 3, "smoothing": 0.1})),
    RuleRow(Choice("centred_clipping"), pulls=True),
    RuleRow(Choice("centred_clipping", {"factor": 2.0, "momentum": 0.5, "steps": 3}), pulls=True),
    RuleRow(Choice("nearest_mixing"), lambda n: 2, selects=True),
    RuleRow(
        Choice("nearest_mixing", {"suspects": 1, "then": Choice("trimmed_mean", {"trim": 1})}),
        lambda n: 1,
        selects=True,
    ),
    RuleRow(Choice("nearest_mixing", {"then": Choice("krum", {"suspects": 2})}), lambda n: 2, selects=True),
    RuleRow(Choice("bucketing"), lambda n: ((n + 1) // 2 - 1) // 2),
    RuleRow(Choice("bucketing", {"size": 1, "then": "median"}), lambda n: (n - 1) // 2),
    RuleRow(Choice("bucketing", {"size": 3, "then": Choice("trimmed_mean", {"trim": 1})}), lambda n: 1),
]

ATTACK_ROWS = [
    Choice("none"),
    Choice("gaussian", {"variance": 0.3, "probability": 0.5}),
    Choice("alie", {"z": 0.5, "probability": 0.7}),
    Choice("inner_product", {"strength": 2.0, "probability": 0.6}),
    Choice("sign_flip", {"scale": 3.0, "probability": 0.9}),
    Choice("shift", {"size": -0.3, "probability": 0.5}),
    Choice("sleeper", {"size": 0.4, "after": 12, "probability": 0.8}),
    Choice("concentrate", {"size": 0.1, "probability": 0.7}),
    Choice("push", {"size": 0.2, "probability": 0.4}),
    Choice("mimic", {"probability": 0.7}),
    Choice("mimic", {"whom": "noisiest", "probability": 0.7}),
    Choice("edge", {"probability": 0.7}),
    Choice("edge", {"side": "lowest", "probability": 0.7}),
    Choice("min_max", {"probability": 0.7}),
    Choice("min_sum", {"probability": 0.7}),
    Choice("label_flip", {"factor": -1.0}),
]

DIMENSION = 13
LAYERS = (4, 1, 6, 2)
MASK_ROWS = (
    [
        Masks(num_shared=num_shared, coordination=coordination, download=download)
        for num_shared in (1, 5, DIMENSION)
        for coordination in ("client", "common")
        for download in ("same", "previous", "independent", "full")
    ]
    + [
        Masks(num_shared=num_shared, layers=LAYERS, coordination=coordination, download=download)
        for num_shared, coordination, download in (
            (1, "client", "same"),
            (2, "client", "previous"),
            (2, "common", "independent"),
            (3, "common", "previous"),
            (4, "client", "same"),
            (3, "client", "never"),
        )
    ]
    + [Masks(num_shared=5, coordination="common", download="never")]
)

# Every rule with every mask, and a client that learns alone: all of them train side by side in one engine call.
# With one neighbour Krum always ties (two uploads are each other's nearest) and takes the first: engines agree on it.
ARMS = [
    *(Arm(masks=masks, rule=row.choice) for row in RULE_ROWS for masks in MASK_ROWS),
    *(Arm(masks=masks, rule=Choice("krum", {"closest": 1})) for masks in MASK_ROWS[:3]),
    *(
        Arm(
            masks=Masks(num_shared=m, coordination="common", download="previous"),
            rule=r,
            mixing=mixing,
            averaging=share,
            client_averaging=power,
        )
        for m, r, mixing, share, power in (
            (5, "table", 0.2, 0.0, 0.0),
            (5, "median", 0.5, 0.5, 1.5),
            (13, "clipped_median", 1.0, 0.3, 0.0),
            (5, "mean", 0.9, 1.0, 8.0),
        )
    ),
    Arm(masks=Masks(num_shared=5, coordination="common", download="never"), rule=Choice("table"), client_averaging=3.0),
    Arm(masks=MASK_ROWS[0], exchange=False),
]
# Every mask, and every rule with four of them: an engine that compiles each arm apart takes a minute for all of ARMS.
COVERING_ARMS = [
    *(
        Arm(masks=MASK_ROWS[(2 * place + 3 * turn) % len(MASK_ROWS)], rule=row.choice)
        for place, row in enumerate(RULE_ROWS)
        for turn in range(4)
    ),
    *ARMS[-3:],
]
FEW_ARMS = ARMS[:: len(MASK_ROWS) // 2] + ARMS[-2:]  # two or three masks a rule

SMALL = Federation(
    num_clients=19,
    dimension=DIMENSION,
    num_participants=7,
    num_byzantine=6,
    rounds=25,
    step_size=0.05,
    window=10,
    attack=ATTACK_ROWS[1],
)


def changed(**changes: Any) -> Federation:
    """Return SMALL with changes."""
    return Federation(**{name: getattr(SMALL, name) for name in SMALL.__slots__} | changes)


@dataclass(frozen=True)
class EngineCase:
    """A federation and the arms an engine must train in it as the oracle does."""

    label: str
    federation: Federation
    arms: list[Arm]
    seed: int = 1


ENGINE_CASES = [
    *(EngineCase(f"attack-{a.name}", changed(attack=a), ARMS) for a in ATTACK_ROWS[1:2]),
    *(EngineCase(f"attack-{i}-{a.name}", changed(attack=a), FEW_ARMS) for i, a in enumerate(ATTACK_ROWS) if i != 1),
    EngineCase("idle-clients-rest", changed(idle_learning=False), FEW_ARMS),
    EngineCase("window-longer-than-training", changed(window=1000), FEW_ARMS),
    EngineCase("window-of-one", changed(window=1), FEW_ARMS),
    EngineCase("one-round", changed(rounds=1), FEW_ARMS),
    EngineCase("everyone-takes-part", changed(num_participants=19), FEW_ARMS),
    EngineCase("past-a-check-for-divergence", changed(rounds=120, step_size=0.02), FEW_ARMS),
    EngineCase("no-byzantine-client", changed(num_byzantine=0), FEW_ARMS),
    EngineCase(  # a lone honest client is imitated exactly, so that Krum's scores tie and any choice is right
        "only-one-honest-client",
        changed(num_byzantine=18, attack=ATTACK_ROWS[2]),
        [arm for arm in FEW_ARMS if "krum" not in arm.rule.name],
    ),
    EngineCase(
        "one-participant",
        changed(num_participants=1),
        [Arm(masks=m, rule=Choice(r)) for r in ("mean", "mean_of_sharers", "median") for m in MASK_ROWS],
    ),
    EngineCase(
        "one-coordinate",
        changed(dimension=1),
        [Arm(masks=Masks(num_shared=1), rule=row.choice) for row in RULE_ROWS],
    ),
    EngineCase(
        "width-of-a-vector-register",
        changed(dimension=16),
        [Arm(masks=Masks(num_shared=m), rule=row.choice) for row in RULE_ROWS for m in (7, 16)],
    ),
    EngineCase(
        "more-coordinates-than-are-ranked-by-counting",
        changed(dimension=600, step_size=0.002, rounds=6),
        [Arm(masks=Masks(num_shared=m, download="previous"), rule=Choice("median")) for m in (70, 300)],
    ),
]


def rows_of(seed: int, n: int, dimension: int = 9, density: float = 0.6) -> tuple[Any, ...]:
    """Return float64 `(ids, rows, sent, previous)` of one random round of n uploads; ids are not in order."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(1000)[:n]
    sent = rng.random((n, dimension)) < density
    return ids, rng.standard_normal((n, dimension)), sent, rng.standard_normal(dimension)


# Calibration: options of each member, as tests/contracts/test_filters.py uses them.
FILTER_ROWS = {
    "keep_all": {},
    "known_count": {"suspects": 3},
    "mad": {},
    "cautious": {},
    "estimated_count": {"method": "gap"},
    "down_weight": {},
    "ordered": {"suspects": 3},
    "mixture": {"suspects": 3},
    "vigilant": {"suspects": 3},
}
RANGE_ROWS = {"max": {"factor": 1.5}, "high_quantile": {"level": 0.9}, "median_mad": {}, "overflow": {}}
# name -> options, what three scores become when the honest mean is 2, the range 5, the normals -3, 0, 1, the honest
# scores 1, 2, 3 and their quantiles 1, 2, 3 too
SCORE_ATTACK_ROWS = {
    "none": ({}, [1.0, 2.0, 4.0]),
    "efficiency": ({}, [0.0, 0.0, 0.0]),
    "coverage": ({"multiple": 10}, [20.0, 20.0, 20.0]),
    "random": ({"sd": 0.5}, [0.0, 2.0, 4.5]),
    # shape 5 is honest: the normals' levels .00135, .5 and .8413 are read off 1, 2, 3 at 1/6, 1/2, 5/6
    "collusion": ({"shape": 5.0}, [1.0, 2.0, 3.0]),
    "partial": ({"fraction": 1 / 3, "multiple": 4.0}, [8.0, 2.0, 4.0]),
    "tail": ({"above": 0.5, "factor": 3.0}, [1.0, 2.0, 8.0]),
    "copy": ({"factor": 2.0}, [2.0, 4.0, 6.0]),
}
# name -> scores of predictions 1.5, 1, 0.5 for targets 1, -2, 0.5
SCORE_ROWS = {"absolute_residual": [0.5, 3.0, 0.0]}
