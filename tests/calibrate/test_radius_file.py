from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.radius_file import load_radii, radii_from_json, radii_to_json, save_radii
from prism_fcp.calibrate.radius_table import RadiusAt, RadiusTable
from prism_fcp.errors import DataError, PrismError

LEVELS = st.floats(0.001, 0.999).map(lambda value: round(value, 6))
RADII = st.floats(0, exclude_max=False, allow_nan=False)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
HASHES = st.just("") | st.binary(min_size=32, max_size=32).map(bytes.hex)


@st.composite
def tables(draw: st.DrawFn) -> RadiusTable:
    levels = sorted(draw(st.lists(LEVELS, min_size=1, max_size=4, unique=True)))

    def radii() -> tuple[float, ...]:
        return tuple(sorted(draw(st.lists(RADII, min_size=len(levels), max_size=len(levels)))))

    clients = draw(st.lists(TEXT | st.integers(-(2**63), 2**63), unique_by=repr, max_size=3))
    return RadiusTable(
        levels=tuple(map(RadiusAt, levels, radii())),
        own={client: radii() for client in clients},
        left_out=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        score=draw(st.sampled_from(["absolute_residual", "normalised_residual"])),
        model_hash=draw(HASHES),
        spec_hash=draw(HASHES),
        provenance=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
    )


@given(tables())
def test_every_table_comes_back(table: RadiusTable) -> None:
    assert radii_from_json(json.loads(json.dumps(radii_to_json(table), allow_nan=False))) == table


def test_through_a_file(tmp_path: Path) -> None:
    table = RadiusTable((RadiusAt(0.9, 1.5), RadiusAt(0.99, math.inf)), own={"ä": (0.1, math.inf), 3: (2.0, 2.0)})
    save_radii(tmp_path / "p.json", table)
    assert load_radii(tmp_path / "p.json") == table
    body = json.loads((tmp_path / "p.json").read_text())
    assert body["format"] == "prism-fcp/predictor" and body["levels"][1] == {"confidence_level": 0.99, "radius": "inf"}


GOOD = radii_to_json(
    RadiusTable((RadiusAt(0.9, 1.5), RadiusAt(0.95, 2.0)), own={"a": (1.0, 2.0)}, left_out={"b": "far"})
)
HEAD = {"format": "prism-fcp/predictor", "schema": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"extra": 1}, "unknown key 'extra'"),
        ({"levels": []}, "give at least one"),
        ({"levels": {}}, "levels={}; must be a list"),
        ({"levels": [3]}, "levels=3; must be a table"),
        ({"levels": [{"confidence_level": 0.9}]}, "levels: radius is missing"),
        ({"levels": [{"confidence_level": 0.9, "radius": -1.0}]}, "radius=-1.0; must be 0 or more"),
        ({"levels": [{"confidence_level": 0.9, "radius": "1"}]}, "radius='1'; must be a finite number"),
        ({"levels": [{"confidence_level": 0.9, "radius": True}]}, "radius=True; must be a finite number"),
        ({"levels": [{"confidence_level": 0.9, "radius": None}]}, "radius=None; must be a finite number"),
        ({"levels": [{"confidence_level": 0.9, "radius": 10**400}]}, "must be a finite number"),
        ({"levels": [{"confidence_level": 1.0, "radius": 1.0}]}, "must lie strictly between 0 and 1"),
        ({"levels": [{"confidence_level": "inf", "radius": 1.0}]}, "confidence_level='inf'"),
        ({"levels": [{"confidence_level": 0.9, "radius": 1.0}] * 2}, "each may stand there once"),
        ({"levels": [{"confidence_level": c, "radius": 1.0} for c in (None, 0.9)], "clients": []}, "give at least one"),
        ({"levels": [{"confidence_level": c, "radius": 1 - c} for c in (0.5, 0.9)], "clients": []}, "cannot fall as"),
        ({"clients": [{"client": "a", "radii": [1.0]}]}, "1 radii of client 'a' for 2 levels"),
        ({"clients": [{"client": "a", "radii": [1.0, 2.0]}] * 2}, "clients: a client stands there twice"),
        ({"clients": [{"client": 1.5, "radii": [1.0, 2.0]}]}, "client 1.5; an id is text or an integer"),
        ({"clients": [{"client": True, "radii": [1.0, 2.0]}]}, "client True"),
        ({"clients": [{"client": "\ud800", "radii": [1.0, 2.0]}]}, "lone surrogate"),
        ({"left_out": [{"client": "a", "reason": 3}]}, "reason=3; must be a text"),
        ({"score": "gamma"}, "no interval is known for the score 'gamma'"),
        ({"model_hash": "ab"}, "must be 64 hex digits"),
        ({"spec_hash": 3}, "spec_hash=3; must be a text"),
        ({"provenance": {"a": {}}}, "provenance 'a'={}; must be a text"),
    ],
)
def test_a_hostile_file_is_one_line(change, message: str, tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps({**HEAD, **GOOD, **change}))
    with pytest.raises(DataError, match=message) as caught:
        load_radii(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "broken JSON"),
        ("[" * 100_000, "broken JSON"),
        ('{"format": "prism-fcp/result"}', "expected 'prism-fcp/predictor'"),
        ('{"format": "prism-fcp/predictor", "schema": 2}', "schema 2; this version reads 1; save the predictor again"),
        (json.dumps({**HEAD, **GOOD}).replace("1.5", "NaN"), "NaN is no JSON number"),
        (json.dumps({**HEAD, **GOOD}).replace("1.5", "1e999"), "radius=inf; must be a finite number"),
        (json.dumps({**HEAD, **GOOD}).replace('"score"', '"scope"'), "unknown key 'scope'; did you mean 'score'"),
        (" " * (64 * 2**20 + 1), "at most 67108864; is it the right file"),
    ],
    ids=range(8),
)
def test_a_broken_file_is_one_line(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(DataError, match=message):
        load_radii(tmp_path / "p.json")


def test_mutated_files_never_crash_and_load_only_what_is_whole(tmp_path: Path) -> None:
    """2,000 files with bytes changed, cut out or doubled: a table that passes every check, or one `PrismError`."""
    rng, path, refused = random.Random(0), tmp_path / "p.json", 0
    whole = json.dumps({**HEAD, **GOOD}).encode()
    for _ in range(2000):
        payload = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            start = rng.randrange(len(payload))
            end = min(start + rng.choice([0, 1, 1, 5, 40]), len(payload))
            payload[start:end] = rng.choice([b"", rng.randbytes(1), bytes(payload[start:end]) * 2, b"1e9", b"-"])
        path.write_bytes(payload)
        try:
            table = load_radii(path)
        except PrismError:
            refused += 1
            continue
        assert radii_from_json(radii_to_json(table)) == table
    assert refused > 1000
