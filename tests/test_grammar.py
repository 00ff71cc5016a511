"""The kernel grammar against hand-read truth, names of other models, and the sample traces."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from m3probe.kernels.demangle import demangle
from m3probe.kernels.grammar import Kind, Rule, classify, head_of, rules
from m3probe.schema.verdicts import Family

DATA = Path(__file__).parent / "data"
SHARED = Path(os.environ.get("M3PROBE_SHARED") or Path(__file__).parents[2] / "shared")
TRACES = SHARED / "traces"
INFERENCE = (
    "tracelens/inference/vllm_decode_full/graph_execution.json.gz",
    "tracelens/inference/vllm_decode_full/capture_traces/*.pt.trace.json.gz",
    "tracelens/inference/vllm_prefilldecode_piecewise/graph_execution.json.gz",
    "tracelens/inference/vllm_prefilldecode_piecewise/capture_traces/*.pt.trace.json.gz",
    "tracelens/inference/xdit_sd_3.5/profile_trace_rank_0.json.gz",
    "tracelens/b200/eager_trace.json.gz",
    "h200-m3/*-eager.pt.trace.json.gz",
    "h200-m3/*-graph.pt.trace.json.gz",
    "h200-m3-vllm-folder/*.pt.trace.json.gz",
)


def _truth() -> dict[str, set[str]]:
    """name -> fair families, of every kernel of the sample inference traces (read by hand)."""
    lines = (DATA / "families.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {name: {family, *also.split(",")} - {""} for name, family, also, _ in rows}


# Written by hand from kernel sources and published tables, not from the grammar: family, evidence, then names.
GOLDEN_TEXT = """
# comm source
void allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecQ4<__half, 4>, true>, __half>(int)
void allreduce_prototype_twoshot<AllReduceTwoshot<__half, CodecFP<__half, 8>, false>, __half>(int)
quick_allreduce_int4 | void aiter::allreduce_fusion_kernel_1stage<__hip_bfloat16, 4>(aiter::RankData*, float)
void aiter::allreduce_fusion_kernel_2stage<__hip_bfloat16, 8>(aiter::RankData*, float)
void aiter::qknorm_allreduce_fusion_kernel<int>(int)
void aiter::reduce_scatter_cross_device_store<__hip_bfloat16, 4>(int)
void aiter::local_device_load_rmsnorm_naive<__hip_bfloat16, 1>(int)
void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<3, __nv_bfloat16, 8>(int)
void aiter::allgather_naive<__hip_bfloat16, 8>(int) | void aiter::allgather_vec<__hip_bfloat16, 8>(int)
void aiter::allgather_lastdim<__hip_bfloat16, 8>(int)
void aiter::reduce_scatter_split_first_dim<__hip_bfloat16>(int)
void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(mori::moe::EpDispatchCombineArgs<__hip_bfloat16>)
void mori::moe::EpCombineInterNodeV1Kernel<__hip_bfloat16>(mori::moe::EpDispatchCombineArgs<__hip_bfloat16>)
void deep_ep::internode_ll::dispatch<true, false, 7168>(void*) | moeA2ADispatchKernel
_dcp_a2a_pack_send_kernel
# comm seen
void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)
void vllm::cross_device_reduce_2stage<__hip_bfloat16, 8>(vllm::RankData*)
void aiter::cross_device_reduce_2stage_write_mode<__hip_bfloat16, 8>(int)
void aiter::cross_device_reduce_2stage_naive<__hip_bfloat16, 4>(int)
ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)
ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*) | rcclGenericKernel
# indexer source
_build_sparse_block_table_kernel | _build_sparse_block_table_prefill_kernel | _decode_topk_fused_kernel
void aiter::minimax_m3_index_score_ops::decodeIndexScoreKernel<__hip_bfloat16>(__hip_bfloat16 const*)
pa_sparse_block_score_decode | pa_sparse_block_topk | _fp8_paged_mqa_logits_decode_kernel
void deep_gemm::sm90_fp8_mqa_logits<64u, 128u>(int) | void aiter::topk_per_row_decode<256, true>(float const*)
void vllm::persistent::persistent_topk_kernel<4>(int) | _convert_req_index_to_global_index_kernel
void vllm::cp_gather_indexer_k_quant_cache_kernel<8>(char const*)
# indexer seen
_decode_index_score_balanced_kernel | _topk_index_partial_kernel
# kv_write source
_insert_index_cache_kernel
void vllm::indexer_k_quant_and_cache_kernel<__hip_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)
void vllm::concat_and_cache_mla_kernel<__hip_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(int)
AppendPagedKVCacheKernel | _zero_kv_blocks_kernel
# kv_write seen
void aiter::reshape_and_cache_with_per_token_quant_kernel<int>(int) | reshape_and_cache_kernel_flash
reshape_and_cache_shuffle_kernel
# sparse_attention source
paged_attention_decode_v2_gluon_dot_kernel | paged_attention_decode_v2_gluon_large_block_dot_kernel
paged_attention_decode_sliding_window_head_1 | paged_attention_decode_ps_reduce_kernel
paged_attention_decode_v2_reduce_kernel | pa_decode_ps_reduce_flydsl_kernel | _sparse_attn_decode_partial_kernel
_kernel_unified_attention_sparse_mla_2d | kernel_msa_decode_nvfp4_kv_paged
void sm90::decode::sparse::flash_fwd_splitkv_mla_fp8_sparse_kernel<64>(int)
# moe_gemm source
flydsl_moe1_afp8_wfp8_bf16_t32x128x256_reduce | flydsl_moe2_layout_afp8_wfp8_bf16_t32x256x128_atomic
flydsl_moe1_afp4_wfp4_bf16_t64x128x256 | flydsl_moe2_afp4_wfp4_bf16_t64x256x256 | ck_moe_stage1_gemm_bf16
minimax_m3_mono_ffn_s8 | _mxfp8_grouped_gemm_kernel
void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 1u, (deep_gemm::GemmType)1>(int)
void marlin_moe_wna16::Marlin<__nv_bfloat16, 1125899906909960l, 256>(int4 const*) | _moe_gemm_a8w4
_gate_up_gemv_kernel
void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<int>, int> >(int)
# moe_gemm seen
_p_matmul_ogs | fused_moe_kernel_gptq_awq | _fused_moe_persistent_silu_kernel
void kernel_moe_mxgemm_2lds<ck::GridwiseMoeGemmMX_BPreshuffle<int> >(int)
_ZN5aiter55fmoe_bf16_blockscaleFp8_g1u1_vs_silu_1tg_ps_32x256_gfx95E
_ZN5aiter43fmoe_stage1_bf16_pertokenFp8_g1u1_96x64_pf3E
# moe_route source
opus_moe_sorting_entry | void ck_tile::kentry<256, 1, ck_tile::MoeSortingKernel<int> >(int)
mxfp4_moe_sort_kernel | fused_mx_quant_moe_sort_kernel | void aiter::biased_grouped_topk_kernel<int>(int)
void aiter::grouped_topk_kernel<float>(int) | moe_fused_gate_kernel | _ZN5aiter19topksoftmax_4x128x6E
_dsv4_topk_kernel | void aiter::scatter_reduce_mxfp4<int>(int) | _router_kernel | _fwd_kernel_ep_scatter_1
expandInputRowsKernel | _eplb_map_and_record_i32_kernel
# moe_route seen
void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>(int) | _rocm_fp32_router_gemm_kernel
_combined_routing_compute_pow2
# rope_kv source
void vllm::concat_and_cache_mla_rope_fused_kernel<int>(int) | void aiter::kn_entry_2c_sbhd_cached<int>(int)
_rope_kernel_sbhd_cached_fwd | _triton_mrope_forward | _fused_qk_rope_reshape_and_cache_kernel
void flashinfer::BatchQKApplyRotaryPosIdsKernel<int>(int) | _rope_fwd_2d_kernel_neox
void aiter::fusedQKNormIdxrQKNormKernel<__hip_bfloat16, 128>(int)
# rope_kv seen
void vllm::batched_rotary_embedding_kernel<float, true>(int)
# attention source
triton_tem_fused_flex_attention_3 | _ZN5aiter28pa_bf16_noquant_gqa16_1tg_4wE
_ZN5aiter31pa_bf16_pertokenFp8_gqa8_2tg_4wE | void vllm::paged_attention_v1_kernel<float, 128>(int)
_fwd_grouped_kernel_stage1_rope | _fwd_kernel_stage2 | void flash_mla::get_mla_metadata_kernel(int)
chunk_gated_delta_rule_fwd_kernel_h_blockdim64 | _selective_scan_update_kernel | merge_attn_states_kernel
void flashinfer::BatchDecodeWithPagedKVCacheKernel<int>(int)
# attention seen
kernel_unified_attention_2d.kd
_Z35paged_attention_ll4mi_reduce_kernelIDF16_Li128ELi128ELi512EEvPT_PKfS3_PKS0_PKii
_ZN5aiter39mla_pfl_bf16_a16w16_causal_subQ16_mqa16E | _ZN5aiter36mla_a8w8_qh16_qseqlen1_gqaratio16_psE
void kn_mla_reduce_v1_ps<int>(int) | aiter::fmha_fwd_hd128_bf16_causal_group
# norm source
MIOpenBatchNormFwdTrainSpatial
# norm seen
kernel_cutlass_kernel_flashinfer_norm_kernels_rmsnorm_RMSNormKernel_object_at__tensorptrbf16gmem
void vllm::scaled_rms_norm_kernel<c10::Half>(c10::Float8_e4m3fnuz*, c10::Half const*, float)
void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(int) | layer_norm_gated_fwd_kernel
_fused_rms_mxfp4_quant_kernel | RMSNormKernel | _minimax_rms_apply_kernel
# activation source
MIOpenNeuronFwd | void cudnn::detail::activation_fw_4d_kernel<float, float, 128, 1, 4>(cudnnTensorStruct, float const*)
_gelu_and_mul_sparse_kernel | activationDeepSeekKernel
void vllm::silu_mul_fp8_quant_deep_gemm_kernel<int>(int) | _act_mul_and_dynamic_mxfp4_quant_kernel
void vllm::swigluoai_and_mul_kernel<int>(int)
# activation seen
_swiglu_oai_quant_kernel
void vllm::scaled_act_and_mul_kernel<c10::Half, &c10::Half vllm::silu_kernel<c10::Half>(c10::Half const&)>(int)
# quant source
mxfp8_e4m3_quantize | void aiter::dynamic_per_group_scaled_quant_kernel<int>(int)
void aiter::dynamic_per_token_scaled_quant_kernel<int>(int) | _per_token_group_quant_fp8
_dynamic_mxfp4_quant_kernel | _upcast_from_mxfp | awq_dequantize_kernel
# quant seen
void vllm::dynamic_per_token_scaled_fp8_quant_kernel<c10::BFloat16>(int)
# gemm source
triton_tem_fused_mm_4 | _mxfp8_linear_kernel | _block32_tiled_kernel | _block32_packed_kernel
_block32_splitk_reduce_kernel | flydsl_bpreshuflle_16x64x512_F8_F8_B16_2x0x1 | a8w8_bpreshuffle_256x128
_gemm_a8w8_blockscale_kernel | _gemm_afp4_wfp4_kernel | _gemm_afp4wfp4_reduce_kernel
_ZN5aiter41f4gemm_bf16_per1x32Fp4_BpreShuffle_32x128E
void wvSplitK_hf_sml_<__hip_bfloat16, 64, 2, 16, 8, 2, 2>(int) | void LLGemm1_kernel<int, 4>(int)
_lora_shrink_kernel | awq_gemm_kernel | matmul_kernel_persistent | _w8a8_triton_block_scaled_mm
void vllm::gptq::gemm_half_q_half_gptq_4bit_kernel<true, 1>(int) | void at::native::im2col_kernel<float>(long)
# gemm seen
void wvSpltK_hf_sml_<64, 4, 16, 8, 1, 4>(int, int, __half const*, __half const*, __half*, int)
ampere_sgemm_128x64_nn | cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1
void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>(int)
void gemv2T_kernel_val<int, int, float, float, float>(int)
# sampling source
_topk_topp_kernel | _topp_sb_stats_kernel | _gumbel_sample_kernel | rejection_random_sample_kernel
_penalties_kernel | void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)
void vllm::apply_repetition_penalties_kernel<float>(int) | _apply_grammar_bitmask_kernel
# sampling seen
void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*, int)
void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(int)
void at::native::cunn_SoftMaxForward<4, float, float, float, at::native::LogSoftMaxForwardEpilogue>(float*)
void at::native::radixSortKVInPlace<-2, -1, 32, 4, long>(int)
# copy source
void marlin::gptq_marlin_repack_kernel<256, 4, false>(unsigned int const*) | void machete::prepack_B_kernel<int>(int)
void marlin_moe_wna16::permute_cols_kernel(int4 const*, int const*, int4*, int, int)
void deep_gemm::transpose_and_pack_fp32_into_ue8m0<128u, 32u, 56u>(float*, unsigned int*, unsigned int)
batch_memcpy_kernel | void vllm::vocab_embedding::vocab_parallel_embedding_kernel<int>(int)
vecCopy(double*, double*, double*, int, int)
# other source
_prepare_prefill_inputs_kernel | _gather_block_tables_kernel | eagle_prepare_inputs_padded_kernel
_ring_metadata_kernel
# other seen
void fbgemm_gpu::permute_2D_data_kernel<false, int, int, decltype(nullptr)>(int, int, int, int const*)
void fbgemm_gpu::_block_bucketize_sparse_features_cuda_kernel1<int, int>(int, int, int const*)
void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_warp_per_row_1<float, float>(int)
void split_embedding_codegen_forward_unweighted_kernel<float, float, float, false, long, 1ul, 16ul>(int)
void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(float*, float const*)
void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int, int>::Policy800, false>(int*)
void fbgemm_gpu::some_new_kernel<int>(int)
_compute_slot_mappings_kernel | void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int>(int)
void cub::DeviceScanInitKernel<cub::ScanTileState<int, true> >(int)
# elementwise source
void cudnn::detail::pooling_fw_4d_kernel<float, float, cudnn::detail::maxpooling_func<float>, 0>(int)
mean_kernel | my_scale_add
# elementwise seen
void at::native::(anonymous namespace)::elementwise_kernel_with_index<int, int>(int)
# memory seen
Memcpy DtoD (Device -> Device) | Memcpy HtoD (Pageable -> Device) | Memset (Device) | __amd_rocclr_copyBuffer.kd
__amd_rocclr_fillBufferAligned | [CUDA memcpy Host-to-Device] | CopyDeviceToHost | FillBuffer
"""


def _golden() -> list[tuple[str, str, bool]]:
    """(name, family, known from source only)."""
    rows: list[tuple[str, str, bool]] = []
    family = evidence = ""
    for line in GOLDEN_TEXT.strip().splitlines():
        if line.startswith("# "):
            _, family, evidence = line.split()
        else:
            rows += [(name, family, evidence == "source") for name in line.split(" | ")]
    return rows


TRUTH = _truth()
GOLDEN = _golden()


def _first_rule(name: str, op: str = "") -> Rule | None:
    low = demangle(name).lower()
    return next((rule for rule in rules() if rule.matches(low, head_of(low), op)), None)


@pytest.mark.parametrize("name", TRUTH, ids=lambda name: name[:60])
def test_a_name_of_the_sample_traces_gets_a_fair_family(name: str) -> None:
    assert classify(name).family in TRUTH[name]


@pytest.mark.parametrize(("name", "family", "source"), GOLDEN, ids=lambda value: str(value)[:60])
def test_a_name_known_from_source_or_tables_gets_its_family(name: str, family: str, source: bool) -> None:
    kind = classify(name)
    assert kind.family == family
    assert kind.names_from_source is source


@pytest.mark.parametrize(
    "name",
    [
        "triton_poi_fused_mm_rsqrt_copy_0",
        "triton_red_fused_addmm_native_layer_norm_moe_forward_3",
        "triton_per_fused_all_reduce_softmax_topk_quantize_7",
        "triton_poi_fused__scaled_dot_product_flash_attention_all_gather_2",
        "triton_for_fused_copy_11",
        "triton__0d1d2d3de",
    ],
)
def test_words_in_an_inductor_name_are_the_ops_it_fused_and_never_decide(name: str) -> None:
    assert classify(name).family is Family.ELEMENTWISE


@pytest.mark.parametrize(
    ("earlier", "name"),
    [
        ("comm", "void aiter::allreduce_fusion_kernel_1stage<__hip_bfloat16, 8, true>(aiter::RankData*, float)"),
        ("indexer", "_topk_index_merge_kernel"),
        ("kv_write", "void vllm::reshape_and_cache_flash_kernel<float, float>(float const*)"),
        ("moe_gemm", "void kernel_moe_mxgemm_2lds<ck::GridwiseMoeGemmMX<...>>(int)"),
        ("norm", "void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn>(int)"),
        ("activation", "void vllm::act_and_mul_quant_kernel<c10::BFloat16>(c10::Float8_e4m3fn*)"),
        ("gemm", "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64>(int)"),
        ("attention", "void vllm::paged_attention_v2_kernel<unsigned short, (vllm::Fp8KVCacheDataType)1>(float*)"),
        ("norm", "_grouped_gemma_rmsnorm_kernel"),
        ("attention", "combine_splitkv_partials_kernel"),
    ],
)
def test_of_two_words_in_a_name_the_order_of_the_rules_decides(earlier: str, name: str) -> None:
    assert classify(name).family == earlier


@pytest.mark.parametrize(
    ("name", "accident"),
    [
        ("void fbgemm_gpu::jagged_dense_elementwise_kernel<int>(int)", "gemm"),
        ("void fbgemm_gpu::gather_along_moe_kernel<int>(int)", "moe_gemm"),
        ("void marlin_moe_wna16::permute_cols_kernel(int4 const*)", "moe_gemm"),
        ("void cudnn::detail::softmax_fw_kernel<2, float, float, 256, 1>(int)", "gemm"),
        ("my_upsample_kernel", "sampling"),
        ("qkv_add_bias_kernel", "sampling"),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 9, true, false>(float*)",
            "attention",
        ),
    ],
)
def test_the_name_of_a_library_is_no_evidence_of_what_its_kernel_does(name: str, accident: str) -> None:
    assert classify(name).family != accident


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("void fbgemm_gpu::f8f8bf16_gemm_kernel<int>(int)", "gemm"),
        ("void fbgemm_gpu::grouped_gemm_kernel<int>(int)", "moe_gemm"),
        (
            "void (anonymous namespace)::softmax_warp_forward<c10::Half, float, float, 9, false, true>(float*)",
            "attention",
        ),
        ("_bias_kernel", "sampling"),
        ("void flashinfer::sampling::TopKMaskLogitsKernel<int>(int)", "sampling"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)", "gemm"),
        ("stream_k_splitk_kernel", "gemm"),
    ],
)
def test_a_library_with_such_a_name_keeps_the_kernels_that_do_it(name: str, family: str) -> None:
    assert classify(name).family == family


@pytest.mark.parametrize("name", ["kernel_of_nobody", "", "_Z", "<", "(", "kernel", "foo.kd", "_ZNbroken", "_Zf\udcff"])
def test_a_name_no_rule_knows_stays_unknown_and_nothing_is_raised(name: str) -> None:
    assert classify(name) == Kind(Family.UNKNOWN, "unknown", names_from_source=False)


def test_a_kernel_named_kernel_is_a_quantiser_only_by_its_parent_op() -> None:
    assert classify("_kernel").family is Family.UNKNOWN
    assert classify("_kernel", "aten::add").family is Family.UNKNOWN
    named = classify("_kernel", "vllm::mxfp8_e4m3_quantize")
    assert (named.family, named.names_from_source) == (Family.QUANT, True)


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        # By the Itanium ABI: DF16b is std::bfloat16_t, DF16_ is _Float16; S_ = vllm, S0_ = vllm::rms_norm_kernel,
        # S1_ = T_ (the bfloat16), so PT_ is a pointer to it and PKS1_ one to const.
        (
            "_ZN4vllm15rms_norm_kernelIDF16bLi8ELi2EEEvPT_PKS1_fi",
            "void vllm::rms_norm_kernel<std::bfloat16_t, 8, 2>(std::bfloat16_t*, std::bfloat16_t const*, float, int)",
        ),
        ("_Z4castIDF16bDF16_EvPT0_PKT_", "void cast<std::bfloat16_t, _Float16>(_Float16*, std::bfloat16_t const*)"),
        ("_ZN7ck_tile6kentryILi1ENS_3fooIDF16bEEEEvT0_",
         "void ck_tile::kentry<1, ck_tile::foo<std::bfloat16_t>>(ck_tile::foo<std::bfloat16_t>)"),
        ("_ZN5aiter28bf16gemm_outf32_tn_32x64_pf3E", "aiter::bf16gemm_outf32_tn_32x64_pf3"),
        ("_Z11my_rms_normIfEvPT_i", "void my_rms_norm<float>(float*, int)"),
        ("_Z11my_rms_normIfEvPT_i.kd", "void my_rms_norm<float>(float*, int)"),
        ("_Z11my_rms_normIfEvPT_i [clone .kd]", "void my_rms_norm<float>(float*, int)"),
        ("my_scale_add.kd", "my_scale_add"),
        ("void f<int>(int) [clone .kd]", "void f<int>(int)"),
        ("_ZNnot_mangled", "_ZNnot_mangled"),
        ("Cijk_Alik_Bljk_BBS_BH_MT32x32x64", "Cijk_Alik_Bljk_BBS_BH_MT32x32x64"),
    ],
)  # fmt: skip
def test_a_mangled_name_reads_as_the_abi_says(name: str, readable: str) -> None:
    assert demangle(name) == readable


def test_every_mangled_name_of_the_sample_traces_is_demangled() -> None:
    mangled = [name for name in TRUTH if name.startswith("_Z")]
    assert mangled
    assert not [name for name in mangled if demangle(name).startswith("_Z")]


def test_the_forms_of_one_name_are_one_kernel_and_two_tiles_stay_two() -> None:
    forms = ["_Z11my_rms_normIfEvPT_i", "void my_rms_norm<float>(float*, int)", "my_scale_add.kd", "my_scale_add"]
    tiles = [f"Cijk_Alik_Bljk_BBS_BH_UserArgs_MT{tile}x64_SN_X1" for tile in ("32x32", "64x64")]
    assert len({demangle(name) for name in forms}) == 2
    assert len({demangle(name) for name in tiles}) == 2
    assert {classify(name).family for name in forms[:2]} == {Family.NORM}
    assert {classify(name).family for name in tiles} == {Family.GEMM}


def test_without_a_demangler_mangled_names_are_classified_by_the_words_in_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from m3probe.kernels import demangle as module
    from m3probe.kernels import grammar

    monkeypatch.setattr(module, "_library", lambda: None)
    module.demangle.cache_clear()
    grammar._classified.cache_clear()
    try:
        wrong = [name for name in TRUTH if name.startswith("_Z") and classify(name).family not in TRUTH[name]]
    finally:
        module.demangle.cache_clear()
        grammar._classified.cache_clear()
    assert not wrong


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("void vllm::moe::topkgating<4, 128>(float const*)", "vllm::moe::topkgating"),
        ("void (anonymous namespace)::multimem_all_reduce_kernel<int>(int*)", "multimem_all_reduce_kernel"),
        ("std::enable_if<((8)>(0)), void>::type vllm::fused_add_rms_norm_kernel<int, 8>(int*)",
         "vllm::fused_add_rms_norm_kernel"),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::flashattnfwdsm90<int> > >(int)",
         "flash::flashattnfwdsm90"),
        ("void ck_tile::kentry<256, 2, ck_tile::fmhafwdkernel<int>>(int)", "ck_tile::fmhafwdkernel"),
        ("_topk_forward", "_topk_forward"),
    ],
)  # fmt: skip
def test_the_head_is_the_kernel_itself_and_wrappers_are_looked_through(name: str, head: str) -> None:
    assert head_of(name) == head


def test_every_rule_is_the_first_for_some_name() -> None:
    names = [(name, "") for name in [*TRUTH, *(row[0] for row in GOLDEN)]] + [("_kernel", "mxfp8_quantize")]
    reached = {id(_first_rule(name, op)) for name, op in names}
    assert not [(rule.category, rule.regex) for rule in rules() if id(rule) not in reached]


def test_every_rule_is_well_formed() -> None:
    for rule in rules():
        assert isinstance(rule.family, Family)
        assert rule.evidence in ("seen", "source")
        assert rule.category
        assert rule.any or rule.head or rule.starts or rule.regex or rule.whole
        words = (*rule.any, *rule.head, *rule.starts, *rule.when, *rule.op)
        assert all(word == word.lower() for word in words), rule.category


def test_every_family_but_unknown_has_a_rule() -> None:
    assert {rule.family for rule in rules()} == set(Family) - {Family.UNKNOWN}


def test_importing_the_grammar_and_reading_plain_names_loads_no_demangler() -> None:
    code = (
        "import sys; from m3probe.kernels.grammar import classify\n"
        "loaded = {'tomllib', 'numpy'} & set(sys.modules)\n"
        "classify('nvjet_tst_64x16_64x16_2x4_2cta_h_bz_bias_TNT')\n"
        "print(sorted(loaded | ({'pycxxfilt'} & set(sys.modules))))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


class _Event(msgspec.Struct):
    name: str = ""
    cat: str | None = None
    dur: float = 0.0


class _Trace(msgspec.Struct):
    events: list[_Event] = msgspec.field(name="traceEvents")


def _inference_traces() -> Iterator[object]:
    for pattern in INFERENCE:
        for path in sorted(TRACES.glob(pattern)):
            yield pytest.param(path, id=f"{path.parent.name}/{path.name[:24]}")


@pytest.mark.skipif(not TRACES.is_dir(), reason="sample traces are not here (set M3PROBE_SHARED)")
@pytest.mark.parametrize("path", list(_inference_traces()))
def test_nearly_all_kernel_time_of_an_inference_trace_is_in_a_right_family(path: Path) -> None:
    spent = dict.fromkeys(Family, 0.0)
    right = 0.0
    for event in msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Trace, strict=False).events:
        if event.cat == "kernel":
            family = classify(event.name).family
            spent[family] += event.dur
            right += event.dur if family in TRUTH.get(event.name, set()) else 0.0
    total = sum(spent.values())
    assert total > 0
    assert right >= 0.99 * total
    assert spent[Family.UNKNOWN] <= 0.01 * total
    assert spent[Family.OTHER] <= 0.02 * total
