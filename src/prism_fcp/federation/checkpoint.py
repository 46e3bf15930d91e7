"""Where a run stands, in one file that appears whole or not at all: a killed server goes on from its last round.

States of rules are numbers, arrays and named tuples of them; they are written as such and read back as the same types.
Nothing in the file is run, and only types of the rule's own module and of this package are made.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.federation import store
from prism_fcp.federation.arrays import pack_arrays, unpack_arrays
from prism_fcp.federation.coordinator import Coordinator
from prism_fcp.train.aggregate import RULES
from prism_fcp.types import Layer, Ledger

FILE: Final = "checkpoint.npz"
VERSION: Final = 1
MOST_BYTES: Final = 2**40


def save(path: Path, coordinator: Coordinator, clients: Mapping[str, store.State] | None = None) -> None:
    """Write where the server stands; `clients`: the states of clients that live in this process."""
    arrays: dict[str, NDArray[Any]] = {"first": coordinator.first, "model": coordinator.model}
    head = {
        "version": VERSION, "agreement": coordinator.agreement.digest, "experiment": coordinator.experiment.hex(),
        "round": coordinator.round, "void": coordinator.void, "samples": coordinator.samples,
        "units": coordinator.units, "layers": [[layer.name, layer.size] for layer in coordinator.layers],
        "roster": coordinator.roster.kept(), "rule": freeze(coordinator.rule_state, arrays),
        "ledger": freeze(coordinator.ledger, arrays), "averaged": freeze(coordinator.averaged, arrays),
        "clients": list(clients or {}),
    }  # fmt: skip
    for place, state in enumerate((clients or {}).values()):
        arrays[f"client-{place}"] = np.frombuffer(store.pack(state), np.uint8)
    whole = {"head": np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays}
    io.write_bytes(path, pack_arrays(whole), "free some space, or give another folder", private=True)


def restore(path: Path, coordinator: Coordinator) -> dict[str, store.State]:
    """Bring a new coordinator to where the file's stood, and return the states of clients it holds."""
    arrays = unpack_arrays(io.read_bytes(path, MOST_BYTES), str(path))
    try:
        return _restore(_head(arrays, path), arrays, path, coordinator)
    except PrismError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(f"{path}: no whole checkpoint ({str(error)[:80]}); begin anew with --fresh") from error


def _restore(
    head: dict[str, Any], arrays: Mapping[str, NDArray[Any]], path: Path, coordinator: Coordinator
) -> dict[str, store.State]:
    if head["agreement"] != coordinator.agreement.digest:
        raise DataError(f"{path}: belongs to other settings; restore federation.toml, or begin anew with --fresh")
    coordinator.experiment = bytes.fromhex(head["experiment"])
    stop, layers = 0, []
    for label, size in head["layers"]:
        layers.append(Layer(label, stop, stop + size))
        stop += size
    coordinator.layers, coordinator.samples, coordinator.units = tuple(layers), head["samples"], head["units"]
    if not arrays["first"].shape == arrays["model"].shape == (stop,):
        raise ValueError(f"model of shape {arrays['model'].shape}; must be ({stop},)")
    coordinator.settle()
    modules = _modules(coordinator)
    coordinator.first, coordinator.model = arrays["first"], arrays["model"]
    coordinator.round, coordinator.void = head["round"], head["void"]
    coordinator.rule_state = thaw(head["rule"], arrays, modules)
    coordinator.ledger = thaw(head["ledger"], arrays, modules)
    coordinator.averaged = thaw(head["averaged"], arrays, modules)
    coordinator.roster.restore(head["roster"])
    for entry in coordinator.roster.entries:
        entry.joined = False
    return {
        name: store.unpack(arrays[f"client-{place}"].tobytes(), f"{path}: client {name}")
        for place, name in enumerate(head["clients"])
    }


def head(path: Path) -> dict[str, Any]:
    """Return what a checkpoint tells beside its arrays: the round, the roster."""
    return _head(unpack_arrays(io.read_bytes(path, MOST_BYTES), str(path)), path)


def _head(arrays: Mapping[str, NDArray[Any]], path: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(arrays["head"].tobytes())
        if told["version"] != VERSION:
            raise ValueError(f"version {told['version']}; this one reads {VERSION}")
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: no whole checkpoint ({str(error)[:80]}); begin anew with --fresh") from error
    return told


def freeze(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return a state as JSON, its arrays put into `arrays` under names of their own."""
    if isinstance(value, np.generic):  # np.float64 is a float, and would come back as one
        return {"scalar": freeze(np.array(value), arrays)["array"]}
    if value is None or isinstance(value, bool | int | float | str):
        return {"is": value}
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise SettingError("a rule's state holds an array of objects; checkpoints hold numbers only")
        name = f"state-{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = type(value)
        return {"named": [kind.__module__, kind.__name__], "of": [freeze(entry, arrays) for entry in value]}
    if isinstance(value, tuple | list):
        return {"tuple" if isinstance(value, tuple) else "list": [freeze(entry, arrays) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[freeze(key, arrays), freeze(entry, arrays)] for key, entry in value.items()]}
    raise SettingError(
        f"a rule's state holds a {type(value).__name__}; checkpoints hold numbers, text, arrays and (named) tuples, "
        "lists and dictionaries of them"
    )


def thaw(frozen: Any, arrays: Mapping[str, NDArray[Any]], modules: Mapping[str, ModuleType]) -> Any:
    """Return the state that `freeze` wrote."""
    ((kind, value), *rest) = frozen.items()
    match kind:
        case "is":
            return value
        case "array":
            return arrays[value]
        case "scalar":
            return arrays[value][()]
        case "named":
            module, name = value
            made = getattr(modules.get(module), name, None)
            if not isinstance(made, type) or not issubclass(made, tuple) or not hasattr(made, "_fields"):
                raise DataError(f"checkpoint: {module}.{name} is no named tuple of this rule; begin anew with --fresh")
            return made(*(thaw(entry, arrays, modules) for entry in dict(rest)["of"]))
        case "tuple":
            return tuple(thaw(entry, arrays, modules) for entry in value)
        case "list":
            return [thaw(entry, arrays, modules) for entry in value]
        case "dict":
            return {thaw(key, arrays, modules): thaw(entry, arrays, modules) for key, entry in value}
    raise DataError(f"checkpoint: unknown kind of value {kind!r}; begin anew with --fresh")


def _modules(coordinator: Coordinator) -> dict[str, ModuleType]:
    """Return the modules whose named tuples a rule's state may hold."""
    rule = coordinator.settled.arm.rule.build(RULES, "rule")
    own = {Ledger.__module__, rule.init.__module__, rule.step.__module__}
    return {
        name: module
        for name, module in sys.modules.items()
        if name in own or name.startswith("prism_fcp.train.aggregate")
    }
