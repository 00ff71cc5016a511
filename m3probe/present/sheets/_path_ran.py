"""What ran as what in which kind of step: the evidence of a path as a table; what is no count stays a sentence."""

from __future__ import annotations

import re

from m3probe.present.sheets import _question as q
from m3probe.present.sheets.sheet import Block, Cell, Column, Grid, Line, Said

_COUNT = re.compile(
    r"(?P<where>[^()]+?): (?P<number>[0-9,]+) (?:calls of |of |(?=graph launches))(?P<what>.+) \((?P<how>[^()]+)\)"
)
"""``decode FULL 8 rows: 696 of Triton (facts of capture x counted replays)``, as ``analyze`` words it."""
_STEPS = re.compile(
    r"(?P<what>.+) in (?P<ran>[0-9,]+) of (?P<all>[0-9,]+) steps, (?P<each>.+?) per step(?:, rows (?P<rows>.+))?"
)
_NAMED = re.compile(r"(?P<variant>.+) \((?P<kernels>[^()]+)\)")
"""``FP32 kernel (CUDA) (fp32_router_gemm_kernel)``."""
COLUMNS = (
    Column("kind of step"),
    Column("calls", right=True),
    Column("ran as"),
    Column("kernels", keep=4, wide=True),
    Column("in steps", right=True, keep=1),
    Column("per step", right=True, keep=2),
    Column("rows", right=True, keep=3),
    Column("known by", wide=True),
)


def ran_where(evidence: tuple[str, ...]) -> list[Block]:
    """A table of the counts, then the other sentences as they are."""
    found = [(text, _COUNT.fullmatch(text)) for text in evidence]
    lines = q.keyed(_line(text, match) for text, match in found if match)
    said: list[Block] = [Said(text, dim=True) for text, match in found if not match]
    return [*([Grid("What ran, by kind of step", COLUMNS, lines)] if lines else []), *said]


def _line(text: str, match: re.Match[str]) -> Line:
    steps = _STEPS.fullmatch(match["what"])
    what = steps["what"] if steps else match["what"]
    named = _NAMED.fullmatch(what) if steps else None
    calls = int(match["number"].replace(",", ""))
    ran = f"{steps['ran']}/{steps['all']}" if steps else ""
    cells = (
        q.word(match["where"]),
        Cell(match["number"], calls),
        q.word(named["variant"] if named else what),
        q.word(named["kernels"] if named else ""),
        q.word(ran),
        q.word(steps["each"] if steps else ""),
        q.word((steps["rows"] or "") if steps else ""),
        q.word(match["how"]),
    )
    return Line(text, cells)
