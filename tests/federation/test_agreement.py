"""federation.toml: what it may say, what is wrong with it in one line, and back again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.grid import LinearGrid, LogGrid
from prism_fcp.errors import PrismError, SettingError
from prism_fcp.federation.agreement import Agreement, Calibrating, Common, Patience, Training
from prism_fcp.lab.typed import to_toml
from prism_fcp.types import Choice, Layer

LEAST: dict[str, Any] = {"name": "trial", "clients": ["north", "east", "south"]}

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"clients": ["north"]}, "clients: 1 named; must be 2 to 100,000"),
    ({"clients": ["north", "east", "north"]}, "clients: 'north' stands twice; name every client once"),
    ({"clients": ["north", "../east"]}, "'../east'"),
    ({"clients": "north"}, "clients = 'north' is text; must be a list"),
    ({"clients": ["north", 3]}, "clients = 3 is a whole number; must be text"),
    ({"name": 4}, "name = 4 is a whole number; must be text"),
    ({"name": "../x"}, "'../x'"),
    ({"target": 1}, "target = 1 is a whole number; must be text"),
    ({"model": 1}, "must be a name, or a table with a name"),
    ({"client": ["a"]}, "unknown key 'client'; did you mean 'clients'?"),
    ({"training": 3}, "training must be a table: write [training] above its keys"),
    ({"training": {"round": 3}}, "[training]: unknown key 'round'; did you mean 'rounds'?"),
    ({"training": {"rounds": 0}}, "rounds=0"),
    ({"training": {"rounds": "many"}}, "rounds = 'many' is text; must be a whole number"),
    ({"training": {"rounds": 2.5}}, "rounds = 2.5 is a number; must be a whole number"),
    ({"training": {"protocol": "papre"}}, "unknown protocol 'papre'; did you mean 'paper'?"),
    ({"training": {"share": 0}}, "share=0.0; must lie in (0, 1]"),
    ({"training": {"share": 1.5}}, "share=1.5; must lie in (0, 1]"),
    ({"training": {"share": 0.5, "num_shared": 3}}, "share=0.5 and num_shared=3; keep one of them"),
    ({"training": {"participants": 4}}, "participants=4; must lie in 1..3"),
    ({"training": {"participants": 0}}, "participants=0; must lie in 1..3"),
    ({"training": {"step_size": -1}}, "step_size=-1.0"),
    ({"training": {"momentum": 1}}, "momentum=1.0"),
    ({"training": {"local_steps": 0}}, "local_steps=0"),
    ({"training": {"batch_size": 0}}, "batch_size=0"),
    ({"training": {"download": "some"}}, "download = 'some' is not known"),
    ({"training": {"scoring_model": "globl"}}, "did you mean 'global'?"),
    ({"training": {"idle_learning": 1}}, "idle_learning = 1 is a whole number; must be true or false"),
    ({"training": {"rule": "medain"}}, "unknown rule 'medain'; did you mean 'median'?"),
    ({"training": {"rule": {"name": "trimmed_mean", "trm": 1}}}, "trm"),
    ({"calibration": {"levels": []}}, "levels=[]; at least one, none twice"),
    ({"calibration": {"levels": [0.9, "0.90"]}}, "at least one, none twice"),
    ({"calibration": {"levels": [1.5]}}, "1.5"),
    ({"calibration": {"filter": "margn"}}, "unknown filter 'margn'"),
    ({"calibration": {"grid": {"kind": "cubic"}}}, "cubic"),
    ({"calibration": {"grid": {"kind": "linear", "upper": 1, "bins": 0}}}, "bins"),
    ({"calibration": {"filter": "known_count"}}, "filter known_count with suspects=None; must lie in 0..1"),
    ({"calibration": {"filter": "known_count", "suspects": 2}}, "suspects=2; must lie in 0..1"),
    ({"calibration": {"filter": {"name": "known_count", "suspects": 2}}}, "suspects=2; must lie in 0..1"),
    ({"calibration": {"guard": "half"}}, "guard"),
    ({"calibration": {"guard": 1.5}}, "guard"),
    ({"patience": {"deadline": 0}}, "deadline=0.0; must lie in 0.1.."),
    ({"patience": {"deadline": 1e9}}, "deadline=1000000000.0; must lie in 0.1..2,592,000 seconds"),
    ({"patience": {"wait": -1}}, "wait=-1.0; must lie in 0.."),
    ({"patience": {"quorum": 4}}, "quorum=4; must lie in 1..3, the clients a round asks"),
    ({"patience": {"quorum": 0}}, "quorum=0; must lie in 1..3"),
    ({"patience": {"offences": 0}}, "offences=0; must be at least 1"),
    ({"patience": {"aside": 0}}, "aside=0; must be at least 1"),
    ({"patience": {"void_rounds": 0}}, "void_rounds=0; must be at least 1"),
]


@pytest.mark.parametrize(("change", "told"), WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_one_line_that_says_where_and_how(change: dict[str, Any], told: str) -> None:
    with pytest.raises(PrismError) as error:
        Agreement.from_json(LEAST | change, "federation.toml")
    assert told in str(error.value) and str(error.value).startswith("federation.toml") and "\n" not in str(error.value)


@pytest.mark.parametrize("key", ["name", "clients"])
def test_two_keys_must_be_there(key: str) -> None:
    with pytest.raises(SettingError, match=f"federation.toml: {key} is missing"):
        Agreement.from_json({name: value for name, value in LEAST.items() if name != key}, "federation.toml")


AGREEMENTS = st.builds(
    Agreement,
    name=st.just("trial"),
    clients=st.sampled_from([("a", "b"), ("a", "b", "c", "d")]),
    model=st.none() | st.sampled_from([Choice("linear"), Choice("mlp", {"hidden": [8, 4]})]),
    target=st.sampled_from(["", "y", 'a "column"']),
    training=st.builds(
        Training, rounds=st.integers(1, 99), participants=st.none() | st.integers(1, 2), share=st.floats(0.1, 1),
        protocol=st.sampled_from(["default", "paper", "stay", "follow", "fedavg"]), layers=st.booleans(),
        rule=st.none() | st.sampled_from([Choice("median"), Choice("trimmed_mean", {"trim": 1})]),
        mixing=st.none() | st.floats(0.1, 1), scoring_model=st.none() | st.sampled_from(["local", "global"]),
    ),
    calibration=st.builds(
        Calibrating, levels=st.sampled_from([("0.9",), ("0.8", "0.95")]), guard=st.none() | st.just("0.2"),
        suspects=st.none() | st.integers(0, 1), signed=st.booleans(),
        grid=st.sampled_from([LogGrid(), LinearGrid(3.5, 40)]),
    ),
    patience=st.builds(Patience, deadline=st.floats(0.1, 60), quorum=st.none() | st.just(1)),
)  # fmt: skip


@given(AGREEMENTS)
def test_it_comes_back_from_json(agreed: Agreement) -> None:
    again = Agreement.from_json(json.loads(json.dumps(agreed.to_json())))
    assert again == agreed and again.digest == agreed.digest
    common = Common.from_json(json.loads(json.dumps(agreed.common.to_json())), "told")
    assert common == agreed.common


@given(AGREEMENTS)
def test_it_comes_back_from_toml(agreed: Agreement) -> None:
    import tomllib

    # TOML has no word for nothing: what is not said is what it is by default.
    body = {
        key: {name: one for name, one in value.items() if one is not None} if isinstance(value, dict) else value
        for key, value in agreed.to_json().items()
    }
    assert Agreement.from_json(tomllib.loads(to_toml(body))) == agreed


def test_a_file_is_read_and_a_broken_one_told(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text('name = "trial"\nclients = ["a", "b"]\nmodel = "own"\n[calibration]\nlevels = [0.9]\nguard = 0.2\n')
    told = Agreement.load(path)
    assert told.model is None and told.calibration.levels == ("0.9",) and told.calibration.guard == "0.2"
    path.write_text('name = "trial\n')
    with pytest.raises(PrismError, match="federation.toml"):
        Agreement.load(path)


@given(AGREEMENTS)
def test_clients_are_told_nothing_of_each_other(agreed: Agreement) -> None:
    told = json.dumps(agreed.common.to_json())
    assert set(agreed.common.to_json()) <= {"name", "model", "target", "training"}
    assert '"clients"' not in told and '"calibration"' not in told


@pytest.mark.parametrize(
    "body", [{}, {"name": 3}, {"name": "a", "training": []}, {"name": "a", "training": {}, "x": 1}]
)
def test_what_a_server_tells_is_checked(body: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="^told"):
        Common.from_json(body, "told")


LAYERS = (Layer("one", 0, 6), Layer("two", 6, 10), Layer("three", 10, 20))


def test_terms_share_what_was_asked_for() -> None:
    def shared(**told: Any) -> int:
        return Agreement.from_json(LEAST | {"training": told}).terms(LAYERS).arm.masks.num_shared

    assert shared() == 6 and shared(share=0.01) == 1 and shared(num_shared=20) == 20 and shared(protocol="fedavg") == 20
    assert shared(layers=True) == 1 and shared(layers=True, protocol="fedavg") == 3
    with pytest.raises(SettingError, match="21"):
        shared(num_shared=21)
    with pytest.raises(SettingError, match="trim=2"):
        shared(rule={"name": "trimmed_mean", "trim": 2})


def test_what_stands_below_the_protocol_overrides_it() -> None:
    told = {"protocol": "follow", "rule": "median", "mixing": 0.25, "averaging": 0.5, "coordination": "client",
            "download": "same", "scoring_model": "local"}  # fmt: skip
    terms = Agreement.from_json(LEAST | {"training": told}).terms(LAYERS)
    assert terms.arm.rule == Choice("median") and (terms.arm.mixing, terms.arm.averaging) == (0.25, 0.5)
    assert (terms.arm.masks.coordination, terms.arm.masks.download) == ("client", "same")
    assert terms.scoring_model == "local"
    assert terms.why == "asked for; as set by hand: coordination, download, rule, mixing, averaging, scoring_model"
    assert Agreement.from_json(LEAST | {"training": {"protocol": "follow"}}).terms(LAYERS).why == "asked for"
