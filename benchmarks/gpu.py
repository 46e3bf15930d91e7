"""The engine `xla` on a GPU, beside eager torch of the same training work: `python benchmarks/gpu.py [--quick]`.

Prints the card and its measured ceilings, then a table. "run" is the training of all rounds with its arguments on the
device, compiled; "limit" is the largest of three floors and the share of it that was reached:
bandwidth (each participant's model read and written once a round, and for clients that learn idly all of them; the
bytes of batches), flop (2 a weight and sample forwards, 4 backwards), launch (kernels a round x the card's time for
one that does nothing). torch is measured where it is installed and sees the card.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from prism_fcp.data.clients import ClientData
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.engines import xla
from prism_fcp.errors import DeviceMemoryError
from prism_fcp.lab.catalog import named
from prism_fcp.train.settings import Arm, Federation, Masks


class Ceilings(NamedTuple):
    """What the card does at best, measured."""

    bytes_per_second: float
    flops: float  # float32 matrix products
    launch: float  # seconds a kernel that does nothing takes inside a loop


class Row(NamedTuple):
    """One line of the table."""

    what: str
    compile: float
    run: float
    fetch: float
    torch: float | None
    limit: str


def seconds(task: Callable[[], Any], repeats: int = 3) -> float:
    """Return the median wall time of a task that ends on the host or is waited for."""
    found = []
    for _ in range(repeats):
        begun = time.perf_counter()
        jax.block_until_ready(task())
        found.append(time.perf_counter() - begun)
    return median(found)


def ceilings(quick: bool) -> Ceilings:
    """Measure them."""
    size = 2**20 if quick else 2**29
    held = jnp.arange(size, dtype=jnp.float32)
    copy = jax.jit(lambda x: x + 1)
    copy(held).block_until_ready()
    speed = 2 * 4 * size / seconds(lambda: copy(held), 7)
    n = 256 if quick else 8192
    square = jax.random.normal(jax.random.key(0), (n, n), jnp.float32)
    with jax.default_matmul_precision("float32"):
        product = jax.jit(lambda a: a @ a)
        product(square).block_until_ready()
        flops = 2 * n**3 / seconds(lambda: product(square), 5)

    def loop(kernels: int) -> Callable[[Any], Any]:
        def body(x: Any, _: Any) -> tuple[Any, None]:
            for _ in range(kernels):
                x = x + 1e-9 * x.sum()  # a sum cannot join the one before it in a kernel
            return x, None

        return jax.jit(lambda x: jax.lax.scan(body, x, None, length=1000)[0])

    one, many = loop(1), loop(21)
    spent = []
    for program in (one, many):
        program(jnp.ones(64)).block_until_ready()
        spent.append(seconds(lambda program=program: program(jnp.ones(64))))
    return Ceilings(speed, flops, max(1e-9, (spent[1] - spent[0]) / 20_000))


def work_of(federation: Federation, arms: int, trials: int, weights: int, features: int) -> tuple[float, float]:
    """Return the fewest bytes and the flops of a round; `weights` are those of matrices, 0 for one LMS step."""
    learning = federation.num_clients if federation.idle_learning else federation.num_participants
    samples = federation.batch_size * federation.local_steps
    moved = arms * 2 * learning * federation.dimension * 4 + learning * samples * (features + 1) * 4
    flops = arms * learning * samples * (6 * weights if weights else 4 * federation.dimension)
    return trials * moved, trials * flops


def kernels_of(task: Callable[[], Any], rounds: int, folder: Path) -> tuple[float, float]:
    """Return the kernels a round and the seconds they ran, from a profile; zeros where the profiler sees none."""
    try:
        with jax.profiler.trace(str(folder)):
            jax.block_until_ready(task())
        (file,) = folder.glob("**/*.xplane.pb")
        count, busy = 0, 0.0
        top: dict[str, float] = {}
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            if not plane.name.startswith("/device:GPU"):
                continue
            for line in plane.lines:
                if line.name.startswith("Stream"):
                    for event in line.events:
                        count += 1
                        busy += event.duration_ns * 1e-9
                        top[event.name] = top.get(event.name, 0.0) + event.duration_ns * 1e-3 / rounds
        for name, spent in sorted(top.items(), key=lambda item: -item[1])[:12]:
            print(f"    {spent:8.1f} us a round  {name}")
        return count / rounds, busy
    except Exception as error:  # a profiler that is not there is no reason to stop
        print(f"    no profile: {error}")
        return 0.0, 0.0


def ours(what: str, populations: list[Any], federation: Federation, arms: list[Arm], card: Ceilings, folder: Path,
         torchs: float | None = None, repeats: int = 3) -> Row:  # fmt: skip
    """Compile, run and profile the training of these trials."""
    rows = isinstance(populations[0], ClientData)
    local = [arm for arm in arms if not rows or not arm.exchange]  # as the tables ask for them
    problem, told = xla.prepare(populations, federation, arms, local_of=local)
    told = jax.device_put(told)
    begun = time.perf_counter()
    jax.block_until_ready(xla.play_all(problem, told))
    first = time.perf_counter() - begun
    run = seconds(lambda: xla.play_all(problem, told), repeats)
    found = xla.play_all(problem, told)
    jax.block_until_ready(found)
    begun = time.perf_counter()
    jax.device_get(found)
    fetch = time.perf_counter() - begun
    del found
    print(f"  {what}: first {first:.1f} s, run {run:.3f} s, fetch {fetch:.3f} s", flush=True)
    kernels, busy = kernels_of(lambda: xla.play_all(problem, told), federation.rounds, folder / what.replace(" ", "-"))
    weights = sum(a * b for a, b in problem.model.widths) if problem.model is not None else 0  # type: ignore[attr-defined]
    features = populations[0].features.shape[1] if rows else federation.dimension
    moved, flops = work_of(federation, len(arms), len(populations), weights, features)
    floors = {
        "bandwidth": federation.rounds * moved / card.bytes_per_second,
        "flop": federation.rounds * flops / card.flops,
        "launch": federation.rounds * kernels * card.launch,
    }
    told_ = ", ".join(f"{name} {100 * floor / run:.0f} %" for name, floor in floors.items())
    limit = f"{told_}; {kernels:.0f} kernels a round, busy {100 * busy / run:.0f} %"
    return Row(what, first - run, run, fetch, torchs, limit)


def tables(quick: bool, card: Ceilings, folder: Path) -> list[Row]:
    """table-synthetic and table-nonlinear: one arm, beside torch, and all of them."""
    rows = []
    for name in ("table-synthetic", "table-nonlinear"):
        setup, trials = named(name).setup, 2 if quick else 100
        federation = setup.federation
        if quick:
            federation = Federation(**{k: getattr(federation, k) for k in federation.__slots__} | {"rounds": 4})
        begun = time.perf_counter()
        populations: list[Any] = [setup.draw(1, trial) for trial in range(trials)]
        print(f"{name}: {trials} trials drawn in {time.perf_counter() - begun:.1f} s", flush=True)
        arms = setup.arms()
        prism = next(arm for arm in arms if arm.exchange and arm.masks.num_shared != 1)
        try:
            peer = torch_seconds(populations, federation, prism)
        except RuntimeError as error:
            print(f"  torch: {error}")
            peer = None
        print(f"  torch, eager, 1 arm: {peer}", flush=True)
        rows.append(ours(f"{name}, 1 arm", populations, federation, [prism], card, folder, peer))
        rows.append(ours(f"{name}, {len(arms)} arms", populations, federation, arms, card, folder))
    return rows


def large(quick: bool, card: Ceilings, folder: Path) -> list[Row]:
    """Many clients, and many coordinates."""
    rows = []
    for clients, dimension, rounds in ((10_000, 1_000, 1000), (100, 1_000_000, 200)):
        if quick:
            clients, dimension, rounds = max(20, clients // 100), dimension // 100, 3
        federation = Federation(
            num_clients=clients, dimension=dimension, num_participants=clients // 10, num_byzantine=clients // 5,
            rounds=rounds, step_size=0.5 / dimension,
        )  # fmt: skip
        population = SyntheticLinear().draw(clients, dimension, clients // 5, 1)
        arm = Arm(masks=Masks(num_shared=round(0.3 * dimension)))
        what = f"K={clients:,} x D={dimension:,}, {rounds} rounds"
        rows.append(ours(what, [population], federation, [arm], card, folder, repeats=1))
    return rows


def too_large() -> str:
    """Ask for what no card holds, and return what is said."""
    federation = Federation(num_clients=100_000, dimension=10_000_000, step_size=1e-7, rounds=2)
    population = SyntheticLinear().draw(100_000, 10_000_000, 20, 1)
    try:
        xla.train_many([population], federation, [Arm(masks=Masks(num_shared=10_000_000))])
    except DeviceMemoryError as error:
        return str(error)
    return "it fitted"


def public_path(quick: bool, folder: Path) -> None:
    """Run the two tables as a user does."""
    for name in ("table-synthetic", "table-nonlinear"):
        arguments = ["reproduce", name, "--engine", "xla", "--trials", "2" if quick else "100", "--out", str(folder)]
        begun = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "prism_fcp", *arguments], text=True, capture_output=True)
        print(f"prism-fcp {' '.join(arguments[:-2])}: {time.perf_counter() - begun:.0f} s, exit code {done.returncode}")
        print(done.stdout[-6000:], done.stderr[-2000:], flush=True)


def torch_seconds(populations: list[Any], federation: Federation, arm: Arm) -> float | None:
    """Return what eager torch takes for this arm; None where it is not installed or sees no card."""
    try:
        import torch

        import torch_peer
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    return torch_peer.seconds(populations, federation, arm)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works on any machine")
    parser.add_argument("--only", nargs="+", choices=("tables", "large", "memory", "public"))
    parser.add_argument("--out", type=Path, default=Path("results-gpu"))
    options = parser.parse_args()
    parts = options.only or ("tables", "large", "memory", "public")
    if "public" in parts:  # before jax here takes the card's memory
        public_path(options.quick, options.out)
    device = jax.devices()[0]
    print(f"{device.device_kind} ({device.platform}), jax {jax.__version__}, NumPy {np.__version__}")
    card = ceilings(options.quick)
    print(
        f"measured: {card.bytes_per_second / 1e12:.2f} TB/s, {card.flops / 1e12:.0f} TFLOP/s float32, "
        f"{card.launch * 1e6:.1f} us a kernel in a loop", flush=True,
    )  # fmt: skip
    rows: list[Row] = []
    if "tables" in parts:
        rows += tables(options.quick, card, options.out / "traces")
    if "large" in parts:
        rows += large(options.quick, card, options.out / "traces")
    if "memory" in parts and not options.quick:
        print(f"too large: {too_large()}")
    print("\n| what | compile | run | to the host | torch, eager | share of limits |\n|---|---|---|---|---|---|")
    for row in rows:
        peer = f"{row.torch:.2f} s" if row.torch is not None else ""
        print(f"| {row.what} | {row.compile:.1f} s | {row.run:.3f} s | {row.fetch:.2f} s | {peer} | {row.limit} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
