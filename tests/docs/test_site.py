"""The documentation: it builds, its vignettes run and check themselves, and it leaves nothing out.

`make docs` has built the site already where `make test` runs these; the build here then reads only
what has changed since, and the vignettes run once.
"""

import json
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from inspect import signature
from pathlib import Path
from types import FunctionType, ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from typer.main import get_command

import dpcontingency as dpc
from dpcontingency.cli import app

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "docs"
VIGNETTES = sorted(set((ROOT / "vignettes").glob("*.md")) - {ROOT / "vignettes" / "index.md"})
LONGEST = 60  # seconds that a vignette may take, where nothing else runs
# What else a tag of a page may name, that a browser would fetch by itself.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


@pytest.fixture(scope="module")
def site():
    """The site, built by the command of `make docs`."""
    command = re.search(r"^\t\$\(BIN\)/python (-m sphinx .*)$", _makefile(), re.MULTILINE)
    assert command is not None
    done = subprocess.run(
        [sys.executable, *command[1].split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return SITE


def _makefile():
    return (ROOT / "Makefile").read_text(encoding="utf-8")


class Page(HTMLParser):
    """What a page names: its anchors, its links, what it fetches, its pictures and headings."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links = path, {""}, []
        self.fetched, self.pictures, self.headings = [], [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors.update(given[name] for name in ("id", "name") if given.get(name))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(FETCHED.get(tag)):
            self.fetched.append(given[FETCHED[tag]])
        if tag == "img":
            self.pictures.append(given)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)


@pytest.fixture(scope="module")
def pages(site):
    paths = set(site.rglob("*.html")) - set((site / "_static").rglob("*"))  # the theme's templates
    return {path: Page(path) for path in sorted(paths)}


@pytest.fixture(scope="module")
def inventory(site):
    """What the site documents: the page of each Python name."""
    _, rest = (site / "objects.inv").read_bytes().split(b"zlib.\n", 1)
    rows = re.findall(r"^(\S+) py:\S+ \S+ (\S+) ", zlib.decompress(rest).decode(), re.MULTILINE)
    return {name: uri.partition("#")[0] for name, uri in rows}


# ------------------------------------------------------------------ vignettes


def test_there_are_eight_vignettes_and_the_index_lists_them():
    index = (ROOT / "vignettes" / "index.md").read_text(encoding="utf-8")
    assert len(VIGNETTES) == 8
    assert sorted(re.findall(r"^[a-z-]+$", index, re.MULTILINE)) == [v.stem for v in VIGNETTES]


@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_a_vignette_runs_in_a_minute_and_ends_in_assertions(path, site):
    text = path.read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert re.search(r"^assert ", cells[-1], re.MULTILINE)
    assert text.rstrip().endswith("```")
    times = json.loads((site / "run_times.json").read_text(encoding="utf-8"))
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert 0 < times[f"vignettes/{path.stem}"] < LONGEST * busy


def test_the_page_for_newcomers_from_elsewhere_was_run(site):
    text = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
    other = len(re.findall(r"^```r$|^:class: other$", text, re.MULTILINE))
    ours = len(re.findall(r"^```\{code-cell\}", text, re.MULTILINE))
    assert 5 < other < ours + 1
    assert "coming-from" in json.loads((site / "run_times.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------ reference


def test_every_public_name_is_in_the_reference(inventory):
    missing = [name for name in dpc.__all__ if f"dpcontingency.{name}" not in inventory]
    assert not missing
    assert all(inventory[f"dpcontingency.{name}"].startswith("reference/") for name in dpc.__all__)


def test_every_name_stands_in_one_group_of_the_reference():
    text = (ROOT / "docs" / "reference" / "index.rst").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^   (\w+)$", text, re.MULTILINE)) == sorted(dpc.__all__)


def _own_members(kind):
    """The public methods and properties that this package defines for a class."""
    for base in kind.__mro__:
        if base.__module__.startswith("dpcontingency"):
            for name, value in vars(base).items():
                is_member = isinstance(value, FunctionType | property | classmethod | staticmethod)
                if not name.startswith("_") and (is_member or hasattr(value, "func")):
                    yield name


def _calls(module):
    """The functions that draw, and the kinds of errors."""
    for name, value in vars(module).items():
        if isinstance(value, FunctionType):
            is_called = "ax" in signature(value).parameters and not name.startswith("_")
        else:
            is_error = isinstance(value, type) and issubclass(value, Exception)
            is_called = is_error and value.__module__ == module.__name__
        if is_called:
            yield name


def test_every_public_method_is_in_the_reference(inventory):
    missing = []
    for name in dpc.__all__:
        value = getattr(dpc, name)
        if isinstance(value, type):
            members = {f"dpcontingency.{name}.{member}" for member in _own_members(value)}
            missing += sorted(members - set(inventory))
        elif isinstance(value, ModuleType):
            members = {f"dpcontingency.{name}.{member}" for member in _calls(value)}
            assert members
            missing += sorted(members - set(inventory))
    assert not missing


def test_the_reference_has_every_command(pages, site):
    page = pages[site / "command-line.html"]
    for name in get_command(app).commands:
        assert f"dpcontingency-{name}" in page.anchors


def test_the_methods_page_has_every_section_that_docstrings_name():
    methods = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    for path in sorted((ROOT / "dpcontingency").rglob("*.py")):
        for section in re.findall(r"METHODS\s+(\d\.\d)", path.read_text(encoding="utf-8")):
            assert f"### {section} " in methods, f"{path.name} names METHODS {section}"


# ------------------------------------------------------------------ pages


def test_links_between_pages_resolve(pages):
    broken = []
    for page in pages.values():
        for link in page.links:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = page.path if not url.path else (page.path.parent / unquote(url.path)).resolve()
            if target not in pages:
                if not target.is_file():
                    broken.append(f"{page.path.name}: {link}")
            elif unquote(url.fragment) not in pages[target].anchors:
                broken.append(f"{page.path.name}: {link}")
    assert not broken


def test_no_page_fetches_anything_from_elsewhere(pages):
    for page in pages.values():
        for source in page.fetched:
            assert not urlsplit(source).netloc, f"{page.path.name} fetches {source}"
            assert source.startswith("data:") or (
                (page.path.parent / unquote(urlsplit(source).path)).exists()
            )


def test_every_picture_says_what_it_shows(pages, site):
    pictures = [
        picture
        for path, page in pages.items()
        if path.parent == site / "vignettes"
        for picture in page.pictures
    ]
    assert len(pictures) >= 6
    for picture in pictures:
        assert len(picture.get("alt") or "") > 20, picture["src"]


def test_headings_are_in_order(pages, site):
    for path, page in pages.items():
        if path.parent in (site, site / "vignettes"):
            levels = [int(tag[1]) for tag in page.headings]
            assert levels.count(1) == 1, path.name
