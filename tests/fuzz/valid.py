"""Valid summaries of every legal shape: each must be taken, by decode, by the oracle and by a server."""

from __future__ import annotations

import random
import time
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prism_fcp.calibrate.grid import AnyGrid, LinearGrid, LogGrid
from prism_fcp.calibrate.names import check_name
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.spec import MOST_SCORES, CalibrationSpec
from prism_fcp.calibrate.summary import ClientSummary, summarize
from prism_fcp.calibrate.trust import Trust
from prism_fcp.calibrate.wire import check_against, decode, encode, sign
from prism_fcp.errors import DataError
from tests.fuzz.campaign import Report
from tests.fuzz.oracle import malformed, unfit
from tests.fuzz.worlds import NOW, signer, spec

SCRIPTS = (
    (0x20, 0x7E), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x586), (0x5D0, 0x5EA), (0x620, 0x64A),
    (0x904, 0x939), (0x985, 0x9B9), (0xB85, 0xBB9), (0xE01, 0xE30), (0xE81, 0xEAE), (0xF40, 0xF6C), (0x1000, 0x1021),
    (0x10D0, 0x10FF), (0x1200, 0x135A), (0x13A0, 0x13F4), (0x1780, 0x17B3), (0x1820, 0x1878), (0x3041, 0x30FA),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F), (0x10330, 0x1034A), (0x20000, 0x2A6DF),
)  # fmt: skip
LARGE: tuple[AnyGrid, ...] = (
    LinearGrid(7.5, 1_000_000), LinearGrid(1e-9, 999_999, overflow=True), LogGrid(1024, -488, 488),
    LogGrid(512, -1021, 0),
)  # fmt: skip
FIRST_TIME = datetime(1000, 1, 1, tzinfo=UTC)


def grids() -> list[AnyGrid]:
    """Return the grids of ordinary size: from 2 bins on, all steps, and both ends of the float range."""
    logs = [LogGrid(1 << power, -lowest, lowest) for power in range(11) for lowest in (1, 7)]
    logs += [LogGrid(1, 0, 1), LogGrid(1, -1021, 1023), LogGrid(4, 1000, 1023), LogGrid(2, -1021, -1000), LogGrid()]
    linear = [LinearGrid(10.0**size, bins) for size in (-30, -3, 0, 30) for bins in (2, 3, 100, 1000, 4097)]
    return [*logs, *linear, *(LinearGrid(1.0, bins, overflow=True) for bins in (2, 5, 30, 100, 999))]


def name(rng: random.Random) -> str:
    """Return a legal name in one script or several, of 1 to 100 characters."""
    while True:
        scripts = rng.choices(SCRIPTS, k=rng.choice((1, 1, 1, 2, 3)))
        letters = (chr(rng.randint(*rng.choice(scripts))) for _ in range(rng.choice((1, 2, 8, 20, 60, 100))))
        made = unicodedata.normalize("NFKC", "".join(letters)).strip()
        try:
            return check_name(made)
        except DataError:
            continue


def counts(rng: random.Random, bins: int, least: int) -> NDArray[np.int64]:
    """Return counts of some shape: one bin, the ends, few bins, all of them; from one score to 2^32 - 1."""
    told = np.zeros(bins, dtype=np.int64)
    shape = rng.randrange(6)
    if shape == 0:
        told[rng.choice((0, bins - 1, rng.randrange(bins)))] = rng.choice((1, least, 1000, MOST_SCORES))
    elif shape == 1:
        told[0], told[-1] = least, rng.choice((least, MOST_SCORES - least))
    elif shape == 2:
        told[[rng.randrange(bins) for _ in range(20)]] = least + rng.randrange(1000)
    elif shape == 3:
        told[:] = least if bins > 10_000 else least + rng.randrange(MOST_SCORES // bins - least)
    elif shape == 4:
        start = rng.randrange(bins)
        told[start : start + rng.randrange(1, 500)] = least
    else:
        told[rng.randrange(bins)] = MOST_SCORES // 2
        told[rng.randrange(bins)] += MOST_SCORES // 2 + 1
    return told


def accept_all(seed: int, cases: int, folder: Path) -> Report:
    """Make, encode, judge, decode and submit that many summaries, two in a hundred on grids of about 10^6 bins.

    The servers of large grids keep their state in files: what they take would fill the memory.
    """
    report, rng = Report(), random.Random(seed)
    desks: dict[int, tuple[CalibrationSpec, CalibrationServer, CalibrationServer, Trust]] = {}
    every, taken = [*grids(), *LARGE], set()
    for case in range(cases):
        number = rng.randrange(len(every) - len(LARGE), len(every)) if case % 50 == 7 else case % len(grids())
        if number not in desks:
            grid = every[number]
            agreed = spec(grid, most_scores=MOST_SCORES, least_count=rng.choice((1, 1, 5)), round=number + 1)
            trust = Trust(Path("trust"), {}, {})
            large = grid in LARGE
            plain, guarded = (
                CalibrationServer(
                    agreed, trust=own, path=folder / f"{number}-{own is None}" if large else None, now=lambda: NOW
                )
                for own in (None, trust)
            )
            desks[number] = agreed, plain, guarded, trust
        agreed, plain, guarded, trust = desks[number]
        client, moment = name(rng), FIRST_TIME + timedelta(seconds=rng.randrange(9000 * 365 * 86400))
        while (number, client) in taken:
            client = name(rng)
        taken.add((number, client))
        if rng.random() < 0.5:
            scores = np.random.default_rng([seed, case]).lognormal(0, 3, rng.choice((1, 10, 300)))
            made = summarize(scores, agreed, client, created=moment)
        else:
            bins = len(agreed.grid.edges) - 1
            told = counts(rng, bins, agreed.least_count)
            made = ClientSummary(client, agreed.hash, agreed.model, told, moment.strftime("%Y-%m-%dT%H:%M:%SZ"))
        key = rng.choice((None, signer(case % 50)))
        if key:
            made = sign(made, key)
            trust.clients[client] = (key.public,)  # type: ignore[index]
        _one(report, case, agreed, made, guarded if key and rng.random() < 0.8 else plain)
    for _, plain, guarded, _ in desks.values():
        plain.close()
        guarded.close()
    return report


def _one(report: Report, case: int, agreed: CalibrationSpec, made: ClientSummary, desk: CalibrationServer) -> None:
    data = encode(made)
    report.cases += 1
    begun = time.process_time(), time.perf_counter()
    told = decode(data)
    problem = check_against(told, agreed)
    report.took("decode and check", case, time.process_time() - begun[0], time.perf_counter() - begun[1])
    oracle = malformed(data) or unfit(data, agreed)
    receipt = desk.submit(data)
    same = np.array_equal(told.counts, made.counts) and encode(told) == data and told.client == made.client
    if problem or oracle or receipt.status != "accepted" or not same:
        report.fail(case, "valid", f"{made.client!a}: {problem or oracle or receipt.reason or 'read as another'}")
