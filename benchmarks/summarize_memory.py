"""Peak memory and speed of reading score files: a file of each kind streams through a histogram, in its own process.

Files are made in a temporary folder and deleted after. `python benchmarks/summarize_memory.py --gigabytes 2`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

LIMIT = 500  # MB, whatever the size of the file
KINDS = ("scores.npy", "scores.npz", "scores.csv", "pairs.csv", "scores.parquet")
PART = 500_000  # rows made at a time


def make(path: Path, size: int) -> int:
    """Write scores until the file has about this size; return how many."""
    rows, draw = 0, np.random.default_rng(1)
    if path.suffix in (".npy", ".npz"):
        rows = size // 8
        plain = path.with_suffix(".npy")
        table = np.lib.format.open_memmap(plain, mode="w+", dtype=np.float64, shape=(rows,))
        for first in range(0, rows, PART):
            table[first : first + PART] = draw.exponential(size=min(PART, rows - first))
        table.flush()
        if path.suffix == ".npz":
            import zipfile

            with zipfile.ZipFile(path, "w") as archive:
                archive.write(plain, "scores.npy")
            plain.unlink()
    elif path.suffix == ".parquet":
        import pyarrow as arrow
        import pyarrow.parquet as parquet

        with parquet.ParquetWriter(path, arrow.schema([("scores", arrow.float64())])) as writer:
            while os.path.getsize(path) < size:
                # One row group of 40 MB each time: the reader must not need it whole.
                writer.write_table(arrow.table({"scores": draw.exponential(size=10 * PART)}), row_group_size=10 * PART)
                rows += 10 * PART
    else:
        pairs = path.stem == "pairs"
        columns = [map(repr, draw.exponential(size=PART).tolist()) for _ in range(3 if pairs else 1)]
        part = "".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True)).encode()
        with path.open("wb") as file:
            file.write(b"y,prediction,other\n" if pairs else b"scores\n")
            while file.tell() < size:  # the same rows again: making digits takes longer than reading them
                file.write(part)
                rows += PART
    return rows


def stream(path: Path, columns: list[str]) -> None:
    """Read a file into a histogram; print rows, CPU seconds and peak memory."""
    from prism_fcp.data.columns import open_columns

    edges = np.concatenate(([0.0], np.geomspace(2.0**-30, 2.0**30, 3841), [np.inf]))
    counts = np.zeros(len(edges) - 1, dtype=np.int64)
    start = time.process_time()
    for block in open_columns(path, columns):
        scores = block[0] if len(block) == 1 else np.abs(block[0] - block[1])
        counts += np.bincount(np.searchsorted(edges, scores, side="right") - 1, minlength=len(counts))
    spent = time.process_time() - start
    status = Path("/proc/self/status").read_text()  # getrusage would count the parent's memory before exec
    peak = int(status.partition("VmHWM:")[2].split()[0])
    print(int(counts.sum()), spent, peak / 1024)


def main() -> int:
    """Measure every kind of file; the exit code says whether all stayed below the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of each file")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--stream", nargs="+", metavar="PATH", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stream:
        stream(Path(given.stream[0]), given.stream[1:])
        return 0
    worst = 0.0
    print("| file | GB | rows | peak MB | limit | MB/s of CPU | million rows/s |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.kinds:
            path = Path(folder) / kind
            rows, size = make(path, int(given.gigabytes * 1e9)), os.path.getsize(path)
            columns = ["y", "prediction"] if path.stem == "pairs" else ["0" if path.suffix == ".npy" else "scores"]
            command = [sys.executable, __file__, "--stream", str(path), *columns]
            done = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            read, spent, peak = int(done[0]), float(done[1]), float(done[2])
            if read != rows:
                raise RuntimeError(f"{kind}: {read} rows read of {rows}")
            path.unlink()
            worst = max(worst, peak)
            speeds = f"{size / 1e6 / spent:.0f} | {rows / 1e6 / spent:.1f}"
            print(f"| {kind} | {size / 1e9:.2f} | {rows:,} | {peak:.0f} | {LIMIT} | {speeds} |", flush=True)
    return int(worst > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
