"""Writes the table of ``docs/seams.md``: every seam of the probe in the unpacked sources of vLLM's releases.

``python benchmarks/seams.py TREES`` reads TREES/VERSION/vllm of each version; with ``--docs FILE`` it replaces what stands
between the file's two marks, else it prints the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from m3probe.collectors._seams import SEAMS
from m3probe.vllm_source.seams import SeamFound, SeamState, check
from m3probe.vllm_source.tree import tree_at

VERSIONS = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
ELSEWHERE = "elsewhere"
"""Of another package (torch, aiter): looked up at run time alone."""
BEGIN, END = "<!-- seams: begin -->", "<!-- seams: end -->"


def table(trees: Path) -> str:
    """Markdown, one row a seam in the order of the ids: state and line in each release."""
    own = {name: seam for name, seam in SEAMS.items() if seam.module.startswith("vllm.")}
    found = {version: check(tree_at(trees / version), own) for version in VERSIONS}
    lines = [f"| seam | attribute | {' | '.join(VERSIONS)} |", "|--|--|" + "--|" * len(VERSIONS)]
    for name in sorted(SEAMS):
        seam = SEAMS[name]
        needs = f" ({', '.join(seam.needs)})" if seam.needs else ""
        cells = [_cell(found[version][name]) if name in own else ELSEWHERE for version in VERSIONS]
        lines.append(f"| `{name}` | `{seam.module}:{seam.name}`{needs} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: SeamFound) -> str:
    if found.state is SeamState.PRESENT:
        return found.where.rpartition(":")[2]
    return f"**changed** {found.text}" if found.state is SeamState.CHANGED else "**absent**"


def between_marks(text: str) -> str:
    """What the document holds now.

    Raises:
        ValueError: it has no marks.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"no place for the table: add {BEGIN} and {END}")
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0; errors are raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", type=Path, help="folder that holds one folder per release")
    parser.add_argument("--docs", type=Path, help="document to write the table into")
    args = parser.parse_args(argv)
    made = table(args.trees)
    if args.docs is None:
        sys.stdout.write(f"{made}\n")
        return 0
    text = args.docs.read_text("utf-8")
    between_marks(text)
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    args.docs.write_text(f"{head}{BEGIN}\n{made}\n{END}{tail}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
