"""Which engine trains, and why: `auto` is settled once an experiment, not once a trial."""

from __future__ import annotations

from dataclasses import dataclass

from prism_fcp.engines import ENGINES, amount_of_work, choose
from prism_fcp.lab.pool import Kind
from prism_fcp.pipeline import TrainFunction
from prism_fcp.setup import Setup


@dataclass(frozen=True, slots=True)
class Engine:
    """A chosen engine."""

    name: str
    reason: str

    @property
    def parallel(self) -> Kind:
        """Return how trials run side by side: compiled code lets threads run, Python needs processes."""
        return "processes" if self.name == "readable" else "threads"


def choose_engine(engine: str, setup: Setup, trials: int) -> Engine:
    """Settle on an engine for this many trials, all of them, so that a continued run gets the same one."""
    arms = setup.arms()
    work = amount_of_work(setup.federation, len(arms), trials)
    return Engine(*choose(engine, work, setup.federation, arms))


def train_function(name: str) -> TrainFunction:
    """Return the training function of a chosen engine."""
    return ENGINES[name]
