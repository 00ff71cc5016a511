"""The least bytes that a counted kernel must read: those of the GEMM that a trace beside shows for its name and grid.

Never a guess: without such a trace, or where one name and grid computed several shapes, the least is not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from m3probe.analyzers._counter_groups import Group
from m3probe.analyzers._gemm import gemms
from m3probe.analyzers._gemm_ops import GROUPED, GemmShape
from m3probe.model.executed import executed
from m3probe.model.floors import FORMATS, format_word
from m3probe.model.recording import Recording

NO_TRACE = "no trace of the same program beside it shows an operator with its shape"
GROUPED_GEMM = "a grouped GEMM reads the experts that rows hit, which only routing tells"


@dataclass(frozen=True, slots=True)
class Least:
    """Bytes of the operands, each read once; None and ``why`` where they are not known."""

    bytes: float | None
    shape: str = ""
    how: str = ""
    why: str = ""


class Leasts:
    """What the traces of a recording tell of kernels by name and grid."""

    def __init__(self, rec: Recording) -> None:
        self._shapes: dict[tuple[str, int], dict[GemmShape, None]] = {}
        self._names: set[str] = set()
        if not len(rec.kernels) and not len(rec.graphs):
            return
        for group in gemms(rec, executed(rec)).shaped:
            for calls in group.calls:
                self._names.add(_bare(calls.kernel))
                if calls.grid is not None and group.shape is not None:
                    self._shapes.setdefault((_bare(calls.kernel), prod(calls.grid)), {})[group.shape] = None

    def of(self, group: Group) -> Least:
        """Of one kernel at one grid."""
        name = _bare(group.kernel)
        if group.groups is None:
            return Least(None, why="its grid is not told")
        shapes = list(self._shapes.get((name, group.groups), ()))
        if not shapes:
            return Least(None, why="the trace has it at other grids alone" if name in self._names else NO_TRACE)
        if len(shapes) > 1:
            text = ", ".join(f"{s.M} x {s.N} x {s.K}" for s in shapes[:3])
            return Least(None, why=f"the trace has {len(shapes)} shapes with this name and grid ({text})")
        return _least(shapes[0])


def _least(shape: GemmShape) -> Least:
    text = f"{f'{shape.groups} x ' if shape.groups > 1 else ''}{shape.M} x {shape.N} x {shape.K}"
    if shape.kind == GROUPED:
        return Least(None, text, why=GROUPED_GEMM)
    words = [format_word(word) for word in shape.dtype.split(" x ")]
    if None in words:
        return Least(None, text, why=f"operand formats {shape.dtype or 'not recorded'}")
    activation, weight = (FORMATS[str(word)].value_bytes for word in (words[0], words[-1]))
    total = shape.groups * (shape.M * shape.K * activation + shape.N * shape.K * weight)
    batch = f"{shape.groups} x " if shape.groups > 1 else ""
    how = f"{batch}({shape.M:,} x {shape.K:,} x {activation:g} B + {shape.N:,} x {shape.K:,} x {weight:g} B)"
    return Least(total, text, how)


def _bare(name: str) -> str:
    """A name without what tools put behind a kernel's."""
    return name.removesuffix(" [clone .kd]").removesuffix(".kd").strip()
