"""The seam checker on small trees, and docs/seams.md against the seams that collectors stand on.

Where M3PROBE_VLLM_TREES names a folder that holds one folder per release (0.33.0/vllm/...), the table is made again.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tree import ROOT

from m3probe.collectors._seams import SEAMS
from m3probe.collectors._shelf import all_collectors
from m3probe.vllm_source.seams import SeamFound, SeamState, check, check_one
from m3probe.vllm_source.tree import Tree

DOCS = ROOT / "docs" / "seams.md"
SCRIPT = ROOT / "benchmarks" / "seams.py"
VERSIONS = ["0.24.0", "0.25.1", "0.32.0", "0.33.0"]
ROW = re.compile(
    r"\| `(?P<id>\w+)` \| `(?P<module>[\w.]+):(?P<name>[\w.]+)`(?: \((?P<needs>[^)]*)\))? \| (?P<cells>.*) \|"
)


@dataclass(frozen=True)
class Wanted:
    """A seam to look for."""

    module: str
    name: str
    needs: tuple[str, ...] = ()


def tree(tmp_path: Path, files: Mapping[str, str]) -> Tree:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(tmp_path)


WORKER = """
from vllm.base import Base
from . import helper
from .helper import plain as renamed
if TYPE_CHECKING:
    from vllm.types import Hidden
class Worker(Base):
    limit = 3
    @decorated
    def execute(self, output, *, flag=None): ...
    if HIP:
        def on_hip(self, *args, **kwargs): ...
class Typed(Base[int]): ...
try:
    from missing import fast
except ImportError:
    def fast(x): ...
def fast_again(x): ...
"""
BASE = """
class Root:
    def __init__(self, config): ...
    def inherited(self, rows): ...
