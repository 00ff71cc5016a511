"""Every plug of every shelf: one file, one constant of its type, found by name and loaded when asked for."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_imports import refusals
from tree import modules

from m3probe.collectors._part import Collector, Part
from m3probe.collectors._seams import SEAMS
from m3probe.collectors._shelf import all_collectors
from m3probe.fastpaths import fast_paths
from m3probe.gates import gates
from m3probe.pipeline import ANALYZERS
from m3probe.plugs import Analyzer, Reader
from m3probe.registry import Shelf
from m3probe.schema.gates import Gate
from m3probe.schema.paths import FastPath
from m3probe.sources import READERS

FAST_PATHS = Shelf("m3probe.fastpaths", "FAST_PATH", FastPath)
GATES = Shelf("m3probe.gates", "GATE", Gate)
COLLECTORS = Shelf("m3probe.collectors", "COLLECTOR", Collector)
SHELVES: dict[str, Shelf[Any]] = {
    "readers": READERS,
    "analyzers": ANALYZERS,
    "fastpaths": FAST_PATHS,
    "gates": GATES,
    "collectors": COLLECTORS,
}
PLUGS = [(shelf, name) for shelf in SHELVES for name in SHELVES[shelf].names() if SHELVES[shelf].load(name) is not None]
SHELF_MODULES = sorted(m for m in modules() if m.split(".")[1:2] and m.split(".")[1] in SHELVES)


@pytest.mark.parametrize(("shelf", "name"), PLUGS)
def test_a_plug_has_its_constant_title_and_docstring(shelf: str, name: str) -> None:
    plug = SHELVES[shelf].load(name)
    assert isinstance(plug, SHELVES[shelf].kind)
    assert plug.title
    assert plug.title == plug.title.strip()
    source = modules()[f"m3probe.{shelf}.{name}"]
    assert source.stem == name
    assert ast.get_docstring(ast.parse(source.read_text())), "a plug's file says what it is for"


@pytest.mark.parametrize(("shelf", "name"), PLUGS)
def test_a_plug_is_bound_to_its_constant_at_the_top_of_its_file(shelf: str, name: str) -> None:
    body = ast.parse(modules()[f"m3probe.{shelf}.{name}"].read_text()).body
    targets = [t.id for n in body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    assert targets.count(SHELVES[shelf].constant) == 1


@pytest.mark.parametrize(("shelf", "name"), PLUGS)
def test_a_plug_of_the_right_type_can_be_called_as_its_type_says(shelf: str, name: str) -> None:
    plug = SHELVES[shelf].load(name)
    if isinstance(plug, Reader):
        assert plug.sniff(Path("nothing"), b"") is False
        assert callable(plug.read)
    elif isinstance(plug, Analyzer):
        assert callable(plug.judge)
        assert isinstance(plug.order, int)
    elif isinstance(plug, Gate):
        assert callable(plug.check)
    elif isinstance(plug, Collector):
        assert issubclass(plug.make, Part)
        assert plug.roles
        assert set(plug.seams) <= set(SEAMS)
    else:
        assert isinstance(plug, FastPath)
        assert plug.variants


def test_analyzers_have_an_order_of_their_own() -> None:
    orders = [plug.order for _, plug in ANALYZERS.plugs()]
    assert len(orders) == len(set(orders))


def test_collectors_have_an_order_of_their_own_or_share_one_by_name() -> None:
    assert list(all_collectors()) == [
        name for name, _ in sorted(COLLECTORS.plugs(), key=lambda item: (item[1].order, item[0]))
    ]


@pytest.mark.parametrize("module", SHELF_MODULES)
def test_a_shelf_holds_nothing_that_its_room_may_not_import(module: str) -> None:
    assert refusals(module, modules()[module]) == []


@pytest.mark.parametrize("shelf", SHELVES)
def test_naming_the_plugs_of_a_shelf_loads_none_of_them(shelf: str) -> None:
    package = SHELVES[shelf].package
    show = (
        "import json, sys; from m3probe.registry import Shelf; "
        f"names = Shelf({package!r}, 'X', object).names(); "
        "print(json.dumps([list(names), sorted(sys.modules)]))"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, cwd=os.sep)
    names, loaded = json.loads(done.stdout)
    assert set(names) >= {name for s, name in PLUGS if s == shelf}
    assert not {f"{package}.{name}" for name in names} & set(loaded)


def test_the_shelf_of_fast_paths_and_its_own_scan_give_one_answer() -> None:
    assert dict(FAST_PATHS.plugs()) == dict(fast_paths())


def test_the_shelf_of_gates_and_its_own_scan_give_one_answer() -> None:
    assert dict(GATES.plugs()) == dict(gates())


def test_asking_for_gates_needs_nothing_but_the_standard_library() -> None:
    show = (
        "import json, sys; from m3probe.gates import gates; gates(); "
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, cwd=os.sep)
    assert not set(json.loads(done.stdout)) & {"numpy", "pandas", "rich", "torch", "vllm", "isal"}


def test_asking_for_fast_paths_needs_nothing_but_the_standard_library() -> None:
    show = (
        "import json, sys; from m3probe.fastpaths import fast_paths; fast_paths(); "
        "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True, cwd=os.sep)
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"numpy", "pandas", "rich", "torch", "vllm", "isal"}
