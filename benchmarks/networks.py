"""A neural net in a federation: the engine `xla` beside hand-written NumPy and a loop of jitted steps; `table-uci`."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

import numpy as np

from prism_fcp.data.clients import ClientData
from prism_fcp.engines import ENGINES
from prism_fcp.lab.catalog import named
from prism_fcp.train.settings import Arm, Federation, Masks
from timing import Line, child, cpu_seconds, medians, turns

HIDDEN = 64
ROUNDS = 1000
Parts = list[tuple[np.ndarray, np.ndarray]]


def work(rounds: int) -> tuple[ClientData, Federation, Arm]:
    """Return table-nonlinear's first trial, its federation with so many rounds, and the arm of PRISM-FCP at 30 %."""
    setup = named("table-nonlinear").setup
    changed = {name: getattr(setup.federation, name) for name in setup.federation.__slots__} | {"rounds": rounds}
    population = setup.draw(1, 0)
    assert isinstance(population, ClientData)
    size = len(population.start)
    return population, Federation(**changed), Arm(masks=Masks(num_shared=round(0.3 * size)))


def parts_of(models: np.ndarray, features: int) -> Parts:
    """Return (weights, biases) of the three layers, views of flat models (n, P)."""
    found, start = [], 0
    for rows, columns in ((features, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)):
        cut, stop = start + rows * columns, start + (rows + 1) * columns
        found.append((models[:, start:cut].reshape(-1, rows, columns), models[:, cut:stop]))
        start = stop
    return found


def by_hand(population: ClientData, federation: Federation, arm: Arm, seed: int = 0) -> np.ndarray:
    """Train with float32 NumPy, batched over the selected clients; its draws are NumPy's own."""
    rng = np.random.default_rng(seed)
    clients, chosen, batch = federation.num_clients, federation.num_participants, federation.batch_size
    size, features, shared = federation.dimension, population.features.shape[1], arm.masks.num_shared
    options = federation.attack.options
    strength, probability = np.float32(np.sqrt(options["variance"])), options["probability"]
    step = np.float32(federation.step_size)
    model = population.start.astype(np.float32)
    local = np.tile(model, (clients, 1))
    slopes = np.empty((chosen, size), np.float32)
    (d1, e1), (d2, e2), (d3, e3) = parts_of(slopes, features)
    for n in range(federation.rounds):
        who = rng.choice(clients, chosen, replace=False)
        words = rng.random((chosen, size))
        mask = words <= np.partition(words, shared - 1, axis=1)[:, shared - 1 : shared]
        mine = np.where(mask, model, local[who])

        at = (n * batch + np.arange(batch)) % population.train_sizes[who, None]
        rows = np.take_along_axis(population.train[who], at, axis=1)
        inputs, targets = population.features[rows], population.target[rows]
        (w1, b1), (w2, b2), (w3, b3) = parts_of(mine, features)
        first = np.maximum(np.matmul(inputs, w1) + b1[:, None], 0)
        second = np.maximum(np.matmul(first, w2) + b2[:, None], 0)
        flow = (np.matmul(second, w3) + b3[:, None] - targets[..., None]) / np.float32(batch)
        np.matmul(second.swapaxes(1, 2), flow, out=d3)
        flow.sum(axis=1, out=e3)
        flow = flow * w3.swapaxes(1, 2) * (second > 0)
        np.matmul(first.swapaxes(1, 2), flow, out=d2)
        flow.sum(axis=1, out=e2)
        flow = np.matmul(flow, w2.swapaxes(1, 2)) * (first > 0)
        np.matmul(inputs.swapaxes(1, 2), flow, out=d1)
        flow.sum(axis=1, out=e1)
        mine -= step * slopes
        local[who] = mine

        hit = np.flatnonzero(population.byzantine[who] & (rng.random(chosen) < probability))
        if len(hit):
            mine[hit] += strength * rng.standard_normal((len(hit), size), dtype=np.float32)
        model = np.where(mask, mine, model).mean(axis=0)
    return model


