"""The page in a headless Chromium: what a reader sees, hovers, types and presses, on every size and ground."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest

from prism_fcp.report.page import render, write
from tests.report.bodies import HOSTILE, bodies, rename
from tests.report.browser import Browser

pytestmark = pytest.mark.slow
PLOTS = ("verdict-plot", "score-plot", "coverage-plot", "certificate-plot")
FOCUS = "document.activeElement"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    write(path, *bodies())
    return path


def undisturbed(browser: Browser, path: Path) -> None:
    """Nothing was printed to the console, and nothing but the file itself was asked for."""
    assert browser.errors == []
    assert [url for url in browser.requests if url != path.as_uri()] == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 800, 1400])
def test_figures_stand_and_nothing_is_loaded(browser: Browser, made: Path, width: int, dark: bool) -> None:
    browser.open(made, width=width, dark=dark)
    for plot in PLOTS:
        assert browser.run(f"document.querySelectorAll('#{plot} svg *').length") > 10, plot
        assert browser.run(f"document.querySelector('#{plot} svg').getAttribute('aria-label').length") > 20, plot
    assert browser.run("document.querySelectorAll('#verdict-plot [data-mark]').length") == 9
    assert browser.run("document.querySelectorAll('#client-table tbody tr').length") == 9
    # Nothing sticks out sideways: wide tables scroll within themselves.
    assert browser.run("document.documentElement.scrollWidth") <= width
    outside = (
        "[...document.querySelectorAll('.plot svg text')].filter(t => t.getBoundingClientRect().right > innerWidth)"
    )
    assert browser.run(f"{outside}.map(t => t.textContent)") == []
    undisturbed(browser, made)


OUTSIDE = """[...document.querySelectorAll(".plot svg text")]
  .filter((text) => text.getBoundingClientRect().right > innerWidth).map((text) => text.textContent)"""
CONTRAST = """(() => {
  const light = (rgb) => {
    const parts = rgb.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("script, :disabled, .skip")) continue;
    const style = getComputedStyle(node);
    const drawn = node.namespaceURI.endsWith("svg");
    const a = light(drawn ? style.fill : style.color), b = light(ground(node));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) low.push(`${node.textContent.slice(0, 30)}: ${contrast.toFixed(2)}`);
  }
  return low;
})()"""


@pytest.mark.parametrize("choice", ["light", "dark"])
def test_every_text_can_be_read_on_its_ground(browser: Browser, made: Path, choice: str) -> None:
    browser.open(made, dark=choice == "light")  # the choice on the page outweighs the system's
    browser.point(f"[data-theme-choice={choice}]", click=True)
    sum_of = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((sum, c) => sum + Number(c), 0)"
    assert (browser.run(sum_of) > 600) == (choice == "light")
    browser.run("document.querySelector('[data-client]').click()")
    assert browser.run(CONTRAST) == []


def test_hovering_a_mark_names_its_client(browser: Browser, made: Path) -> None:
    browser.open(made)
    browser.point("#verdict-plot [data-mark]")
    browser.wait("document.querySelector('#verdict-plot .tip')")
    label = browser.run("document.querySelector('#verdict-plot [data-mark]').getAttribute('aria-label')")
    tip = browser.run("document.querySelector('#verdict-plot .tip').textContent")
    assert label.split(",")[0] in tip and "kept" in tip
    browser.point("h1")
    browser.wait("!document.querySelector('#verdict-plot .tip')")


def test_clicking_a_mark_tells_why(browser: Browser, made: Path) -> None:
    browser.open(made)
    browser.point("#verdict-plot [aria-label^='site-0,']", click=True)
    browser.wait("!document.getElementById('details').hidden")
    told = browser.run("document.getElementById('details').innerText").replace("\xa0", " ")
    assert "site-0" in told and "left out" in told and "lie in one bin" in told and "100 % of its scores" in told
    assert browser.run("document.querySelectorAll('#own-plot svg path').length") > 3
    undisturbed(browser, made)


def test_the_keyboard_reaches_every_client(browser: Browser, made: Path) -> None:
    browser.open(made)
    browser.run("document.getElementById('search-marks').focus()")
    browser.press("Tab")
    assert browser.run(f"{FOCUS}.hasAttribute('data-mark')")
    seen = {browser.run(f"{FOCUS}.getAttribute('aria-label')")}
    browser.press("Home")
    for _ in range(9):
        seen.add(browser.run(f"{FOCUS}.getAttribute('aria-label')"))
        browser.press("ArrowRight")
    assert len({label.split(",")[0] for label in seen}) == 9
    browser.press("End")
    last = browser.run(f"{FOCUS}.getAttribute('aria-label')")
    assert "refused" in last
    browser.press("ArrowLeft", "Enter")
    browser.wait(f"{FOCUS}.id === 'details-title'")
    assert browser.run(f"{FOCUS}.textContent") == "site-0"
    browser.press("Escape")
    browser.wait(f"{FOCUS}.hasAttribute('data-mark')")
    assert browser.run(f"{FOCUS}.getAttribute('aria-label')").startswith("site-0,")


def test_searching_finds_by_name_and_by_verdict(browser: Browser, made: Path) -> None:
    browser.open(made)
    for query, found in (("site-3", 1), ("left out", 1), ("refused", 1), ("kept", 7), ("nobody", 0)):
        browser.run("document.getElementById('search-marks').select()")
        browser.call("Input.insertText", text=query)
        browser.wait(f"document.querySelector('[data-found]').textContent.startsWith('{found} of')")
        assert browser.run("document.querySelectorAll('#client-table tbody tr').length") == found
        assert browser.run("document.querySelectorAll('#verdict-plot [data-mark]:not(.faint)').length") == found


def test_levels_change_figures_and_table_together(browser: Browser, made: Path) -> None:
    browser.open(made)
    before = browser.run("document.getElementById('coverage-plot').innerHTML")
    browser.run("document.querySelectorAll('#coverage [data-levels] input')[1].click()")
    assert browser.run("document.getElementById('coverage-plot').innerHTML") != before
    assert browser.run("document.querySelector('#certificate [data-levels] input:checked').value") == "1"
    assert "50" in browser.run("document.getElementById('client-table').tHead.innerText")


def test_the_data_can_be_downloaded(browser: Browser, made: Path) -> None:
    body, evaluation = bodies()
    browser.open(made)
    for button in ("download-json", "download-evaluation", "download-csv"):
        browser.run(f"document.getElementById('{button}').click()")
    folder, until = browser.downloads, time.monotonic() + 20
    names = {"calibration.json", "evaluation.json", "clients.csv"}
    while not names <= {path.name for path in folder.glob("*")} and time.monotonic() < until:
        time.sleep(0.05)
    assert json.loads((folder / "calibration.json").read_text()) == body
    assert json.loads((folder / "evaluation.json").read_text()) == evaluation
    rows = list(csv.DictReader(io.StringIO((folder / "clients.csv").read_text(), newline="")))
    assert {row["client"]: row["verdict"] for row in rows}["site-0"] == "left out" and len(rows) == 9


@pytest.mark.parametrize("name", [HOSTILE, "</script><script>alert(1)</script>", "=cmd()", "x" * 300])
def test_a_foreign_name_does_nothing(browser: Browser, tmp_path: Path, name: str) -> None:
    body, _ = bodies(refused=False)
    rename(body, 0, name)
    body["title"] = name
    path = tmp_path / "page.html"
    write(path, body)
    browser.open(path, width=390)
    browser.run("document.querySelector('[data-client=\"0\"]').click()")
    assert browser.run("document.getElementById('details-title').textContent") == name
    assert browser.run("document.querySelectorAll('main img, main script').length") == 0
    assert browser.run("document.documentElement.scrollWidth") <= 390
    undisturbed(browser, path)


def test_ten_thousand_clients_fit(browser: Browser, tmp_path: Path) -> None:
    body, _ = bodies(clients=40, liars=4)
    rows: list[dict[str, Any]] = body["clients"]
    body["clients"] = [
        {**rows[place % 40], "client": f"site-{place}", "score": place / 5000} for place in range(10_000)
    ]
    path = tmp_path / "page.html"
    write(path, body)
    assert path.stat().st_size < 5_000_000
    browser.open(path)
    assert browser.run("document.querySelectorAll('#verdict-plot [data-mark]').length") == 10_001
    assert browser.run("document.querySelectorAll('#client-table tbody tr').length") == 100
    browser.run("document.getElementById('page-on').click()")
    assert browser.run("document.getElementById('page-place').textContent") == "101 to 200 of 10,001"
    undisturbed(browser, path)


@pytest.mark.parametrize("filter", ["keep_all", "down_weight", "mad"])
def test_every_kind_of_filter_draws(browser: Browser, tmp_path: Path, filter: str) -> None:
    path = tmp_path / "page.html"
    write(path, *bodies(filter=filter))
    browser.open(path)
    assert browser.run("document.querySelectorAll('#verdict-plot [data-mark]').length") == 9
    undisturbed(browser, path)


def test_radii_that_do_not_exist_draw(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write(path, bodies(clients=3, liars=0, samples=2, refused=False)[0])
    browser.open(path)
    assert "infinite" in browser.run("document.getElementById('summary').innerText")
    undisturbed(browser, path)


def test_without_javascript_the_words_and_the_table_stand(browser: Browser, made: Path) -> None:
    browser.open(made, script=False)
    # Scripts of the page are off; the protocol may still look at it.
    text = browser.run("document.body.innerText")
    assert "need JavaScript" in text and "site-0" in text and "How to read this" in text
    assert not browser.run("document.querySelector('#search-marks').checkVisibility()")
    assert browser.run("document.querySelectorAll('#client-table tbody tr').length") == 9


def test_a_browser_that_cannot_draw_says_so(browser: Browser, made: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    broken = render(*bodies()).replace('id="data">{', 'id="data">{{')
    path.write_text(broken)
    browser.open(path)
    assert "could not be drawn" in browser.run("document.getElementById('trouble').innerText")
    assert len(browser.errors) == 1  # so the tests above would notice one
