"""What a round costs beside Flower's own FedAvg, with the same trivial client, both in one process; and bytes.

python benchmarks/federation.py            every size
python benchmarks/federation.py --quick    the smallest
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from prism_fcp.calibrate.grid import LogGrid
from prism_fcp.federation import Agreement, Calibrating, Patience, Training
from prism_fcp.federation.apps import client_app
from prism_fcp.federation.conduct import Conductor
from prism_fcp.federation.grid import InProcessGrid
from prism_fcp.federation.keys import SecretKeys
from prism_fcp.federation.messages import wrap
from prism_fcp.federation.store import MemoryStore
from prism_fcp.federation.strategy import PrismStrategy
from prism_fcp.types import Layer

SIZES = ((100, 10_000), (1_000, 10_000), (100, 1_000_000))


class WireGrid(InProcessGrid):
    """The grid in one process, every message taken apart and put together again as Flower's network does."""

    bytes_up = 0
    bytes_down = 0

    def _answer(self, message: Message) -> Message:
        asked, down = _travelled(message)
        reply, up = _travelled(super()._answer(asked))
        self.bytes_up, self.bytes_down = self.bytes_up + up, self.bytes_down + down
        return reply


def _travelled(message: Message) -> tuple[Message, int]:
    things = get_all_nested_objects(message)
    parts = {name: thing.deflate() for name, thing in things.items()}
    (name,) = [name for name, thing in things.items() if thing is message]
    there = inflate_object_from_contents(name, dict(parts))
    assert isinstance(there, Message)
    there.metadata.__dict__["_message_id"] = message.metadata.message_id
    return there, sum(map(len, parts.values()))


class Trivial:
    """A client that adds one to every parameter."""

    samples = 100

    def __init__(self, dimension: int) -> None:
        self.layers = (Layer("weights", 0, dimension),)

    def step(self, parameters: Any, round_number: int) -> Any:
        return parameters + np.float32(1)

    def scores(self, parameters: Any) -> Any:
        return np.linspace(0.1, 1, 100)

    def evaluate(self, parameters: Any, radius: float) -> tuple[int, int, float]:
        return 90, 100, 0.5


def ours(
    clients: int, dimension: int, rounds: int, training: Training, kind: type[InProcessGrid]
) -> tuple[float, PrismStrategy]:
    """Return the CPU seconds of a round, and the strategy that was run.

    Where few clients take part in a round, so many rounds go before that nearly all have (95 %): until then the
    server's table is emptier than it will be for the rest of the run.
    """
    before = 1 if training.participants is None else 3 * clients // training.participants
    names = tuple(f"client-{k:04d}" for k in range(clients))
    agreement = Agreement(
        name="bench",
        clients=names,
        model=None,
        training=training,
        calibration=Calibrating(grid=LogGrid()),
        patience=Patience(wait=0.0),
    )
    site = Trivial(dimension)
    stores = {name: MemoryStore() for name in names}
    app = client_app(lambda *told: site, settings=lambda name, context: {}, stores=stores)
    grid = kind(app, [{"client": name} for name in names], {})
    with tempfile.TemporaryDirectory() as folder:
        conductor = Conductor(
            agreement, Path(folder), keys=SecretKeys.seeded(1), start=lambda layers: np.zeros(dimension, np.float32)
        )
        made = conductor._coordinator()
        from prism_fcp.federation.events import Events

        strategy = PrismStrategy(made, Events(Path(folder) / "events.jsonl"))
        strategy.gather(grid)
        made.prepare()
        strategy.set_up(grid, list(strategy.nodes.values()))
        strategy.start(grid, ArrayRecord(), num_rounds=before)
        gc.collect()
        began = time.process_time()
        strategy.start(grid, ArrayRecord(), num_rounds=rounds)
        return (time.process_time() - began) / rounds, strategy


