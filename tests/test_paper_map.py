"""PAPER.md is a promise: each label has an owner and a test that exist, and docstrings name real places."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Every label of the paper that is not a section. The paper is not in the repository, so the list stands here.
LABELS = """
eq1 eq2 eq:quantile eq:mal_score eq:steady-state-mse eq:per-iteration-attenuation eq:md_ratio eq:PhiM-bound eq:rb-def
eq:score-sep alg:prism-fcp
rem:handling_unknown rem:scalability_filtering rem:scoring rem:mse-decomposition rem:quantile-constant rem:non-iid
lem:mean-conv lem:ms-convergence lem:steady-state-mse lem:partial-sharing-attenuation lem:residual-lip
lem:hist-concentration lem:hist-lip
thm:quantile-stability thm:detection theo:width-scaling-total prop:width prop:margin
cor:quantile-ps cor:quantile-exact cor:calib-bias cor:coverage-bounds cor:prism-bounds
tab:synthetic tab:UCI tab:H_sensitivity tab:baseline_gaussian_results tab:alie_results tab:nonlinear_results
fig:ps-attenuation fig:DiffAttacks fig:conv-vs-nrobustADMM fig:conv-vs-nrobustADMM_diff fig:prop_nrADMM_diff
fig:ViolinPlot fig:prediction-intervals fig:ZeroAttack fig:OneAttack fig:RandomAttack fig:quantile-deviation
fig:layerwise_diagram
""".split()
LATER = re.compile(r"later \(issue [3-7]\)")


@dataclass(frozen=True)
class Row:
    """One line of PAPER.md's two tables of owners."""

    place: str
    functions: str
    tests: str

    @property
    def is_later(self) -> bool:
        return bool(LATER.fullmatch(self.functions))


def rows(heading: str) -> list[Row]:
    """Return the rows of the table under `## heading`."""
    text = (ROOT / "PAPER.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert section, f"PAPER.md has no section {heading!r}"
    found = []
    for line in section[1].splitlines():
        if not line.startswith("| `"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        assert len(cells) == 5, f"{len(cells)} cells, wanted 5: {line}"
        found.append(Row(cells[0].strip("`"), cells[2], cells[3]))
    return found


LABELLED = rows("Labels")
UNLABELLED = rows("Places without a label")
ROWS = LABELLED + UNLABELLED
OWNED = [row for row in ROWS if not row.is_later]
PLACES = {row.place for row in ROWS}


def names(cell: str) -> list[str]:
    """Return the names in backticks of a cell, which holds nothing else."""
    found = re.findall(r"`([^`]+)`", cell)
    assert cell == ", ".join(f"`{name}`" for name in found), f"not a list of names in backticks: {cell!r}"
    return found


def test_every_label_has_exactly_one_row() -> None:
    assert sorted(row.place for row in LABELLED) == sorted(LABELS)
    assert len(PLACES) == len(ROWS), "a place stands twice"


def test_what_is_later_says_so_in_both_columns() -> None:
    assert not [row.place for row in ROWS if row.is_later and row.tests != row.functions]


def test_only_the_theory_and_the_real_data_may_wait() -> None:
    waiting = {row.place for row in ROWS if row.is_later}
    due = ("alg:", "eq:mal_score", "eq:quantile", "tab:synthetic", "tab:baseline_gaussian_results", "tab:alie_results")
    assert not [place for place in waiting if place.startswith(due)]


@pytest.mark.parametrize("row", OWNED, ids=lambda row: row.place)
def test_owner_can_be_imported(row: Row) -> None:
    owners = names(row.functions)
    assert owners, "no function"
    for owner in owners:
        module, separator, qualname = owner.partition(":")
        assert separator, f"{owner}: wanted module:name"
        found: object = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)


@pytest.mark.parametrize("row", OWNED, ids=lambda row: row.place)
def test_named_test_exists(row: Row) -> None:
    wanted = names(row.tests)
    assert wanted, "no test"
    for name in wanted:
        file, separator, function = name.partition("::")
        assert separator and (ROOT / file).is_file(), f"no such file: {file}"
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def unknown_places(docstring: str, places: set[str]) -> list[str]:
    """Return the pieces of a docstring's closing `Paper: ...` that begin with no known place."""
    match = re.search(r"\bPaper:\s(.*)\Z", docstring, re.DOTALL)
    if not match:
        return []
    line = " ".join(match[1].split()).rstrip(".")
    while (bare := re.sub(r"\s*\([^()]*\)", "", line)) != line:  # remarks in parentheses are free
        line = bare
    pieces = [piece.strip() for piece in line.split(";")]
    return [piece for piece in pieces if not any(re.match(re.escape(place) + r"(?![\w:-])", piece) for place in places)]


@pytest.mark.parametrize("path", SOURCES, ids=[str(path.relative_to(ROOT)) for path in SOURCES])
def test_docstrings_name_places_of_the_paper(path: Path) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented):
            wrong = unknown_places(ast.get_docstring(node) or "", PLACES)
            found += [f"{getattr(node, 'name', 'module')}: {piece!r} stands in no row of PAPER.md" for piece in wrong]
    assert not found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Does it. Paper: eq:mal_score; Alg. 1, phase 2 (known count).", []),
        ("Does it.\n\nPaper: eq:quantile,\n    as printed; tab:synthetic", []),
        ("Paper: eq:malscore; tab:synthetic", ["eq:malscore"]),
        ("Paper: tab:synthetic-b", ["tab:synthetic-b"]),
        ("Paper: somewhere", ["somewhere"]),
        ("No place named.", []),
    ],
)
def test_the_guard_on_docstrings_sees(line: str, expected: list[str]) -> None:
    assert unknown_places(line, PLACES) == expected
