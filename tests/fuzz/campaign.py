"""A campaign: mutated summaries given to decode and to servers, each answer compared with the oracle's."""

from __future__ import annotations

import random
import signal
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from prism_fcp.calibrate.keys import is_fingerprint
from prism_fcp.calibrate.server import CalibrationServer
from prism_fcp.calibrate.wire import check_against, decode, digest
from prism_fcp.errors import DataError
from tests.fuzz.mutations import MUTATIONS
from tests.fuzz.oracle import client_of, malformed, unfit
from tests.fuzz.worlds import NAMES, World, worlds

BATCH = 2000  # cases after which the servers begin anew: a case is repeated from the start of its batch
LARGE = 0.004  # share of the cases in the world of a million bins
LIMIT = 1.0  # seconds of CPU for one call


@dataclass
class Report:
    """What came of a campaign."""

    cases: int = 0
    failures: list[str] = field(default_factory=list)
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: dict[str, tuple[float, int]] = field(default_factory=dict)  # seconds of CPU and the case, by call
    longest: dict[str, tuple[float, int]] = field(default_factory=dict)  # seconds by the clock

    def fail(self, case: int, kind: str, what: str) -> None:
        self.failures.append(f"case {case} ({kind}): {what}")

    def took(self, call: str, case: int, cpu: float, wall: float) -> None:
        self.slowest[call] = max(self.slowest.get(call, (0.0, 0)), (cpu, case))
        self.longest[call] = max(self.longest.get(call, (0.0, 0)), (wall, case))
        if cpu > LIMIT:
            self.fail(case, call, f"{cpu:.2f} CPU-s")


def make(seed: int, case: int) -> tuple[str, int, bytes]:
    """Return the kind of a case, the number of its world and its bytes; they depend on nothing else."""
    rng = random.Random((seed << 40) + case)
    kinds = list(MUTATIONS)
    kind = kinds[case % len(kinds)]
    every = worlds()
    number = len(every) - 1 if rng.random() < LARGE else rng.randrange(len(every) - 1)
    return kind, number, MUTATIONS[kind](rng, every[number], rng.randrange(len(NAMES)))


def campaign(seed: int, cases: range, folder: Path | None = None, *, watched: bool = False) -> Report:
    """Run these cases; one batch in ten keeps its state in files, where there is a folder for them.

    `watched` takes the process's alarm clock to end a case that never would.
    """
    report = Report()
    if watched:
        signal.signal(signal.SIGALRM, _too_long)
    for start in range(cases.start - cases.start % BATCH, cases.stop, BATCH):
        here = folder if folder is not None and start // BATCH % 10 == 1 else None
        desks = _Desks(here, start)
        for case in range(start, min(start + BATCH, cases.stop)):
            kind, number, data = make(seed, case)
            if watched:
                signal.setitimer(signal.ITIMER_REAL, 30)
            _one(report, case, kind, number, data, desks)
            if watched:
                signal.setitimer(signal.ITIMER_REAL, 0)
        desks.conclude(report, start)
    return report


def _one(report: Report, case: int, kind: str, number: int, data: bytes, desks: _Desks) -> None:
    world = worlds()[number]
    told = report.kinds.setdefault(kind, Counter())
    report.cases += 1
    told["cases"] += 1
    bad = malformed(data)
    fits = not bad and not unfit(data, world.spec)
    decoded = _decoded(report, case, kind, data, world)
    told["decoded"] += decoded is not None
    if (decoded is not None) != (not bad):
        report.fail(case, kind, f"decode {'accepted' if decoded else 'refused'}; oracle: {bad or 'well-formed'}")
    if decoded is not None and not bad and (decoded == "") != fits:
        report.fail(case, kind, f"check_against says {decoded!r}; the oracle that it {'fits' if fits else 'does not'}")
    for signed in (False, True):
        call = f"submit, {'signed' if signed else 'unsigned'}, {'file' if desks.folder else 'memory'}"
        desk, held = desks.of(number, signed)
        begun = time.process_time(), time.perf_counter()
        try:
            receipt = desk.submit(data)
        except Exception as error:  # whatever it is, it is a failure
            report.fail(case, kind, f"{call}: {type(error).__name__}: {error}"[:300])
            continue
        report.took(call, case, time.process_time() - begun[0], time.perf_counter() - begun[1])
        right = data in world.believed if signed else fits
        client = client_of(data) if right else ""
        expected = "refused"
        if right and held.get(client, digest(data)) == digest(data):
            expected = "repeated" if client in held else "accepted"
            held[client] = digest(data)
        if receipt.status != expected:
            report.fail(case, kind, f"{call}: {receipt.status} ({receipt.reason}), the oracle says {expected}")
        if "\n" in receipt.reason or len(receipt.reason) > 500 or not receipt.reason.isprintable():
            report.fail(case, kind, f"{call}: reason {receipt.reason[:600]!a}")
        told[f"{'signed' if signed else 'unsigned'} taken"] += receipt.accepted


def _decoded(report: Report, case: int, kind: str, data: bytes, world: World) -> str | None:
    """Return None where decode refuses the bytes, else what `check_against` says."""
    begun = time.process_time(), time.perf_counter()
    try:
        summary = decode(data)
        problem = check_against(summary, world.spec)
        if summary.key and not is_fingerprint(summary.key):
            report.fail(case, kind, "a key that is no fingerprint")
    except DataError as error:
        problem = None
        if "\n" in str(error) or not str(error).isprintable():
            report.fail(case, kind, f"message {str(error)[:300]!a}")
    except Exception as error:
        report.fail(case, kind, f"decode: {type(error).__name__}: {error}"[:300])
        problem = None
    report.took("decode and check", case, time.process_time() - begun[0], time.perf_counter() - begun[1])
    return problem


class _Desks:
    """The servers of one batch, opened when they are needed, with what each should hold."""

    def __init__(self, folder: Path | None, start: int) -> None:
        self.folder, self.start = folder, start
        self.open: dict[tuple[int, bool], tuple[CalibrationServer, dict[str, str]]] = {}

    def of(self, number: int, signed: bool) -> tuple[CalibrationServer, dict[str, str]]:
        if (number, signed) not in self.open:
            path = self.folder / f"{self.start}-{number}-{signed}.state" if self.folder else None
            self.open[number, signed] = worlds()[number].server(signed, path), {}
        return self.open[number, signed]

    def conclude(self, report: Report, start: int) -> None:
        """Close them: each holds what it should, and concludes without an error."""
        for (number, signed), (desk, held) in self.open.items():
            if desk.clients != tuple(sorted(held, key=str.encode)):
                report.fail(start, "conclude", f"world {number}, signed {signed}: holds {desk.clients}")
            if held and number < len(worlds()) - 1:
                begun = time.process_time(), time.perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        result = desk.finalise()
                    except Exception as error:
                        report.fail(start, "finalise", f"world {number}: {type(error).__name__}: {error}"[:300])
                    else:
                        if not 0 < result.radius:
                            report.fail(start, "finalise", f"world {number}: radius {result.radius}")
                report.took("finalise", start, time.process_time() - begun[0], time.perf_counter() - begun[1])
            desk.close()


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("30 s for one case")
