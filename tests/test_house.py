"""The house rules that a reviewer would otherwise have to remember."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NAMES = [str(path.relative_to(ROOT)) for path in SOURCES]
MAX_LINES = 400
MAX_BYTES = 500_000
NOT_AT_IMPORT = {
    "cryptography", "fastdigest", "flwr", "jax", "matplotlib", "numba", "pandas", "pyarrow", "rich", "scipy", "torch"
}  # fmt: skip
# Flower's caps, because one environment must hold everything: what constraints.txt pins may not pass them.
CAPS = ("click<9", "cryptography>=50,<51", "packaging<26", "protobuf<7", "rich<15", "typer<0.21")
UNSAFE_MODULES = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
UNSAFE_CALLS = {"eval", "exec"}
# Written in pieces, so that this file does not break its own rule.
REGISTRIES = ["py" + "pi.org", "python" + "hosted", "ana" + "conda.org", "npm" + "js.org", "index" + "-url"]
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:" + "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"]) + r")/")
DATA_SUFFIXES = {".csv", ".gz", ".npy", ".npz", ".parquet", ".pkl", ".zip"}
LOCK_FILES = {"Pipfile.lock", "pdm.lock", "poetry.lock", "pylock.toml", "uv.lock"}


def project_files() -> list[Path]:
    """Return the files that are, or are about to be, under version control."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: no list of tracked files")
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def texts() -> list[tuple[str, str]]:
    """Return `(name, text)` of every project file that is text."""
    found = []
    for path in project_files():
        try:
            found.append((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def test_import_loads_numpy_and_little_else() -> None:
    probe = "import sys, prism_fcp; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    run = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True, env=environment)
    assert not NOT_AT_IMPORT & set(run.stdout.split())


@pytest.mark.parametrize("path", SOURCES, ids=NAMES)
def test_source_file_keeps_the_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "no module docstring"
    assert len(text.splitlines()) <= MAX_LINES, f"longer than {MAX_LINES} lines: split it by subject"
    assert not unsafe(tree)


def unsafe(tree: ast.AST) -> list[str]:
    """Return what in this module could run foreign bytes as code."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.partition(".")[0] in UNSAFE_MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module] if (node.module or "").partition(".")[0] in UNSAFE_MODULES else []
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
                found.append(f"{node.func.id}() in line {node.lineno}")
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and getattr(keyword.value, "value", True) is not False:
                    found.append(f"allow_pickle in line {node.lineno}")
    return found


@pytest.mark.parametrize(
    "line", ["import pickle", "from pickle import loads", "eval('1')", "exec(x)", "np.load(f, allow_pickle=True)"]
)
def test_the_guard_against_unsafe_code_sees(line: str) -> None:
    assert unsafe(ast.parse(line))


def test_no_registry_host_and_no_path_of_one_machine() -> None:
    found = []
    for name, text in texts():
        for number, line in enumerate(text.splitlines(), 1):
            if any(host in line for host in REGISTRIES) or MACHINE_PATHS.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found


def test_no_lock_file_no_data_and_nothing_big() -> None:
    found = []
    for path in project_files():
        if path.name in LOCK_FILES or path.suffix in DATA_SUFFIXES or path.stat().st_size > MAX_BYTES:
            found.append(str(path.relative_to(ROOT)))
    assert not found


def pins() -> dict[str, str]:
    """Return `name -> version` from constraints.txt, which holds `name==version` lines and nothing else."""
    found: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([0-9][0-9A-Za-z.+!]*)", line)
        assert match, f"not name==version: {line!r}"
        name = canonicalize_name(match[1])
        assert name not in found, f"pinned twice: {name}"
        found[name] = match[2]
    return found


def requirements() -> list[Requirement]:
    """Return what pyproject.toml asks for, the package's own extras left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    return [wanted for wanted in map(Requirement, lines) if wanted.name != project["name"]]


def test_constraints_pin_every_requirement_within_its_bounds() -> None:
    pinned = pins()
    for wanted in requirements():
        version = pinned.get(canonicalize_name(wanted.name))
        assert version, f"constraints.txt does not pin {wanted.name}"
        assert wanted.specifier.contains(Version(version)), f"{wanted}: constraints.txt says {version}"


@pytest.mark.parametrize("cap", CAPS)
def test_constraints_leave_room_for_flower(cap: str) -> None:
    wanted = Requirement(cap)
    version = pins().get(canonicalize_name(wanted.name))
    assert version is None or wanted.specifier.contains(Version(version))


def test_version_is_said_once() -> None:
    import prism_fcp

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert getattr(prism_fcp, "__version__", project["version"]) == project["version"]


def test_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
