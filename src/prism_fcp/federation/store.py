"""What a client remembers between messages: its model, the last round it learned in, and what it was told on joining.

A deployed client is a new process for every message, so its memory is a file that appears whole or not at all; in one
process it is a variable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from prism_fcp import io
from prism_fcp.errors import DataError
from prism_fcp.federation.arrays import pack_arrays, unpack_arrays
from prism_fcp.train.round import Means
from prism_fcp.types import FloatArray

MOST_BYTES: Final = 2**33  # of a state's file
VERSION: Final = 1
MEAN_WEIGHT: Final = "/mean weight"  # and the sum of the rounds' weights in it
MEAN: Final = "/mean"  # the parameters' mean in the memory; no site's own names begin with a slash


@dataclass(slots=True)
class State:
    """A client's memory of one experiment."""

    experiment: bytes
    told: Mapping[str, Any]  # the agreement, masks, scaling and key it was given on joining
    parameters: FloatArray  # (D,)
    round: int = 0  # the last round it learned in
    memory: dict[str, FloatArray] = field(default_factory=dict)  # of the site's own: momentum and the like
    final: FloatArray | None = None  # the model that was calibrated, once it was

    @property
    def mean(self) -> Means | None:
        """Return the mean of the parameters over the rounds, where that was agreed."""
        if MEAN not in self.memory:
            return None
        return Means(self.memory[MEAN], float(self.memory[MEAN_WEIGHT][0]))

    @property
    def sent(self) -> FloatArray:
        """Return what uploads are taken from: the parameters, or their mean over the rounds where that was agreed."""
        return self.memory.get(MEAN, self.parameters)


class Store(Protocol):
    """Where a client's state is kept."""

    def load(self) -> State | None:
        """Return the state, or nothing."""
        ...

    def save(self, state: State) -> None:
        """Keep a state in place of the last one."""
        ...


@dataclass(slots=True)
class MemoryStore:
    """A variable; for federations in one process."""

    state: State | None = None

    def load(self) -> State | None:
        """Return the state, or nothing."""
        return self.state

    def save(self, state: State) -> None:
        """Keep it."""
        self.state = state


@dataclass(frozen=True, slots=True)
class FileStore:
    """A file that is replaced whole."""

    path: Path

    def load(self) -> State | None:
        """Return the state, or nothing where there is no file; a damaged one is a `DataError`."""
        if not self.path.exists():
            return None
        return unpack(io.read_bytes(self.path, MOST_BYTES), str(self.path))

    def save(self, state: State) -> None:
        """Replace the file. Its model has learned from this site's rows alone, so nobody else reads it."""
        remedy = "give the client another folder: state = ... in its site's file"
        io.write_bytes(self.path, pack(state), remedy, private=True)


def pack(state: State) -> bytes:
    """Return a state as the bytes of an npz file."""
    head = {"version": VERSION, "experiment": state.experiment.hex(), "round": state.round, "told": state.told}
    arrays = {"parameters": state.parameters, **{f"memory/{name}": value for name, value in state.memory.items()}}
    if state.final is not None:
        arrays["final"] = state.final
    return pack_arrays({"head": np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays})


def unpack(data: bytes, where: str) -> State:
    """Return the state of `pack`'s bytes; nothing in them is run."""
    found = unpack_arrays(data, where)
    try:
        head = json.loads(found["head"].tobytes())
        if head["version"] != VERSION:
            raise ValueError(f"version {head['version']}; this one reads {VERSION}")
        kept = {name.removeprefix("memory/"): found[name] for name in found if name.startswith("memory/")}
        name = bytes.fromhex(head["experiment"])
        return State(name, head["told"], found["parameters"], head["round"], kept, found.get("final"))
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where}: no whole state of a client ({str(error)[:80]}); remove it to join anew") from error
