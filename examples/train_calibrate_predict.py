"""Train a federation with attackers in it, calibrate without them, predict with intervals; run as it stands."""

import sys

import numpy as np

from prism_fcp import Arm, Choice, Federation, Masks, Predictor, SyntheticLinear
from prism_fcp.calibrate.calibrate import calibrate
from prism_fcp.calibrate.filter import known_count
from prism_fcp.engines import ENGINES

rounds = 300 if "--quick" in sys.argv else 1000
federation = Federation(num_clients=40, dimension=20, num_participants=10, num_byzantine=8, rounds=rounds)
clients = SyntheticLinear().draw(federation.num_clients, federation.dimension, federation.num_byzantine, seed=1)

# 1. Train: every client shares 6 of 20 coordinates a round, and the server takes medians.
arm = Arm(masks=Masks(num_shared=6, coordination="common", download="previous"), rule=Choice("median"))
(trained,) = ENGINES["readable"](clients, federation, [arm])

# 2. Calibrate: residuals of fresh samples under each client's own model; attackers report zeros.
rng = np.random.default_rng(7)


def residuals(samples: int) -> np.ndarray:
    inputs = clients.inputs(rng.standard_normal((samples, federation.num_clients, federation.dimension)))
    targets = clients.targets(inputs, rng.standard_normal((samples, federation.num_clients)))
    return np.abs(targets - np.einsum("nkd,kd->nk", inputs, trained.local_models)).T


reported = residuals(500)
reported[clients.byzantine] = 0.0
calibration = calibrate(list(reported), confidence_level=0.9, filter=known_count(8))
print("attackers :", np.flatnonzero(clients.byzantine).tolist())
print("left out  :", sorted(calibration.left_out))
print("one reason:", next(iter(calibration.left_out.values())))

# 3. Predict: an honest client's own model with the common radius.
client = int(np.flatnonzero(~clients.byzantine)[0])
predictor = Predictor(lambda x: x @ trained.local_models[client]).conformalize(calibration)
intervals = predictor.predict_interval(rng.standard_normal((3, federation.dimension)))
for middle, low, high in zip(intervals.point, intervals.lower, intervals.upper, strict=True):
    print(f"prediction {middle:+.2f} in [{low:+.2f}, {high:+.2f}]")
covered = (residuals(500)[~clients.byzantine] <= calibration.radius).mean()
print(f"coverage of honest clients {100 * covered:.1f} %, width {calibration.width:.2f}")
