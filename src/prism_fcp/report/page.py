"""One HTML file with everything in it: texts, figures, table and data. It asks nothing of any network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from prism_fcp import io
from prism_fcp.report.shape import check_calibration, check_evaluation
from prism_fcp.report.summary import client_rows, client_table, settings_table, summary
from prism_fcp.report.words import number, text

SCRIPTS: Final = ("base", "scales", "steps", "verdicts", "details", "coverage", "certificate", "table", "main")
PLAIN_BYTES: Final = 1_000_000  # data beyond that are packed, which makes them a third as long
STATIC_ROWS: Final = 200  # of the client table, for readers without JavaScript


def render(calibration: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> str:
    """Return the page of a calibration file's body and, if there is one, of an evaluation file's."""
    check_calibration(calibration)
    if evaluation is not None:
        check_evaluation(evaluation)
    style, script = _asset("page.css"), "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    rows = client_rows(calibration)
    left = len(rows) - STATIC_ROWS
    parts = {
        "title": text(calibration["title"]),
        "round": number(calibration["round"]),
        "version": number(calibration["version"]),
        "made": text(calibration["made"]),
        "style_hash": _source(style),
        "script_hash": _source(script),
        "style": style,
        "script": script,
        "summary": summary(calibration, evaluation),
        "client_table": client_table(rows[:STATIC_ROWS], calibration),
        "cut": f"The first {STATIC_ROWS} of {len(rows):,} clients, those left out or refused first."
        if left > 0
        else "",
        "settings": settings_table(calibration),
        "data": _data({"calibration": calibration, "evaluation": evaluation}),
    }
    # One pass: what stands in braces inside a foreign text is never looked up.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def write(path: Path, calibration: Mapping[str, Any], evaluation: Mapping[str, Any] | None = None) -> None:
    """Write the page."""
    io.write_text(path, render(calibration, evaluation))


def _asset(name: str) -> str:
    return resources.files("prism_fcp.report").joinpath("assets", name).read_text(encoding="utf-8")


def _source(content: str) -> str:
    """Return what the page's security policy calls this content by; nothing else may run or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _data(body: Mapping[str, Any]) -> str:
    """Return the script element that holds the data: never run, and unable to end early."""
    plain = json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    if len(plain) > PLAIN_BYTES:
        packed = base64.b64encode(gzip.compress(plain.encode(), 9, mtime=0)).decode()
        return f'<script type="text/plain" id="data" data-packed="gzip base64">{packed}</script>'
    # Inside strings only can these stand, and there JSON knows them by number.
    for letter in "<>&\u2028\u2029":
        plain = plain.replace(letter, f"\\u{ord(letter):04x}")
    return f'<script type="application/json" id="data">{plain}</script>'
