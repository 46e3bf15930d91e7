"""An experiment is data: a TOML file becomes a frozen `Experiment`, checked key by key before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from prism_fcp.calibrate.attack import SCORE_ATTACKS
from prism_fcp.calibrate.filter import FILTERS
from prism_fcp.calibrate.span import RANGES
from prism_fcp.data.partition import PARTITIONERS
from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import SettingError
from prism_fcp.io import read_toml
from prism_fcp.lab import checks, plugins
from prism_fcp.lab.checks import Figure as Figure
from prism_fcp.lab.typed import build, check_keys, choice, convert, plain, shown
from prism_fcp.setup import CalibrationSettings, Method, ScoringModel, Setup
from prism_fcp.tables import NAMED, TableData, factories
from prism_fcp.train.aggregate import RULES
from prism_fcp.train.attack import UPDATE_ATTACKS
from prism_fcp.train.settings import Arm, Federation, Masks
from prism_fcp.types import Choice

Training: TypeAlias = Literal["federated", "local", "oracle"]

_HEAD: Final = ("name", "title", "description", "plugins", "figures", "trials", "seed", "explain", "predict_samples")
_TABLES: Final = ("population", "data", "federation", "calibration", "attacks", "methods")
_METHOD_KEYS: Final = (
    "method", "variant", "training", "protocol", "share", "num_shared", "layers", "coordination", "download", "rule",
    "mixing", "averaging", "client_averaging", "filter", "scoring_model", "bins",
)  # fmt: skip
_SHARES: Final = ("mixing", "averaging", "client_averaging")  # numbers of an arm
_PLAIN: Final = Arm(masks=Masks(num_shared=1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """How a row or an attack is shown: `PRISM-FCP`, and what tells it from others of the name (`told 22`)."""

    name: str
    variant: str = ""
    share: float = 0.0

    def __str__(self) -> str:
        """Return name and variant."""
        return f"{self.name}, {self.variant}" if self.variant else self.name


def told_share(share: float) -> str:
    """Return a sharing ratio as tables show it.

    >>> told_share(1), told_share(0.3), told_share(20 / 81)
    ('1.0', '0.3', '0.2469')
    """
    return str(round(float(share), 4))


@dataclass(frozen=True, kw_only=True, slots=True)
class Experiment:
    """A table or figure: what to run, how often, and what to draw of it."""

    name: str
    setup: Setup
    attack_labels: tuple[Label, ...]  # one for each of setup.attacks
    method_labels: tuple[Label, ...]  # one for each of setup.methods
    title: str = ""
    description: str = ""
    plugins: tuple[str, ...] = ()  # modules and files that register what the package does not have
    figures: tuple[Figure, ...] = ("widths",)
    trials: int = 100
    seed: int = 1
    explain: int = 1  # trials whose clients are recorded one by one, for figures
    predict_samples: int = 30  # test samples of one honest client kept for the interval figure
    resolved: Mapping[str, Any]  # every value, defaults included: the file that would say it all

    @property
    def fingerprint(self) -> str:
        """Return a hash of what decides the numbers: everything but texts, figures, trials and seed."""
        return fingerprint(self.resolved)


def fingerprint(resolved: Mapping[str, Any]) -> str:
    """Return the hash of an experiment's tables, every default written out."""
    deciding = {key: resolved[key] for key in _TABLES if key in resolved}
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def load(path: Path) -> Experiment:
    """Read and check an experiment file."""
    return parse(read_toml(path), str(path))


def parse(document: Mapping[str, Any], where: str) -> Experiment:
    """Check an experiment's dictionary; `where` opens every message."""
    check_keys(document, (*_HEAD, *_TABLES), where)
    hints = {field.name: field for field in fields(Experiment)}
    head: dict[str, Any] = {"name": document.get("name", Path(where).stem)}
    types = {
        "name": str, "title": str, "description": str, "plugins": tuple[str, ...], "figures": tuple[Figure, ...],
    }  # fmt: skip
    for key in _HEAD:
        value, hint = document.get(key, head.get(key, hints[key].default)), types.get(key, int)
        large = key == "seed" and type(value) is int  # it has bounds of its own
        head[key] = value if large else convert(value, hint, f"{where}: {key}")
    checks.name(head["name"], where)
    checks.head({key: head[key] for key in _HEAD if type(head[key]) is int}, where)

    head["plugins"] = plugins.load(head["plugins"], where)  # before the choices they may add to are checked
    population = _population(document, where)
    federation = _section(Federation, _with_dimension(document, population, where), "federation", where)
    calibration = _section(CalibrationSettings, document, "calibration", where)
    checks.sizes((federation, calibration), where)
    if "window" not in document.get("federation", {}):
        federation = replace(federation, window=min(federation.window, federation.rounds))
    if "predict_samples" not in document:
        head["predict_samples"] = min(head["predict_samples"], calibration.test_samples)
    checks.within(head, federation, calibration, where)
    attacks = [_attack(table, at) for table, at in _rows(document, "attacks", where)]
    layers = tuple(layer.size for layer in population.learner().layers) if isinstance(population, TableData) else ()
    methods = [_method(table, population, federation, layers, at) for table, at in _rows(document, "methods", where)]
    _check_distinct([str(label) for label, _ in attacks], f"{where} [[attacks]]")
    _check_distinct([method.name for _, method in methods], f"{where} [[methods]]")
    setup = Setup(
        population=population,
        federation=federation,
        calibration=calibration,
        attacks=tuple((str(label), attack) for label, attack in attacks),
        methods=tuple(method for _, method in methods),
    )
    checks.setup(setup, where)
    checks.figures(head["figures"], setup, where)
    attack_labels, method_labels = tuple(label for label, _ in attacks), tuple(label for label, _ in methods)
    resolved = {
        **{key: plain(value) for key, value in head.items()},
        "data" if isinstance(population, TableData) else "population": plain(population),
        "federation": plain(federation),
        "calibration": plain(calibration),
        "attacks": [{**plain(attack), "label": label.name, "variant": label.variant} for label, attack in attacks],
        "methods": [_resolved_method(label, method) for label, method in methods],
    }
    return Experiment(**head, setup=setup, attack_labels=attack_labels, method_labels=method_labels, resolved=resolved)


