"""The page as text: what stands in it without a browser, and that foreign texts stay texts."""

from __future__ import annotations

import base64
import copy
import gzip
import html
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from prism_fcp.errors import DataError
from prism_fcp.report.page import render
from tests.report.bodies import HOSTILE, bodies, rename


class Tags(HTMLParser):
    """What a browser would see: elements that load or run something, and the page's texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loading: list[tuple[str, str, str | None]] = []
        self.events: list[str] = []
        self.scripts = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attributes:
            if name.startswith("on"):
                self.events.append(f"{tag} {name}")
            if name in ("src", "href", "action", "srcset", "data", "style") and not str(value).startswith("#"):
                self.loading.append((tag, name, value))


def data_of(page: str) -> Any:
    plain = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    if plain:
        return json.loads(plain[1])
    packed = re.search(r'data-packed="gzip base64">(.*?)</script>', page, re.DOTALL)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))


def test_it_says_who_was_left_out_and_loads_nothing() -> None:
    body, evaluation = bodies()
    page = render(body, evaluation)
    tags = Tags(page)
    assert tags.loading == [("link", "href", "data:,")] and not tags.events and tags.scripts == 2
    summary = page.split('<section id="summary"')[1].split("</section>")[0]
    assert "9 clients: 7 count, 1 left out and 1 refused unread" in summary
    assert "<b>site-0</b>" in summary and "<b>late</b>" in summary and "<b>site-1</b>" not in summary
    assert "100% of its scores lie in one bin" in html.unescape(summary)
    assert data_of(page) == {"calibration": body, "evaluation": evaluation}


def test_the_security_policy_names_the_one_script_and_the_one_style() -> None:
    import hashlib

    page = render(bodies(refused=False)[0])
    for kind, opening in (("script", "<script>"), ("style", "<style>")):
        content = page.split(opening)[1].split(f"</{kind}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in page
    assert "default-src 'none'" in page and "unsafe" not in page.split("</head>")[0]


@pytest.mark.parametrize(
    "name", [HOSTILE, "</script><script>alert(1)</script>", "<!--", "{{script}}", "a\u2028b", "&amp;"]
)
def test_a_foreign_name_stays_a_text(name: str) -> None:
    body, _ = bodies(refused=False)
    usual = Tags(render(body))
    rename(body, 0, name)
    body["title"] = name
    page = render(body)
    tags = Tags(page)
    assert (tags.scripts, tags.loading, tags.events) == (usual.scripts, usual.loading, usual.events)
    assert data_of(page)["calibration"]["clients"][0]["client"] == name
    assert html.unescape(page.split("<h1>")[1].split("</h1>")[0]) == name


def test_many_clients_are_packed_and_the_static_table_is_cut() -> None:
    body, _ = bodies(clients=3, liars=0, refused=False)
    first = body["clients"][0]
    body["clients"] = [{**copy.deepcopy(first), "client": f"c{place}"} for place in range(5000)]
    page = render(body)
    assert data_of(page)["calibration"] == body and len(page) < 1_000_000
    assert "The first 200 of 5,000 clients" in page
    assert page.split('<table id="client-table"')[1].split("</table>")[0].count("<tr>") == 201


def spoil(body: dict[str, Any], path: str, value: Any) -> None:
    place: Any = body
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        place = place[step]
    if value is Ellipsis:
        del place[last]
    else:
        place[last] = value


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("title", 3, "title: 3; must be text"),
        ("levels", [], "levels is empty"),
        ("clients", ..., "clients is missing"),
        ("clients.0.status", "guilty", "clients[0]: status 'guilty'; must be one of kept"),
        ("clients.0.within", [0.5], "clients[0]: within has 1 entries; must be 2"),
        ("clients.1.score", "NaN", "clients[1]: score: 'NaN'; must be a number"),
        ("clients.1.cells", [1, 2], "clients[1]: cells has 2 counts"),
        ("cells.edges", [0, 1], "cells: 2 edges"),
        ("certificate.levels.0.rows.0.kept", [0.5], "bounds must be two numbers"),
        ("totals.kept", True, "kept: True; must be a number"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused_by_place(path: str, value: Any, words: str) -> None:
    body, _ = bodies(refused=False)
    spoil(body, path, value)
    with pytest.raises(DataError, match=re.escape(words)):
        render(body)


def test_radii_that_do_not_exist_are_said() -> None:
    body, _ = bodies(clients=3, liars=0, samples=2, refused=False)
    assert body["levels"][0]["radius"] == "inf"
    page = render(body)
    assert "6 scores cannot give confidence 0.9" in page
    assert "no finite radius holds" in page and "no finite interval can be promised" in page
