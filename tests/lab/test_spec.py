"""Experiments as data: every mistake in a file is one line that names file, table, key, value and remedy."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from prism_fcp.data.synthetic import SyntheticLinear
from prism_fcp.errors import DataError, PrismError, SettingError
from prism_fcp.lab.catalog import NAMES, example, named, names_in
from prism_fcp.lab.compare import EXCUSES, NUMBERS
from prism_fcp.lab.spec import Experiment, load, parse
from prism_fcp.lab.typed import to_toml
from prism_fcp.setup import CalibrationSettings, Setup
from prism_fcp.train.settings import Federation, Masks

MISTAKES = [
    ("rounds = 40", "roundz = 40", r"my.toml \[federation\]: unknown key 'roundz'; did you mean 'rounds'"),
    ('name = "tiny"', 'nane = "tiny"', "my.toml: unknown key 'nane'; did you mean 'name'"),
    ("rounds = 40", 'rounds = "many"', "rounds = 'many' is text; must be a whole number"),
    ("rounds = 40", "rounds = 40.5", "rounds = 40.5 is a number; must be a whole number"),
    ("rounds = 40", "rounds = true", "rounds = True is true or false; must be a whole number"),
    ("rounds = 40", "rounds = 0", "rounds=0; must"),
    ("rounds = 40", "step_size = nan", "step_size = nan; must be a finite number"),
    ("rounds = 40", "step_size = -0.1", "step_size=-0.1; must be positive"),
    ("rounds = 40", "rounds = 40\nidle_learning = 1", "must be true or false"),
    ("samples = 60", "confidence_level = 1.0\nsamples = 60", "confidence_level=1.0; must lie strictly between 0 and 1"),
    ("samples = 60", "confidence_level = nan\nsamples = 60", "confidence_level = nan"),
    ("bins = 20", 'bins = 20\npilot = "rumoured"', "pilot = 'rumoured' is not known"),
    ("bins = 20", 'range = "maxx"', "range: unknown range 'maxx'; did you mean 'max'"),
    ("share = 0.5", "num_shared = 7", r"num_shared=7 \(M\); must lie in 1..6"),
    ("share = 0.5", "share = 0.0", "M must lie in 1..6"),
    ("share = 0.5", "share = 1.2", "M must lie in 1..6"),
    ("share = 0.5", "share = 0.5\nnum_shared = 3", "share and num_shared say the same"),
    ("share = 0.5", "layers = [2, 2]\nnum_shared = 1", "must be positive and add up to the model's dimension 6"),
    ("share = 0.5", 'coordination = "all"', "coordination"),
    ("share = 0.5", 'rule = "medain"', r"\[\[methods\]\] 1: rule: unknown rule 'medain'; did you mean 'median'"),
    ("share = 0.5", 'rule = { name = "trimmed_mean", trim = 3 }', "trim=3 leaves no rows of 6"),
    ("share = 0.5", 'rule = "trimmed_mean"', "needs trim"),
    (
        "share = 0.5",
        'rule = { name = "krum", suspect = 1 }',
        "rule 'krum' has no option 'suspect'; did you mean 'suspects'",
    ),
    ("suspects = 3", "suspects = 6", "must be fewer than half"),
    ("suspects = 3", "suspects = 11", "at least 2 honest ones are needed"),
    ("suspects = 3", 'suspects = "3"', "suspects = '3' is text; must be a whole number"),
    ('method = "FCP"', 'methud = "FCP"', "unknown key 'methud'; did you mean 'method'"),
    ('method = "FCP"', 'method = "PRISM-FCP"\nshare = 0.5', "tell them apart with variant"),
    ('training = "local"', 'training = "locale"', "did you mean 'local'"),
    ('training = "local"', 'training = "local"\nshare = 0.5', "share has no meaning with training = 'local'"),
    ('name = "random"', 'name = "randon"', "unknown score attack 'randon'; did you mean 'random'"),
    ('name = "random"', 'name = "random"\nsd = -1', "sd=-1.0"),
    ('name = "random"', 'name = "efficiency"', "2 rows are called 'efficiency'"),
    ("[calibration]", "[population]\nvariances = [0, 1]\n[calibration]", "a feature of zero variance carries nothing"),
    ("[calibration]", "[population]\nmeans = [0.1]\n[calibration]", "has 1 entries; must have 2"),
    ("num_byzantine = 3", "num_byzantine = 12", "at least one of the clients must be honest"),
    ('figures = ["widths", "histograms", "scores", "intervals"]', 'figures = ["width"]', "did you mean 'widths'"),
    ('name = "tiny"', 'name = "../tiny"', "must be usable as a folder's name"),
    ("trials = 4", "trials = 0", "trials = 0; must be at least 1"),
]


@pytest.mark.parametrize(("right", "wrong", "said"), MISTAKES, ids=[wrong for _, wrong, _ in MISTAKES])
def test_a_mistake_is_one_line_that_names_it(tiny_text: str, right: str, wrong: str, said: str) -> None:
    assert right in tiny_text
    with pytest.raises(SettingError, match=said) as told:
        parse(tomllib.loads(tiny_text.replace(right, wrong, 1)), "my.toml")
    assert str(told.value).startswith("my.toml") and "\n" not in str(told.value)


def test_missing_rows_and_broken_toml(tmp_path: Path, tiny_text: str) -> None:
    with pytest.raises(SettingError, match="no attacks; add at least one table"):
        parse({}, "my.toml")
    path = tmp_path / "my.toml"
    path.write_text("[federation\n")
    with pytest.raises(DataError, match="not valid TOML"):
        load(path)


def test_the_name_defaults_to_the_files(tmp_path: Path, tiny_text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(tiny_text.replace('name = "tiny"\n', ""))
    assert load(path).name == "mine"


@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_experiment_loads_and_survives_its_own_resolved_form(name: str) -> None:
    experiment = named(name)
    assert {"Local", "Floor"} <= {label.name for label in experiment.method_labels}
    again = parse(tomllib.loads(to_toml(experiment.resolved)), "again")
    assert again.resolved == experiment.resolved
    assert again.setup == experiment.setup
    assert again.fingerprint == experiment.fingerprint


def test_the_fingerprint_follows_what_decides_numbers(tiny_text: str) -> None:
    def fingerprint(right: str = "", wrong: str = "") -> str:
        return parse(tomllib.loads(tiny_text.replace(right, wrong, 1)), "t").fingerprint

    assert fingerprint() == fingerprint("trials = 4", "trials = 9") == fingerprint("A tiny", "Another")
    assert fingerprint() == fingerprint('"keep_all"', '{ name = "keep_all" }')
    assert fingerprint() != fingerprint("rounds = 40", "rounds = 41")


def test_settings_are_as_readings_reads_them() -> None:
    setups = {name: named(name).setup for name in NAMES}
    assert setups["table-synthetic"].federation == Federation(attack=setups["table-synthetic"].federation.attack)
    assert dict(setups["table-synthetic"].federation.attack.options) == {"variance": 0.1, "probability": 0.2}
    attack = dict(setups["table-synthetic"].attacks)["random"]
    assert dict(attack.options) == {"sd": 0.5, "fold": "clip"}
    methods = {method.name: method for method in setups["table-gaussian"].methods}
    assert len(methods) == 14
    pso = methods["PSO-CWMed 0.2"].arm
    assert pso is not None and pso.masks == Masks(num_shared=10, coordination="common", download="previous")
    assert setups["fig-attacks"].calibration.bins == 30
    alie = setups["table-alie"]
    assert alie.population.means == (-2.0, 2.0)
    assert (alie.federation.step_size, alie.federation.rounds) == (0.0025, 2000)
    assert dict(alie.federation.attack.options) == {"z": 0.5, "probability": 1.0}


def test_the_example_shows_every_key_and_loads() -> None:
    document = tomllib.loads(example())
    experiment = parse(document, "example")
    tables: list[tuple[type[Any], str]] = [
        (SyntheticLinear, "population"), (Federation, "federation"), (CalibrationSettings, "calibration"),
    ]  # fmt: skip
    for cls, table in tables:
        assert set(document[table]) == {field.name for field in dataclasses.fields(cls)}
    head = {f.name for f in dataclasses.fields(Experiment)} - {"setup", "attack_labels", "method_labels", "resolved"}
    assert head <= set(document)
    keys = {key for row in document["methods"] for key in row}
    assert keys == {
        "method",
        "variant",
        "training",
        "rule",
        "filter",
        "scoring_model",
        "share",
        "protocol",
        "mixing",
        "averaging",
        "client_averaging",
    } | {field.name for field in dataclasses.fields(Masks)}
    assert {field.name for field in dataclasses.fields(Setup)} <= {"population", "federation", "calibration", *document}
    assert experiment.explain == 2


def test_a_file_is_all_the_catalogue_needs(tmp_path: Path) -> None:
    for name in ("sweep-b", "mine", "fig-a", "table-z", "table-a"):
        (tmp_path / f"{name}.toml").write_text("")
    assert names_in(tmp_path) == ("table-a", "table-z", "fig-a", "sweep-b", "mine")


def test_published_values_belong_to_rows_there_are() -> None:
    for path in sorted((Path(load.__code__.co_filename).parent / "paper_values").glob("*.toml")):
        published = tomllib.loads(path.read_text())
        experiment = named(path.stem)
        rows = {
            (attack.name, method.name, method.variant, round(method.share, 6))
            for attack in experiment.attack_labels
            for method in experiment.method_labels
        }
        attacks = {attack.name for attack in experiment.attack_labels}
        assert set(published.get("tolerance_by_attack", {})) <= attacks
        for entry in published["rows"]:
            assert (entry["attack"], entry["method"], entry.get("variant", ""), round(entry["share"], 6)) in rows
            allowed = {*NUMBERS, "coverage_pm", "width_pm", "attack", "method", "variant", "share"}
            assert set(entry) <= allowed | {"tolerance", "reading", "measured", "reading_tolerance", *EXCUSES}
            stand_ins = {**entry.get("measured", {}), **entry.get("reading", {})}
            for name in NUMBERS.keys() & {*entry, *stand_ins}:
                assert name in {**published["tolerance"], **entry.get("tolerance", {})}
            for kind in EXCUSES:
                assert set(entry.get(kind, {})) <= set(stand_ins), f"{path.name}: an excuse without a limit"
            assert set(entry.get("reading_tolerance", {})) <= set(stand_ins)


def test_errors_are_ours() -> None:
    assert issubclass(SettingError, PrismError) and SettingError.code == 2


def test_a_protocol_fills_a_row_and_keys_override_it() -> None:
    document = tomllib.loads(example())
    row = {"method": "D", "protocol": "default", "num_shared": 5}
    made = {}
    for name, change in {
        "stay": {}, "follow": {"fixed_samples": 12}, "mixed": {"fixed_samples": 12, "mixing": 0.25, "rule": "median"},
    }.items():  # fmt: skip
        law = {key: value for key, value in change.items() if key == "fixed_samples"}
        own = {key: value for key, value in change.items() if key != "fixed_samples"}
        federation = {**document["federation"], "rounds": 2000, "window": 200}
        population = {**document["population"], **law}
        changed = {**document, "population": population, "federation": federation, "methods": [{**row, **own}]}
        experiment = parse(changed, "here")
        (made[name],) = experiment.setup.methods
        again = parse({**experiment.resolved}, "again")
        assert again.setup.methods[0].arm == made[name].arm, "the resolved experiment says the same"
    assert made["stay"].why.startswith("stay: ") and made["stay"].arm.masks.download == "never"
    assert made["stay"].scoring_model == made["follow"].scoring_model == "global"
    assert made["follow"].why.startswith("follow: 12 samples") and made["follow"].arm.masks.download == "previous"
    assert made["mixed"].arm.mixing == 0.25 and made["mixed"].arm.rule.name == "median"
    assert made["mixed"].why.endswith("overfits; as set by hand: mixing, rule")
    own = {**row, "download": "previous", "scoring_model": "local"}  # against what the reason says
    (by_hand,) = parse({**document, "methods": [own]}, "here").setup.methods
    assert by_hand.arm.masks.download == "previous" and by_hand.scoring_model == "local"
    assert by_hand.why.endswith("; as set by hand: download, scoring_model")
    with pytest.raises(SettingError, match=r"unknown protocol 'defalt'; did you mean 'default'"):
        parse({**document, "methods": [{**row, "protocol": "defalt"}]}, "here")
