"""The demo's story on narrow and wide terminals."""

from __future__ import annotations

import dataclasses
import io as memory
from pathlib import Path

import pytest
from rich.console import Console

from prism_fcp.lab import clients
from prism_fcp.lab.compare import judge
from prism_fcp.lab.demo import demo_experiment, tell
from prism_fcp.lab.run import explain, run
from prism_fcp.lab.spec import parse


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    demo = dict(demo_experiment().resolved)
    demo["federation"] = {**demo["federation"], "rounds": 200, "window": 50}
    experiment = dataclasses.replace(parse(demo, "demo"), trials=2)
    comparison, folder = judge(run(experiment)), tmp_path_factory.mktemp("demo")
    _, views = clients.save(folder, explain(experiment))
    told = {}
    for width in (80, 142):
        text = memory.StringIO()
        tell(comparison, views, [Path("demo/result.json")], "", Console(file=text, width=width, highlight=False))
        told[width] = text.getvalue()
    return told


@pytest.mark.parametrize("width", [80, 142])
def test_every_width_says_what_a_method_is_and_what_was_found(story: dict[int, str], width: int) -> None:
    text = story[width]
    assert "…" not in text and max(map(len, text.splitlines())) <= width
    for words in ("partial sharing, filter", "undefended", "never sends anything", "knows the true model"):
        assert words in text
    shown = text.split("What this shows\n")[1].split("\n\n")[0]
    assert [line[:2] for line in shown.splitlines() if not line.startswith("  ")] == ["1.", "2.", "3."]
    assert "clients that never share do better here" in " ".join(shown.split())


def test_calibration_is_paid_for_too(story: dict[int, str]) -> None:
    told = " ".join(story[142].split())
    assert "sends 4,000 bytes once (1,000 scores x 4 bytes), beside the 1,200 it sends" in told  # 600 x 200 / 100
    assert "(100 counts x 4 bytes) would be 400 bytes" in told
