"""scikit-learn's SGDRegressor in a federation, one site of eight lying in calibration: the audit names it.

Here all sites are in one process. In a project (`prism-fcp federate init`), `make_site` goes into client_app.py as
`app = client_app(make_site)`, and federation.toml says model = "own".
"""

import sys
import tempfile

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import SGDRegressor

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.federation import Agreement, Patience, Training, run_in_process
from prism_fcp.federation.drill import Drill
from prism_fcp.federation.sites import SiteRows, as_table, estimator_site

SITES = tuple(f"clinic-{k}" for k in range(1, 9))
FEATURES, TARGET = load_diabetes(return_X_y=True)
OWNER = np.random.default_rng(1).permutation(len(TARGET)) % len(SITES)  # who holds which patient
QUICK = "--quick" in sys.argv


def estimator():
    return SGDRegressor(learning_rate="constant", eta0=0.01, penalty=None)


def make_site(name, settings, agreement):
    own = OWNER == SITES.index(name)
    return estimator_site(SiteRows.cut(name, as_table(name, FEATURES[own], TARGET[own])), estimator, batch_size=8)


if __name__ == "__main__":
    agreement = Agreement(
        name="diabetes",
        clients=SITES,
        model=None,
        patience=Patience(wait=0),
        training=Training(rounds=30 if QUICK else 300, share=0.5, protocol="follow"),
    )
    liar = {"clinic-5": Drill(score_attack=SCORE_ATTACKS["efficiency"]())}  # says it makes no errors at all
    with tempfile.TemporaryDirectory() as folder:
        told = run_in_process(
            agreement, make_site, folder, drills=liar, start=lambda layers: np.zeros(layers[-1].stop, np.float32)
        )
    (level,) = told["evaluation"]["levels"]
    share, rows = level["coverage"], told["evaluation"]["rows"]
    print(f"width {2 * level['radius']:.4g} covers {100 * share:.1f} % of {rows} rows")
    for reason in told["left_out"].values():
        print(f"left out: {reason}")
