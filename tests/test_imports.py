"""Who may import what, seen statically for every file and at run time for the cold start."""

import ast
import json
import os
import resource
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tree import modules

HEAVY = {"isal", "numpy", "pandas", "perfetto", "plotly", "pyarrow", "pycxxfilt", "rich", "textual", "torch", "vllm"}
COLD_START_CPU_S = 0.25

SHOW_MODULES = """
import json, sys
from m3probe.cli import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


@dataclass(frozen=True)
class Row:
    """One room's row of the table: other rooms, third parties at module level, third parties inside functions."""

    rooms: frozenset[str] = frozenset()
    at_import: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()


def row(rooms: str = "", at_import: str = "", inside: str = "") -> Row:
    """A row from space-separated words."""
    return Row(frozenset(rooms.split()), frozenset(at_import.split()), frozenset(inside.split()))


EVERYTHING = (
    "analyzers attach collectors comparing doctor errors exporting fastpaths gates hardware kernels legs live_assert live_serve "
    "model pipeline plugs present readers recipe registry rules schema sources tui viewing vllm_source workload "
    "_arguments _given _html_words _live_words _looking _outputs _pages _path_calls _setup_words _streams _values _writing"
)
# The row of a room is its folder's name; a module of m3probe/ itself has its own. `errors` and the version are for all.
TABLE = {
    "m3probe": row(),
    "errors": row(),
    "_streams": row(),
    "schema": row("", "msgspec"),
    "hardware": row("schema"),
    "fastpaths": row("schema plugs", "msgspec"),
    "gates": row("schema plugs", "msgspec"),
    "kernels": row("schema", "", "numpy pycxxfilt cpp_demangle"),
    "model": row("schema", "numpy", "pandas"),
    "plugs": row("schema model"),
    "attach": row("schema model", "msgspec"),
    # pandas stays inside functions: it is an extra, and its import alone costs more than a small report.
    "readers": row("model schema kernels plugs", "msgspec isal numpy", "pandas perfetto"),
    "analyzers": row("model schema fastpaths gates kernels hardware plugs", "numpy", "pandas"),
    "collectors": row("schema fastpaths gates plugs", "msgspec", "torch vllm"),
    "present": row("model schema", "rich", "plotly msgspec"),
    "tui": row("model schema present", "textual rich"),
    "exporting": row("analyzers fastpaths kernels model present schema", "numpy", "perfetto pyarrow isal"),
    "registry": row("plugs schema model"),
    "sources": row("readers plugs registry model schema"),
    "rules": row("model schema kernels registry", "", "numpy"),
    "legs": row("comparing schema model rules"),
    "comparing": row("analyzers fastpaths hardware model pipeline plugs recipe schema sources workload"),
    "viewing": row("analyzers attach comparing model pipeline readers schema sources workload", "numpy msgspec"),
    "_outputs": row("model present _streams"),
    "live_assert": row("attach model"),
    "live_serve": row("attach model present", "msgspec"),
    "doctor": row("attach model recipe schema vllm_source"),
    "workload": row("schema model hardware readers recipe"),
    "pipeline": row(EVERYTHING, "", "numpy"),
    "vllm_source": row("schema"),
    "recipe": row("schema model fastpaths gates kernels hardware readers registry vllm_source", "yaml", "numpy"),
    "pytest_plugin": row(f"{EVERYTHING} api asserting _pytest_rules", "pytest"),
    "_pytest_rules": row("asserting model present rules schema", "pytest"),
    "asserting": row("api model present rules schema"),
    "api": row("_path_calls comparing model pipeline present recipe registry rules workload"),
    "_path_calls": row("analyzers fastpaths model rules schema", "numpy"),
    "cli": row(EVERYTHING, "", "rich msgspec"),
    "_writing": row("_outputs"),
    "_arguments": row("present attach _export_words _html_words _setup_words _streams _values"),
    "_export_words": row("_values"),
    "_html_words": row("_values"),
    "_pages": row("model present viewing _streams _writing"),
    "_setup_words": row("_values"),
    "_given": row("model pipeline present recipe workload _streams"),
    "_values": row("attach"),
    "_looking": row("model present tui viewing _streams"),
    "_live_words": row("attach"),
    "__main__": row("cli"),
}


