"""A trained model in one file, with the units it was trained in: it predicts from raw features, in the target's unit.

The file is JSON: names, numbers and nothing that runs. Its SHA-256 is the model's hash (`model_hash(Path)`), so the
file that is sent round is the model that was calibrated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prism_fcp import io
from prism_fcp.data.standardise import Scaler
from prism_fcp.errors import DataError, PrismError, SettingError, did_you_mean
from prism_fcp.models import MODELS
from prism_fcp.types import Choice, FloatArray, Model

KIND: Final = "model"
_AGAIN: Final = "run the project again with --fresh"


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model, its parameters, and the mean and standard deviation of each feature and, last, of the target."""

    choice: Choice  # which model, as settings name it
    model: Model
    parameters: FloatArray  # (P,)
    features: tuple[str, ...]
    target: str
    scaler: Scaler
    unused: tuple[str, ...] = ()  # the training table's other columns, which a new table may have too

    def predict(self, inputs: Any) -> NDArray[np.float64]:
        """Return predictions (n,) for raw features: a data frame with their names, or an array in their order."""
        rows = self._rows(inputs)
        units = ((rows - self.scaler.mean[:-1]) / self.scaler.sd[:-1]).astype(np.float32)
        told = self.model.predict(self.parameters, units).astype(np.float64)
        return np.asarray(told * self.scaler.sd[-1] + self.scaler.mean[-1])

    def places(self, names: ArrayLike, where: str = "the table") -> list[int]:
        """Return where among these names each feature stands; a missing and a needless column are refused by name."""
        known = [str(name) for name in np.asarray(names, dtype=object)]
        missing = [name for name in self.features if name not in known]
        if missing:
            raise DataError(
                f"{where}: no column {missing[0]!r}{did_you_mean(missing[0], known[:20])}; the model needs "
                f"{len(self.features)} features and {len(missing)} are missing"
            )
        unknown = [name for name in known if name not in (*self.features, *self.unused, self.target)]
        if unknown:
            raise DataError(
                f"{where}: column {unknown[0]!r} is no feature of this model ({len(unknown)} such columns); leave it "
                "out, the model was trained without it"
            )
        return [known.index(name) for name in self.features]

    def save(self, path: Path) -> None:
        """Write the file."""
        layers = [dict(layer._asdict()) for layer in self.model.layers]
        body = {
            "model": {"name": self.choice.name, "options": {k: _plain(v) for k, v in self.choice.options.items()}},
            "layers": layers, "features": list(self.features), "target": self.target, "unused": list(self.unused),
            "mean": self.scaler.mean.tolist(), "sd": self.scaler.sd.tolist(),
            "parameters": self.parameters.astype(np.float32).astype(np.float64).tolist(),
        }  # fmt: skip
        io.write_json(path, KIND, body, compact=True)

    def _rows(self, inputs: Any) -> NDArray[np.float64]:
        if hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
            inputs = inputs.to_numpy()[:, self.places(list(inputs.columns))]
        try:
            rows = np.asarray(inputs, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"predict: the features are no table of numbers ({error!s:.80})") from error
        if rows.ndim != 2 or rows.shape[1] != len(self.features):
            raise DataError(
                f"predict: features of shape {rows.shape}; must be (rows, {len(self.features)}), in the order "
                f"{', '.join(self.features[:5])}{', ...' if len(self.features) > 5 else ''}"
            )
        bad = np.argwhere(~np.isfinite(rows))
        if bad.size:
            row, column = bad[0]
            raise DataError(
                f"predict: row {row + 1}, column {self.features[column]!r}: {rows[row, column]} is no finite number"
            )
        return rows


def load_model(path: Path | str, models: Mapping[str, Callable[..., Model]] | None = None) -> FittedModel:
    """Return the model of a file that a project wrote; `models` are the known kinds, the package's unless given."""
    place, registry = Path(path), MODELS if models is None else models
    body = io.read_json(place, KIND, remedy=_AGAIN)
    try:
        return _read(body, registry)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = str(error) if isinstance(error, PrismError) else f"{type(error).__name__}: {error!s:.60}"
        raise DataError(f"{place}: no whole model ({why}); {_AGAIN}") from error


def is_model_file(path: Path) -> bool:
    """Tell whether a file is one of these, without reading it all."""
    try:
        with io.reading(path) as file:
            return f'"prism-fcp/{KIND}"'.encode() in file.read(100)
    except PrismError:
        return False


def _read(body: Mapping[str, Any], registry: Mapping[str, Callable[..., Model]]) -> FittedModel:
    names, unused = tuple(body["features"]), tuple(body["unused"])
    if not names or not all(isinstance(name, str) for name in (*names, *unused, body["target"])):
        raise DataError("features, unused columns and target must be names")
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in body["model"]["options"].items()}
    choice = Choice(body["model"]["name"], options)
    if choice.name not in registry:
        raise SettingError(f"unknown model {choice.name!r}{did_you_mean(choice.name, registry)}; put yours into MODELS")
    bound: dict[str, Callable[..., Model]] = {choice.name: partial(registry[choice.name], len(names))}
    model = choice.build(bound, "model")
    if body["layers"] != [dict(layer._asdict()) for layer in model.layers]:
        raise DataError(f"its layers are not those of {choice.name!r} with these options")
    columns = {key: np.array(body[key], dtype=np.float64) for key in ("mean", "sd", "parameters")}
    wanted = {"mean": len(names) + 1, "sd": len(names) + 1, "parameters": model.layers[-1].stop}
    for key, values in columns.items():
        if values.shape != (wanted[key],) or not np.isfinite(values).all():
            raise DataError(f"{key} must be {wanted[key]} finite numbers")
    if not (columns["sd"] > 0).all():
        raise DataError("sd must be positive")
    parameters = columns["parameters"].astype(np.float32)
    scaler = Scaler(columns["mean"], columns["sd"])
    return FittedModel(choice, model, parameters, names, body["target"], scaler, unused)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
