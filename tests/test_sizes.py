"""The limits that keep a file readable at one sitting: growth goes into new files, not into the largest one."""

import ast
import statistics
from functools import cache
from pathlib import Path

from tree import ROOMS, ROOT, modules

FILE_CEILING = 400
FILE_MEDIAN = 120
FUNCTION_P90 = 35

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def lines_of(path: Path) -> int:
    """Lines of one file."""
    return len(path.read_text().splitlines())


def functions_of(path: Path) -> list[FunctionNode]:
    """Every function and method of one file, inner ones too."""
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, FunctionNode)]


def place(path: Path, node: FunctionNode) -> str:
    """A function as a line to click on."""
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


@cache
def all_functions() -> list[tuple[Path, FunctionNode]]:
    """Every function of every room with its file."""
    return [(path, node) for path in modules().values() for node in functions_of(path)]


def unannotated(node: FunctionNode) -> list[str]:
    """Names of parameters without a type, and ``return`` when that has none; ``self`` and ``cls`` need none."""
    args = node.args
    named = [*args.posonlyargs, *args.args]
    if named and named[0].arg in {"self", "cls"}:
        named = named[1:]
    every = [*named, *args.kwonlyargs, *filter(None, (args.vararg, args.kwarg))]
    missing = [arg.arg for arg in every if arg.annotation is None]
    return missing if node.returns is not None else [*missing, "return"]


def test_no_file_is_longer_than_the_ceiling() -> None:
    lengths = {str(path.relative_to(ROOT)): lines_of(path) for path in modules().values()}
    assert {name: length for name, length in lengths.items() if length > FILE_CEILING} == {}


def test_files_are_short_at_the_median() -> None:
    """Package files that only carry a docstring would flatter the median and are left out."""
    written = [lines_of(path) for path in modules().values() if path.name != "__init__.py"]
    assert statistics.median(written) <= FILE_MEDIAN


def test_functions_are_short_at_the_ninetieth_percentile() -> None:
    lengths = {place(path, node): node.end_lineno - node.lineno + 1 for path, node in all_functions()}
    assert lengths
    longest = sorted(lengths.items(), key=lambda item: -item[1])[:10]
    allowed = max(1, len(lengths) // 10)
    longer = sum(length > FUNCTION_P90 for length in lengths.values())
    assert longer <= allowed, longest


def test_every_function_is_fully_annotated() -> None:
    found = {place(path, node): unannotated(node) for path, node in all_functions()}
    assert {where: names for where, names in found.items() if names} == {}


def test_every_room_with_code_is_measured() -> None:
    measured = {path.relative_to(ROOT).parts[0] for path in modules().values()}
    assert measured == {folder for folder in ROOMS.values() if list((ROOT / folder).rglob("*.py"))}
