"""Build the site: ``python docs/_site/build.py [OUT]`` (default build/site). Warnings are errors.

Needs m3probe and its extra ``docs`` in the Python that runs it: paths, gates, commands and schemas are read from the
installed package.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import catalogue
import commands
import schemas
import sources


def make_sources(folder: Path) -> None:
    """All pages as Markdown below ``folder``, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    sources.copy_to(folder)
    for name, text in {**catalogue.pages(), **commands.pages(), **schemas.pages()}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for schema in (sources.ROOT / "docs").glob("*.schema.json"):
        shutil.copyfile(schema, folder / schema.name)


def main() -> int:
    """Sphinx's exit status."""
    from sphinx.cmd.build import build_main

    out = Path(sys.argv[1] if len(sys.argv) > 1 else sources.ROOT / "build" / "site")
    pages = out.with_name(f"{out.name}-pages")
    make_sources(pages)
    shutil.rmtree(out, ignore_errors=True)
    words = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(sources.ROOT / "docs")]
    status = build_main([*words, "-d", f"{out}-doctrees", str(pages), str(out)])
    if not status:
        sys.stdout.write(f"{out / 'index.html'}\n")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
