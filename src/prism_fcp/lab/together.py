"""Many trials in one program of a GPU: drawn on the cores, trained at once, concluded on the cores, kept one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice

from prism_fcp.engines import train_together
from prism_fcp.errors import DeviceMemoryError
from prism_fcp.lab.pool import Kind, run_all
from prism_fcp.pipeline import Cell, run_trial
from prism_fcp.scoring import Clients
from prism_fcp.setup import Setup
from prism_fcp.tables import TableData
from prism_fcp.train.loop import Trained
from prism_fcp.train.settings import Arm

Told = Callable[[int], AbstractContextManager[None]]  # makes an error say which trial it is from


def run_together(
    setup: Setup, seed: int, trials: Iterable[int], size: int, jobs: int, told: Told
) -> Iterator[tuple[int, tuple[list[Cell], float]]]:
    """Yield `(trial, (cells, CPU seconds))`, trained `size` at a time, or fewer if the device cannot hold them."""
    left, local = iter(trials), _whose_local_models(setup)
    # A net is scored, and a central one trained for the floor, in many small steps of Python: threads would take turns.
    kind: Kind = "processes" if isinstance(setup.population, TableData) else "threads"
    while chunk := list(islice(left, size)):
        while chunk:
            begun = time.process_time()
            taken = chunk[:size]
            clients = dict(run_all(lambda trial: _draw(setup, seed, trial, told), taken, jobs, "threads"))
            try:
                with told(taken[0]):
                    trained = train_together([clients[t] for t in taken], setup.federation, setup.arms(), local)
            except DeviceMemoryError:
                if size == 1:
                    raise
                size = (size + 1) // 2
                continue
            share = (time.process_time() - begun) / len(taken)
            task = _Concluding(setup, seed, clients, dict(zip(taken, trained, strict=True)), told)
            for trial, (cells, seconds) in run_all(task, taken, jobs, kind, task.only):
                yield trial, (cells, share + seconds)
            chunk = chunk[len(taken) :]


@dataclass(frozen=True, slots=True)
class _Concluding:
    """Calibrates and tests trials whose training is done."""

    setup: Setup
    seed: int
    clients: dict[int, Clients]
    results: dict[int, list[Trained]]
    told: Told

    def __call__(self, trial: int) -> tuple[list[Cell], float]:
        begun = time.thread_time()
        with self.told(trial):
            trained = self.results.pop(trial)
            cells = run_trial(self.setup, self.seed, trial, lambda *_: trained, self.clients.pop(trial))
        return cells, time.thread_time() - begun

    def only(self, trial: int) -> _Concluding:
        """Return what one trial needs."""
        one = {trial: self.clients.pop(trial)}, {trial: self.results.pop(trial)}
        return _Concluding(self.setup, self.seed, *one, self.told)


def _draw(setup: Setup, seed: int, trial: int, told: Told) -> Clients:
    with told(trial):
        return setup.draw(seed, trial)


def _whose_local_models(setup: Setup) -> list[Arm]:
    """Return the arms whose local models are looked at; the others' stay on the device, and are the most of it all."""
    if not isinstance(setup.population, TableData):
        return setup.arms()  # whether they diverged is seen in them
    return [method.arm for method in setup.methods if method.arm is not None and method.scoring_model == "local"]