class Base(Root): ...
"""
FILES = {
    "vllm/worker.py": WORKER,
    "vllm/base.py": BASE,
    "vllm/helper.py": "def plain(tensor, group): ...\n",
    "vllm/package/__init__.py": "from .inner import deep\n",
    "vllm/package/inner.py": "\n\ndef deep(a): ...\n",
    "vllm/circle.py": "from vllm.circle import again\n",
    "vllm/broken.py": "def (:\n",
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted("vllm.worker", "Worker.execute", ("output", "flag")), ("present", "vllm/worker.py:10", "")),
        (Wanted("vllm.worker", "Worker.execute", ("rows",)), ("changed", "vllm/worker.py:10", "no parameter rows")),
        (Wanted("vllm.worker", "Worker.on_hip", ("kwargs",)), ("present", "vllm/worker.py:12", "")),
        (Wanted("vllm.worker", "Worker.inherited", ("rows",)), ("present", "vllm/base.py:4", "")),
        (Wanted("vllm.worker", "Typed.inherited"), ("present", "vllm/base.py:4", "")),
        (Wanted("vllm.worker", "Worker", ("config",)), ("present", "vllm/worker.py:7", "")),
        (Wanted("vllm.worker", "Worker.limit"), ("present", "vllm/worker.py:8", "")),
        (Wanted("vllm.worker", "renamed", ("group",)), ("present", "vllm/helper.py:1", "")),
        (Wanted("vllm.worker", "fast_again.inner"), ("absent", "", "vllm.worker: fast_again is no class")),
        (Wanted("vllm.package", "deep", ("a",)), ("present", "vllm/package/inner.py:3", "")),
        (Wanted("vllm.worker", "Worker.gone"), ("absent", "", "vllm.worker: Worker has no gone")),
        (Wanted("vllm.worker", "Gone.execute"), ("absent", "", "vllm.worker has no Gone")),
        (Wanted("vllm.worker", "Hidden"), ("absent", "", "vllm.worker has no Hidden")),
        (Wanted("vllm.nothing", "f"), ("absent", "", "no module vllm.nothing")),
        (Wanted("vllm.circle", "again"), ("absent", "", "vllm.circle: imports in a circle")),
        (Wanted("vllm.broken", "f"), ("absent", "", "vllm/broken.py: does not parse (SyntaxError)")),
    ],
    ids=lambda value: value.name if isinstance(value, Wanted) else value[0],
)
def test_a_seam_is_present_changed_or_absent(tmp_path: Path, wanted: Wanted, found: tuple[str, str, str]) -> None:
    state, where, text = found
    assert check_one(tree(tmp_path, FILES), wanted) == SeamFound(SeamState(state), where, text)


def test_what_is_decorated_has_the_line_of_its_name(tmp_path: Path) -> None:
    assert "def execute" in WORKER.splitlines()[9]


def test_a_fallback_under_try_counts_where_the_import_is_of_no_file(tmp_path: Path) -> None:
    found = check_one(tree(tmp_path, FILES), Wanted("vllm.worker", "fast", ("x",)))
    assert found.state is SeamState.PRESENT


def documented() -> dict[str, re.Match[str]]:
    text = DOCS.read_text("utf-8").partition("<!-- seams: begin -->")[2].partition("<!-- seams: end -->")[0]
    lines = text.strip().splitlines()
    assert lines[0] == f"| seam | attribute | {' | '.join(VERSIONS)} |"
    found = [ROW.fullmatch(line) for line in lines[2:]]
    assert all(found)
    return {row["id"]: row for row in found if row is not None}


def test_every_seam_of_the_table_has_its_row_in_the_document_and_no_other() -> None:
    rows = documented()
    assert list(rows) == sorted(SEAMS)
    for name, row in rows.items():
        seam = SEAMS[name]
        assert (row["module"], row["name"]) == (seam.module, seam.name)
        assert (row["needs"] or "") == ", ".join(seam.needs)


def test_each_cell_of_the_document_is_a_line_or_a_state_in_words() -> None:
    for name, row in documented().items():
        cells = row["cells"].split(" | ")
        assert len(cells) == len(VERSIONS)
        for cell in cells:
            elsewhere = not SEAMS[name].module.startswith("vllm.")
            state = r"elsewhere" if elsewhere else r"\d+|\*\*absent\*\*|\*\*changed\*\* no parameter [\w, ]+"
            assert re.fullmatch(state, cell), (name, cell)


BY_HAND = {
    "profile_step": ["836", "955", "1302", "1334"],
    "census_v2": ["261", "300", "419", "424"],
    "census_v1": ["6663", "6714", "6588", "6523"],
}
"""Lines found with grep in the four wheels."""


@pytest.mark.parametrize("name", BY_HAND)
def test_lines_of_the_document_are_those_found_by_hand(name: str) -> None:
    assert documented()[name]["cells"].split(" | ") == BY_HAND[name]


def test_every_seam_is_present_in_some_release() -> None:
    for name, row in documented().items():
        assert re.search(r"(^| )(\d+|elsewhere)( |$)", row["cells"]), name


def test_every_seam_that_a_collector_names_is_in_the_table() -> None:
    for name, collector in all_collectors().items():
        assert set(collector.seams) <= set(SEAMS), name


def test_the_document_is_what_the_four_trees_say() -> None:
    named = os.environ.get("M3PROBE_VLLM_TREES")
    if not named:
        pytest.skip("M3PROBE_VLLM_TREES names no folder of vLLM trees")
    made = subprocess.run([sys.executable, SCRIPT, named], capture_output=True, text=True, check=True)
    text = DOCS.read_text("utf-8").partition("<!-- seams: begin -->")[2].partition("<!-- seams: end -->")[0]
    assert text.strip() == made.stdout.strip()


def test_a_table_is_checked_seam_by_seam(tmp_path: Path) -> None:
    seams = {"one": Wanted("vllm.helper", "plain"), "two": Wanted("vllm.helper", "gone")}
    found = check(tree(tmp_path, FILES), seams)
    assert {name: str(seam.state) for name, seam in found.items()} == {"one": "present", "two": "absent"}