def _population(document: Mapping[str, Any], where: str) -> SyntheticLinear | TableData:
    """Read [data], clients that hold rows of a table, or [population], the law of the paper's synthetic clients."""
    if "data" not in document:
        made: SyntheticLinear = _section(SyntheticLinear, document, "population", where)
        return made
    if "population" in document:
        raise SettingError(f"{where}: [population] and [data] both say what clients hold; leave one of them out")
    return table_data(document, where)


def table_data(document: Mapping[str, Any], where: str) -> TableData:
    """Read [data]; a file's path is taken from the experiment's own folder."""
    data: TableData = _section(TableData, document, "data", where)
    try:
        data.check()
    except SettingError as error:
        raise SettingError(f"{where} [data]: {error}") from error
    if data.name not in NAMED and not Path(data.name).is_absolute():
        data = replace(data, name=str((Path(where).parent / data.name).resolve()))  # beside the experiment's own file
    return data


def _with_dimension(
    document: Mapping[str, Any], population: SyntheticLinear | TableData, where: str
) -> Mapping[str, Any]:
    """Fill in the dimension where the data and the model decide it."""
    told = document.get("federation", {})
    if not isinstance(population, TableData) or not isinstance(told, Mapping):
        return document
    size = population.learner().layers[-1].stop
    if told.get("dimension", size) != size:
        raise SettingError(
            f"{where} [federation]: dimension = {shown(told['dimension'])}, but this model of these data has {size} "
            "parameters; leave dimension out"
        )
    return {**document, "federation": {**told, "dimension": size}}


def _section(cls: type[Any], document: Mapping[str, Any], key: str, where: str) -> Any:
    """Read one of the three plain tables: the dataclass's fields are its keys."""
    table, at = document.get(key, {}), f"{where} [{key}]"
    if not isinstance(table, Mapping):
        raise SettingError(f"{where}: {key} = {shown(table)}; must be a table: write [{key}] above its keys")
    values = dict(table)
    kinds: dict[str, tuple[Mapping[str, Any], str]] = {
        "attack": (UPDATE_ATTACKS, "training attack"), "range": (RANGES, "range"),
        "partition": (PARTITIONERS, "partition"), "model": (factories(1), "model"),
    }  # fmt: skip
    for field in fields(cls):
        if field.name in kinds:
            default = field.default_factory() if callable(field.default_factory) else None
            values[field.name] = choice(values.get(field.name, default), *kinds[field.name], f"{at}: {field.name}")
    return build(cls, values, at)


def _rows(document: Mapping[str, Any], key: str, where: str) -> list[tuple[Mapping[str, Any], str]]:
    rows = document.get(key, [])
    if isinstance(rows, Mapping):
        raise SettingError(f"{where}: [{key}] is one table, not a list of them; write [[{key}]]")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise SettingError(f"{where}: no {key}; add at least one table under [[{key}]]")
    return [(row, f"{where} [[{key}]] {number}") for number, row in enumerate(rows, 1)]


def _attack(table: Mapping[str, Any], where: str) -> tuple[Label, Choice]:
    name = convert(table.get("name", ""), str, f"{where}: name")
    if not name:
        raise SettingError(f"{where}: name is missing; one of {', '.join(SCORE_ATTACKS)}")
    texts = {key: convert(table.get(key, ""), str, f"{where}: {key}") for key in ("label", "variant")}
    made = choice(
        {key: value for key, value in table.items() if key not in texts}, SCORE_ATTACKS, "score attack", where
    )
    return Label(name=texts["label"] or name, variant=texts["variant"]), made


