"""The site: it builds without a warning, its links lead somewhere, and it needs nothing from the network."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from tree import ROOT

from m3probe._arguments import parser_of
from m3probe.rules.file import FAST_PATHS, GATES

ASSETS = {("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("link", "href")}
NEEDED = ("sphinx", "myst_parser", "furo")


class Page(HTMLParser):
    """What one page links to, loads and can be jumped to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.assets: list[str] = []
        self.ids: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids[value] += 1
            elif (tag, name) in ASSETS and value:
                self.assets.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once with warnings as errors; ``M3PROBE_SITE``: one that the CI has just built so."""
    if built := os.environ.get("M3PROBE_SITE"):
        assert (Path(built) / "index.html").is_file()
        return Path(built)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[docs]'")
    out = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, str(ROOT / "docs" / "_site" / "build.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=out.parent)
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Every page, parsed."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_every_document_and_every_made_page_is_there(site: Path) -> None:
    names = [path.stem for path in (ROOT / "docs").glob("*.md")]
    names += [f"catalogue/{name}" for name in FAST_PATHS.names() if FAST_PATHS.load(name)]
    names += [f"schemas/{path.name.partition('.')[0]}" for path in (ROOT / "docs").glob("*.schema.json")]
    names += ["README", "CHANGELOG", "benchmarks/RESULTS", "catalogue/gates", "search", "genindex"]
    assert [name for name in names if not (site / f"{name}.html").is_file()] == []


def test_every_link_and_anchor_leads_somewhere(pages: dict[Path, Page]) -> None:
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            if parts.scheme or link == "#":  # "#": furo's button to the top
                continue
            anchors = pages[target].ids if target in pages else Counter()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                wrong.append(f"{path.name}: {link}")
    assert wrong == []


def test_no_anchor_stands_twice_on_a_page(pages: dict[Path, Page]) -> None:
    assert {path.name: name for path, page in pages.items() for name, count in page.ids.items() if count > 1} == {}


def test_external_links_are_whole_addresses(pages: dict[Path, Page]) -> None:
    """Offline nothing asks them; a form that no server could answer is seen all the same."""
    external = {link for page in pages.values() for link in page.links if urlsplit(link).scheme}
    form = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"]*)?")
    assert external
    assert sorted(link for link in external if not form.fullmatch(link)) == []


def test_nothing_is_loaded_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    assert {asset for page in pages.values() for asset in page.assets if urlsplit(asset).netloc} == set()
    loaded = {asset for page in pages.values() for asset in page.assets}
    assert any("searchtools.js" in asset for asset in loaded)
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//[^\s)]*", path.read_text(encoding="utf-8")) == []


def test_every_page_can_be_reached_from_the_first(site: Path, pages: dict[Path, Page]) -> None:
    reached, ahead = set(), [site / "index.html"]
    while ahead:
        path = ahead.pop()
        if path in pages and path not in reached:
            reached.add(path)
            links = (urlsplit(link) for link in pages[path].links)
            ahead += [(path.parent / unquote(link.path)).resolve() for link in links if link.path and not link.scheme]
    # the index and the search field are furo's own
    assert {path.name for path in set(pages) - reached} <= {"genindex.html", "search.html"}


def test_the_search_knows_words_of_the_text_and_options(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "ptrace" in index
    assert "--eager-twin" in index


def test_every_verb_and_option_has_its_entry(pages: dict[Path, Page], site: Path) -> None:
    (verbs,) = [each for each in parser_of({})._actions if isinstance(each, argparse._SubParsersAction)]
    assert len(verbs.choices) >= 9
    for verb, parser in verbs.choices.items():
        ids = pages[site / "commands" / f"{verb}.html"].ids
        text = " ".join((site / "commands" / f"{verb}.html").read_text(encoding="utf-8").split())
        for action in parser._actions:
            names = [name for name in action.option_strings if name not in ("-h", "--help")]
            missing = [name for name in names if f"cmdoption-m3probe-{verb}-{name.lstrip('-')}" not in ids]
            assert missing == [], verb
            if names:
                assert action.help, f"{verb} {names[0]} has no help"
            if not names and not action.option_strings:
                assert str(action.metavar) in text


def test_the_entries_of_a_path_hold_what_its_plug_says(site: Path) -> None:
    """Words of two plugs, as they stand in their files."""
    text = (site / "catalogue" / "fused_allreduce_norm.html").read_text(encoding="utf-8")
    for words in ("*allreduce_fusion_kernel_1stage*", "at most 80 rows", "cost 2.6 points of GSM8K"):
        assert words in text
    assert "gates.html#cosine" in text
    text = (site / "catalogue" / "shared_expert_fusion.html").read_text(encoding="utf-8")
    assert "vLLM PR 46545" in text
    gates = (site / "catalogue" / "gates.html").read_text(encoding="utf-8")
    names = [name for name in GATES.names() if GATES.load(name)]
    assert len(names) == len(list((ROOT / "m3probe" / "gates").glob("[a-z]*.py")))
    assert [name for name in names if f'id="{name.replace("_", "-")}"' not in gates] == []
    assert "gfx942 wrote FNUZ and read FN" in gates
