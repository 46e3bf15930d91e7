"""A site's side: make a key, and turn a file of scores into a summary."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prism_fcp import io
from prism_fcp.calibrate import wire
from prism_fcp.calibrate.model_hash import model_hash
from prism_fcp.calibrate.score import absolute_residual, normalised_residual
from prism_fcp.calibrate.signing import Signer, generate
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import summarize
from prism_fcp.data.columns import open_columns
from prism_fcp.errors import DataError, SettingError, counted
from prism_fcp.exchange.telling import OTHER_FILE, reading, say

SUFFIX = ".summary"


def keygen(options: Namespace) -> int:
    """Make a private key, and print the line for the coordinator."""
    made = generate(options.out, options.client, passphrase=passphrase(options))
    text = (
        f"private key: {made.path} (readable by you alone; never send it)\n"
        f"fingerprint: {made.fingerprint}\n"
        "send this line to the coordinator, and compare the fingerprint by another way:\n"
        f"{made.line}"
    )
    say(options, text, {"path": str(made.path), "fingerprint": made.fingerprint, "line": made.line})
    return 0


def summarize_file(options: Namespace) -> int:
    """Count a file's scores and write the summary."""
    spec = CalibrationSpec.load(options.spec)
    if options.model is not None and model_hash(options.model) != spec.model:
        raise DataError(
            f"{options.model} is not the model of {options.spec} ({spec.model[:12]}...); score with that model"
        )
    signer = None if options.key is None else Signer.load(options.key, passphrase(options))
    place = options.out or Path(f"{options.client}{SUFFIX}")
    with reading(options.file) as progress:
        summary = summarize(score_blocks(options.file, options, spec.score, progress), spec, options.client)
    data = wire.encode(wire.sign(summary, signer) if signer else summary)
    io.write_bytes(place, data, OTHER_FILE)
    told = np.flatnonzero(summary.counts)
    edges = spec.grid.edges
    low, high = float(edges[told[0]]), float(edges[told[-1] + 1])
    signed = f", signed with {signer.fingerprint}" if signer else ", not signed"
    text = (
        f"{place}: {summary.size:,} scores of {summary.client} in {counted(len(told), 'bin')} from {low:.4g} to "
        f"{high:.4g}, {len(data):,} bytes{signed}\n"
        "it tells the coordinator how many errors lie in each bin, and nothing else of your data"
    )
    body = {
        "file": str(place), "client": summary.client, "scores": summary.size, "bins": len(told), "bytes": len(data),
        "digest": wire.digest(data), "spec": spec.hash, "signed": signer.fingerprint if signer else None,
    }  # fmt: skip
    say(options, text, body)
    return 0


def score_blocks(path: Path, options: Namespace, score: str, progress: Any) -> Iterator[NDArray[np.float64]]:
    """Yield a file's scores block by block: its column of scores, or what y, prediction and sigma make."""
    columns = answer_columns(options, score)
    if columns is None:
        wanted = None if options.scores is None else [options.scores]
        for (own,) in open_columns(path, wanted, progress=progress):
            yield np.asarray(own, dtype=np.float64)
        return
    for block in open_columns(path, columns, progress=progress):
        numbers: list[Any] = list(block)
        yield np.asarray(normalised_residual(*numbers) if len(numbers) == 3 else absolute_residual(*numbers))


def answer_columns(options: Namespace, score: str) -> list[str] | None:
    """Return the columns of y, prediction and, for normalised scores, sigma; None where scores are given."""
    named = {name: getattr(options, name) for name in ("y", "prediction", "sigma")}
    if getattr(options, "scores", None) is not None or not any(named.values()):
        if any(named.values()):
            raise SettingError("--scores beside --y, --prediction or --sigma; give the scores, or what makes them")
        return None
    needed = ["y", "prediction"] + (["sigma"] if score == "normalised_residual" else [])
    for name, column in named.items():
        if name in needed and column is None:
            raise SettingError(f"--{name} is missing: the score {score} is made of {', '.join(needed)}")
        if name not in needed and column is not None:
            raise SettingError(f"--{name} given, but the score {score} is made of {', '.join(needed)}")
    return [named[name] for name in needed]


def passphrase(options: Namespace) -> str | None:
    """Return the passphrase: the first line of its file."""
    if options.passphrase_file is None:
        return None
    return io.read_text(options.passphrase_file).split("\n", 1)[0].rstrip("\r")
