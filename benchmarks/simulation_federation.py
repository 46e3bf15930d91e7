"""What a round costs beside Flower's FedAvg in Flower's own simulation (Ray), with the same trivial client.

    pip install 'prism-fcp[simulation]'
    python benchmarks/simulation_federation.py [--clients 100] [--dimension 10000] [--rounds 20]

Rounds are timed on the server, the first left out: Ray starts its workers in it. Wall time, for CPU time is spread over
Ray's processes; compare the two columns of one run.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from federation import Trivial
from prism_fcp import lines
from prism_fcp.federation import Agreement, Patience, Training, client_app, server_app


class Timed(FedAvg):
    """FedAvg that notes when each round's replies are in."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.at: list[float] = []

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        found = super().aggregate_train(server_round, replies)
        self.at.append(time.monotonic())
        return found


def fedavg(clients: int, dimension: int, rounds: int) -> float:
    """Return the median seconds between rounds of Flower's FedAvg."""
    app, server = ClientApp(), ServerApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        (array,) = message.content["arrays"].to_numpy_ndarrays()
        content = RecordDict(
            {"arrays": ArrayRecord([array + np.float32(1)]), "metrics": MetricRecord({"num-examples": 100})}
        )
        return Message(content, reply_to=message)

    strategy = Timed(fraction_train=1.0, fraction_evaluate=0.0, min_available_nodes=clients, min_train_nodes=clients)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        while len(list(grid.get_node_ids())) < clients:
            time.sleep(0.1)
        strategy.start(grid, ArrayRecord([np.zeros(dimension, np.float32)]), num_rounds=rounds)

    run_simulation(server, app, clients)
    return float(np.median(np.diff(strategy.at)))


def ours(clients: int, dimension: int, rounds: int, training: Training) -> float:
    """Return the median seconds between our rounds; clients keep their state in files, as they must there."""
    names = tuple(f"client-{k:04d}" for k in range(clients))
    agreement = Agreement(
        name="bench", clients=names, model=None, training=training, patience=Patience(deadline=600.0, wait=60.0)
    )
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "federation.toml").write_text(
            "name = 'bench'\nmodel = 'own'\nclients = [" + ", ".join(map(repr, names)) + "]\n", encoding="utf-8"
        )
        app = client_app(
            lambda *_: Trivial(dimension),
            settings=lambda name, context: {"state": home / "state" / f"{name}.npz"},
        )
        os.environ["PRISM_FCP_PROJECT"] = folder
        server = server_app(agreement, start=lambda layers: np.zeros(dimension, np.float32))
        run_simulation(server, app, clients)
        events, _ = lines.read(home / "runs" / "bench" / "events.jsonl")
    ended = [np.datetime64(one["at"][:-1]) for one in events if one["event"] == "round"]
    return float(np.median(np.diff(ended) / np.timedelta64(1, "s")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("clients", 100), ("dimension", 10_000), ("rounds", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    size = (options.clients, options.dimension, options.rounds)
    base = fedavg(*size)
    print(f"{'Flower FedAvg':24} {base:8.3f} s a round")
    rows = {
        "paper, M/D = 0.2": Training(protocol="paper", share=0.2, rounds=options.rounds),
        "default, M/D = 0.2": Training(protocol="default", share=0.2, rounds=options.rounds),
    }
    for name, training in rows.items():
        cost = ours(*size, training)
        print(f"{name:24} {cost:8.3f} s a round, {cost / base:.2f} of FedAvg's", flush=True)


if __name__ == "__main__":
    main()
