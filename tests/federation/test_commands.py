"""`prism-fcp federate`: what it prints, what it says when something is wrong, and what Ctrl-C leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from prism_fcp.cli import main  # noqa: E402
from prism_fcp.errors import SettingError  # noqa: E402
from prism_fcp.federation.conduct import forget  # noqa: E402
from prism_fcp.federation.project import FOLDER  # noqa: E402
from tests.federation.deploy.real import change, sign  # noqa: E402


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A command is a process of its own: what it imports and sets ends with it."""
    paths, modules, folder = list(sys.path), set(sys.modules), os.environ.get(FOLDER)
    yield
    sys.path[:] = paths
    for name in set(sys.modules) - modules:
        if name.startswith("trial"):
            del sys.modules[name]
    os.environ.pop(FOLDER, None)
    if folder is not None:
        os.environ[FOLDER] = folder


@pytest.fixture
def project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    folder = tmp_path / "trial"
    assert main(["federate", "init", str(folder), "--rounds", "3"]) == 0
    capsys.readouterr()
    return folder


def told(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> tuple[str, str]:
    assert main(["federate", *arguments]) == code
    out = capsys.readouterr()
    return out.out, out.err


def test_a_new_project_runs_and_is_shown(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, 0, "run", str(project), "--json")
    body = json.loads(out)
    assert body["rounds"] == 3 and set(body["kept"]) == {"north", "east", "south", "west"}
    assert "training 4 clients, 10 parameters" in err and "calibrated 4 clients" in err
    shown, err = told(capsys, 0, "show", str(project))
    assert "3 rounds, 10 parameters" in shown and "north" in shown and not err
    # Finished, it is shown and not played again.
    events = (project / "runs" / "trial" / "events.jsonl").read_bytes()
    for action in ("run", "resume", "show"):
        again, err = told(capsys, 0, action, str(project), "--json")
        assert json.loads(again) == body and not err
    assert (project / "runs" / "trial" / "events.jsonl").read_bytes() == events
    out, _ = told(capsys, 0, "run", str(project), "--fresh", "--json", str(project / "told.json"))
    assert json.loads((project / "told.json").read_text())["rounds"] == 3
    assert (project / "runs" / "trial" / "events.jsonl").read_bytes() != events


def test_a_finished_run_of_other_settings_is_not_shown_as_this_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told(capsys, 0, "run", str(project))
    change(project / "federation.toml", "rounds = 3", "rounds = 4")
    _, err = told(capsys, 2, "run", str(project))
    assert "holds a run of other settings; restore federation.toml, or begin anew with --fresh" in err
    out, _ = told(capsys, 0, "run", str(project), "--fresh", "--json")
    assert json.loads(out)["rounds"] == 4


def test_errors_are_one_line_and_exit_2(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(why: str, *arguments: str) -> None:
        out, err = told(capsys, 2, *arguments)
        assert not out and why in err and "Traceback" not in err and "internal error" not in err
        assert len([line for line in err.splitlines() if line.startswith("prism-fcp: error: ")]) == 1

    nowhere = str(tmp_path / "nowhere")
    for action in ("run", "local", "resume", "show"):
        wrong("federation.toml: no such file; make a project: prism-fcp federate init", action, nowhere)
    for action in ("resume", "show"):
        wrong("no run was begun here; begin one: prism-fcp federate run, or local", action, str(project))
    wrong("is there already and not empty", "init", str(project))
    wrong("--client and --sites", "init", nowhere, "--sites", "3", "--client", "a")
    wrong("1 named; must be 2 to", "init", nowhere, "--sites", "1")
    wrong("'a' stands twice", "init", nowhere, "--client", "a", "--client", "a")
    wrong("rounds=0; must be at least 1", "init", nowhere, "--rounds", "0")
    assert not Path(nowhere).exists()
    wrong("--sites 9; must lie in 1..4", "local", str(project), "--sites", "9")
    change(project / "pyproject.toml", 'clientapp = "trial.client_app:app"', 'clientapp = "trial.nothing:app"')
    wrong("no module 'trial.nothing', which clientapp names", "run", str(project))
    change(project / "pyproject.toml", 'clientapp = "trial.nothing:app"', 'clientapp = "trial.server_app:app"')
    wrong("trial.server_app:app is no Flower ClientApp", "run", str(project))
    change(project / "pyproject.toml", "clientapp =", "client =")
    wrong("[tool.flwr.app.components] clientapp is missing", "run", str(project))
    change(project / "federation.toml", "rounds = 3", "runds = 3")
    wrong("unknown key 'runds'; did you mean 'rounds'?", "run", str(project))
    (project / "federation.toml").write_text("name = \n")
    wrong("federation.toml", "run", str(project))


def test_a_site_without_its_file_or_data_is_gone_on_without(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sites" / "west.toml").unlink()
    out, err = told(capsys, 0, "run", str(project), "--json")
    body = json.loads(out)
    assert "west" not in body["kept"] and len(body["kept"]) == 3
    assert "a node was refused: says: the site's settings cannot be used" in err and "going on without: west" in err


def test_with_too_few_sites_it_does_not_wait_for_nobody(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "sites" / "west.toml").unlink()
    (project / "data" / "south.csv").unlink()
    _, err = told(capsys, 2, "run", str(project))
    assert "2 of 4 clients came" in err and "3 are needed; not there: south, west" in err


def test_a_broken_row_stays_at_its_site(
    project: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = project / "data" / "north.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "Jane Doe" + lines[5][lines[5].index(",") :], *lines[6:]]) + "\n")
    told(capsys, 0, "run", str(project), "--json")
    run = project / "runs" / "trial"
    assert "Jane" in caplog.text
    assert not any("Jane" in one.read_text(errors="replace") for one in run.iterdir() if one.is_file())


def test_sites_sign_and_one_with_another_s_key_is_turned_away(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign(project)
    (project / "keys" / "west.pem").write_bytes((project / "keys" / "east.pem").read_bytes())
    out, _ = told(capsys, 0, "run", str(project))
    (line,) = [line for line in out.splitlines() if line.startswith("a node was turned away: ")]
    assert "hello of 'west': " in line
    body = json.loads((project / "runs" / "trial" / "federation.json").read_text())
    assert set(body["kept"]) == {"north", "east", "south"} and len(body["turned_away"]) == 1
    # Signatures cannot be asked for where nobody's key is known.
    change(project / "pyproject.toml", 'trust = "trust"', 'trust = ""')
    _, err = told(capsys, 2, "run", str(project), "--fresh")
    assert "signed = true, but no trust folder is given" in err


def test_begun_anew_nothing_of_the_last_run_stays(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, 0, "run", str(project))
    forget(project / "runs" / "trial")
    assert {path.name for path in (project / "runs" / "trial").iterdir()} == {".lock", "run.json"}


def test_an_app_that_finds_no_project_says_how_to_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.app import Context, RecordDict
    from flwr.clientapp import ClientApp

    from prism_fcp.federation import server_app
    from prism_fcp.federation.grid import InProcessGrid

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FOLDER, raising=False)
    with pytest.raises(SettingError, match="say where the project lies on this machine: flwr run"):
        server_app()(InProcessGrid(ClientApp(), [], {}), Context(1, 0, {}, RecordDict(), {}))
    assert not list(tmp_path.iterdir())


def test_a_run_in_a_folder_of_its_own_is_shown_and_resumed(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = str(tmp_path / "else where")
    out, _ = told(capsys, 0, "run", str(project), "--folder", elsewhere, "--json")
    body = json.loads(out)
    for action in ("show", "resume"):
        out, _ = told(capsys, 0, action, str(project), "--folder", elsewhere, "--json")
        assert json.loads(out) == body
    assert not (project / "runs").exists()
    (tmp_path / "else where" / "federation.json").unlink()
    out, _ = told(capsys, 0, "show", str(project), "--folder", elsewhere)
    assert f"prism-fcp federate resume {project} --folder '{elsewhere}'" in out


def test_what_a_client_learned_alone_is_for_its_owner_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, 0, "run", str(project))
    private = [*(project / "state").iterdir(), project / "runs" / "trial" / "checkpoint.npz"]
    assert len(private) == 5 and {path.stat().st_mode & 0o777 for path in private} == {0o600}


HOOKED = """
import os, signal, sys
from prism_fcp.cli import main
from prism_fcp.federation.events import listening
def hook(event):
    if event["event"] == "round" and event["round"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
with listening(hook):
    sys.exit(main(["federate", "run", sys.argv[1], "--json"]))
"""


def interrupted(project: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", HOOKED, str(project)], capture_output=True, text=True, check=False
    )


def model(project: Path) -> Any:
    return json.loads((project / "runs" / "trial" / "model.json").read_text())


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_that_is_resumed_to_the_same_end(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = interrupted(project)
    assert done.returncode == 130 and not done.stdout and "stopped after round 2" in done.stderr
    assert "Traceback" not in done.stderr
    assert "interrupted; closed rounds are kept, run the same command again to continue" in done.stderr
    out, _ = told(capsys, 0, "show", str(project))
    assert f"after round 2 of 3; if it is not running, go on with: prism-fcp federate resume {project}" in out
    secret = (project / "runs" / "trial" / "secret.key").read_bytes()
    assert (project / "runs" / "trial" / "secret.key").stat().st_mode & 0o077 == 0
    out, err = told(capsys, 0, "resume", str(project), "--json")
    resumed, body = model(project), json.loads(out)
    assert body["rounds"] == 3
    # The same secret, without a stop.
    for name in ("checkpoint.npz", "federation.json", "summaries.sqlite", "events.jsonl"):
        (project / "runs" / "trial" / name).unlink()
    out, _ = told(capsys, 0, "run", str(project), "--json")
    assert (project / "runs" / "trial" / "secret.key").read_bytes() == secret
    assert model(project) == resumed
    assert json.loads(out)["levels"] == body["levels"]


def test_a_secret_is_in_no_file_but_its_own(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, 0, "run", str(project))
    secret = (project / "runs" / "trial" / "secret.key").read_bytes()
    for path in [*(project / "runs" / "trial").iterdir(), *(project / "state").iterdir()]:
        if path.is_file() and path.name != "secret.key":
            assert secret not in path.read_bytes() and secret.hex() not in path.read_text(errors="replace")
    assert secret.hex() not in out + err


@pytest.mark.parametrize("action", ["", "init", "run", "local", "resume", "show"])
def test_help_has_an_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = told(capsys, 0, *([action] if action else []), "--help")
    assert "example" in out and f"prism-fcp federate {action}" in out and not err


WITHOUT = """
import sys
sys.modules["flwr"] = None
from prism_fcp.cli import main
sys.exit(main(["federate", "run", "."]))
"""


def test_without_flower_it_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == ("prism-fcp: error: federations need the package flwr: pip install 'prism-fcp[flower]'\n")
