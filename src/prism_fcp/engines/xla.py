"""The engine `xla`: Algorithm 1's training in JAX, for linear models and neural nets, on a CPU or a GPU.

One program plays all rounds of all arms for one trial, or for many side by side (`train_many`). Participants, masks
and hits are the same words as everywhere, computed on the device; perturbations and inputs are the device's own
normals unless draws are handed over. Models are float32.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any, Final

import jax
import numpy as np
from numpy.typing import NDArray

from prism_fcp.data.clients import ClientData
from prism_fcp.engines.device_round import Problem, play
from prism_fcp.engines.encode import foreign
from prism_fcp.errors import DeviceMemoryError, SettingError
from prism_fcp.train.loop import (
    Batches,
    Clients,
    Draws,
    Trained,
    check_arms,
    check_shapes,
    deviation_limit,
)
from prism_fcp.train.settings import Arm, Federation

_COMPILING: Final = threading.Lock()
_WARM: Final[set[Any]] = set()
MODELS_AT_ONCE: Final = 4_000_000_000  # bytes of models a GPU is given at once; a round needs a few times that
MOST_AT_ONCE: Final = 256  # trials


def train(
    population: Clients, federation: Federation, arms: Sequence[Arm], draws: Draws | None = None
) -> list[Trained]:
    """Train every arm on one data stream; see `train_readable`.

    Paper: Alg. 1, phase 1.
    """
    return train_many([population], federation, arms, draws)[0]


def train_many(
    populations: Sequence[Clients],
    federation: Federation,
    arms: Sequence[Arm],
    draws: Draws | None = None,
    local_of: Collection[Arm] | None = None,
) -> list[list[Trained]]:
    """Train every arm for many trials at once; the trials must be of one kind, and a result hangs on its key alone.

    `local_of`: the arms whose local models are wanted, all of them unless told; the others' are left out (0, D).
    """
    problem, told = prepare(populations, federation, arms, draws, local_of)
    program = _program(problem)
    try:
        with _COMPILING if program not in _WARM else nullcontext():  # two threads would compile the same twice
            found = jax.device_get(play_all(problem, told))
            _WARM.add(program)
    except jax.errors.JaxRuntimeError as error:
        raise _out_of_memory(error, problem, len(populations)) from error
    return [[_finish(found, t, a, federation) for a in range(len(arms))] for t in range(len(populations))]


def trials_at_once(federation: Federation, num_arms: int) -> int:
    """Return how many trials fill a GPU: as many as keep their models within a small part of its memory."""
    if jax.default_backend() == "cpu":
        return 1
    held = num_arms * federation.num_clients * federation.dimension * 4 * (2 if federation.momentum else 1)
    return int(min(MOST_AT_ONCE, max(1, MODELS_AT_ONCE // held)))


def prepare(
    populations: Sequence[Clients],
    federation: Federation,
    arms: Sequence[Arm],
    draws: Draws | None = None,
    local_of: Collection[Arm] | None = None,
) -> tuple[Problem, tuple[Any, Any, Any]]:
    """Check all of it, and return what decides the program and what the program is given."""
    check_arms(federation, arms)
    for population in populations:
        check_shapes(population, federation, draws)
    first = populations[0]
    rows = isinstance(first, ClientData)
    if isinstance(first, Batches) and not rows:
        raise SettingError("engine 'xla' knows clients that hold rows of a table, or a law; use engine 'readable'")
    strange = foreign(federation, arms)
    if strange:
        raise SettingError(f"engine 'xla': {strange}; use engine 'readable' or 'auto'")
    problem = Problem(
        federation=federation,
        arms=tuple(arms),
        model=first.model if isinstance(first, ClientData) else None,
        given=draws is not None,
        rows=rows,
        shared=rows and all(p.features is first.features for p in populations),  # type: ignore[union-attr]
        platform=jax.default_backend(),
        local=tuple(local_of is None or arm in local_of for arm in arms),
    )
    return problem, _arrays(problem, populations, draws)


def play_all(problem: Problem, told: tuple[Any, Any, Any]) -> Any:
    """Run the program; what it returns lies on the device, and may not be finished."""
    # 64 bits for the words, every float is named; and no matrix product in fewer digits than float32 has.
    with jax.enable_x64(True), jax.default_matmul_precision("float32"):
        return _program(problem)(*told)


def _arrays(problem: Problem, populations: Sequence[Clients], draws: Draws | None) -> tuple[Any, Any, Any]:
    """Return (what differs by trial, what trials share, what rounds are handed) as trees of arrays."""
    by_trial: dict[str, Any] = {
        "key": np.array([p.key for p in populations], np.uint64),
        "byzantine": np.stack([p.byzantine for p in populations]),
        "truth": np.stack([p.truth for p in populations]).astype(np.float32),
        "limit": np.array([deviation_limit(p.truth) for p in populations], np.float32),
    }
    common: dict[str, Any] = {}
    if problem.rows:
        held: Any = populations
        by_trial |= {
            "start": np.stack([p.start for p in held]).astype(np.float32),
            "train": np.stack([p.train for p in held]),
            "sizes": np.stack([p.train_sizes for p in held]),
        }
        table = {"features": [p.features for p in held], "target": [p.target for p in held]}
        if problem.shared:
            common |= {name: parts[0] for name, parts in table.items()}
        else:
            by_trial |= {name: np.stack(parts) for name, parts in table.items()}
    else:
        moments: Any = populations
        by_trial |= {
            "start": np.zeros((len(populations), problem.federation.dimension), np.float32),
            "means": np.stack([p.means for p in moments]).astype(np.float32),
            "spreads": np.sqrt(np.stack([p.variances for p in moments])).astype(np.float32),
            "noises": np.sqrt(np.stack([p.noise_variances for p in moments])).astype(np.float32),
        }
    rounds: dict[str, Any] = {"number": np.arange(1, problem.federation.rounds + 1)}
    if draws is not None:
        rounds["perturbations"] = draws.perturbations.astype(np.float32)
        if not problem.rows:
            rounds |= {"inputs": draws.inputs.astype(np.float32), "noise": draws.noise.astype(np.float32)}
    return by_trial, common, rounds


@lru_cache(maxsize=16)
def _program(problem: Problem) -> Any:
    """Return the compiled program of all rounds, mapped over trials."""

    def whole(by_trial: Any, common: Any, rounds: Any) -> Any:
        return jax.vmap(lambda one: play(problem, {**one, **common}, rounds))(by_trial)

    return jax.jit(whole)


def _finish(found: Any, t: int, a: int, federation: Federation) -> Trained:
    arm: dict[str, NDArray[Any]] = {name: values[t] for name, values in found[a].items()}
    window = min(federation.window, federation.rounds)
    coordinates, injections, refusals, weakened = (int(c) for c in arm["counts"])
    return Trained(
        global_model=arm["model"],
        local_models=arm.get("local", np.zeros((0, federation.dimension), np.float32)),
        a_posteriori_mse=float(arm["sums"][0]) / window,
        global_msd=float(arm["sums"][1]) / window,
        local_msd=float(arm["sums"][2]) / window,
        coordinates_per_round=coordinates / federation.rounds,
        injections=injections,
        injected_energy=float(arm["sums"][3]),
        refusals=refusals,
        weakened_rounds=weakened,
        diverged_at=int(arm["diverged"]) or None,
    )


def _out_of_memory(error: Exception, problem: Problem, trials: int) -> Exception:
    """Return what to say where memory was the trouble, else the error itself."""
    told = str(error)
    if "RESOURCE_EXHAUSTED" not in told and "out of memory" not in told.lower():
        return error
    size = problem.federation
    models = trials * len(problem.arms) * (size.num_clients + 1) * size.dimension * 4 * (2 if size.momentum else 1)
    fewer = f"fewer than {trials} trials at once, " if trials > 1 else ""
    elsewhere = "" if problem.platform == "cpu" else ", another program off this card, or the CPU (JAX_PLATFORMS=cpu)"
    return DeviceMemoryError(
        f"engine 'xla': the {problem.platform} is out of memory: {trials} trials x {len(problem.arms)} arms x "
        f"{size.num_clients} clients x {size.dimension} parameters are {models / 1e9:.3g} GB of models alone, and a "
        f"round needs a few times that; take {fewer}fewer arms, fewer clients or a smaller model{elsewhere}"
    )
