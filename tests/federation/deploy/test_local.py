"""A real deployment on this machine: TLS, keys, five sites of which one attacks; its result, and that nothing stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from prism_fcp.calibrate.trust import Trust  # noqa: E402
from prism_fcp.federation import Agreement  # noqa: E402
from prism_fcp.federation.apps import client_app  # noqa: E402
from prism_fcp.federation.conduct import Conductor  # noqa: E402
from prism_fcp.federation.grid import InProcessGrid  # noqa: E402
from prism_fcp.federation.keys import SecretKeys  # noqa: E402
from prism_fcp.federation.project import file_site, read_settings  # noqa: E402
from prism_fcp.federation.store import MemoryStore  # noqa: E402
from tests.federation.deploy.real import change, events, is_open, nothing_left, ports, sign  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


def test_a_deployment_does_what_one_process_does_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    environment = {**kept, "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "prism_fcp", "federate"]
    project = tmp_path / "demo"

    def go(*words: str) -> None:
        done = subprocess.run([*command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]

    go("init", "demo", "--rounds", "2", "--sites", "5")
    sign(project)
    change(project / "sites" / "site-3.toml", "# score_attack", "score_attack")
    go("local", "demo")
    run = project / "runs" / "demo"
    for name in ("predictor.json", "model.json", "calibration.json", "page.html", "federation.json"):
        assert (run / name).stat().st_size > 0
    told = json.loads((run / "federation.json").read_text())
    assert told["rounds"] == 2 and len(told["roster"]) == 5
    # The attacker is named, in the result and on the audit page, and nobody else is.
    assert list(told["left_out"]) == ["site-3"] and len(told["kept"]) == 4
    page = (run / "page.html").read_text()
    assert "<h4>Left out: 1 client</h4><ul><li><b>site-3</b>" in page
    assert all(row["answers"] == 2 and row["refused"] == row["silent"] == 0 for row in told["roster"])
    assert [one["accepted"] for one in events(run, "round")] == [5, 5]

    # Nothing is left: no process, no port, no key, no file outside the project.
    nothing_left(tmp_path, run)
    (superlink,) = {
        port for port in ports(run) if f"HTTP API on 127.0.0.1:{port}" in (run / "logs/superlink.log").read_text()
    }
    assert not is_open(superlink)
    assert list((tmp_path / "home").iterdir()) == [] and list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"home", "tmp", "demo"}

    # The same secret in one process gives the same model, to the last bit, and the same intervals.
    agreed = Agreement.load(project / "federation.toml")
    own = {name: read_settings(project / "sites" / f"{name}.toml", name) for name in agreed.clients}
    app = client_app(
        file_site, settings=lambda name, context: own[name], stores={name: MemoryStore() for name in agreed.clients}
    )
    grid = InProcessGrid(app, [{"client": name} for name in agreed.clients], {})
    keys = SecretKeys((run / "secret.key").read_bytes())
    trust = Trust.load(project / "trust")
    again = Conductor(agreed, tmp_path / "again", keys=keys, trust=trust).run(grid)
    with np.load(run / "checkpoint.npz") as one, np.load(tmp_path / "again" / "checkpoint.npz") as other:
        np.testing.assert_array_equal(one["model"], other["model"])
    assert told["levels"] == again["levels"]
    assert told["evaluation"]["levels"] == again["evaluation"]["levels"]
