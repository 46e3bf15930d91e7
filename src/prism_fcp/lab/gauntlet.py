"""The gauntlet: regimes x training attacks x protocols on common random numbers, each trial kept as it finishes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import prism_fcp
from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.quantile import pool
from prism_fcp.data.synthetic import Population
from prism_fcp.engines import ENGINES, choose
from prism_fcp.errors import DataError, OutputError, SettingError, did_you_mean
from prism_fcp.io import Journal
from prism_fcp.lab import checks, sources
from prism_fcp.lab.pool import run_all
from prism_fcp.lab.progress import Progress, Quiet
from prism_fcp.lab.regimes import REGIMES, Gauntlet, Regime, attack_named, protocols
from prism_fcp.lab.run import Interrupted, check_counts
from prism_fcp.scoring import CalibrationDraws, chosen, scoring_models
from prism_fcp.setup import CalibrationSettings
from prism_fcp.train.loop import BYTES_PER_VALUE, Trained
from prism_fcp.train.protocol import Protocol
from prism_fcp.train.settings import Arm, Federation

KEPT: Final = "gauntlet.jsonl"
WORK: Final = 10**12  # a gauntlet is always worth compiling for


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one protocol came to in one trial of one cell. `width` is over the floor; None: it diverged."""

    width: float | None
    coverage: float | None
    false_exclusions: float | None  # share of the honest clients left out at the end; None: it leaves nobody out
    recall: float | None  # share of the Byzantine clients left out at the end
    bytes_up: float  # a round, all participants together


class Cell(NamedTuple):
    """One regime under one attack."""

    regime: str
    attack: str
    setting: Regime
    federation: Federation
    protocols: dict[str, Protocol]

    @property
    def members(self) -> list[tuple[str, str]]:
        """Return (kind, name) of its attack and its rules, of which some may be other packages'."""
        rules = [member for protocol in self.protocols.values() for member in protocol.arm.rule.members("rule")]
        return self.federation.attack.members("training attack") + rules

    @property
    def key(self) -> str:
        """Return a digest of all that decides its numbers but seed and code."""
        told = (self.setting, self.federation, sorted((n, p.arm, p.scoring_model) for n, p in self.protocols.items()))
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


class Summary(NamedTuple):
    """A protocol over the trials of a cell; widths over the floor."""

    regime: str
    attack: str
    protocol: str
    trials: int
    diverged: int
    mean: float | None  # None: a trial diverged
    median: float | None
    p95: float | None
    worst: float | None
    coverage: float | None
    false_exclusions: float | None
    worst_false_exclusions: float | None
    recall: float | None
    bytes_up: float  # a round, all participants together
    bytes_down: float  # likewise; the last model's way to everybody comes on top
    rounds: int


def cells(gauntlet: Gauntlet) -> list[Cell]:
    """Return the cells, with every name checked; `local only` and the default are in each."""
    for name in gauntlet.regimes:
        if name not in REGIMES:
            raise SettingError(f"unknown regime {name!r}{did_you_mean(name, REGIMES)}")
    attacks = {label: attack_named(label) for label in gauntlet.attacks}
    rivals = tuple(dict.fromkeys(("local only", *gauntlet.protocols)))
    made = []
    for name in gauntlet.regimes:
        regime = REGIMES[name]
        for label, attack in attacks.items():
            federation = replace(regime.federation, attack=attack(regime.federation.rounds))
            made.append(Cell(name, label, regime, federation, protocols(rivals, regime)))
    return made


def play(cell: Cell, seed: int, trial: int) -> dict[str, Outcome]:
    """Train all protocols of a cell on one data stream, and return what each came to."""
    size = cell.federation
    population = cell.setting.population.draw(size.num_clients, size.dimension, size.num_byzantine, seed, trial)
    trained = _train(population, size, list(dict.fromkeys(p.arm for p in cell.protocols.values())))
    settings, honest = CalibrationSettings(), ~population.byzantine
    silent = SCORE_ATTACKS["none"]()
    draws = CalibrationDraws.of(population, settings, [silent])
    floor_scores = chosen(draws.score(scoring_models(None, "global", population)).true, honest)
    floor = pool(floor_scores, None, settings.confidence_level, settings.correction).radius
    found: dict[tuple[Arm, str], Outcome] = {}
    for protocol in cell.protocols.values():
        address = (protocol.arm, protocol.scoring_model)
        if address not in found:
            result = trained[protocol.arm]
            width = coverage = None
            if result.diverged_at is None:
                scored = draws.score(scoring_models(result, protocol.scoring_model, population))
                concluded = scored.conclude(scored.receive("none", silent), honest.astype(float))
                width, coverage = concluded.radius / floor, concluded.coverage
            found[address] = Outcome(width, coverage, *_exclusions(result, honest), result.bytes_up_per_round)
    return {name: found[p.arm, p.scoring_model] for name, p in cell.protocols.items()}


def _train(population: Population, size: Federation, arms: Sequence[Arm]) -> dict[Arm, Trained]:
    """Train each arm with the engine that is best for it alone, so that its numbers do not depend on its company."""
    by_engine: dict[str, list[Arm]] = {}
    for arm in arms:
        by_engine.setdefault(choose("auto", WORK, size, [arm]).name, []).append(arm)
    return {
        arm: result
        for engine, own in by_engine.items()
        for arm, result in zip(own, ENGINES[engine](population, size, own), strict=True)
    }


