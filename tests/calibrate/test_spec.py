from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calibrate.sites import MODEL, spec

from prism_fcp.calibrate.grid import LinearGrid, LogGrid
from prism_fcp.calibrate.spec import CalibrationSpec, level_text, read_time, stamp
from prism_fcp.errors import DataError, PrismError, SettingError

OTHERS: dict[str, Any] = {
    "title": "another", "model": "cd" * 32, "confidence_levels": ("0.9", "0.5"), "grid": LogGrid(128), "score": "mine",
    "round": 2, "clients": ("a", "b"), "quorum": 2, "deadline": "2026-12-31T18:00:00Z", "late": "refuse",
    "most_scores": 5000, "cap": 2.0, "least_count": 5, "cells": 12, "correction": "n+K",
}  # fmt: skip


def test_every_setting_counts_in_the_hash() -> None:
    assert set(OTHERS) == set(spec().to_json())
    hashes = {spec(**{name: value}).hash for name, value in OTHERS.items()} | {spec().hash}
    assert len(hashes) == len(OTHERS) + 1
    assert spec().hash == spec().hash and len(spec().hash) == 64


def test_the_hash_is_of_the_canonical_json() -> None:
    # SHA-256 of {"cap":3.0,"cells":null,...}: a change of the format must be noticed, since stored summaries name it
    plain = (
        '{"cap":3.0,"cells":null,"clients":[],"confidence_levels":["0.9"],"correction":"n+1","deadline":"",'
        '"grid":{"highest":30,"kind":"log","lowest":-30,"steps":64},"late":"accept","least_count":1,'
        f'"model":"{MODEL}","most_scores":100000000,"quorum":1,"round":1,"score":"absolute_residual",'
        '"title":"length of stay"}'
    )
    assert spec().hash == hashlib.sha256(plain.encode()).hexdigest()


@pytest.mark.parametrize("settings", [{}, OTHERS, {"grid": LinearGrid(4.0, 30, True)}], ids=["plain", "all", "linear"])
def test_a_file_gives_the_same_spec(tmp_path: Path, settings: dict[str, Any]) -> None:
    made = spec(**settings)
    made.save(tmp_path / "spec.json")
    assert CalibrationSpec.load(tmp_path / "spec.json") == made
    assert CalibrationSpec.load(tmp_path / "spec.json").hash == made.hash


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"title": ""}, "title=''"),
        ({"title": "two\nlines"}, "printable"),
        ({"model": "AB" * 32}, "64 lower-case hex digits"),
        ({"model": None}, "64 lower-case hex digits"),
        ({"confidence_levels": ()}, "at least one"),
        ({"confidence_levels": ("0.9", "0.90")}, "none twice"),
        ({"confidence_levels": ("1",)}, "strictly between 0 and 1"),
        ({"confidence_levels": (0.9,)}, "list of texts"),
        ({"confidence_levels": "0.9"}, "list of texts"),
        ({"confidence_levels": ("0." + "9" * 30,)}, "at most 20 characters"),
        ({"grid": "log"}, "must be a LogGrid"),
        ({"round": 0}, "1..2,147,483,648"),
        ({"round": 1.5}, "integer"),
        ({"quorum": 0}, "must lie in 1.."),
        ({"clients": ("a",), "quorum": 2}, "at most their number"),
        ({"clients": ("a", "a")}, "stands twice"),
        ({"clients": ("../a",)}, "without /"),
        ({"cells": 1}, "must be 0 \\(the bins\\) or lie in"),
        ({"cap": 0.5}, "at least 1"),
        ({"cap": math.nan}, "finite"),
        ({"late": "never"}, "unknown late"),
        ({"correction": "n+2"}, "did you mean"),
        ({"deadline": "tomorrow"}, "ISO 8601"),
        ({"most_scores": 2**40}, "4,294,967,295"),
    ],
)
def test_an_agreement_nobody_can_keep(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(PrismError, match=said) as told:
        spec(**settings)
    assert "\n" not in str(told.value) and len(str(told.value)) < 400


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: body.pop("model"), "model is missing"),
        (lambda body: body.update(tittle="x"), "did you mean 'title'"),
        (lambda body: body.update(grid={"kind": "log", "steps": 3}), "power of two"),
        (lambda body: body.update(grid=5), "no table with a kind"),
        (lambda body: body.update(schema=9), "schema 9"),
        (lambda body: body.update(format="prism-fcp/result"), "is it the right file"),
    ],
)
def test_a_broken_file_is_one_line_with_its_name(tmp_path: Path, change: Any, said: str) -> None:
    spec().save(tmp_path / "spec.json")
    body = json.loads((tmp_path / "spec.json").read_text())
    change(body)
    (tmp_path / "spec.json").write_text(json.dumps(body))
    with pytest.raises(DataError, match=said) as told:
        CalibrationSpec.load(tmp_path / "spec.json")
    assert "spec.json" in str(told.value)


def test_moments() -> None:
    assert spec(deadline="2026-12-31T19:00:00+01:00").deadline == "2026-12-31T18:00:00Z"
    assert stamp(read_time("2026-12-31")) == "2026-12-31T00:00:00Z"
    with pytest.raises(SettingError, match="ISO 8601"):
        read_time(None)  # type: ignore[arg-type]


@given(st.decimals("0.000001", "0.999999", places=6))
def test_a_level_stays_exact(level: Decimal) -> None:
    assert spec(confidence_levels=(level_text(level),)).levels == (Fraction(level),)
