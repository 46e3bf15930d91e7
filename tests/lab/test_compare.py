"""Verdicts: what reproduces, what differs, what noise excuses, and that nothing is computed to find out."""

from __future__ import annotations

import dataclasses
import io as memory
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from prism_fcp.errors import OutputError
from prism_fcp.lab import compare
from prism_fcp.lab.catalog import NAMES, named
from prism_fcp.lab.compare import Comparison, judge, stored
from prism_fcp.lab.result import Result, Row, Spread
from prism_fcp.lab.tables import show


def published(name: str) -> dict[tuple[str, str, str, float], dict[str, Any]]:
    import tomllib

    path = Path(compare.__file__).parent / "paper_values" / f"{name}.toml"
    rows = tomllib.loads(path.read_text())["rows"] if path.exists() else []
    return {(e["attack"], e["method"], e.get("variant", ""), e["share"]): e for e in rows}


def as_published(name: str, trials: int = 100, **changes: float) -> Result:
    """Return a result whose numbers are the paper's, or the reading's where only that exists, times `changes`."""
    experiment, values = named(name), published(name)
    rows = []
    for attack in experiment.attack_labels:
        for method in experiment.method_labels:
            entry = values.get((attack.name, method.name, method.variant, method.share), {})
            told = {**entry.get("reading", {}), **entry}

            def spread(key: str, told: dict[str, Any] = told) -> Spread:
                value = told.get(key, 1.0) * changes.get(key, 1.0)
                return Spread(value, value / 10, value / 100)

            rows.append(
                Row(
                    attack=attack.name, attack_variant=attack.variant, method=method.name, variant=method.variant,
                    share=method.share, trials=trials, coverage=spread("coverage"), width=spread("width"),
                    infinite_widths=0, clipped_widths=0, oracle_width=Spread(0.4),
                    quantile_deviation=spread("quantile_deviation"),
                    a_posteriori_mse_db=told.get("a_posteriori_mse_db", -10.0), a_posteriori_mse_db_se=0.1,
                    global_msd_db=None, local_msd_db=None, true_positives=told.get("true_positives", 0.0),
                    false_positives=told.get("false_positives", 0.0), bytes_up_per_round=100.0,
                    injected_energy=spread("injected_energy"), missed=spread("missed"),
                    test_mse_db_spread=spread("test_mse_db"),
                )
            )  # fmt: skip
    return Result(
        experiment=name, title=experiment.title, spec=experiment.resolved, fingerprint=experiment.fingerprint, seed=1,
        trials=trials, engine="readable", engine_reason="", versions={}, seconds=1.0, cpu_seconds=1.0, rows=tuple(rows),
    )  # fmt: skip


def changed(
    name: str, attack: str, method: str, share: float | None = None, variant: str = "", /, **numbers: float
) -> Result:
    """Return the paper's numbers with some of one method's rows replaced, or of its row with this share."""
    result = as_published(name)
    values = {key: value if key.endswith("_db") else Spread(value, 0.01, 0.001) for key, value in numbers.items()}
    rows = tuple(
        dataclasses.replace(row, **values)
        if (row.attack, row.method) == (attack, method)
        and (share is None or (share, variant) == (row.share, row.variant))
        else row
        for row in result.rows
    )
    return dataclasses.replace(result, rows=rows)


def status(
    comparison: Comparison, method: str, attack: str = "efficiency", share: float | None = None, variant: str = ""
) -> str:
    return next(
        j.status
        for j in comparison.rows
        if (j.row.method, j.row.attack) == (method, attack)
        and (share is None or (share, variant) == (j.row.share, j.row.variant))
    )


@pytest.mark.parametrize("name", ["table-synthetic", "table-gaussian", "table-alie", "fig-sharing", "sweep-count"])
def test_the_papers_own_numbers_reproduce_the_paper(name: str) -> None:
    comparison = judge(as_published(name))
    assert not comparison.failures
    judged = [j for j in comparison.rows if j.paper]
    assert judged and {j.status for j in judged} <= {"reproduced", "not settled", "known"}


def test_rows_without_published_numbers_have_no_verdict() -> None:
    comparison = judge(as_published("table-synthetic"))
    assert (status(comparison, "Local"), status(comparison, "Floor")) == ("", "")


@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_too_narrow_differs_as_too_wide_does(factor: float) -> None:
    assert status(judge(as_published("table-synthetic", width=factor)), "Rob-FCP") == "differs"
    assert status(judge(as_published("table-synthetic", width=1 + (factor - 1) / 2)), "Rob-FCP") == "reproduced"


def test_a_width_beyond_tolerance_differs_and_says_by_how_much() -> None:
    comparison = judge(as_published("table-synthetic", width=1.045))
    assert status(comparison, "Rob-FCP") == "differs"
    assert any("width 2.132 for 2.04 (+4.5 %)" in told for told in comparison.failures)
    assert status(comparison, "Rob-FCP", "random") == "reproduced"  # 5 % there
    assert status(comparison, "FCP", "coverage") == "reproduced"  # 8 % there


