"""The compiled code's cache: never stale, whatever changed, and there when the source folder cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
SOURCE = Path(__file__).resolve().parents[2] / "src" / "prism_fcp"
PROBE = (
    "import numpy as np; from prism_fcp.kernels.normals import normals;"
    "print(repr(normals(np.uint64(7), 4).tolist()), sum(normals.stats.cache_hits.values()))"
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the kernels, without what is compiled already."""
    root = tmp_path / "site" / "prism_fcp"
    shutil.copytree(SOURCE / "kernels", root / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "streams.py"):
        shutil.copy(SOURCE / name, root / name)
    (root / "__init__.py").write_text("")
    return root


def run(package: Path, **environment: str) -> tuple[str, int]:
    """Return what a fresh process prints: the normals, and how many kernels it found in the cache."""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")} | environment
    settings |= {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", PROBE], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    values, hits = done.stdout.rsplit(maxsplit=1)
    return values, int(hits)


def test_a_second_process_finds_the_compiled_code(package):
    first = run(package)
    assert first[1] == 0
    assert run(package) == (first[0], 1)


def test_a_change_in_a_called_file_is_seen_even_at_the_same_time_and_size(package):
    """`normals.py` stays as it is; `words.py`, whose function it calls, changes, and keeps its mtime as wheels do."""
    before, _ = run(package)
    callee = package / "kernels" / "words.py"
    stat, text = callee.stat(), callee.read_text()
    assert "0x94D049BB133111EB" in text
    callee.write_text(text.replace("0x94D049BB133111EB", "0x94D049BB133111ED"))
    os.utime(callee, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after, hits = run(package)
    assert hits == 0 and after != before
    callee.write_text(text)
    os.utime(callee, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert run(package) == (before, 1), "the first version is still there"


def test_where_the_source_cannot_be_written_the_users_cache_is_used(package, tmp_path):
    (package / "kernels" / "__pycache__").write_text("a file, so that even root cannot make the folder")
    cache = tmp_path / "cache"
    first = run(package, XDG_CACHE_HOME=str(cache))
    assert first[1] == 0 and list(cache.rglob("*.nbc"))
    assert run(package, XDG_CACHE_HOME=str(cache)) == (first[0], 1)


def test_where_nothing_can_be_written_it_compiles_anew(package, tmp_path):
    (package / "kernels" / "__pycache__").write_text("")
    (tmp_path / "cache").write_text("")
    assert run(package, XDG_CACHE_HOME=str(tmp_path / "cache"))[1] == 0
    assert not list(tmp_path.rglob("*.nbc"))
