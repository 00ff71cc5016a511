"""Tuned tables as text: AITER's fused-MoE and GEMM CSVs, PyTorch's TunableOp results.

No plug: a table adds no rows to a recording. Columns are found by name, since AITER's headers grew (``gfx``, ``xbf16``,
``_tag`` came later): headers seen in ``aiter/configs`` are the tests'.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator

from m3probe.errors import UnreadableInput
from m3probe.schema.tuned import GemmKey, MoeKey, TableKind, TunedRow, TunedTable

_MOE = ("token", "model_dim", "inter_dim", "expert", "topk")
_GEMM = ("m", "n", "k")
_KERNELS = ("kernelname1", "kernelname2", "kernelname")
_CHOICES = (*_KERNELS, "us", "kernelid", "solidx")
_SHAPE = re.compile(r"tn_(\d{1,18})_(\d{1,18})_(\d{1,18})(?:_ld(?:_\d+){3})?")
_DTYPES = {"BFloat16": "bfloat16", "Half": "float16", "float": "float32", "Float": "float32"}
MOST_TOLD = 80
"""Characters of a cell that an error tells."""
_NEXT = "Give an AITER *_tuned_fmoe.csv or *_tuned_gemm.csv, or TunableOp's results file"


def read_tuned_table(content: bytes, where: str = "") -> TunedTable:
    """One table; a header without rows is an empty table.

    Args:
        content: UTF-8, with or without a byte order mark, either line ending.
        where: the file's name, for the table and for errors.

    Raises:
        UnreadableInput: not text, no known header, or a row that does not fit it (``file:line``).
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput("not UTF-8 text", where=where, next_move=_NEXT) from error
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not lines:
        raise UnreadableInput("the file is empty", where=where, next_move=_NEXT)
    if "TunableOp_" in lines[0][1] or lines[0][1].startswith("Validator,"):
        return _tunableop(lines, where)
    return _by_header(lines, where)


def _by_header(lines: list[tuple[int, str]], where: str) -> TunedTable:
    names = [name.strip().lower() for name in _cells(lines[0], where)]
    kinds = ((TableKind.FMOE, _MOE, _moe_key), (TableKind.GEMM, _GEMM, _gemm_key))
    for kind, needed, make in kinds:
        if set(needed) <= set(names):
            if not set(_CHOICES) & set(names):
                raise UnreadableInput(
                    "a list of shapes to tune: it names no kernel and no time",
                    where=_at(where, lines[0]),
                    next_move=_NEXT,
                )
            return TunedTable(where, kind, tuple(_rows(names, lines[1:], where, make)))
    raise UnreadableInput(
        f"a header with {', '.join(_MOE)} or {', '.join(_GEMM).upper()} was expected",
        where=_at(where, lines[0]),
        next_move=_NEXT,
    )


def _rows(
    names: list[str], lines: Iterable[tuple[int, str]], where: str, make: Callable[[_Row], MoeKey | GemmKey]
) -> Iterator[TunedRow]:
    for line in lines:
        cells = _cells(line, where)
        if len(cells) != len(names):
            raise UnreadableInput(f"{len(cells)} fields, the header has {len(names)}", where=_at(where, line))
        row = _Row(dict(zip(names, (cell.strip() for cell in cells), strict=True)), _at(where, line))
        kernels = tuple(cell for name in _KERNELS if (cell := row.text(name)))
        yield TunedRow(make(row), line[0], row.time("us"), kernels)