def test_with_few_trials_noise_is_not_called_a_difference() -> None:
    assert status(judge(as_published("table-synthetic", trials=5, width=1.045)), "Rob-FCP") == "undecided"
    assert status(judge(as_published("table-synthetic", trials=5, width=1.5)), "Rob-FCP") == "differs"


def test_what_readings_lists_is_shown_but_not_failed() -> None:
    gaussian = as_published("table-gaussian")
    rows = tuple(
        dataclasses.replace(row, width=Spread(1.75, 0.1, 0.01)) if row.method == "Krum" else row
        for row in gaussian.rows
    )
    comparison = judge(dataclasses.replace(gaussian, rows=rows))
    assert status(comparison, "Krum") == "known" and status(comparison, "Multi-Krum") == "not settled"
    verdict = next(j.verdict for j in comparison.rows if j.row.method == "Krum")
    assert verdict.startswith("not reproduced (known: width 1.75 for 0.7692")
    assert not comparison.failures


def test_a_row_that_misses_the_reading_too_differs() -> None:
    for method, numbers in (
        ("Krum", {"width": 3.0}),
        ("Krum", {"a_posteriori_mse_db": 0.0}),
        ("Multi-Krum", {"width": 50.0}),
        ("Multi-Krum", {"a_posteriori_mse_db": 40.0}),
    ):
        assert status(judge(changed("table-gaussian", "efficiency", method, **numbers)), method) == "differs", numbers


def excused() -> list[tuple[str, dict[str, Any], str]]:
    """Return (experiment, row, field) of every published number that ours need not meet."""
    return [
        (name, entry, field)
        for name in NAMES
        for entry in published(name).values()
        for kind in compare.EXCUSES
        for field in entry.get(kind, {})
    ]


@pytest.mark.parametrize(
    ("name", "entry", "field"), excused(), ids=lambda value: value["method"] if isinstance(value, dict) else value
)
def test_an_excused_number_must_still_meet_its_reading(name: str, entry: dict[str, Any], field: str) -> None:
    """At the reading it passes; 12 % (1.2 dB, or points) farther from the published number than it, it differs."""
    reading = {**entry.get("measured", {}), **entry.get("reading", {})}[field]
    away = 1 if reading >= entry[field] else -1
    beyond = reading * (1 + 0.12 * away) if field == "width" else reading + 1.2 * away
    row = entry["attack"], entry["method"], entry["share"], entry.get("variant", "")
    for value, wanted in ((reading, False), (beyond, True), (1000.0, True)):
        result = changed(name, *row, **{field: value})
        assert (status(judge(result), row[1], row[0], row[2], row[3]) == "differs") is wanted, value


def test_a_changed_copy_has_nothing_to_compare_with() -> None:
    result = dataclasses.replace(as_published("table-synthetic"), fingerprint="another")
    comparison = judge(result)
    assert comparison.source == "" and not any(j.paper for j in comparison.rows)
    told = memory.StringIO()
    show(comparison, Console(file=told, width=142))
    assert "settings differ from the packaged table-synthetic's, so nothing is compared" in told.getvalue()


def test_statements_are_decided_by_numbers() -> None:
    values = dict(zip((0.1, 0.2, 0.4, 0.6, 0.8, 1.0), (0.50, 0.60, 0.70, 0.77, 0.77, 0.81), strict=True))

    def quantiles(deviations: dict[float, float]) -> Comparison:
        result = as_published("fig-quantile")
        rows = tuple(
            dataclasses.replace(row, quantile_deviation=Spread(deviations.get(row.share, 0.1), 0.02, 0.002))
            for row in result.rows
        )
        return judge(dataclasses.replace(result, rows=rows))

    assert [s.status for s in quantiles(values).statements] == ["reproduced", "reproduced"]
    upside_down = quantiles({share: 1.31 - value for share, value in values.items()})
    assert [s.status for s in upside_down.statements] == ["differs", "differs"]
    assert upside_down.failures


def test_json_is_the_agreed_object() -> None:
    body = judge(as_published("table-synthetic")).to_json()
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    assert {"experiment", "trials", "seed", "seconds", "cpu_seconds", "rows"} <= set(body)
    row = body["rows"][0]
    wanted = {
        "attack", "method", "share", "coverage", "width", "a_posteriori_mse_db", "global_msd_db", "local_msd_db",
        "true_positives", "false_positives", "bytes_up_per_round", "paper", "verdict",
    }  # fmt: skip
    assert wanted <= set(row)
    assert {"mean", "sd"} <= set(row["coverage"]) and row["coverage"]["mean"] == 90.0
    assert row["paper"]["width"] == 1.76 and row["verdict"].startswith("reproduced")


def test_stored_results_come_in_the_catalogues_order(tmp_path: Path) -> None:
    for name in ("sweep-count", "table-gaussian", "table-synthetic"):
        as_published(name).save(tmp_path / name)
    assert [r.experiment for r in stored(tmp_path)] == ["table-gaussian", "table-synthetic", "sweep-count"]
    assert [r.experiment for r in stored(tmp_path / "sweep-count")] == ["sweep-count"]


def test_nothing_to_compare_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no such folder"):
        stored(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="no finished result"):
        stored(tmp_path)
