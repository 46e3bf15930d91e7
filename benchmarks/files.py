"""Calibration by files: counting many scores, and concluding from many clients."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from timing import Line, cpu_seconds, medians

SCORES = 10_000_000
CLIENTS, BINS = 10_000, 1_000


def summarize(quick: bool) -> list[Line]:
    """Counting 1e7 scores of an npy file, beside reading them and NumPy's bincount of bins that are known already."""
    from argparse import Namespace

    from prism_fcp.calibrate.spec import CalibrationSpec
    from prism_fcp.calibrate.summary import summarize
    from prism_fcp.exchange.site import score_blocks

    number = SCORES // 10 if quick else SCORES
    spec = CalibrationSpec(title="benchmark", model="0" * 64, most_scores=2**32 - 1)
    scores = np.abs(np.random.default_rng(0).standard_normal(number))
    places = np.searchsorted(spec.grid.edges, scores, side="right") - 1
    options = Namespace(scores=None, y=None, prediction=None, sigma=None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.npy"
        np.save(path, scores)

        def measure() -> list[float]:
            read = cpu_seconds(lambda: np.load(path))
            counted = cpu_seconds(lambda: np.bincount(places, minlength=len(spec.grid.edges) - 1))
            blocks = cpu_seconds(lambda: summarize(score_blocks(path, options, spec.score, None), spec, "site"))
            whole = cpu_seconds(lambda: summarize(scores, spec, "site"))
            return [read, counted, blocks, whole]

        read, counted, blocks, whole = medians(measure, 3 if quick else 7)
    name = f"summarize {number:.0e} scores"
    return [
        Line(name, "from a file / (bincount of known bins + reading)", blocks / (counted + read), "x", 2.0),
        Line(name, "in memory / bincount of known bins", whole / counted, "x", 2.0),
        Line(name, "from a file", blocks, "s"),
    ]


CONCLUDE = """
import resource, sys, time
import numpy as np
from datetime import UTC, datetime
from prism_fcp.calibrate.combine import calibrate_summaries
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.grid import LinearGrid
from prism_fcp.calibrate.spec import CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary
from prism_fcp.exchange.document import describe, DEFAULT_FILTER
from prism_fcp.io import to_json

clients, bins = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
spec = CalibrationSpec(title="benchmark", model="0" * 64, grid=LinearGrid(5.0, bins))
law = np.histogram(np.abs(rng.standard_normal(10**6)), bins=spec.grid.edges)[0] + 1.0
summaries = []
for place in range(clients):
    counts = rng.multinomial(500, law / law.sum()) if place % 5 else np.eye(1, bins, 0, dtype=np.int64)[0] * 500
    told = (f"client-{place}", spec.hash, spec.model, counts.astype(np.uint32), "2026-01-01T00:00:00Z")
    summaries.append(ClientSummary(*told))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
before = peak()
start = time.process_time()
filter = FILTERS[sys.argv[3] if len(sys.argv) > 3 else DEFAULT_FILTER]()
found = calibrate_summaries(summaries, spec, filter=filter)
middle = time.process_time()
text = to_json(describe(found, spec, filter, datetime.now(UTC)), compact=True)
print(middle - start, time.process_time() - start, peak(), before)
"""


def conclude(quick: bool) -> list[Line]:
    """10,000 clients x 1,000 bins: verdicts, radii, audits, certificates and the document."""
    clients = CLIENTS // 10 if quick else CLIENTS
    done = subprocess.run(
        [sys.executable, "-c", CONCLUDE, str(clients), str(BINS)], capture_output=True, text=True, check=True
    )
    verdicts, everything, peak, before = map(float, done.stdout.split())
    name = f"calibrate {clients:,} clients x {BINS:,} bins"
    return [
        Line(name, "verdicts and radii", verdicts, "s"),
        Line(name, "with all audits and certificates", everything, "s", 10.0),
        Line(name, "memory of the process, summaries included", peak, "MB", 500.0, note=f"{before:.0f} MB before"),
    ]


if __name__ == "__main__":
    from timing import table

    print(table(summarize("--quick" in sys.argv) + conclude("--quick" in sys.argv)))
    print(f"peak of this process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")
