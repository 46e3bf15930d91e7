"""What a calibration or evaluation file must hold before a page is made of it. Its texts and numbers are foreign."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from prism_fcp.errors import DataError

STATUSES: Final = ("kept", "down-weighted", "left out")
NUMBER: Final = 'a number, null, or "inf" where it is infinite'
NAME: Final = "text or a whole number"
ANYTHING: Final = "anything"

_DRIVER = {"low": NUMBER, "high": NUMBER, "share": NUMBER, "typical": NUMBER, "part": NUMBER}
_CLIENT = {
    "client": NAME, "status": str, "reason": str, "score": NUMBER, "threshold": NUMBER, "margin": NUMBER,
    "size": NUMBER, "weight": NUMBER, "counted": NUMBER, "drivers": [_DRIVER], "within": [NUMBER],
    "without": [NUMBER], "own_radii": [NUMBER], "likeness": ANYTHING, "cells": [NUMBER],
}  # fmt: skip
_ROW = {
    "liars": NUMBER, "fraction": NUMBER, "kept": [NUMBER], "everyone": [NUMBER], "expected": NUMBER,
    "vacuous": bool, "sentence": str,
}  # fmt: skip
_GUARD = {"fraction": NUMBER, "radius": NUMBER, "price": NUMBER}
CALIBRATION: Final[dict[str, Any]] = {
    "title": str, "round": NUMBER, "spec": str, "model": str, "version": NUMBER, "made": str, "settings": dict,
    "filter": {"name": str, "measure": str, "threshold": NUMBER},
    "totals": dict.fromkeys(
        ("clients", "kept", "down_weighted", "left_out", "refused", "scores", "kept_scores", "effective_size"), NUMBER
    ),
    "levels": [{"confidence_level": NUMBER, "radius": NUMBER, "bracket": [NUMBER], "rank": NUMBER}],
    "clients": [_CLIENT],
    "refused": [{"client": NAME, "reason": str}],
    "cells": {"edges": [NUMBER], "typical": [NUMBER]},
    "certificate": {
        "confidence": NUMBER,
        "levels": [{"confidence_level": NUMBER, "rows": [_ROW], "guards": [_GUARD]}],
        "paper": dict,
    },
    "warnings": [str],
}  # fmt: skip
_OUTCOME = dict.fromkeys(("num_samples", "coverage", "low", "high", "width", "winkler"), NUMBER) | {"name": NAME}
EVALUATION: Final[dict[str, Any]] = {
    "confidence": NUMBER,
    "levels": [
        {
            "confidence_level": NUMBER, "overall": _OUTCOME, "clients": [_OUTCOME], "groups": [_OUTCOME],
            "worst": NAME, "share_under": NUMBER, "share_clearly_under": NUMBER,
        }
    ],
}  # fmt: skip


def check_calibration(body: Mapping[str, Any]) -> None:
    """Raise `DataError` with the place and the remedy unless this is a whole calibration file."""
    what = "calibration file"
    _check(body, CALIBRATION, what)
    levels, cells = len(body["levels"]), len(body["cells"]["typical"])
    if not levels:
        raise DataError(f"{what}: levels is empty; a calibration has at least one; calibrate again")
    if cells and len(body["cells"]["edges"]) != cells + 1:
        raise DataError(f"{what}: cells: {len(body['cells']['edges'])} edges for {cells} cells; must be cells + 1")
    for place, client in enumerate(body["clients"]):
        where = f"{what}: clients[{place}]"
        if client["status"] not in STATUSES:
            raise DataError(f"{where}: status {client['status']!r:.40}; must be one of {', '.join(STATUSES)}")
        for key in ("within", "without", "own_radii"):
            if len(client[key]) != levels:
                raise DataError(f"{where}: {key} has {len(client[key])} entries; must be {levels}, one a level")
        if len(client["cells"]) != cells:
            raise DataError(f"{where}: cells has {len(client['cells'])} counts; must be {cells}, one a cell")
    for level in body["certificate"]["levels"]:
        if any(len(row[key]) != 2 for row in level["rows"] for key in ("kept", "everyone")):
            raise DataError(f"{what}: certificate: bounds must be two numbers, least and most; calibrate again")


def check_evaluation(body: Mapping[str, Any]) -> None:
    """Raise `DataError` with the place and the remedy unless this is a whole evaluation file."""
    _check(body, EVALUATION, "evaluation file")


def _check(value: Any, wanted: Any, where: str) -> None:
    if isinstance(wanted, dict):
        _need(isinstance(value, Mapping), value, "a table", where)
        for key, inner in wanted.items():
            if key not in value:
                raise DataError(f"{where}: {key} is missing; write the file again with this version of prism-fcp")
            _check(value[key], inner, f"{where}: {key}")
    elif isinstance(wanted, list):
        _need(isinstance(value, list), value, "a list", where)
        for place, item in enumerate(value):
            _check(item, wanted[0], f"{where}[{place}]")
    elif wanted == NUMBER:
        finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        _need(finite or value is None or value == "inf", value, NUMBER, where)
    elif wanted == NAME:
        _need(isinstance(value, str | int), value, NAME, where)
    elif wanted != ANYTHING:
        words = {str: "text", bool: "true or false", dict: "a table"}[wanted]
        _need(isinstance(value, wanted), value, words, where)


def _need(good: bool, value: Any, words: str, where: str) -> None:
    if not good:
        raise DataError(f"{where}: {value!r:.40}; must be {words}; is it the right file?")
