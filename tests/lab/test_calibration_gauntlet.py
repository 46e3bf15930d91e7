"""The gauntlet's second matrix: calibration attacks x filters."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from prism_fcp import streams
from prism_fcp.calibrate import FILTERS, SCORE_ATTACKS, keep_all
from prism_fcp.cli import main
from prism_fcp.engines import train
from prism_fcp.errors import OutputError, SettingError
from prism_fcp.lab import calibration_gauntlet as gauntlet
from prism_fcp.lab.calibration_gauntlet import NAME, play, run
from prism_fcp.lab.calibration_matrix import ATTACKS, RULES, Matrix
from prism_fcp.lab.calibration_tables import draw, show
from prism_fcp.lab.regimes import REGIMES as TRAINING
from prism_fcp.lab.run import Interrupted
from prism_fcp.lab.scenes import LIARS, REGIMES, joint
from prism_fcp.train.protocol import protocol
from prism_fcp.types import Choice

SMALL = Matrix.chosen(
    regimes=["beta-50", "beta-50-bins"],
    attacks=["none", "all zero", "collude 3.5"],
    filters=["keep_all", "known_count", "mixture, told"],
)


def test_every_attack_and_filter_can_be_built_and_the_core_is_smaller_than_the_whole() -> None:
    core, full = Matrix.chosen(), Matrix.chosen(full=True)
    assert set(core.attacks) < set(full.attacks) == set(ATTACKS)
    assert set(core.filters) < set(full.filters) == set(RULES)
    assert set(core.regimes) < set(full.regimes) == set(REGIMES)
    assert {choice.name for choice, _ in ATTACKS.values()} == set(SCORE_ATTACKS)
    assert {choice.name for choice, _ in RULES.values()} == set(FILTERS) - {"down_weight"}  # no certificate for it
    full.built()


@pytest.mark.parametrize("name", [name for name in REGIMES if not name.startswith(("linear", "joint"))])
def test_scores_follow_the_law_a_scene_states(name: str) -> None:
    scene = REGIMES[name].draw(3, 1)
    assert scene.lying.sum() == LIARS
    for level in (0.3, 0.9):
        radius = scene.narrowest(level, ~scene.lying)
        assert scene.share_below(radius)[~scene.lying].mean() == pytest.approx(level, abs=1e-9)
        seen = (scene.scores < radius).mean(axis=1)
        width = 5 / np.sqrt(scene.scores.shape[1])  # ten standard deviations at most
        assert np.abs(seen - scene.share_below(radius)).max() < width
    if scene.quantiles is not None:
        assert scene.quantiles[len(scene.quantiles) // 2] == pytest.approx(scene.narrowest(0.5, scene.lying), abs=1e-3)


def test_the_linear_scene_is_the_papers_population_under_the_papers_attack() -> None:
    scene = REGIMES["linear"].draw(1, 0)
    truth = REGIMES["linear-truth"].draw(1, 0)
    np.testing.assert_array_equal(scene.lying, truth.lying)
    np.testing.assert_array_equal(scene.lying, streams.subset(streams.child(streams.key(1, 0), 2), 100, 20))
    assert truth.narrowest(0.9, ~truth.lying) * 2 == pytest.approx(0.403, abs=0.03)  # READINGS.md: the oracle floor
    assert scene.narrowest(0.9, ~scene.lying) > 2 * truth.narrowest(0.9, ~truth.lying)


def test_rows_say_what_was_found_and_what_is_covered() -> None:
    rows = {(row.regime, row.attack, row.filter): row for row in run(SMALL, trials=2)}
    assert len(rows) == 18
    row = rows["beta-50", "all zero", "keep_all"]
    assert (row.recall, row.recall_minus_chance, row.honest_lost) == (0, 0, 0)
    assert row.coverage == pytest.approx(0.875, abs=0.01) and (row.width or 9) < 1  # (c - b)/(1 - b)
    row = rows["beta-50", "all zero", "known_count"]
    assert row.recall == 1 and row.recall_minus_chance == pytest.approx(0.8) and row.honest_lost == 0
    assert row.certificate_least < row.coverage < row.certificate_most
    assert rows["beta-50", "none", "keep_all"].recall is None
    assert rows["beta-50", "none", "known_count"].honest_lost == pytest.approx(0.2)
    near = rows["beta-50", "collude 3.5", "mixture, told"]
    assert near.recall is not None and near.recall > 0.6


def test_attacks_and_filters_meet_the_same_scores() -> None:
    scene, again = (REGIMES["beta-50"].draw(5, 2) for _ in range(2))
    np.testing.assert_array_equal(scene.scores, again.scores)
    np.testing.assert_array_equal(scene.normals, again.normals)
    alone = play(scene, SCORE_ATTACKS["tail"](), [keep_all()])
    both = play(again, SCORE_ATTACKS["tail"](), [FILTERS["mad"](), keep_all()])
    assert both[1] == alone[0]
    wide = run(SMALL, trials=1)
    narrow = run(Matrix.chosen(regimes=["beta-50-bins"], attacks=["all zero"], filters=["known_count"]), trials=1)
    assert narrow[0] in wide


def test_finished_trials_are_kept_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(SMALL, trials=2)
    calls = 0
    played = gauntlet._play

    def interrupted(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return played(*given)

    monkeypatch.setattr(gauntlet, "_play", interrupted)
    with pytest.raises(Interrupted, match="2 of 4 trials finished"):
        run(SMALL, trials=2, folder=tmp_path)
    assert run(SMALL, trials=2, folder=tmp_path) == whole
    assert calls == 5  # two before, the one that was interrupted, two after
    assert run(SMALL, trials=2, folder=tmp_path) == whole and calls == 5
    with pytest.raises(OutputError, match="trials of seed 1; add --fresh"):
        run(SMALL, trials=2, seed=2, folder=tmp_path)
    with pytest.raises(OutputError, match="trials of other attacks; add --fresh"):
        run(Matrix.chosen(regimes=["beta-50"]), trials=2, folder=tmp_path)


def test_more_trials_and_other_regimes_are_added_to_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replace(SMALL, regimes=("beta-50-bins",))
    run(one, trials=1, folder=tmp_path)
    played, calls = gauntlet._play, []
    monkeypatch.setattr(gauntlet, "_play", lambda *given: (calls.append(given[-1]), played(*given))[1])
    grown = run(SMALL, trials=2, folder=tmp_path)
    assert len(calls) == 3  # of four
    assert run(one, trials=1, folder=tmp_path) == run(one, trials=1) and len(calls) == 4
    assert grown == run(SMALL, trials=2)


def test_the_joint_coalition_is_the_trainings_and_the_ledger_is_the_real_one() -> None:
    seen, blind = (joint(3, 1, attack="ALIE .5", ledger=ledger) for ledger in (True, False))
    np.testing.assert_array_equal(seen.scores, blind.scores)
    assert not blind.evidence and blind.coalition
    setting = TRAINING["paper .2"]
    federation = replace(setting.federation, attack=Choice("alie", {"z": 0.5}))
    population = setting.population.draw(100, 50, 20, 3, 1)
    np.testing.assert_array_equal(population.byzantine, seen.lying)
    ledger = train(population, federation, [protocol("default", setting.known).arm])[0].ledger
    assert ledger is not None and ledger.excluded.any()
    out = {client for client, value in seen.evidence.items() if value == np.inf}
    assert out == set(np.flatnonzero(ledger.excluded)) and len(seen.evidence) == 100
    radius = seen.narrowest(0.9, ~seen.lying)
    below = (seen.scores < radius).mean(axis=1)
    assert np.abs(below - seen.share_below(radius)).max() < 5 / np.sqrt(1000)  # ten standard deviations
    # the default protocol is within a few per cent of the best single model even then
    assert 2 * radius < 1.1 * 2 * REGIMES["linear-truth"].draw(3, 1).narrowest(0.9, ~seen.lying)


def test_the_ledger_tells_filters_that_take_evidence_what_scores_do_not() -> None:
    """Fixed seeds; at 20 trials `mixture` finds 0 without the ledger and all 20 with it."""
    attack, rules = SCORE_ATTACKS["collusion"](), [FILTERS["cautious"](), FILTERS["mixture"](), FILTERS["vigilant"]()]
    for ledger, least, most in ((False, 0.0, 0.3), (True, 0.8, 1.0)):
        cells = [play(joint(5, trial, attack="ALIE .5", ledger=ledger), attack, rules) for trial in range(3)]
        found = np.mean([[cell.recall for cell in own] for own in cells], axis=0)
        assert found[0] == 0 and (least <= found[1:]).all() and (found[1:] <= most).all()
        assert max(cell.lost for own in cells for cell in own) < 0.05


def test_an_honest_minority_is_why_the_default_takes_no_evidence() -> None:
    """Fixed seeds: training leaves out most of an honest fifth whose true model lies 0.1 away."""
    silent, rules = SCORE_ATTACKS["none"](), [FILTERS["cautious"](), FILTERS["vigilant"]()]
    cells = [play(REGIMES["joint-kinds"].draw(5, trial), silent, rules) for trial in range(3)]
    careful, keen = np.mean([[cell.lost for cell in own] for own in cells], axis=0)
    assert careful == 0 and keen > 0.1


def test_a_filter_of_ones_own_joins_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FILTERS, "mine", keep_all)
    matrix = Matrix.chosen(regimes=["beta-50"], attacks=["all zero"], filters=["mine"])
    assert run(matrix, trials=1)[0].filter == "mine"
    with pytest.raises(SettingError, match="unknown filter 'mien'; did you mean 'mine'"):
        Matrix.chosen(filters=["mien"])
    with pytest.raises(SettingError, match="asked for more than once"):
        Matrix.chosen(attacks=["none", "none"])


def test_the_command_prints_keeps_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from prism_fcp.calibrate import FILTERS, known_count\nFILTERS['half'] = lambda: known_count(10)\n",
        encoding="utf-8",
    )
    words = ["gauntlet", "calibration", "--regime", "beta-50", "--attack", "all zero", "--filter", "half"]
    words += ["--plugin", str(plugin), "--trials", "1", "--jobs", "1", "--out", str(tmp_path), "--json", "-"]
    try:
        assert main(words) == 0
    finally:
        FILTERS.pop("half", None)
    told = capsys.readouterr()
    assert "mean of the attacks" not in told.err  # of one
    body = json.loads(told.out)
    assert body["rows"][0]["recall"] == 0.5 and body["rows"][0]["honest_lost"] == 0
    assert "beta-50" in told.err and "outside the certificate" in told.err
    kept = {path.name for path in (tmp_path / NAME).iterdir()}
    assert {"result.json", f"{NAME}.jsonl", f"{NAME}-found.png", f"{NAME}-coverage.svg"} <= kept
    assert main(["gauntlet", "calibration", "--filter", "mda", "--out", str(tmp_path)]) == 2
    assert "did you mean 'mad'" in capsys.readouterr().err


def test_pictures_of_one_regime_and_of_infinite_widths(tmp_path: Path) -> None:
    rows = [row._replace(width=None) for row in run(SMALL, trials=1) if row.regime == "beta-50"]
    assert len(draw(rows, tmp_path)) == 6


def test_tables_break_in_two_where_the_terminal_is_narrow() -> None:
    rows = run(SMALL, trials=1)
    for width in (50, 200):
        out = Console(width=width, file=io.StringIO())
        show(rows, out)
        text = out.file.getvalue()
        assert "…" not in text and max(map(len, text.splitlines())) <= width
        assert (text.count("all zero") > 4) == (width == 50)  # two tables a regime, or more
        assert "0.80 (0.0)" in text and "mean of the attacks" in text


def test_the_list_names_what_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gauntlet", "calibration", "--list"]) == 0
    text = capsys.readouterr().out
    for name in (*REGIMES, *ATTACKS, *RULES, *SCORE_ATTACKS, *FILTERS):
        assert f"  {name!r}: " in text
    assert "'joint-kinds': joint-quiet, a fifth's truth .1 apart (--full)" in text
    assert "'collude 8': collusion(shape=8.0)\n" in text