class _Row:
    """Cells of one line by lower-cased column."""

    def __init__(self, cells: dict[str, str], at: str) -> None:
        self.cells = cells
        self.at = at

    def text(self, name: str) -> str | None:
        """The cell; None where the column is missing or empty."""
        return self.cells.get(name) or None

    def last_word(self, name: str) -> str | None:
        """``torch.bfloat16`` and ``ActivationType.Swiglu`` without what stands before the dot."""
        text = self.text(name)
        return text.rpartition(".")[2] if text else None

    def whole(self, name: str) -> int:
        """A whole number, as 256 or 256.0."""
        found = self.whole_or_none(name)
        if found is None:
            raise UnreadableInput(f"column {name} is empty", where=self.at)
        return found

    def whole_or_none(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = _float(text)
        if number is None or not number.is_integer() or number < 0:
            raise UnreadableInput(f"column {name}: {text[:MOST_TOLD]!r} is no whole number", where=self.at)
        return int(number)

    def switch(self, name: str) -> bool | None:
        """0, 1, True or False."""
        text = self.text(name)
        if text is None:
            return None
        if text.lower() not in ("0", "1", "true", "false"):
            raise UnreadableInput(f"column {name}: {text[:MOST_TOLD]!r} is neither 0 nor 1", where=self.at)
        return text.lower() in ("1", "true")

    def time(self, name: str) -> float | None:
        """A time; None where it is empty, nan or inf (a candidate that failed)."""
        text = self.text(name)
        number = _float(text) if text else None
        if text and number is None and text.lower() not in ("nan", "inf", "-inf"):
            raise UnreadableInput(f"column {name}: {text[:MOST_TOLD]!r} is no number", where=self.at)
        return number


def _moe_key(row: _Row) -> MoeKey:
    return MoeKey(
        rows=row.whole("token"),
        model_dim=row.whole("model_dim"),
        inter_dim=row.whole("inter_dim"),
        experts=row.whole("expert"),
        top_k=row.whole("topk"),
        act=row.last_word("act_type"),
        dtype=row.last_word("dtype"),
        q_dtype_a=row.last_word("q_dtype_a"),
        q_dtype_w=row.last_word("q_dtype_w"),
        q_type=row.last_word("q_type"),
        g1u1=row.switch("use_g1u1"),
        weight_stage1=row.switch("doweight_stage1"),
        cu_num=row.whole_or_none("cu_num"),
        gfx=row.text("gfx"),
    )


def _gemm_key(row: _Row) -> GemmKey:
    return GemmKey(
        rows=row.whole("m"),
        n=row.whole("n"),
        k=row.whole("k"),
        dtype=row.last_word("dtype") or row.last_word("q_dtype_w"),
        out_dtype=row.last_word("outdtype"),
        cu_num=row.whole_or_none("cu_num"),
        gfx=row.text("gfx"),
    )


def _tunableop(lines: list[tuple[int, str]], where: str) -> TunedTable:
    """``GemmTunableOp_BFloat16_TN,tn_N_M_K_ld_...,Gemm_Hipblaslt_123,milliseconds``: only TN, PyTorch's linear layers.

    BLAS is column-major: its first size is the weight's N, its second the rows.
    """
    rows, validators = [], []
    for line in lines:
        cells = _cells(line, where)
        if cells[0] == "Validator" and len(cells) > 2:
            validators.append((cells[1], ",".join(cells[2:])))
        elif "TunableOp_" not in cells[0] or len(cells) < 3:
            raise UnreadableInput("neither a Validator nor a TunableOp line", where=_at(where, line))
        elif cells[0].startswith("GemmTunableOp_") and cells[0].endswith("_TN"):
            rows.append(_tunableop_row(cells, line, where))
    return TunedTable(where, TableKind.TUNABLEOP, tuple(rows), tuple(validators))


def _tunableop_row(cells: list[str], line: tuple[int, str], where: str) -> TunedRow:
    shape = _SHAPE.fullmatch(cells[1])
    millis = _float(cells[3]) if len(cells) > 3 else None
    if shape is None or (len(cells) > 3 and millis is None):
        raise UnreadableInput(
            f"{','.join(cells[1:])[:MOST_TOLD]!r} is no tn_N_M_K shape with a kernel and a time", where=_at(where, line)
        )
    n, m, k = (int(size) for size in shape.groups())
    word = cells[0].removeprefix("GemmTunableOp_").removesuffix("_TN")
    key = GemmKey(rows=m, n=n, k=k, dtype=_DTYPES.get(word, word.lower()))
    return TunedRow(key, line[0], None if millis is None else millis * 1000, (cells[2],))


def _cells(line: tuple[int, str], where: str) -> list[str]:
    try:
        return next(csv.reader([line[1]], strict=True))
    except csv.Error as error:
        raise UnreadableInput(f"no CSV: {error}", where=_at(where, line)) from error


def _at(where: str, line: tuple[int, str]) -> str:
    return f"{where}:{line[0]}" if where else f"line {line[0]}"


def _float(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
