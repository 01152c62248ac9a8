"""The demo's report in a browser: nothing is asked for, nothing fails, everything has a name."""

import shutil
import string
from itertools import pairwise

import numpy as np
import pytest
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from dpcontingency.cli import app
from dpcontingency.domain import Domain
from dpcontingency.release.release import Release
from dpcontingency.report.document import write_report
from tests.engines import absent

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

# What a screen reader is told of every picture, heading, table and control, as the browser sees it.
ANONYMOUS = """() => [...document.querySelectorAll('svg, img, table, a, nav, [role], [tabindex]')]
    .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim()))
    .map(e => e.outerHTML.slice(0, 80))"""
PICTURES = """() => [...document.querySelectorAll('svg')]
    .map(e => [e.getAttribute('role'), e.getAttribute('aria-label')])"""
HEADINGS = """() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
    .map(e => +e.tagName[1])"""
# Text on its ground: every element that holds text, against the first opaque ground behind it.
COLOURS = """() => {
    const ground = e => {
        for (; e; e = e.parentElement) {
            const c = getComputedStyle(e).backgroundColor;
            if (!c.endsWith(', 0)')) return c;
        }
        return 'rgb(255, 255, 255)';
    };
    const pairs = new Set();
    const texts = 'h1, h2, h3, h4, p, li, a, dt, dd, th, td, caption, figcaption, code';
    for (const e of document.querySelectorAll(texts))
        pairs.add(getComputedStyle(e).color + '|' + ground(e));
    // Text on the cells of a heat map has a ground of its own.
    for (const e of document.querySelectorAll('figure svg text:not([id^="pairs-"] *)'))
        pairs.add(getComputedStyle(e).fill + '|' + ground(e.closest('figure')));
    return [...pairs];
}"""


def luminance(colour):
    """The relative luminance of "rgb(r, g, b)" (WCAG 2.1)."""
    numbers = [float(x) / 255 for x in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in numbers]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(pair):
    one, other = sorted(map(luminance, pair.split("|")))
    return (other + 0.05) / (one + 0.05)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    ran = CliRunner().invoke(app, ["demo", "--output", str(folder)])
    assert ran.exit_code == 0, ran.output
    return (folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    if BROWSER is None:
        absent("A browser (Debian: chromium)")
    with sync_playwright() as playwright:
        # A container's root may not use the sandbox, and its shared memory is small.
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield launched
        launched.close()


@pytest.fixture
def page(browser, report):
    page = browser.new_page(color_scheme="light", viewport={"width": 1100, "height": 900})
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(report)
    yield page
    page.close()


def test_nothing_fails_and_nothing_is_asked_for(page, report):
    assert page.said == []
    assert [url for url in page.asked if not url.startswith("data:")] == [report]


def test_headings_are_in_order(page):
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert len(levels) > 15
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_every_picture_and_region_has_a_name(page):
    pictures = page.evaluate(PICTURES)
    assert len(pictures) == 7
    assert all(role == "img" and len(label) > 20 for role, label in pictures)
    assert page.evaluate(ANONYMOUS) == []


def test_text_stands_out_in_both_schemes(page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        pairs = page.evaluate(COLOURS)
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (luminance(ground) < 0.05) == (scheme == "dark")
        assert len(pairs) > 3
        # WCAG AA.
        low = [pair for pair in pairs if contrast(pair) < 4.5]
        assert low == []
    assert page.said == []


def test_the_page_fits_a_telephone(page, tmp_path):
    page.set_viewport_size({"width": 360, "height": 700})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    # The words of an odds ratio are not squeezed to a word a line.
    widths = page.evaluate(
        "() => [...document.querySelectorAll('th[scope=row]')]"
        ".filter(e => e.textContent.includes('rather than')).map(e => e.clientWidth)"
    )
    assert len(widths) == 10
    assert min(widths) >= 190
    long = Domain({f"{name * 60}": [0, 1] for name in string.ascii_uppercase[:6]})
    release = Release.from_noisy_table(np.full(long.shape, 25.0), long, sigma=2.0)
    write_report(release, tmp_path / "six.html", title="W" * 80)
    page.goto((tmp_path / "six.html").as_uri())
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 360


def test_the_skip_link_and_the_contents_lead_somewhere(page):
    targets = page.evaluate(
        "() => [...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
    )
    assert targets[0] == "#main"
    assert len(targets) > 9
    assert all(page.evaluate(f"() => !!document.querySelector('{target}')") for target in targets)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_it_prints(page):
    page.emulate_media(media="print", color_scheme="dark")
    ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert luminance(ground) == pytest.approx(1)
    assert page.evaluate("() => getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.pdf(format="A4").startswith(b"%PDF")
