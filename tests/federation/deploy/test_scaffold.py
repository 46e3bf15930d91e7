"""A new project loads, trains in one process, and never replaces anything."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from prism_fcp.errors import DataError, OutputError, SettingError
from prism_fcp.federation.scaffold import CLIENTS, package_name, scaffold

pytest.importorskip("flwr")

from prism_fcp.federation import Agreement, run_in_process  # noqa: E402
from prism_fcp.federation.project import file_site, read_settings  # noqa: E402
from prism_fcp.federation.sites.example import write_example  # noqa: E402


def test_a_new_project_runs_as_it_is(tmp_path: Path) -> None:
    made = scaffold(tmp_path / "demo", write_example)
    agreed = Agreement.load(made.folder / "federation.toml")
    assert agreed.clients == CLIENTS and agreed.name == "demo"
    own = {name: read_settings(made.folder / "sites" / f"{name}.toml", name) for name in agreed.clients}
    told = run_in_process(agreed, file_site, made.folder / "runs" / "demo", settings=own)
    # 400 test rows in all: 0.9 within four standard deviations of a binomial share, 0.06; drawn once, from seed 1.
    assert abs(told["evaluation"]["levels"][0]["coverage"] - 0.9) < 0.06
    assert told["rounds"] == agreed.training.rounds
    assert (made.folder / "runs" / "demo" / "page.html").exists()


# Flower 1.41 reads .gitignore by a name that pathspec 1.0 replaced.
@pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")
def test_the_app_is_what_flower_takes(tmp_path: Path) -> None:
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    made = scaffold(tmp_path / "my demo", write_example, clients=("a", "b"))
    config, warnings = load_and_validate(made.folder / "pyproject.toml")
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["components"]["serverapp"] == "my_demo.server_app:app"
    (made.folder / "runs").mkdir()
    (made.folder / "runs" / "result.json").write_text("{}")
    names = bundled(build_fab_from_disk(made.folder))
    code = {f"my_demo/{half}.py" for half in ("__init__", "server_app", "client_app")}
    assert {name for name in names if not name.startswith(".info")} == {"federation.toml", "pyproject.toml", *code}


def bundled(fab: bytes) -> list[str]:
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(fab)) as archive:
        return archive.namelist()


def test_both_halves_can_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp

    made = scaffold(tmp_path / "halves of it", write_example)
    monkeypatch.syspath_prepend(made.folder)
    from importlib import import_module

    assert isinstance(import_module(f"{made.package}.server_app").app, ServerApp)
    assert isinstance(import_module(f"{made.package}.client_app").app, ClientApp)
    for name in [name for name in sys.modules if name.partition(".")[0] == made.package]:
        monkeypatch.delitem(sys.modules, name)


def test_names_that_toml_would_misread_are_quoted(tmp_path: Path) -> None:
    clients = ('St "Anna"', "Universitätsspital Zürich", "a$b{c}")
    made = scaffold(tmp_path / "odd", write_example, clients=clients, target='the "y"')
    agreed = Agreement.load(made.folder / "federation.toml")
    assert agreed.clients == clients and agreed.target == 'the "y"'
    for client in clients:
        own = tomllib.loads((made.folder / "sites" / f"{client}.toml").read_text())
        assert (made.folder / "sites" / own["data"]).resolve() == (made.folder / "data" / f"{client}.csv").resolve()
        assert (made.folder / "sites" / own["data"]).exists()


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(OutputError, match="not empty"):
        scaffold(tmp_path / "mine", write_example)
    (tmp_path / "file").write_text("keep")
    with pytest.raises(OutputError, match="choose another folder"):
        scaffold(tmp_path / "file", write_example)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    with pytest.raises(SettingError, match="must be 2 to 1000"):
        scaffold(tmp_path / "one", write_example, clients=("alone",))
    with pytest.raises(SettingError, match="stands twice"):
        scaffold(tmp_path / "one", write_example, clients=("a", "a"))
    with pytest.raises(DataError, match="usable as a file's name"):
        scaffold(tmp_path / "one", write_example, clients=("a", "../b"))
    assert not (tmp_path / "one").exists()
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / ".git").mkdir()
    assert scaffold(tmp_path / "git", write_example).package == "git"


def test_a_packages_name_hides_nothing_that_is_installed() -> None:
    for taken in ("json", "numpy", "flwr", "prism_fcp"):
        assert package_name(taken) == f"{taken}_app"
    assert package_name("hospitals 2026") == "hospitals_2026"
    assert package_name("42") == "app_42"
    assert package_name("Ärzte") == "rzte"
    assert package_name("日本") == "federation_app"
    assert all(package_name(word).isidentifier() for word in ("class", "a-b", "__x__", "9to5", "x" * 200))
