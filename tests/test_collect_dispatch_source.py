"""The dispatch table against vLLM's sources: MiniMax M3's AMD model call by call, in four releases.

Where M3PROBE_VLLM_TREES names a folder that holds one folder per release (0.33.0/vllm/...), the sources are read.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from pathlib import Path

import pytest

from m3probe.collectors._dispatch_table import BRANCHES
from m3probe.collectors._seams import SEAMS
from m3probe.collectors._seams.dispatch import SEAMS as OURS
from m3probe.vllm_source.seams import SeamState, check_one
from m3probe.vllm_source.tree import Tree

TREES = "M3PROBE_VLLM_TREES"
VERSIONS = ("0.24.0", "0.25.1", "0.32.0", "0.33.0")
M3 = "vllm/models/minimax_m3"
READ = (
    ("amd/model.py", "MiniMaxM3DecoderLayer"),
    ("amd/model.py", "MiniMaxM3SparseAttention"),
    ("amd/model.py", "MiniMaxM3Attention"),
    ("amd/model.py", "MiniMaxM3MoE"),
    ("amd/model.py", "MiniMaxM3Model"),
    ("amd/sparse_attention_msa.py", "MiniMaxM3SparseAiterPAImpl"),
    ("amd/indexer_msa.py", "MiniMaxM3IndexerMSAImpl"),
    ("amd/indexer_aiter.py", "MiniMaxM3IndexerAiterImpl"),
    ("amd/indexer_context_parallel.py", "MiniMaxM3IndexerTritonCPImpl"),
    ("common/sparse_attention.py", "MiniMaxM3SparseTritonImpl"),
    ("common/indexer.py", "MiniMaxM3IndexerTritonImpl"),
)
METHODS = (
    "__init__",
    "forward",
    "_run_attention",
    "_decode",
    "_prefill",
    "_decode_cp_aiter",
    "_insert_aiter_sparse_pa_kv",
)
DECIDES = re.compile(
    r"fused_|select_|enabled$|compatible|use_aiter|minimax_m3_(sparse_attn|index_)|pa_sparse|_should_skip|decode\.plan"
    r"|specialized|cp_decode|impl\.forward|self\.indexer$|self\.experts|self\.gate$|step\.layer|_decode$|_prefill$|MLP$"
)
"""Names of calls that take or decide a branch."""
# call -> the seams that see it, or why none is needed
COVERED: dict[str, tuple[str, ...] | str] = {
    "fused_allreduce_gemma_rms_norm": ("ask_fused_ar", "ran_fused_ar", "in_all_reduce"),
    "ops.fused_minimax_m3_qknorm_rope_kv_insert": ("ran_qknorm_vllm",),
    "rocm_aiter_ops.fused_qknorm_idxrqknorm": ("ran_qknorm_aiter",),
    "rocm_aiter_ops.fused_qknorm_idxrqknorm_enabled": ("ask_qknorm",),
    "self.impl.forward": ("at_attend_triton", "at_attend_aiter"),
    "self.indexer": ("ran_index_decode", "ran_index_prefill", "ran_index_msa_decode", "ran_index_aiter", "ran_index_cp"),
    "minimax_m3_sparse_attn": ("ran_sparse_prefill",),
    "minimax_m3_sparse_attn_decode": ("ran_sparse_decode",),
    "minimax_m3_sparse_attn_decode_aiter": ("ran_sparse_decode_aiter",),
    "minimax_m3_sparse_attn_prefill_aiter": ("ran_sparse_prefill_aiter",),
    "minimax_m3_index_decode": ("ran_index_decode",),
    "minimax_m3_index_score": ("ran_index_prefill",),
    "minimax_m3_index_topk": "follows minimax_m3_index_score on the same rows",
    "self.cp_decode": ("ran_index_cp",),
    "get_shared_cp_decode": "builds what cp_decode calls",
    "self._decode": ("ran_index_msa_decode",),
    "self._prefill": ("ran_index_msa_prefill",),
    "self._decode_cp_aiter": "inside of _decode; context_parallel is read from the layer",
    "pa_sparse_block_score_decode": "inside of _decode, or of the forward of 0.32",
    "pa_sparse_block_score_prefill": "inside of _prefill, or of the forward of 0.32",
    "pa_sparse_block_topk": "follows the score",
    "pa_sparse_block_topk_cp": "follows the score",
    "minimax_m3_use_aiter_sparse_pa": ("ask_sparse_pa",),
    "select_main_impl_cls": "the class is read from the loaded layer",
    "select_main_backend_and_impl_cls": "the class is read from the loaded layer",
    "select_msa_indexer_impl_cls": ("ask_index_msa",),
    "select_aiter_indexer_impl_cls": ("ask_index_aiter",),
    "msa_indexer_cp_enabled": ("ask_index_msa",),
    "_should_skip_index_topk": "skip_index_topk is read from the loaded layer, and in each attend",
    "_aiter_moe_fused_shared_experts_enabled": "use_aiter_moe_fse is read from the loaded layer",
    "_fuse_shared_experts_enabled": "the loaded layer has no shared expert of its own (0.25.1)",
    "is_shared_expert_quant_fse_compatible": ("ask_fse",),
    "is_model_fused_shared_expert_compatible": "asks the loaded layers whether they agree",
    "MiniMaxM3MLP": ("ran_shared_mlp",),
    "self.gate": ("in_router_gemm", "ran_router_rocm", "ran_router_terms"),
    "self.experts": ("at_moe", "ran_experts", "ran_experts_monolithic"),
    "specialized_decode_config": "what it refuses keeps the engine from starting",
    "decode.plan": ("ask_monokernel",),
    "step.layer": ("ran_monokernel",),
}  # fmt: skip


def tree(version: str) -> Path:
    named = os.environ.get(TREES, "")
    if not named:
        pytest.skip(f"set {TREES} to a folder of unpacked vLLM releases")
    return Path(named) / version


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def called(version: str) -> frozenset[str]:
    """Calls in the methods that are read, which take or decide a branch."""
    found: set[str] = set()
    for file, cls in READ:
        path = tree(version) / M3 / file
        nodes = ast.walk(ast.parse(path.read_text())) if path.exists() else ()
        for node in nodes:
            if isinstance(node, ast.ClassDef) and node.name == cls:
                methods = [f for f in node.body if isinstance(f, ast.FunctionDef) and f.name in METHODS]
                found |= {dotted(c.func) for f in methods for c in ast.walk(f) if isinstance(c, ast.Call)}
    return frozenset(name for name in found if DECIDES.search(name))


def test_every_seam_has_a_row_and_every_row_a_seam() -> None:
    assert set(BRANCHES) == set(OURS)
    assert all(branch.says is not None or branch.layer is not None for branch in BRANCHES.values())
    held = {seam for branch in BRANCHES.values() for seam in branch.inside}
    assert held == {seam for seam, branch in BRANCHES.items() if branch.holds}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_branch_of_the_amd_model_is_covered(version: str) -> None:
    assert called(version) - set(COVERED) == set()
    assert len(called(version)) >= 10


@pytest.mark.parametrize("version", VERSIONS)
def test_what_covers_a_branch_is_there_in_that_release(version: str) -> None:
    looked = Tree(tree(version))
    for name in called(version):
        seams = COVERED[name]
        if not isinstance(seams, str):
            states = {
                seam: check_one(looked, SEAMS[seam]).state
                for seam in seams
                if not SEAMS[seam].module.startswith("aiter")
            }
            assert SeamState.PRESENT in states.values(), (name, states)
            assert SeamState.CHANGED not in states.values(), (name, states)


# By hand, from the trees: what a release lacks. AITER's own modules are in no tree.
LACKS_FROM_032 = {
    "ask_fused_ar", "ask_qknorm", "ran_qknorm_aiter", "ran_sparse_decode_aiter", "ran_sparse_prefill_aiter",
    "at_attend_aiter", "ran_router_rocm", "ran_router_terms", "ask_sparse_pa", "ask_fse",
}  # fmt: skip
LACKS_FROM_033 = {
    "ran_index_cp", "ran_index_msa_decode", "ran_index_msa_prefill", "ask_index_msa", "ask_monokernel", "ran_monokernel",
}  # fmt: skip
ONLY_032 = {"ran_index_aiter", "ask_index_aiter"}
AITER = {"ran_fused_ar", "ran_fmoe_table", "ran_gemm_table"}
ABSENT = {
    "0.24.0": LACKS_FROM_032 | LACKS_FROM_033 | ONLY_032 | AITER | {"ask_aiter_ar", "ran_aiter_ar"},
    "0.25.1": LACKS_FROM_032 | LACKS_FROM_033 | ONLY_032 | AITER,
    "0.32.0": LACKS_FROM_033 | AITER,
    "0.33.0": ONLY_032 | AITER,
}


@pytest.mark.parametrize("version", VERSIONS)
def test_seams_are_absent_where_they_were_read_to_be(version: str) -> None:
    looked = Tree(tree(version))
    states = {seam: check_one(looked, wanted).state for seam, wanted in OURS.items()}
    assert {seam for seam, state in states.items() if state is SeamState.ABSENT} == ABSENT[version]
    assert SeamState.CHANGED not in states.values()


@pytest.mark.parametrize("version", VERSIONS)
def test_names_bound_at_import_are_patched_where_they_are_called_from(version: str) -> None:
    """``also`` names every module of the release that imports the function by name and calls it."""
    for seam in ("ask_sparse_pa", "ask_fse", "ran_sparse_decode", "ran_index_prefill"):
        wanted = OURS[seam]
        name = wanted.name
        listed = {wanted.module} | {place.partition(":")[0] for place in wanted.also}
        binds = re.compile(rf"^from (\S+) import (?:\([^)]*\b{name}\b[^)]*\)|.*\b{name}\b)", re.MULTILINE)
        for path in sorted((tree(version) / "vllm/models/minimax_m3").rglob("*.py")):
            module = ".".join(path.relative_to(tree(version)).with_suffix("").parts)
            text = path.read_text()
            if binds.search(text) and re.search(rf"^(?!.*import)\s+.*\b{name}\(", text, re.MULTILINE):
                assert module in listed, (seam, module)
