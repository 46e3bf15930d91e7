"""The federation in one process against the readable engine on the same draws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prism_fcp import io, streams
from prism_fcp.calibrate.combine import calibrate_summaries
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.data.synthetic import SyntheticLinear, residuals_by_law
from prism_fcp.streams import Role
from prism_fcp.train.loop import train_readable
from prism_fcp.types import Choice

flwr = pytest.importorskip("flwr")

from dataclasses import replace  # noqa: E402

from prism_fcp.calibrate.attack import SCORE_ATTACKS, ScoreAttackView  # noqa: E402
from prism_fcp.federation.agreement import Agreement, Calibrating, Patience, Training  # noqa: E402
from prism_fcp.federation.drill import Drill  # noqa: E402
from prism_fcp.federation.keys import SimulatedKeys  # noqa: E402
from prism_fcp.federation.local import run_in_process  # noqa: E402
from prism_fcp.federation.sites.synthetic import SyntheticClients  # noqa: E402
from prism_fcp.federation.store import unpack  # noqa: E402
from prism_fcp.train.attack import UPDATE_ATTACKS  # noqa: E402

CLIENTS, DIMENSION, ROUNDS = 100, 20, 150
PROTOCOLS = {
    "paper": Training(protocol="paper", share=0.2),
    "default": Training(protocol="default", share=0.2),
    "fedavg": Training(protocol="fedavg"),
    "follow": Training(protocol="follow", share=0.2),
    "idle": Training(protocol="paper", share=0.2, idle_learning=False),
}


def agreement(training: Training, **calibration: object) -> Agreement:
    told = replace(training, rounds=ROUNDS, participants=10, step_size=0.025)
    return Agreement(
        name="oracle",
        clients=tuple(f"client-{k:03d}" for k in range(CLIENTS)),
        training=told,
        calibration=Calibrating(grid=LinearGrid(4.0, 100), **calibration),
        patience=Patience(wait=0.0),
    )


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_federation_equals_the_readable_engine(name: str, tmp_path: Path) -> None:
    agreed = agreement(PROTOCOLS[name], filter=Choice("known_count"), suspects=20)
    population = SyntheticLinear().draw(CLIENTS, DIMENSION, 20, seed=3)
    clients = SyntheticClients(population, agreed.clients)
    attackers = {
        agreed.clients[k]: Drill(
            UPDATE_ATTACKS["gaussian"](), SCORE_ATTACKS["efficiency"](), SimulatedKeys(population.key), int(k)
        )
        for k in np.flatnonzero(population.byzantine)
    }
    told = run_in_process(agreed, clients.site, tmp_path, keys=SimulatedKeys(population.key), drills=attackers)

    terms = agreed.terms(clients.site(agreed.clients[0], {}, agreed.common).layers, linear=True, samples=10**9)
    federation = replace(terms.federation, num_byzantine=20, attack=Choice("gaussian"))
    (wanted,) = train_readable(population, federation, [terms.arm])
    with np.load(tmp_path / "checkpoint.npz") as kept:
        states = [unpack(kept[f"client-{k}"].tobytes(), "client") for k in range(CLIENTS)]
    local = np.stack([state.parameters for state in states])
    final = np.stack([state.final for state in states])
    np.testing.assert_allclose(local, wanted.local_models, atol=1e-6)
    scoring = wanted.local_models if terms.scoring_model == "local" else np.tile(wanted.global_model, (CLIENTS, 1))
    np.testing.assert_allclose(final, scoring, atol=1e-6)

    rng = streams.generator(streams.child(population.key, Role.CALIBRATION))
    scores = residuals_by_law(population, scoring, rng.standard_normal((CLIENTS, 100), dtype=np.float32))
    scores = scores.astype(np.float64)
    scores[population.byzantine] = SCORE_ATTACKS["efficiency"]().forge(ScoreAttackView(scores[population.byzantine]))
    spec = CalibrationSpec.load(tmp_path / "spec.json")
    summaries = [summarize(own, spec, client) for own, client in zip(scores, agreed.clients, strict=True)]
    oracle = calibrate_summaries(summaries, spec, filter=FILTERS["known_count"](), suspects=20)
    body = io.read_json(tmp_path / "calibration.json", "calibration")
    assert body["levels"][0]["radius"] == pytest.approx(oracle.levels[0].radius, abs=1e-6)
    left_out = {row["client"] for row in body["clients"] if row["status"] == "left out"}
    assert left_out == {agreed.clients[k] for k in np.flatnonzero(oracle.weights == 0)}
    assert left_out == {agreed.clients[k] for k in np.flatnonzero(population.byzantine)}
    assert told["rounds"] == ROUNDS