def _method(
    table: Mapping[str, Any],
    population: SyntheticLinear | TableData,
    federation: Federation,
    layers: tuple[int, ...],
    where: str,
) -> tuple[Label, Method]:
    dimension = federation.dimension
    check_keys(table, _METHOD_KEYS, where)
    texts = {key: convert(table.get(key, ""), str, f"{where}: {key}") for key in ("method", "variant")}
    if not texts["method"]:
        raise SettingError(f"{where}: method is missing; give the row a name: method = ...")
    training = convert(table.get("training", "federated"), Training, f"{where}: training")
    exchanged = (
        "protocol", "share", "num_shared", "layers", "coordination", "download", "rule", *_SHARES,
    )  # fmt: skip
    if training != "federated":
        for key in exchanged:
            if key in table:
                raise SettingError(f"{where}: {key} has no meaning with training = {training!r}; leave it out")
    arm: Arm | None = None
    share, why, scores_with = 0.0, "", "local"
    if training == "federated":
        if table.get("layers") == "model":
            table = {**table, "layers": list(layers)}
        masks = _masks(table, dimension, where)
        told: dict[str, Any] = {key: convert(table[key], float, f"{where}: {key}") for key in _SHARES if key in table}
        if "rule" in table or "protocol" not in table:
            told["rule"] = choice(table.get("rule", "mean"), RULES, "rule", f"{where}: rule")
        try:
            if "protocol" in table:
                name = convert(table["protocol"], str, f"{where}: protocol")
                told |= {key: getattr(masks, key) for key in ("coordination", "download") if key in table}
                if "scoring_model" in table:
                    told["scoring_model"] = convert(table["scoring_model"], ScoringModel, f"{where}: scoring_model")
                chosen = Method.of(name, population, federation, masks, overrides=told)
                made = chosen.arm or Arm(masks=masks)  # a protocol always has one
                whole = choice(plain(made.rule), RULES, "rule", f"{where}: rule")  # every default written out
                arm, why = replace(made, rule=whole), chosen.why
                scores_with = chosen.scoring_model
            else:
                arm = Arm(masks=masks, **told)
        except SettingError as error:
            raise SettingError(f"{where}: {error}") from error
        share = masks.expected_coordinates(dimension) / dimension
    elif training == "local":
        arm = Arm(masks=Masks(num_shared=dimension), exchange=False)
    label = Label(name=texts["method"], variant=texts["variant"], share=share)
    name = f"{label.name} {told_share(share)}" if training == "federated" else label.name
    scoring = convert(table.get("scoring_model", scores_with), ScoringModel, f"{where}: scoring_model")
    return label, Method(
        name=f"{name}, {label.variant}" if label.variant else name,
        arm=arm,
        filter=choice(table.get("filter", "keep_all"), FILTERS, "filter", f"{where}: filter"),
        scoring_model=scoring,
        bins=convert(table["bins"], int, f"{where}: bins") if "bins" in table else None,
        why=why,
    )


def _masks(table: Mapping[str, Any], dimension: int, where: str) -> Masks:
    given = {key: table[key] for key in ("layers", "coordination", "download") if key in table}
    if "share" in table and "num_shared" in table:
        raise SettingError(f"{where}: share and num_shared say the same; give one of them")
    units = len(table["layers"]) if isinstance(table.get("layers"), list) else dimension
    if "num_shared" in table:
        given["num_shared"] = table["num_shared"]
    else:
        share = convert(table.get("share", 1.0), float, f"{where}: share")
        given["num_shared"] = round(share * units)
        if not 1 <= given["num_shared"] <= units:
            raise SettingError(
                f"{where}: share = {share} (M/D) of {units} is M = {given['num_shared']}; M must lie in 1..{units}: "
                f"share between {1 / units:.4g} and 1"
            )
    masks: Masks = build(Masks, given, where)
    try:
        masks.check(dimension)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error
    return masks


def _resolved_method(label: Label, method: Method) -> dict[str, Any]:
    training: Training = "oracle" if method.arm is None else "federated" if method.arm.exchange else "local"
    row: dict[str, Any] = {"method": label.name, "variant": label.variant, "training": training}
    if method.arm is not None and method.arm.exchange:
        row |= {**plain(method.arm.masks), "rule": plain(method.arm.rule)}
        if any(getattr(method.arm, key) != getattr(_PLAIN, key) for key in _SHARES):  # what most do without is not told
            row |= {key: getattr(method.arm, key) for key in _SHARES}
    told = {**row, "filter": plain(method.filter), "scoring_model": method.scoring_model}
    return told if method.bins is None else {**told, "bins": method.bins}


def _check_distinct(names: list[str], where: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise SettingError(
                f"{where}: {names.count(name)} rows are called {name!r}; tell them apart with variant = ..."
            )