def _exclusions(result: Trained, honest: Any) -> tuple[float | None, float | None]:
    if result.ledger is None:
        return None, None
    out = result.ledger.excluded
    return float(out[honest].mean()), float(out[~honest].mean()) if (~honest).any() else None


def run(
    chosen: Sequence[Cell],
    *,
    trials: int = 20,
    seed: int = 1,
    jobs: int = 1,
    folder: Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
    plugins: Sequence[str] = (),
) -> list[Summary]:
    """Run every cell's trials that are not kept in `folder` yet, and return the rows.

    `plugins` are the loaded ones that the cells may need: trials of other versions of their code are not continued.
    """
    check_counts(trials, jobs)
    checks.seed(seed)
    done: dict[tuple[str, int], dict[str, Outcome]] = {}
    journal = Journal(folder / KEPT, "gauntlet") if folder else None
    members = [member for cell in chosen for member in cell.members]
    identity = {"seed": seed, "version": prism_fcp.__version__, "code": sources.digest(plugins, members)}
    if journal and not fresh:
        done = _read(journal, identity)
    wanted = [(cell, trial) for trial in range(trials) for cell in chosen]
    left = [(cell, trial) for cell, trial in wanted if (cell.key, trial) not in done]
    show = progress or Quiet()
    show.start("gauntlet", len(wanted), len(wanted) - len(left))
    with _interruptible(done, wanted, folder), _stopping(show):
        with journal.writing(identity, fresh=fresh) if journal and (left or fresh) else nullcontext() as writer:
            for place, outcome in run_all(lambda i: play(*_at(left, i, seed)), range(len(left)), jobs, "threads"):
                cell, trial = left[place]
                if writer is not None:
                    told = {name: asdict(one) for name, one in outcome.items()}
                    writer.append({"cell": cell.key, "trial": trial, "outcomes": told})
                done[cell.key, trial] = outcome
                show.advance()
    return [
        summarise(cell, name, [done[cell.key, trial][name] for trial in range(trials)])
        for cell in chosen
        for name in cell.protocols
    ]


def _at(left: Sequence[tuple[Cell, int]], place: int, seed: int) -> tuple[Cell, int, int]:
    cell, trial = left[place]
    return cell, seed, trial


def summarise(cell: Cell, name: str, outcomes: Sequence[Outcome]) -> Summary:
    """Return one protocol's row of one cell. A mean over trials of which one diverged is None, never a number."""
    widths = [o.width for o in outcomes if o.width is not None]
    diverged = len(outcomes) - len(widths)
    coverages = [o.coverage for o in outcomes if o.coverage is not None]
    false = [o.false_exclusions for o in outcomes if o.false_exclusions is not None]
    recalls = [o.recall for o in outcomes if o.recall is not None]
    known = not diverged
    return Summary(
        regime=cell.regime,
        attack=cell.attack,
        protocol=name,
        trials=len(outcomes),
        diverged=diverged,
        mean=float(np.mean(widths)) if known else None,
        median=float(np.median(widths)) if known else None,
        p95=float(np.quantile(widths, 0.95)) if known else None,
        worst=max(widths) if known else None,
        coverage=float(np.mean(coverages)) if known else None,
        false_exclusions=float(np.mean(false)) if false else None,
        worst_false_exclusions=max(false) if false else None,
        recall=float(np.mean(recalls)) if recalls else None,
        bytes_up=math.fsum(o.bytes_up for o in outcomes) / len(outcomes),
        bytes_down=bytes_down(cell.protocols[name].arm, cell.federation),
        rounds=cell.federation.rounds,
    )


def bytes_down(arm: Arm, federation: Federation) -> float:
    """Return the payload all participants download in a round."""
    if not arm.exchange or arm.masks.download == "never":
        return 0.0
    whole = arm.masks.download == "full"
    coordinates = federation.dimension if whole else arm.masks.expected_coordinates(federation.dimension)
    return BYTES_PER_VALUE * federation.num_participants * float(coordinates)


def _read(journal: Journal, identity: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, Outcome]]:
    header, records = journal.read()
    if header is None:
        return {}
    told = {"code": "version of the code, a plugin's or another package's included"}
    for key, value in identity.items():
        if header.get(key) != value:
            raise OutputError(
                f"{journal.path}: these trials are of another {told.get(key, key)}; --fresh starts over, another "
                "--out keeps them"
            )
    try:
        return {
            (record["cell"], record["trial"]): {n: Outcome(**told) for n, told in record["outcomes"].items()}
            for record in records
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{journal.path}: a line is no finished trial ({error}); start over with --fresh") from error


@contextmanager
def _interruptible(done: Mapping[Any, Any], wanted: Sequence[tuple[Cell, int]], folder: Path | None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt as error:
        finished = sum((cell.key, trial) in done for cell, trial in wanted)
        raise Interrupted("gauntlet", finished, len(wanted), folder if finished else None) from error


@contextmanager
def _stopping(show: Progress) -> Iterator[None]:
    try:
        yield
    finally:
        show.stop()
