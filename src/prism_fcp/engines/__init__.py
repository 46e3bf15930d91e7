"""Engines: ways of running Algorithm 1's training, with one signature and, on the same draws, one result.

`readable` is `train/loop.py`; `compiled` is the same loop in machine code, much faster once it is compiled.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple, TypeAlias

from prism_fcp.engines.encode import foreign, obstacle
from prism_fcp.errors import MissingExtraError, SettingError, did_you_mean
from prism_fcp.train.loop import Batches, Clients, Draws, Stream, Trained, train_readable
from prism_fcp.train.settings import Arm, Federation

# `engine(population, federation, arms, draws=None) -> list[Trained]`. Without draws an engine uses normals of its own,
# which depend on the population's key alone; participants, masks and hits are the same for all engines.
Engine: TypeAlias = Callable[..., list[Trained]]

COMPILE_FROM: Final = 200_000_000  # units of `amount_of_work`; about four CPU-seconds of the readable engine
AUTO: Final = "auto"


class Chosen(NamedTuple):
    """An engine's name and why it was taken."""

    name: str
    reason: str


def train_compiled(
    population: Stream, federation: Federation, arms: Sequence[Arm], draws: Draws | None = None
) -> list[Trained]:
    """Train every arm on one data stream in machine code; see `engines/compiled.py`, which is imported only now.

    Paper: Alg. 1, phase 1.
    """
    _need_numba()
    if isinstance(population, Batches):
        raise SettingError("engine 'compiled' knows no clients with rows of a table; use 'xla', 'readable' or 'auto'")
    from prism_fcp.engines.compiled import train

    return train(population, federation, arms, draws)


def train_xla(
    population: Clients, federation: Federation, arms: Sequence[Arm], draws: Draws | None = None
) -> list[Trained]:
    """Train every arm on one data stream with JAX; see `engines/xla.py`, which is imported only now.

    Paper: Alg. 1, phase 1.
    """
    _need_jax()
    from prism_fcp.engines.xla import train

    return train(population, federation, arms, draws)


def train_together(
    populations: Sequence[Clients], federation: Federation, arms: Sequence[Arm], local_of: Collection[Arm]
) -> list[list[Trained]]:
    """Train many trials in one program of the engine `xla`, with local models of some arms; see `engines/xla.py`."""
    _need_jax()
    from prism_fcp.engines.xla import train_many

    return train_many(populations, federation, arms, local_of=local_of)


def trials_at_once(engine: str, federation: Federation, num_arms: int) -> int:
    """Return how many trials this engine is best given together: one, unless it is `xla` on a GPU."""
    if engine != "xla" or not has_jax():
        return 1
    from prism_fcp.engines.xla import trials_at_once

    return trials_at_once(federation, num_arms)


ENGINES: dict[str, Engine] = {"readable": train_readable, "compiled": train_compiled, "xla": train_xla}


def amount_of_work(federation: Federation, num_arms: int, trials: int = 1) -> int:
    """Return how many coordinates are touched: rounds x clients x dimension x arms x trials."""
    return federation.rounds * federation.num_clients * federation.dimension * num_arms * trials


def choose(
    engine: str, work: int, federation: Federation | None = None, arms: Sequence[Arm] = (), *, rows: bool = False
) -> Chosen:
    """Turn `auto` into the name of an engine, or check the name given, and say why.

    `auto` goes by the amount of work alone, never by what happens to be cached, so that one command gives the same
    numbers everywhere. `rows`: clients hold rows of a table. Give the settings too, and what the compiled engine does
    not know is found out before it starts.
    """
    problem = obstacle(federation, arms) if federation is not None else None
    if rows:
        problem = "clients that hold rows of a table are not what the compiled engine knows"
    if engine == AUTO:
        if work < COMPILE_FROM:
            return Chosen("readable", f"a small job ({work:.1e} of {COMPILE_FROM:.1e} coordinate steps): not compiled")
        if rows and federation is not None and not foreign(federation, arms):
            if has_jax():
                return Chosen("xla", f"a large job ({work:.1e} coordinate steps) of clients with data")
            return Chosen("readable", "jax is not installed; pip install 'prism-fcp[jax]' would be faster")
        if problem is not None:
            return Chosen("readable", f"{problem}: only the readable engine runs it")
        if not has_numba():
            return Chosen("readable", f"numba is not installed; {_REMEDY} would be much faster, with other draws")
        return Chosen("compiled", f"a large job ({work:.1e} coordinate steps)")
    if engine not in ENGINES:
        raise SettingError(f"unknown engine {engine!r}{did_you_mean(engine, [AUTO, *ENGINES])}")
    if engine == "xla":
        _need_jax()
        if federation is not None and (strange := foreign(federation, arms)):
            raise SettingError(f"engine 'xla': {strange}; use engine 'readable' or 'auto'")
    if engine == "compiled":
        _need_numba()
        if problem is not None:
            raise SettingError(f"engine 'compiled': {problem}; use engine 'readable' or 'auto'")
    return Chosen(engine, "asked for")


def train(
    population: Clients, federation: Federation, arms: Sequence[Arm], engine: str = AUTO, draws: Draws | None = None
) -> list[Trained]:
    """Train every arm on one data stream with the engine that suits the job, or the one named.

    Paper: Alg. 1, phase 1.
    """
    work = amount_of_work(federation, len(arms))
    chosen = choose(engine, work, federation, arms, rows=isinstance(population, Batches))
    return ENGINES[chosen.name](population, federation, arms, draws)


def has_numba() -> bool:
    """Return whether numba is installed, without importing it."""
    return importlib.util.find_spec("numba") is not None


def has_jax() -> bool:
    """Return whether jax is installed, without importing it."""
    return importlib.util.find_spec("jax") is not None


def _need_jax() -> None:
    if not has_jax():
        raise MissingExtraError("engine 'xla' needs jax: pip install 'prism-fcp[jax]', or use engine 'readable'")
    try:
        importlib.import_module("jax")
    except ImportError as error:
        raise MissingExtraError(
            f"engine 'xla': jax is installed but cannot be imported ({error!s:.80}); mend it with pip install "
            "--force-reinstall 'prism-fcp[jax]', or use engine 'readable'"
        ) from error


_REMEDY: Final = "pip install 'prism-fcp[fast]'"


def _need_numba() -> None:
    if not has_numba():
        raise MissingExtraError(f"engine 'compiled' needs numba: {_REMEDY}, or use engine 'readable'")


__all__ = [
    "AUTO",
    "COMPILE_FROM",
    "ENGINES",
    "Chosen",
    "Engine",
    "amount_of_work",
    "choose",
    "has_jax",
    "has_numba",
    "train",
    "train_compiled",
    "train_readable",
    "train_together",
    "train_xla",
    "trials_at_once",
]
