"""The catalogue of fast paths as data: names, sources, and what each says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import kernel, recording
from tree import ROOT

from m3probe.analyzers._anchors import Names
from m3probe.fastpaths import fast_paths
from m3probe.kernels.demangle import demangle
from m3probe.model.executed import executed
from m3probe.schema.paths import Anchor, FastPath, Variant

# --- the data ------------------------------------------------------------------------------------------------

BY_KERNEL = [(n, v) for n, p in fast_paths().items() if p.counted_by is Anchor.KERNEL for v in p.variants]
IDS = [f"{name}-{variant.name}" for name, variant in BY_KERNEL]


def seen_names() -> list[str]:
    lines = (ROOT / "tests" / "data" / "families.tsv").read_text().splitlines()[1:]
    return [line.split("\t")[0].lower() for line in lines]


@pytest.mark.parametrize(("path", "variant"), BY_KERNEL, ids=IDS)
def test_names_from_source_is_true_exactly_where_no_real_trace_holds_an_anchor(path: str, variant: Variant) -> None:
    assert variant.names_from_source is not any(variant.counts(name) for name in seen_names())


@pytest.mark.parametrize(("path", "variant"), BY_KERNEL, ids=IDS)
def test_all_names_at_once_are_matched_like_one_name_at_a_time(tmp_path: Path, path: str, variant: Variant) -> None:
    made = [
        re.sub(r"\[.*?\]", "1", glob).replace("*", "").replace("?", "x") for glob in (*variant.anchors, *variant.beside)
    ]
    called = [*seen_names(), *made, *(f"pre_{name}_post" for name in made), "", "*", "["]
    rec = recording(tmp_path, [kernel(100.0 + i, 0.5, i + 1, name) for i, name in enumerate(called)])
    names = Names(rec, executed(rec))
    for globs, test in ((variant.anchors, variant.counts), (variant.beside, variant.stands_beside)):
        rows, shown = names.rows(globs)
        assert sorted(shown) == sorted({name for name in names.shown if test(name.lower())})
        assert rows.tolist() == [i for i, name in enumerate(rec.names("kernels")) if demangle(name) in shown]


@pytest.mark.parametrize(("path", "variant"), BY_KERNEL, ids=IDS)
def test_a_variant_says_where_it_was_read_and_globs_lower_case_names(path: str, variant: Variant) -> None:
    assert variant.source
    assert variant.calls_per_step
    for glob in (*variant.anchors, *variant.also, *variant.beside):
        assert glob == glob.lower()


@pytest.mark.parametrize("path", fast_paths().values(), ids=fast_paths())
def test_a_fast_path_says_how_it_is_asked_for(path: FastPath) -> None:
    assert path.question.endswith("?")
    assert path.configured
    assert path.default
    assert len({v.name for v in path.variants}) == len(path.variants)


@pytest.mark.parametrize(
    ("kernel_name", "path", "variant"),
    [
        ("flydsl_moe1_afp8_wfp8_bf16_t32x128x256_", "moe_backend", "AITER FlyDSL"),
        ("flydsl_moe2_layout_afp4_wfp4_bf16_t64x256x128", "moe_backend", "AITER FlyDSL"),
        ("ck::kernel_moe_mxgemm_2lds<int>", "moe_backend", "AITER CK"),
        ("aiter::fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_ps_32x256", "moe_backend", "AITER asm"),
        ("_mxfp8_grouped_gemm_kernel", "moe_backend", "Triton MXFP8"),
        ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "moe_backend", "triton_kernels"),
        ("kernel_cutlass_kernel_src_SparseAttentionForwardSm100_object_at_", "sparse_attention", "MSA"),
        ("paged_attention_decode_v2_gluon_large_block_dot_kernel", "sparse_attention", "AITER page-16"),
    ],
)
def test_names_of_the_catalogue_belong_to_one_variant(kernel_name: str, path: str, variant: str) -> None:
    assert [v.name for v in fast_paths()[path].variants if v.counts(kernel_name.lower())] == [variant]
