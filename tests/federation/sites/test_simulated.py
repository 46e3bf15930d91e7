"""Sites that learn for themselves and a server that takes the mean are the readable engine, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from prism_fcp.data.clients import ClientData
from prism_fcp.data.friedman import friedman
from prism_fcp.federation.sites import SiteRows, table_site
from prism_fcp.models import linear, mlp
from prism_fcp.streams import Role
from prism_fcp.train.loop import train_readable
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice, Model

CLIENTS, ROWS, ROUNDS = 5, 40, 30


@pytest.mark.parametrize("model", [linear(10), mlp(10, (6,))], ids=["linear", "mlp"])
@pytest.mark.parametrize(("steps", "size", "momentum"), [(1, 1, 0.0), (2, 7, 0.9)])
def test_sites_and_a_mean_are_the_readable_engine(model: Model, steps: int, size: int, momentum: float) -> None:
    table = friedman(CLIENTS * ROWS, np.random.default_rng(1))
    features, target = table.features - 0.5, (table.target - 14) / 5
    cuts = [np.split(own, [20, 30]) for own in np.split(np.arange(CLIENTS * ROWS), CLIENTS)]
    drawn = ClientData.of(9, model, features, target, [(own[0], own[1], own[2]) for own in cuts], 0)
    width = model.layers[-1].stop
    federation = Federation(
        num_clients=CLIENTS, num_participants=CLIENTS, dimension=width, rounds=ROUNDS, window=1, num_byzantine=0,
        attack=Choice("none"), step_size=0.02, local_steps=steps, batch_size=size, momentum=momentum,
    )  # fmt: skip
    (engine,) = train_readable(drawn, federation, [Arm(masks=Masks(num_shared=width), rule=Choice("mean"))])

    sites = []
    for place, own in enumerate(cuts):
        train, calibration, test = ((features[part], target[part]) for part in own)
        rows = SiteRows.parts(f"client-{place}", train, calibration, test, key=place)
        sites.append(
            table_site(
                rows, model, step_size=0.02, local_steps=steps, batch_size=size, momentum=momentum, start_key=drawn.key
            )
        )
    shared = sites[0].start()
    np.testing.assert_array_equal(shared, drawn.start)
    for number in range(1, ROUNDS + 1):
        local = [site.step(shared, number) for site in sites]
        shared = np.mean(local, axis=0, dtype=np.float64).astype(np.float32)
    np.testing.assert_allclose(shared, engine.global_model, rtol=1e-5, atol=1e-6)
    residuals = drawn.residuals(engine.local_models, Role.CALIBRATION)
    for site, mine, theirs in zip(sites, local, residuals, strict=True):
        np.testing.assert_allclose(site.scores(mine), theirs, rtol=1e-5, atol=1e-5)
