"""Tuned tables: which kernel a library picks for which local shape, and how a call finds its row.

Columns and paddings are AITER's: ``aiter/fused_moe.py`` (``get_padded_M``, ``get_2stage_cfgs``),
``csrc/py_itfs_cu/gemm_common.cu`` (``getPaddedM``), ``aiter/configs/model_configs/minimax_m3_*_tuned_fmoe.csv``; PyTorch's
TunableOp looks up the exact shape. A row that is not there is a default kernel, never an error: only a log line tells.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

MOST_PADDED = 32768
"""Rows above it share its bucket (``get_padded_M`` of the AITER that knows MiniMax M3; later ones go on to 131,072)."""


class TableKind(StrEnum):
    """Whose table it is."""

    FMOE = "fmoe"
    """AITER's fused MoE: both GEMMs of the experts."""
    GEMM = "gemm"
    """One of AITER's dense GEMM tables."""
    TUNABLEOP = "tunableop"
    """PyTorch's TunableOp results."""


@dataclass(frozen=True, slots=True)
class MoeKey:
    """What AITER looks up one fused-MoE call by. None: the column is not there, or not known; it then decides nothing.

    Args:
        rows: real rows of a call; in a table row, its bucket.
        model_dim: hidden size.
        inter_dim: the experts' inner size on this rank.
        experts: experts of this rank's weights, the fused shared one included.
        top_k: slots per row, the fused shared one included.
        act: AITER's ActivationType, its last word.
        dtype: activations' dtype outside of the experts; dtypes are torch's names without ``torch.``.
        q_dtype_a: activations inside.
        q_dtype_w: weights.
        q_type: AITER's QuantType, its last word.
        g1u1: gate and up are both there.
        weight_stage1: routing weights are applied before the second GEMM.
        cu_num: compute units of the GPU.
        gfx: its architecture; older tables lack the column.
    """

    rows: int
    model_dim: int
    inter_dim: int
    experts: int
    top_k: int
    act: str | None = None
    dtype: str | None = None
    q_dtype_a: str | None = None
    q_dtype_w: str | None = None
    q_type: str | None = None
    g1u1: bool | None = None
    weight_stage1: bool | None = None
    cu_num: int | None = None
    gfx: str | None = None


@dataclass(frozen=True, slots=True)
class GemmKey:
    """What a dense GEMM is looked up by: ``rows`` x K times a weight of N x K."""

    rows: int
    n: int
    k: int
    dtype: str | None = None
    out_dtype: str | None = None
    cu_num: int | None = None
    gfx: str | None = None


Key = MoeKey | GemmKey

WORDS = {
    "model_dim": "model dim",
    "inter_dim": "inter dim",
    "top_k": "top-k",
    "q_dtype_a": "activation dtype",
    "q_dtype_w": "weight dtype",
    "cu_num": "compute units",
    "n": "N",
    "k": "K",
}


@dataclass(frozen=True, slots=True)
class TunedRow:
    """One row: its key, its line in the file, the tuner's time in us (None: not told), and the kernels it names."""

    key: Key
    line: int
    us: float | None = None
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TunedTable:
    """One table as a file gave it; ``validators``: name and value of TunableOp's guards (a mismatch drops the file)."""

    name: str
    kind: TableKind
    rows: tuple[TunedRow, ...]
    validators: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """What a lookup found.

    Args:
        bucket: rows that matched, or the first bucket asked for.
        row: the tuned row; None: the library takes its default.
        text: the sentence with the numbers.
        differs: columns of the nearest row that do not match; empty with a row, and in an empty table.
    """

    bucket: int
    row: TunedRow | None
    text: str
    differs: tuple[str, ...] = ()

    @property
    def tuned(self) -> bool:
        """Whether a row serves the call."""
        return self.row is not None


def next_pow2(rows: int) -> int:
    """Smallest power of two that holds ``rows``; 1 for none."""
    return 1 if rows <= 1 else 1 << (rows - 1).bit_length()


def moe_bucket(rows: int) -> int:
    """Padded rows of a fused-MoE call: the next power of two, at most 32,768.

    AITER before the M3 tables knew 1,024, 2,048 and 16,384 alone above 1,023 rows.
    """
    return min(next_pow2(rows), MOST_PADDED)


def gemm_buckets(rows: int, n: int) -> tuple[int, ...]:
    """Rows that AITER asks a dense table for, in order: exact, rounded up in fine steps, the next power of two."""
    step = 16 if rows <= 256 else 32 if rows <= 1024 else 64 if rows <= 4096 else 128
    fine = -(-rows // step) * step
    coarse = 8192 if rows > 8192 and n > 4096 else next_pow2(rows)
    return tuple(dict.fromkeys((rows, fine, coarse)))


def buckets(kind: TableKind, key: Key) -> tuple[int, ...]:
    """Values of the rows column that would serve this call, in the order asked."""
    if isinstance(key, MoeKey):
        return (moe_bucket(key.rows),)
    return (key.rows,) if kind is TableKind.TUNABLEOP else gemm_buckets(key.rows, key.n)


def lookup(table: TunedTable, key: Key) -> Hit:
    """The row that serves a call, or the columns in which the nearest row differs.

    Args:
        table: rows of the other kind of key are passed over.
        key: its rows are those of the call, before padding.
    """
    asked = buckets(table.kind, key)
    mine = [row for row in table.rows if isinstance(row.key, type(key))]
    for bucket in asked:
        same = [row for row in mine if row.key.rows == bucket and not differing(key, row.key)]
        if same:
            return _hit(table, key, bucket, same)
    return _miss(table, key, asked, mine)


def differing(key: Key, other: Key) -> tuple[str, ...]:
    """Columns, rows aside, that both sides know and that are not equal."""
    names = [f.name for f in fields(key) if f.name != "rows"]
    pairs = [(name, getattr(key, name), getattr(other, name, None)) for name in names]
    return tuple(name for name, a, b in pairs if a is not None and b is not None and a != b)


def _hit(table: TunedTable, key: Key, bucket: int, same: list[TunedRow]) -> Hit:
    row = same[-1]
    took = "" if row.us is None else f", {row.us:g} us"
    also = f"; {len(same)} rows have this key" if len(same) > 1 else ""
    padded = f"{key.rows:,} rows" if key.rows == bucket else f"{key.rows:,} rows -> {bucket:,}"
    return Hit(bucket, row, f"tuned: {padded}, {table.name}:{row.line}{took}{also}")


def _miss(table: TunedTable, key: Key, asked: tuple[int, ...], mine: list[TunedRow]) -> Hit:
    if not mine:
        return Hit(asked[0], None, f"default: {table.name} has no row of this kind")
    apart = [(differing(key, row.key), row.key.rows not in asked, row) for row in mine]
    differs, other_rows, near = min(apart, key=lambda each: (len(each[0]), each[1]))
    said = [f"{WORDS.get(name, name)} {getattr(key, name)}, not {getattr(near.key, name)}" for name in differs]
    if other_rows:
        said.append(f"rows {' or '.join(f'{rows:,}' for rows in asked)}, which it lacks")
    return Hit(asked[0], None, f"default: {table.name} has no such row; nearest differs in {'; '.join(said)}", differs)
