"""One vLLM source tree: its files by name, parsed once, and its version. Nothing of it is ever imported."""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from m3probe.errors import UnreadableInput
from m3probe.vllm_source.look import Definition, Function, Moved, bound, defined

_MAX_BYTES = 1_000_000  # the largest file asked for has 0.2 MB; a syntax tree takes a hundred times the text
_RELEASE = re.compile(r"(\d+\.\d+\.\d+(?:\.post\d+)?)(?:\+(?:cpu|cu\d+|rocm[\d.]+))?")


def release_of(version: str | None) -> str | None:
    """``0.33.0``, ``0.33.0+rocm721`` -> ``0.33.0``; None for nightlies, release candidates and local changes."""
    matched = _RELEASE.fullmatch((version or "").strip().removeprefix("v"))
    return matched[1] if matched else None


@dataclass(frozen=True, slots=True)
class Found:
    """A rule's value as read: plain JSON data, and file:line where it stands."""

    value: Any
    where: str


@dataclass(frozen=True)
class Source:
    """One parsed file."""

    name: str
    text: str
    module: ast.Module

    def where(self, node: ast.AST) -> str:
        """``vllm/envs.py:619``."""
        return f"{self.name}:{getattr(node, 'lineno', 1)}"

    def found(self, node: ast.AST, value: Any) -> Found:
        """A value read at this node."""
        return Found(value, self.where(node))

    def function(self, dotted: str) -> Function:
        """A function by name (``Class.method``); Moved when there is none."""
        definition = self.defined(dotted)
        if isinstance(definition, ast.ClassDef):
            raise Moved(f"{self.name}: {dotted} is a class")
        return definition

    def class_(self, name: str) -> ast.ClassDef:
        """A class by name; Moved when there is none."""
        definition = self.defined(name)
        if not isinstance(definition, ast.ClassDef):
            raise Moved(f"{self.name}: {name} is no class")
        return definition

    def holds(self, dotted: str) -> bool:
        """Whether there is a function or class of this name."""
        try:
            return bool(defined(self.module, dotted))
        except Moved:
            return False

    def defined(self, dotted: str) -> Definition:
        """A function or class by name; Moved when there is none."""
        try:
            return defined(self.module, dotted)
        except Moved as moved:
            raise Moved(f"{self.name}: {moved}") from None

    def bound(self, name: str) -> ast.expr:
        """What a name of the module is bound to; Moved when it is not."""
        try:
            return bound(self.module, name)
        except Moved as moved:
            raise Moved(f"{self.name}: {moved}") from None


@dataclass(frozen=True)
class Tree:
    """A folder that holds ``vllm/``.

    Args:
        root: the folder beside which ``vllm`` and its dist-info lie.
    """

    root: Path
    _parsed: dict[str, Source] = field(default_factory=dict, compare=False)

    def has(self, name: str) -> bool:
        """Whether the tree holds this file (``vllm/envs.py``)."""
        try:
            return (self.root / name).is_file()
        except OSError:
            return False

    def source(self, name: str) -> Source:
        """One file, parsed.

        Raises:
            Moved: it is missing, cannot be read, or is no Python.
        """
        if name not in self._parsed:
            self._parsed[name] = self._read(name)
        return self._parsed[name]

    def _read(self, name: str) -> Source:
        path = self.root / name
        try:
            if not path.is_file():  # a FIFO would block, a folder cannot be read
                raise Moved(f"{name}: no such file")
            if path.stat().st_size > _MAX_BYTES:
                raise Moved(f"{name}: larger than {_MAX_BYTES:,} B")
            # Bytes that are no UTF-8 stand in comments or strings; what is asked for is ASCII.
            text = path.read_bytes().decode("utf-8", "replace")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                return Source(name, text, ast.parse(text))
        except OSError as error:
            raise Moved(f"{name}: {error.strerror or error}") from None
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Moved(f"{name}: does not parse ({type(error).__name__})") from None

    def files(self, folder: str) -> list[str]:
        """Names of the Python files right in a folder, sorted; none where it cannot be listed."""
        try:
            found = [path.name for path in (self.root / folder).iterdir() if path.suffix == ".py" and path.is_file()]
        except OSError:
            return []
        return sorted(f"{folder}/{name}" for name in found)

    def text(self, name: str) -> str:
        """A file's text, unparsed; empty where it cannot be read."""
        path = self.root / name
        try:
            if not path.is_file() or path.stat().st_size > _MAX_BYTES:
                return ""
            return path.read_bytes().decode("utf-8", "replace")
        except OSError:
            return ""

    @cached_property
    def version(self) -> str | None:
        """As the build states it (``0.33.1.dev5+g123``): from ``_version.py``, else from the dist-info beside it."""
        return self._from_version_file() or self._from_metadata()

    @property
    def release(self) -> str | None:
        """The release this tree is, None for a nightly or when nothing states a version."""
        return release_of(self.version)

    def _from_version_file(self) -> str | None:
        try:
            value = self.source("vllm/_version.py").bound("__version__")
        except Moved:
            return None
        return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None

    def _from_metadata(self) -> str | None:
        try:
            for path in sorted(self.root.glob("vllm-*.dist-info/METADATA")):
                for line in _head(path).splitlines():
                    if line.startswith("Version:"):
                        return line.removeprefix("Version:").strip() or None
        except OSError:
            return None
        return None


def _head(path: Path) -> str:
    """The first 64 KiB of a regular file: the version stands in METADATA's first lines."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(65536).decode("utf-8", "replace")


def tree_at(path: Path) -> Tree:
    """The tree of a folder: a checkout, site-packages, or the package's own folder.

    Raises:
        UnreadableInput: no vLLM lies there.
    """
    if _is_package(path / "vllm"):
        return Tree(path)
    if _is_package(path):
        return Tree(path.parent)
    raise UnreadableInput(
        "no vLLM source here",
        where=str(path),
        next_move="Name the folder that holds vllm/ (a checkout or site-packages)",
    )


def installed_tree() -> Tree | None:
    """The environment's vLLM, found and not imported; None where there is none."""
    try:
        spec = importlib.util.find_spec("vllm")
    except (ImportError, ValueError):
        return None
    for location in (spec.submodule_search_locations or ()) if spec else ():
        # A folder that only happens to be called vllm is a namespace package without these files.
        if _is_package(Path(location)):
            return Tree(Path(location).parent)
    return None


def _is_package(folder: Path) -> bool:
    try:
        return folder.name == "vllm" and (folder / "__init__.py").is_file() and (folder / "envs.py").is_file()
    except OSError:
        return False