@dataclass(frozen=True)
class Import:
    """One imported module as written, and whether it waits inside a function."""

    module: str
    line: int
    inside: bool


def imports_of(tree: ast.AST, *, inside: bool = False) -> Iterator[Import]:
    """Imports below ``tree``; those under ``if TYPE_CHECKING:`` never run and are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (Import(name, node.lineno, inside) for name in names_of(node))
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from imports_of(node, inside=inside or is_function)


def names_of(node: ast.ImportFrom) -> list[str]:
    """``from m3probe import readers`` names a room in its alias, any other form in its module."""
    if node.module == "m3probe":
        return [f"m3probe.{alias.name}" for alias in node.names]
    return [node.module or ""]


def room_of(module: str) -> str:
    """``m3probe.readers.kineto`` -> ``readers``; the package's own ``__init__`` -> ``m3probe``."""
    return "m3probe" if module == "m3probe" else module.split(".")[1]


def refusals(module: str, source: Path) -> list[str]:
    """Every import of one module that its row of the table does not allow."""
    room = room_of(module)
    allowed = TABLE[room]
    found = []
    for each in imports_of(ast.parse(source.read_text())):
        top = each.module.partition(".")[0]
        if top in sys.stdlib_module_names:
            continue
        if top == "m3probe":
            target = room_of(each.module)
            fine = target in allowed.rooms | {room, "errors", "m3probe", "__version__"}
        else:
            fine = top in allowed.at_import or (each.inside and top in allowed.inside)
        if not fine:
            where = "inside a function" if each.inside else "at module level"
            found.append(f"{module}:{each.line}: {room} may not import {each.module} {where}")
    return found


@pytest.mark.parametrize("module", modules())
def test_module_imports_only_what_its_row_of_the_table_allows(module: str) -> None:
    assert room_of(module) in TABLE, f"{module} has no row; add one that says what it may import"
    assert refusals(module, modules()[module]) == []


@pytest.mark.parametrize(
    ("room", "line", "refused"),
    [
        ("analyzers", "import torch", True),
        ("analyzers", "def f():\n    import torch", True),
        ("analyzers", "from m3probe.readers import kineto", True),
        ("analyzers", "from m3probe import readers", True),
        ("analyzers", "import numpy as np", False),
        ("analyzers", "import pandas", True),
        ("analyzers", "def f():\n    import pandas", False),
        ("collectors", "try:\n    import torch\nexcept ImportError: pass", True),
        ("collectors", "def f():\n    import torch.cuda", False),
        ("collectors", "def f():\n    import numpy", True),
        ("kernels", "if TYPE_CHECKING:\n    import numpy", False),
        ("model", "import analyzers", True),
    ],
)
def test_table_is_read_as_written(tmp_path: Path, room: str, line: str, refused: bool) -> None:
    source = tmp_path / "planted.py"
    source.write_text(line)
    assert bool(refusals(f"m3probe.{room}.planted", source)) is refused


def away_from_the_tree() -> dict[str, str]:
    """This environment without what would put the tree itself on the child's path."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_cold_start_imports_nothing_heavy(tmp_path: Path, option: str) -> None:
    command = [sys.executable, "-c", SHOW_MODULES, option]
    done = subprocess.run(command, cwd=tmp_path, env=away_from_the_tree(), capture_output=True, text=True, check=True)
    assert HEAVY & set(json.loads(done.stderr.splitlines()[-1])) == set()


def cpu_seconds(command: list[str], cwd: Path) -> float:
    """User and system time of one finished child: load on the machine moves it little."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, env=away_from_the_tree(), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_cold_start_is_cheap(tmp_path: Path, option: str) -> None:
    command = [str(Path(sysconfig.get_path("scripts")) / "m3probe"), option]
    assert min(cpu_seconds(command, tmp_path) for _ in range(3)) < COLD_START_CPU_S
