"""Using a predictor file: intervals around a table of predictions, and what they are worth on test data."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prism_fcp import io
from prism_fcp.calibrate.radius_file import load_radii
from prism_fcp.data.columns import open_columns
from prism_fcp.data.wanted import Pick
from prism_fcp.errors import DataError, SettingError
from prism_fcp.evaluation import evaluate as evaluate_clients
from prism_fcp.evaluation import text_table
from prism_fcp.exchange.desk import hash_of
from prism_fcp.exchange.site import answer_columns
from prism_fcp.exchange.telling import reading, say
from prism_fcp.exchange.write import write_table
from prism_fcp.fitted import FittedModel, is_model_file, load_model
from prism_fcp.predict import Predictor, precomputed


def predict(options: Namespace) -> int:
    """Write a table: prediction, lower and upper end at each level."""
    radii = load_radii(options.predictor)
    normalised = radii.score == "normalised_residual"
    if normalised != (options.sigma is not None):
        needed = "needs --sigma: its scores were normalised" if normalised else "takes no --sigma"
        raise SettingError(f"{options.predictor} {needed}")
    model = None if options.model is None else hash_of(options.model)
    levels = options.level or None
    columns: list[str] | Pick | None = None if options.prediction is None else [options.prediction]
    answers: FittedModel | Callable[[Any], Any] = precomputed
    if columns is None and options.model is not None and is_model_file(Path(options.model)):
        answers = fitted = load_model(options.model)
        columns = partial(_features, fitted, options.file)
    if normalised:
        if not isinstance(columns, list):
            raise SettingError("--prediction is missing: beside --sigma the column must be named")
        columns.append(options.sigma)
    names = ["prediction"]
    for level in radii.columns(levels):
        told = radii.levels[level].confidence_level
        suffix = "" if told is None else f"_{100 * told:g}"
        names += [f"lower{suffix}", f"upper{suffix}"]

    def blocks(progress: Any) -> Iterator[list[Any]]:
        for own in open_columns(options.file, columns, progress=progress):
            sigma = own[1] if normalised else None
            inputs = own[0] if answers is precomputed else np.stack(own, axis=1)
            predictor = Predictor.load(options.predictor, answers, model_hash=model, sigma=sigma)
            told = predictor.predict_interval(inputs, levels, client=options.client)
            yield [told.point, *(told.bounds[:, end, place] for place in range(told.bounds.shape[2]) for end in (0, 1))]

    with reading(options.file) as progress:
        rows = write_table(options.out, names, blocks(progress))
    text = f"{options.out}: {rows:,} rows with {', '.join(names)}"
    say(options, text, {"file": str(options.out), "rows": rows, "columns": names})
    return 0


def evaluate(options: Namespace) -> int:
    """Evaluate a predictor on test data."""
    radii = load_radii(options.predictor)
    Predictor.load(options.predictor, model_hash=None if options.model is None else hash_of(options.model))
    columns = answer_columns(options, radii.score)
    if columns is None:
        raise SettingError("--y and --prediction are missing: coverage is judged on true values")
    extra = [name for name in (options.client_column, options.group) if name is not None]
    answers: dict[str, list[tuple[Any, ...]]] = {}
    groups: dict[str, list[Any]] = {}
    for named in options.files:
        client, path = _named(named)
        with reading(path) as progress:
            for block in open_columns(path, [*columns, *extra], text=extra, progress=progress):
                numbers, told = block[: len(columns)], list(block[len(columns) :])
                who = told.pop(0) if options.client_column else np.full(len(numbers[0]), client)
                group = told.pop(0) if options.group else None
                for one in np.unique(who):
                    rows = who == one
                    answers.setdefault(str(one), []).append(tuple(column[rows] for column in numbers))
                    if group is not None:
                        groups.setdefault(str(one), []).append(group[rows])
    joined: dict[int | str, Any] = {
        client: tuple(map(np.concatenate, zip(*parts, strict=True))) for client, parts in answers.items()
    }
    found = evaluate_clients(
        joined, radii, confidence_level=options.level or None, per_client=options.own_radii,
        groups={client: np.concatenate(parts) for client, parts in groups.items()} or None,
    )  # fmt: skip
    body = found.to_json()
    if options.out is not None:
        io.write_json(options.out, "evaluation", body)
    say(options, text_table(found), body)
    return 0


def _features(model: FittedModel, path: Path, names: Sequence[str]) -> list[str]:
    """Return a table's columns in the order the model wants its features."""
    return [names[place] for place in model.places(names, str(path))]


def _named(argument: str) -> tuple[str, Path]:
    """Return client and path of `CLIENT=FILE`; a bare file is its own client."""
    match = re.fullmatch(r"([^=/\\]+)=(.+)", argument)
    if match and not Path(argument).exists():
        return match[1], Path(match[2])
    path = Path(argument)
    if not path.name:
        raise DataError(f"{argument!r} names no file; give CLIENT=FILE or FILE")
    return path.name.split(".", 1)[0], path
