"""Tuned tables: real header variants, paddings by hand, errors with file and line, and the row a call gets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tree import ROOT

from m3probe.errors import UnreadableInput
from m3probe.readers.tuned_tables import read_tuned_table
from m3probe.schema.tuned import (
    GemmKey,
    MoeKey,
    TableKind,
    TunedTable,
    buckets,
    gemm_buckets,
    lookup,
    moe_bucket,
)

DATA = ROOT / "tests" / "data" / "tuned"
FMOE_HEADER = "cu_num,token,model_dim,inter_dim,expert,topk,us,kernelName1"
KEY = MoeKey(
    rows=128,
    model_dim=6144,
    inter_dim=768,
    experts=129,
    top_k=5,
    act="Swiglu",
    dtype="bfloat16",
    q_dtype_a="float8_e4m3fn",
    q_dtype_w="float8_e4m3fn",
    q_type="per_1x32",
    g1u1=True,
    weight_stage1=False,
    cu_num=256,
    gfx="gfx950",
)


def table(name: str) -> TunedTable:
    return read_tuned_table((DATA / name).read_bytes(), name)


def refused(text: str | bytes, where: str = "t.csv") -> str:
    with pytest.raises(UnreadableInput) as found:
        read_tuned_table(text if isinstance(text, bytes) else text.encode(), where)
    return found.value.sentence()


# --- headers --------------------------------------------------------------------------------------------------


def test_the_newer_header_gives_every_key_column() -> None:
    read = table("generated_mxfp8_tuned_fmoe.csv")
    assert (read.kind, len(read.rows)) == (TableKind.FMOE, 32), "16 powers of two for each of two inner sizes"
    row = read.rows[7]
    assert row.key == KEY
    assert (row.line, row.us) == (9, 16.5)
    assert row.kernels == ("generated_stage1_m128_i768", "generated_stage2_m128_i768")


def test_the_older_header_lacks_gfx_and_its_rows_serve_any() -> None:
    """CRLF, an empty line, True and False for the switches, a nan time: all seen in the wild."""
    read = table("generated_fp4_tuned_fmoe_old_header.csv")
    assert len(read.rows) == 8
    assert {row.key.gfx for row in read.rows} == {None}
    assert [row.line for row in read.rows] == [2, 3, 4, 6, 7, 8, 9, 10]
    by_rows = {row.key.rows: row for row in read.rows}
    assert (by_rows[64].us, by_rows[32].us) == (None, 32.25)
    fp4 = replace(KEY, rows=64, q_dtype_a="float4_e2m1fn_x2", q_dtype_w="float4_e2m1fn_x2")
    hit = lookup(read, fp4)
    assert hit.tuned
    assert hit.text == "tuned: 64 rows, generated_fp4_tuned_fmoe_old_header.csv:9"


def test_columns_are_found_by_name_in_any_order() -> None:
    read = read_tuned_table(b"us,topk,expert,inter_dim,model_dim,token,kernelName1\n9.5,5,129,768,6144,16,k\n", "x.csv")
    (row,) = read.rows
    assert row.key == MoeKey(rows=16, model_dim=6144, inter_dim=768, experts=129, top_k=5)
    assert row.us == 9.5


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:
    assert len(read_tuned_table(b"\xef\xbb\xbfM,N,K,us\n1,2,3,4.0\n").rows) == 1


def test_a_header_alone_is_an_empty_table_and_everything_is_default() -> None:
    read = read_tuned_table(f"{FMOE_HEADER}\n".encode(), "empty.csv")
    assert read.rows == ()
    assert lookup(read, KEY).text == "default: empty.csv has no row of this kind"


def test_dense_tables_of_both_forms() -> None:
    bf16 = table("generated_bf16_tuned_gemm.csv")
    assert (bf16.kind, len(bf16.rows)) == (TableKind.GEMM, 27)
    assert bf16.rows[0].key == GemmKey(1, 2304, 6144, "bfloat16", "bfloat16", 256, "gfx950")
    a8w8 = table("generated_a8w8_bpreshuffle_tuned_gemm.csv")
    assert [row.key.dtype for row in a8w8.rows if isinstance(row.key, GemmKey)] == ["float8_e4m3fn"] * 2


def test_tunableop_counts_n_first_and_keeps_linear_layers_alone() -> None:
    """tn_N_M_K: BLAS is column-major. NN and batched lines are no linear layer; the time is in ms."""
    read = table("generated_tunableop_results0.csv")
    assert read.kind is TableKind.TUNABLEOP
    assert [row.key for row in read.rows] == [
        GemmKey(100, 2304, 6144, "bfloat16"),
        GemmKey(100, 2560, 6144, "bfloat16"),
        GemmKey(100, 6144, 2048, "float16"),
    ]
    assert [row.us for row in read.rows] == pytest.approx([12.5, 13.5, 16.5])
    assert read.rows[0].kernels == ("Gemm_Hipblaslt_11",)
    assert dict(read.validators)["GCN_ARCH_NAME"] == "gfx950:sramecc+:xnack-"


# --- errors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "t.csv: the file is empty"),
        ("a,b,c\n1,2,3\n", "t.csv:1: a header with token, model_dim, inter_dim, expert, topk or M, N, K was expected"),
        ("token,model_dim,inter_dim,expert,topk\n1,2,3,4,5\n", "t.csv:1: a list of shapes to tune"),
        (f"{FMOE_HEADER}\n256,1,6144,768,129,5,1.0\n", "t.csv:2: 7 fields, the header has 8"),
        (f"{FMOE_HEADER}\n\n256,x,6144,768,129,5,1.0,k\n", "t.csv:3: column token: 'x' is no whole number"),
        (f"{FMOE_HEADER}\n256,1.5,6144,768,129,5,1.0,k\n", "t.csv:2: column token: '1.5' is no whole number"),
        (f"{FMOE_HEADER}\n256,-1,6144,768,129,5,1.0,k\n", "t.csv:2: column token: '-1' is no whole number"),
        (f"{FMOE_HEADER}\n256,,6144,768,129,5,1.0,k\n", "t.csv:2: column token is empty"),
        (f"{FMOE_HEADER}\n256,1,6144,768,129,5,fast,k\n", "t.csv:2: column us: 'fast' is no number"),
        (f"{FMOE_HEADER},use_g1u1\n256,1,6144,768,129,5,1.0,k,2\n", "t.csv:2: column use_g1u1: '2' is neither 0 nor 1"),
        (f'{FMOE_HEADER}\n256,1,6144,768,129,5,1.0,"k\n', "t.csv:2: no CSV"),
        ("Validator,PT_VERSION,2.9\nnonsense\n", "t.csv:2: neither a Validator nor a TunableOp line"),
        ("GemmTunableOp_BFloat16_TN,tn_1_2,Default,1\n", "t.csv:1: 'tn_1_2,Default,1' is no tn_N_M_K shape"),
        ("GemmTunableOp_BFloat16_TN,tn_1_2_3,Default,soon\n", "t.csv:1: 'tn_1_2_3,Default,soon' is no tn_N_M_K"),
    ],
)
def test_an_error_names_file_line_and_matter(text: str, says: str) -> None:
    assert refused(text).startswith(says)


def test_bytes_that_are_no_text_are_refused() -> None:
    assert refused(b"\xff\xfe\x00token").startswith("t.csv: not UTF-8 text")


def test_without_a_name_an_error_still_gives_the_line() -> None:
    assert refused(f"{FMOE_HEADER}\n256,1\n", "").startswith("line 2: 2 fields")


# --- paddings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "bucket"),
    [
        (0, 1),
        (1, 1),
        (2, 2),
        (3, 4),
        (16, 16),
        (17, 32),
        (100, 128),
        (1023, 1024),
        (1025, 2048),
        (32768, 32768),
        (40000, 32768),
    ],
)
def test_moe_rows_are_padded_to_powers_of_two_up_to_32768(rows: int, bucket: int) -> None:
    assert moe_bucket(rows) == bucket


@pytest.mark.parametrize(
    ("rows", "n", "asked"),
    [
        (1, 2560, (1, 16)),
        (100, 2560, (100, 112, 128)),
        (128, 2560, (128,)),
        (300, 2560, (300, 320, 512)),
        (1500, 2560, (1500, 1536, 2048)),
        (5000, 2560, (5000, 5120, 8192)),
        (9000, 6144, (9000, 9088, 8192)),
        (9000, 2560, (9000, 9088, 16384)),
    ],
)
def test_dense_rows_are_asked_exact_then_fine_then_coarse(rows: int, n: int, asked: tuple[int, ...]) -> None:
    """Steps of 16, 32, 64, 128; above 8,192 rows a wide weight is asked at 8,192 (getPaddedM)."""
    assert gemm_buckets(rows, n) == asked


def test_tunableop_pads_nothing() -> None:
    assert buckets(TableKind.TUNABLEOP, GemmKey(100, 2560, 6144)) == (100,)


# --- lookups --------------------------------------------------------------------------------------------------


def test_a_padded_call_finds_its_row() -> None:
    hit = lookup(table("generated_mxfp8_tuned_fmoe.csv"), replace(KEY, rows=100))
    assert (hit.tuned, hit.bucket) == (True, 128)
    assert hit.text == "tuned: 100 rows -> 128, generated_mxfp8_tuned_fmoe.csv:9, 16.5 us"


def test_128_experts_miss_a_table_of_129_and_the_columns_are_named() -> None:
    hit = lookup(table("generated_mxfp8_tuned_fmoe.csv"), replace(KEY, experts=128, top_k=4))
    assert not hit.tuned
    assert hit.differs == ("experts", "top_k")
    assert hit.text == (
        "default: generated_mxfp8_tuned_fmoe.csv has no such row; nearest differs in experts 128, not 129; top-k 4, not 5"
    )


@pytest.mark.parametrize(
    ("changed", "column"),
    [
        ({"cu_num": 304}, "compute units 304, not 256"),
        ({"gfx": "gfx942"}, "gfx gfx942, not gfx950"),
        ({"inter_dim": 1536}, "inter dim 1536, not 768"),
        ({"model_dim": 7168}, "model dim 7168, not 6144"),
        ({"act": "Silu"}, "act Silu, not Swiglu"),
        ({"q_dtype_a": "bfloat16"}, "activation dtype bfloat16, not float8_e4m3fn"),
        ({"q_type": "per_Token"}, "q_type per_Token, not per_1x32"),
        ({"weight_stage1": True}, "weight_stage1 True, not False"),
    ],
)
def test_every_column_of_the_key_decides(changed: dict[str, object], column: str) -> None:
    hit = lookup(table("generated_mxfp8_tuned_fmoe.csv"), replace(KEY, **changed))
    assert not hit.tuned
    assert column in hit.text


def test_what_is_not_known_decides_nothing() -> None:
    assert lookup(table("generated_mxfp8_tuned_fmoe.csv"), replace(KEY, cu_num=None, gfx=None)).tuned


def test_rows_that_a_table_lacks_are_named() -> None:
    hit = lookup(
        table("generated_fp4_tuned_fmoe_old_header.csv"), replace(KEY, rows=200, q_dtype_a=None, q_dtype_w=None)
    )
    assert hit.differs == ()
    assert hit.text.endswith("nearest differs in rows 256, which it lacks")


def test_dense_lookups_take_the_first_bucket_that_has_a_row() -> None:
    """33 rows: exact 33 is missing, 48 is the fine step and there; 100 rows: 112 and 128 are not in the a8w8 table."""
    a8w8 = table("generated_a8w8_bpreshuffle_tuned_gemm.csv")
    assert lookup(a8w8, GemmKey(33, 2560, 6144)).bucket == 48
    miss = lookup(a8w8, GemmKey(100, 2560, 6144))
    assert miss.text.endswith("nearest differs in rows 100 or 112 or 128, which it lacks")


def test_two_rows_of_one_key_are_told() -> None:
    text = f"{FMOE_HEADER}\n256,16,6144,768,129,5,2.0,a\n256,16,6144,768,129,5,1.0,b\n"
    hit = lookup(read_tuned_table(text.encode(), "twice.csv"), replace(KEY, rows=16))
    assert hit.text == "tuned: 16 rows, twice.csv:3, 1 us; 2 rows have this key"
    assert hit.row is not None
    assert hit.row.kernels == ("b",)


def test_a_key_of_the_other_kind_finds_nothing() -> None:
    assert not lookup(table("generated_bf16_tuned_gemm.csv"), KEY).tuned
