"""The Markdown of the clone as pages of the site: the same text, with links that fit where a page stands there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
BESIDE = ("README.md", "CHANGELOG.md", "benchmarks/README.md", "benchmarks/RESULTS.md")
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def place(path: PurePosixPath) -> PurePosixPath:
    """Where a file of the clone stands on the site: docs/ is its root, the rest keeps its path."""
    return path.relative_to("docs") if path.parts[0] == "docs" else path


def documents() -> list[PurePosixPath]:
    """Paths of the pages in the clone."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    return [PurePosixPath(name) for name in [*BESIDE, *docs]]


def copy_to(folder: Path) -> None:
    """Write all pages, and the files that they link to."""
    for name in documents():
        target = folder / place(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_linked(name, folder), encoding="utf-8")


def _linked(name: PurePosixPath, folder: Path) -> str:
    """The text with each relative link led to the place of its target; code blocks stay as they are."""
    parts = _FENCE.split((ROOT / name).read_text(encoding="utf-8"))
    return "".join(part if at % 2 else _LINK.sub(_leads(name, folder), part) for at, part in enumerate(parts))


def _leads(name: PurePosixPath, folder: Path) -> Callable[[re.Match[str]], str]:
    here = place(name).parent

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        file = PurePosixPath(os.path.normpath(name.parent / target))
        if file not in documents():
            _bring(file, folder)
        return f"{match[1]}{os.path.relpath(place(file), here)}{match[3]}"

    return link


def _bring(file: PurePosixPath, folder: Path) -> None:
    """A file that is no page is offered as it is; one that is not there is found by Sphinx, which names the page."""
    if (ROOT / file).is_file():
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, target)
