"""A PyTorch module in a federation: its tensors travel layer by layer, and every site calibrates. Run as it stands.

Here all sites are in one process. In a project (`prism-fcp federate init`), `make_site` goes into client_app.py as
`app = client_app(make_site)`, `start` into server_app.py as `app = server_app(start=start)`, and federation.toml says
model = "own".
"""

import sys
import tempfile
from importlib.util import find_spec

import numpy as np

from prism_fcp.federation import Agreement, Patience, Training, run_in_process
from prism_fcp.federation.sites import SiteRows, as_table
from prism_fcp.federation.sites.torch import TorchLearner, torch_site

SITES = ("north", "east", "south", "west", "lake", "coast")
QUICK = "--quick" in sys.argv


def net():
    """The module every site trains; its four tensors are what layer-wise sharing deals."""
    from torch import nn

    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1), nn.Flatten(0))


def optimiser(parameters):
    from torch.optim import SGD

    return SGD(parameters, lr=0.05)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Stand in for a site's own data: the same law everywhere, more rows at some sites than at others."""
    place = SITES.index(name)
    rng = np.random.default_rng(place)
    inputs = rng.uniform(-1, 1, (300 + 60 * place, 5))
    return inputs, np.sin(2 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.1 * rng.standard_normal(len(inputs))


def make_site(name, settings, agreement):
    rows = SiteRows.cut(name, as_table(name, *load(name)))
    return torch_site(rows, net, optimiser, local_steps=10, batch_size=32)


def start(layers):
    """The server's first parameters: the module as it is made, from a seed of the learner's."""
    return TorchLearner(net, optimiser).start()


if __name__ == "__main__":
    if find_spec("torch") is None:
        print("this example needs PyTorch: pip install torch==2.13.0")
        sys.exit(0)
    agreement = Agreement(
        name="torch-net",
        clients=SITES,
        model=None,
        patience=Patience(wait=0),
        training=Training(rounds=5 if QUICK else 40, layers=True, num_shared=2, protocol="default"),
    )
    with tempfile.TemporaryDirectory() as folder:
        told = run_in_process(agreement, make_site, folder, start=start)
    (level,) = told["evaluation"]["levels"]
    print(f"{told['parameters']} parameters in 4 tensors, 2 of them a round; {told['protocol']}")
    share, rows = level["coverage"], told["evaluation"]["rows"]
    print(f"width {2 * level['radius']:.3g} covers {100 * share:.1f} % of {rows} rows")
