"""docs/licences.md against the installed metadata and against the files of the tree.

``M3PROBE_UPDATE_LICENCES=1 pytest tests/test_licences.py``, where all extras are installed, writes its tables anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import licence_kit
import plotly
import pytest
from licence_kit import BEGIN, END, PAGE, all_of, asked, licence_of, listed, made
from tree import ROOT

MORE_THAN_A_NOTICE = re.compile("GPL|General Public|MPL|Mozilla|EUPL|EPL|CDDL|SSPL|BUSL|Commons Clause|[Pp]roprietary")


@pytest.fixture(scope="module", autouse=True)
def _kept() -> None:
    if os.environ.get("M3PROBE_UPDATE_LICENCES"):
        head, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n\n{made()}\n{END}{rest.partition(END)[2]}")


@pytest.mark.parametrize("group", asked())
def test_every_dependency_of_the_project_file_is_listed_and_no_other(group: str) -> None:
    direct = {name for name, (_, by) in listed()[group].items() if by == "m3probe"}
    assert direct == set(asked()[group]), "M3PROBE_UPDATE_LICENCES=1 pytest tests/test_licences.py"


@pytest.mark.parametrize("group", asked())
def test_each_dependency_has_the_licence_that_its_installed_metadata_state(group: str) -> None:
    """Of those that others bring, a release may change at any time: the page is what it was when it was made."""
    here = {name: licence_of(name) for name in asked()[group]}
    told = {name: licence for name, (licence, _) in listed()[group].items()}
    assert {name: told[name] for name, licence in here.items() if licence} == {
        name: licence for name, licence in here.items() if licence
    }


def test_what_every_installation_brings_asks_for_no_more_than_its_notice() -> None:
    brought = all_of(asked()[""])
    assert len(brought) > len(asked()[""])  # rich and textual bring more
    said = {name: licence_of(name) or "" for name in brought}
    assert {name: licence for name, licence in said.items() if MORE_THAN_A_NOTICE.search(licence)} == {}


def test_nothing_on_the_page_is_without_a_licence() -> None:
    assert {name: row for table in listed().values() for name, row in table.items() if not row[0].strip(" ?")} == {}


def rows_of_files() -> list[str]:
    """The patterns of the page's table of files."""
    table = PAGE.read_text().partition("## Files of the tree")[2]
    return [
        pattern
        for line in table.splitlines()
        if line.startswith("| `")
        for pattern in re.findall(r"`([^`]+)`", line.split("|")[1])
    ]


@pytest.mark.parametrize("folder", ["samples", "tests/data"])
def test_every_sample_and_every_file_of_test_data_has_its_maker_on_the_page(folder: str) -> None:
    covered = {path for pattern in rows_of_files() for path in ROOT.glob(pattern)}
    assert [
        str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file() and path not in covered
    ] == []


def test_no_row_of_files_is_about_nothing() -> None:
    assert [pattern for pattern in rows_of_files() if not any(ROOT.glob(pattern))] == []


def test_a_row_that_is_missing_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same page without msgspec, and with another licence for numpy."""
    page = tmp_path / "licences.md"
    page.write_text(re.sub(r"\| msgspec \|.*\n", "", PAGE.read_text()).replace("| numpy | BSD", "| numpy | GPL"))
    monkeypatch.setattr(licence_kit, "PAGE", page)
    with pytest.raises(AssertionError, match="msgspec"):
        test_every_dependency_of_the_project_file_is_listed_and_no_other("")
    monkeypatch.setattr(licence_kit, "licence_of", lambda name: "BSD-3-Clause" if name == "numpy" else None)
    monkeypatch.setitem(globals(), "licence_of", licence_kit.licence_of)
    with pytest.raises(AssertionError, match="GPL"):
        test_each_dependency_has_the_licence_that_its_installed_metadata_state("")


def test_the_notices_of_plotly_js_are_those_on_the_page() -> None:
    """Each part that the bundle's own list of notices names by its file."""
    text = (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text()
    assert "Licensed under the MIT license" in text[:300]
    named = set(
        re.findall(r"^([\w.-]+)/[\w./-]+\.m?js:$", text.rpartition("Bundled license information:")[2], re.MULTILINE)
    )
    page = re.sub(r"[ -]", "", PAGE.read_text().lower())
    assert {name for name in named if re.sub(r"[ -]", "", name.removesuffix("-gl")) not in page} == set()
