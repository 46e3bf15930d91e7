"""A client's name comes from outside and becomes a file's name, a line of a message and a mark on a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_fcp.calibrate.names import LONGEST, MOST_BYTES, check_name
from prism_fcp.errors import DataError

GOOD = ["a", "site-07", "St. Mary's (north)", "Universitätsspital Zürich", "東京病院", "בית חולים", "a=b", "x" * 100]
BAD = {
    "empty": "",
    "blank": " ",
    "parent": "../x",
    "absolute": "/etc/passwd",
    "backslash": "a\\b",
    "hidden": ".ssh",
    "dot": ".",
    "option": "--out",
    "blanks around": " a",
    "newline": "a\nkept: b",
    "nul": "a\0",
    "escape sequence": "\x1b[31mred",
    "del": "a\x7f",
    "right-to-left override": "a\u202egnp.exe",
    "bidi isolate": "\u2066a\u2069",
    "right-to-left mark": "a\u200f",
    "zero width space": "a\u200bb",
    "zero width joiner": "a\u200db",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\u00adb",
    "line separator": "a\u2028b",
    "no-break space": "a\u00a0b",
    "lone surrogate": "a\ud800",
    "private use": "\ue000",
    "variation selector": "a\ufe0f",
    "tag character": "a\U000e0041",
    "hangul filler": "\u3164",
    "half-width hangul filler": "\uffa0",
    "hangul jamo filler": "\u115f",
    "grapheme joiner": "a\u034f",
    "blank braille": "\u2800",
    "decomposed": "Zu\u0308rich",
    "slash in disguise": "a\uff0fb",
    "letters in disguise": "\uff41bc",
    "ligature": "\ufb01le",
    "mark first": "\u0301a",
    "long": "x" * 300,
    "one too long": "x" * (LONGEST + 1),
    "long in bytes": "院" * LONGEST,
}


@pytest.mark.parametrize("name", GOOD)
def test_names_of_people_and_places_are_allowed(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", BAD.values(), ids=BAD)
def test_a_hostile_name_is_refused_in_one_plain_line(name: str) -> None:
    with pytest.raises(DataError, match="^client name") as told:
        check_name(name)
    said = str(told.value)
    assert said.isascii() and said.isprintable() and len(said) < 1000
    assert "must be" in said or "at most" in said or "use " in said  # a remedy


@pytest.mark.parametrize("name", [None, 7, b"a", ["a"], 1.5, float("nan")])
def test_a_name_is_text(name: object) -> None:
    with pytest.raises(DataError, match="must be text"):
        check_name(name)


def test_what_is_named_is_said() -> None:
    with pytest.raises(DataError, match="^summary's client ''"):
        check_name("", "summary's client")
    with pytest.raises(DataError, match=r"use 'Z\\xfcrich'"):
        check_name("Zu\u0308rich")


@given(st.text(max_size=120))
def test_what_is_allowed_can_be_a_files_name_and_one_line(name: str) -> None:
    try:
        check_name(name)
    except DataError as error:
        assert str(error).isprintable()
        return
    assert Path(f"folder/{name}.keys").parts == ("folder", f"{name}.keys")
    assert name.isprintable() and 0 < len(name) <= LONGEST and len(name.encode()) <= MOST_BYTES


@given(st.text(st.sampled_from("aZ0é東 -_.'()"), min_size=1, max_size=20))
def test_ordinary_letters_are_allowed_anywhere_but_at_the_ends(inner: str) -> None:
    assert check_name(f"a{inner}z") == f"a{inner}z"


def test_a_name_that_is_allowed_makes_a_file(tmp_path: Path) -> None:
    for name in GOOD:
        (tmp_path / f".{check_name(name)}.keys.abcdefgh").write_text("")
    assert len(list(tmp_path.iterdir())) == len(GOOD)