def by_client(population: ClientData, federation: Federation, arm: Arm, *, all_in_jax: bool, seed: int = 0) -> Any:
    """Train with one jitted JAX step a client: its learning, or with `all_in_jax` its masks and normals too."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    clients, chosen, batch = federation.num_clients, federation.num_participants, federation.batch_size
    size, shared = federation.dimension, arm.masks.num_shared
    options = federation.attack.options
    strength, probability = np.float32(np.sqrt(options["variance"])), options["probability"]
    learner: Any = population.model

    def loss(model: Any, inputs: Any, targets: Any) -> Any:
        return 0.5 * jnp.square(learner.forward(jnp, model, inputs)[-1][..., 0] - targets).mean()

    def learn(own: Any, model: Any, mask: Any, inputs: Any, targets: Any) -> Any:
        own = jnp.where(mask, model, own)
        return own - jnp.float32(federation.step_size) * jax.grad(loss)(own, inputs, targets)

    @jax.jit
    def whole(key: Any, own: Any, model: Any, bad: Any, inputs: Any, targets: Any) -> Any:
        dealt, hit, noise = jax.random.split(key, 3)
        mask = jax.random.permutation(dealt, size) < shared
        own = learn(own, model, mask, inputs, targets)
        forged = own + strength * jax.random.normal(noise, (size,))
        sent = jnp.where(bad & (jax.random.uniform(hit) < probability), forged, own)
        return own, jnp.where(mask, sent, model)

    step, stack = jax.jit(learn), jax.jit(lambda rows: jnp.stack(rows).mean(axis=0))
    model: Any = population.start.astype(np.float32)
    local: list[Any] = [model] * clients
    for n in range(federation.rounds):
        uploads = []
        for k in rng.choice(clients, chosen, replace=False):
            at = (n * batch + np.arange(batch)) % population.train_sizes[k]
            rows = population.train[k, at]
            inputs, targets = population.features[rows], population.target[rows]
            if all_in_jax:
                key = jax.random.key(n * clients + k)
                local[k], sent = whole(key, local[k], model, population.byzantine[k], inputs, targets)
            else:
                words = rng.random(size)
                mask = words <= np.partition(words, shared - 1)[shared - 1]
                local[k] = sent = np.asarray(step(local[k], model, mask, inputs, targets))
                if population.byzantine[k] and rng.random() < probability:
                    sent = sent + strength * rng.standard_normal(size, dtype=np.float32)
                sent = np.where(mask, sent, model)
            uploads.append(sent)
        model = stack(uploads) if all_in_jax else np.mean(uploads, axis=0)
    return np.asarray(model)


def engines(quick: bool) -> list[Line]:
    """The engine `xla`, and the readable one, against NumPy by hand and loops of jitted steps; turn by turn."""
    rounds = 100 if quick else ROUNDS
    population, federation, arm = work(rounds)
    tasks = [
        lambda i: ENGINES["xla"](population, federation, [arm]),
        lambda i: by_hand(population, federation, arm, i),
        lambda i: by_client(population, federation, arm, all_in_jax=False, seed=i),
        lambda i: ENGINES["readable"](population, federation, [arm]),
    ]
    compiling = cpu_seconds(lambda: tasks[0](0))
    short = work(20)[1]
    for all_in_jax in (False, True):
        by_client(population, short, arm, all_in_jax=all_in_jax)  # compiles
    xla, hand, stepwise, readable = medians(lambda: turns(tasks, 1), 1 if quick else 5)
    part = work(20 if quick else 100)[1]  # it is slow
    whole = cpu_seconds(lambda: by_client(population, part, arm, all_in_jax=True)) * rounds / part.rounds
    name, note = f"net of {federation.dimension:,}", f"{rounds} rounds, K=100, 10 selected, batches of 32"
    return [
        Line(name, "xla / NumPy by hand", xla / hand, "x", 1.3, note=note),
        Line(name, "one jitted JAX step a client, all of it / xla", whole / xla, "x", 10, at_least=True,
             note=f"{part.rounds} rounds measured"),
        Line(name, "one jitted gradient step a client, NumPy around it / xla", stepwise / xla, "x"),
        Line(name, "readable / xla", readable / xla, "x"),
        Line(name, "xla", xla, "CPU-s", note=f"compiling: {compiling - xla:.1f} CPU-s before"),
        Line(name, "NumPy by hand", hand, "CPU-s"),
    ]  # fmt: skip


def table_uci(quick: bool) -> list[Line]:
    """`table-uci` at 20 trials on two cores, from the command line, where the table is."""
    if not os.environ.get("PRISM_FCP_SUPERCONDUCTIVITY"):
        print("skipped: PRISM_FCP_SUPERCONDUCTIVITY names no file", end=" ", file=sys.stderr)
        return []
    trials = 4 if quick else 20
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["reproduce", "table-uci", "--trials", str(trials), "--jobs", "2", "--out", folder]
        cpu, wall, memory = child(["-m", "prism_fcp", *arguments])
    return [
        Line("table-uci", f"{trials} trials, two jobs", wall, "s", 180, note=f"{cpu:.0f} CPU-s; needs two idle cores"),
        Line("table-uci", "peak memory of the largest process", memory, "GB", 3),
    ]