def fedavg(
    clients: int, dimension: int, rounds: int, kind: type[InProcessGrid], participants: int | None = None
) -> float:
    """Return the CPU seconds of a round of Flower's FedAvg, with as many clients in each round."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        (array,) = message.content["arrays"].to_numpy_ndarrays()
        arrays = ArrayRecord([array + np.float32(1)])
        metrics = MetricRecord({"num-examples": 100})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    grid = kind(app, [{}] * clients, {})
    asked = participants or clients
    strategy = FedAvg(
        fraction_train=asked / clients, fraction_evaluate=0.0, min_available_nodes=clients, min_train_nodes=asked
    )
    start = ArrayRecord([np.zeros(dimension, np.float32)])
    strategy.start(grid, start, num_rounds=1)
    gc.collect()
    began = time.process_time()
    strategy.start(grid, start, num_rounds=rounds)
    return (time.process_time() - began) / rounds


def message_bytes(dimension: int, num_shared: int) -> dict[str, int]:
    """Return what an upload of M float32 values weighs: its values, Flower's message, and its objects on the wire."""
    grid = InProcessGrid(ClientApp(), [{}], {})
    asked = Message(wrap(b"x" * 40), 2**63 + 1, "train", ttl=60.0)
    asked.metadata.__dict__["_message_id"] = "a" * 64
    del grid
    reply = Message(wrap(b"\1" * (4 * num_shared)), reply_to=asked)
    reply.metadata.__dict__["_message_id"] = "b" * 64
    return {"values": 4 * num_shared, "message": message_to_proto(reply).ByteSize(), "objects": _deflated(reply)}


def _deflated(thing: Any) -> int:
    return len(thing.deflate()) + sum(_deflated(child) for child in (thing.children or {}).values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest size only")
    options = parser.parse_args()
    import logging

    logging.getLogger("flwr").setLevel(logging.ERROR)
    rows: Mapping[str, Training] = {
        "paper, M/D = 0.2": Training(protocol="paper", share=0.2, rounds=10_000),
        "default, M/D = 0.2": Training(protocol="default", share=0.2, rounds=10_000),
        "fedavg row": Training(protocol="fedavg", rounds=10_000),
        "default, 10 a round": Training(protocol="default", share=0.2, rounds=10_000, participants=10),
    }
    print(f"{'grid':7} {'K':>5} {'D':>9}  {'strategy':24} {'CPU s a round':>14} {'over FedAvg':>12}")
    for clients, dimension in SIZES[: 1 if options.quick else None]:
        rounds = 5 if clients * dimension <= 10**7 else 3
        for way, kind in (("objects", InProcessGrid), ("bytes", WireGrid)):
            start = f"{way:7} {clients:5} {dimension:9,}"
            base: dict[int | None, float] = {}
            for name, training in rows.items():
                asked = training.participants
                measured = rounds if asked is None else 6 * rounds  # short ones
                if asked not in base:
                    base[asked] = fedavg(clients, dimension, measured, kind, asked)
                    label = "Flower FedAvg" + (f", {asked} a round" if asked else "")
                    print(f"{start}  {label:24} {base[asked]:14.4f} {1:12.2f}", flush=True)
                cost, _ = ours(clients, dimension, measured, training, kind)
                print(f"{start}  {name:24} {cost:14.4f} {cost / base[asked]:12.2f}", flush=True)
    print(f"\n{'D':>9} {'M':>7}  {'values':>9} {'message':>9} {'objects':>9}  of full sharing")
    for dimension, shared in ((81, 8), (81, 24), (81, 40), (1_000, 300), (10**6, 50_000), (10**6, 300_000)):
        own, full = message_bytes(dimension, shared), message_bytes(dimension, dimension)
        part = own["objects"] / full["objects"]
        print(
            f"{dimension:9,} {shared:7,}  {own['values']:9,} {own['message']:9,} {own['objects']:9,}  "
            f"{100 * part:.2f} % (M/D = {100 * shared / dimension:.2f} %)"
        )


if __name__ == "__main__":
    main()
