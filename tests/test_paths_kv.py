"""KV paths on paper: dtypes, bytes, pages, connectors; by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from builders import kernel, launch, recording, step
from m3_setups import FP8_INDEX, GATED, M3, OLD, VERSIONS, at, decode, refusal, setup

from m3probe.analyzers import paths, trust
from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._capture import modes
from m3probe.fastpaths.fp8_kv_cache import bytes_per_token, page_bytes
from m3probe.model.path_report import PathsSection
from m3probe.model.report import Answer
from m3probe.schema.setup import Held, Point, Setup, State
from m3probe.schema.verdicts import Phase

FP8 = {"--kv-cache-dtype": "fp8"}


def transfer(name: str = "MoRIIOConnector", **extra: object) -> dict[str, object]:
    said = {"kv_connector": name, "kv_role": "kv_producer", "kv_connector_extra_config": extra}
    return {"--kv-transfer-config": json.dumps(said)}


# --- FP8 KV ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("dtype", "state"),
    [
        ("fp8", State.ELIGIBLE),
        ("fp8_e4m3", State.ELIGIBLE),
        ("fp8_e5m2", State.UNPROVEN),  # the C++ cache op of ROCm is in no wheel's Python
        ("fp8_ds_mla", State.REFUSED_AT_START),
        ("bfloat16", State.OFF),
        ("auto", State.OFF),
    ],
)
def test_the_list_of_kv_dtypes(version: str, dtype: str, state: State) -> None:
    assert at("fp8_kv_cache", setup(version, flags={"--kv-cache-dtype": dtype})).state is state


@pytest.mark.parametrize(("gfx", "flavour"), [("gfx942", "FNUZ"), ("gfx950", "FN")])
def test_each_gpu_has_its_fp8_flavour(gfx: str, flavour: str) -> None:
    found = at("fp8_kv_cache", setup(flags=FP8, gfx=gfx))
    assert any(text.startswith(f"{gfx} stores {flavour}:") for text in found.of(Held.YES))


def test_bytes_of_one_token_at_tp4() -> None:
    """60 x 256 = 15,360 FP8 main; 57 x 256 = 14,592 BF16 index, 57 x 128 = 7,296 FP8; main in BF16: 60 x 512."""
    assert bytes_per_token(setup(flags=FP8)) == (15_360, 14_592)
    assert bytes_per_token(setup(flags=FP8 | FP8_INDEX)) == (15_360, 7_296)
    assert bytes_per_token(setup()) == (30_720, 14_592)
    assert bytes_per_token(setup(tp=2, flags=FP8)) == (30_720, 14_592)
    assert bytes_per_token(setup(tp=8, flags=FP8)) == (15_360, 14_592), "KV heads are replicated, not split"


def test_the_index_cache_is_half_of_an_fp8_cache() -> None:
    found = at("fp8_kv_cache", setup(flags=FP8))
    assert "15,360 + 14,592 = 29,952 B per token and rank; index keys are 49%" in found.of(Held.YES)


@pytest.mark.parametrize(
    ("size", "state"),
    [(128, State.ELIGIBLE), (64, State.REFUSED_AT_START), (16, State.REFUSED_AT_START), (256, State.UNPROVEN)],
)
def test_block_size_is_128(size: int, state: State) -> None:
    assert at("fp8_kv_cache", setup(flags=FP8 | {"--block-size": size})).state is state


@pytest.mark.parametrize(
    ("version", "held", "state"),
    [
        ("0.24.0", Held.NO, State.REFUSED_AT_START),
        ("0.25.1", Held.NO, State.REFUSED_AT_START),
        ("0.33.0", Held.YES, State.ELIGIBLE),
        (None, Held.UNKNOWN, State.UNPROVEN),
    ],
)
def test_an_unset_block_size_is_128_only_where_every_backend_is_asked(
    version: str | None, held: Held, state: State
) -> None:
    """0.24, 0.25.1: the first layer is dense, prefers 16 (ROCM_AITER_UNIFIED_ATTN 64), and 128 does not divide it."""
    found = at("sparse_attention", setup(version, flags={"--block-size": None}))
    assert found.state is state
    assert any("--block-size is not set" in text for text in found.of(held))


def test_without_dense_layers_or_on_nvidia_the_first_layers_block_size_is_not_known() -> None:
    unset = {"--block-size": None}
    assert at("sparse_attention", setup("0.25.1", flags=unset, gfx="sm90")).state is State.UNPROVEN
    bare = replace(M3, dense_layers=0, sparse_layers=60)
    assert at("sparse_attention", setup("0.25.1", flags=unset, model=bare)).state is State.UNPROVEN


def expected(path: str, made: Setup, point: Point | None = None) -> dict[str, int | None]:
    """Calls of each variant that has a formula."""
    return {v.name: v.expected(made, point or decode(8)) for v in fast_paths()[path].variants if v.expected}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("flags", "env", "calls"),
    [
        (FP8, {}, {"FP8": 57, "BF16": 3}),  # the dense layers' op stores nothing and is of the BF16 form
        ({}, {}, {"FP8": None, "BF16": 60}),
        (FP8, GATED, {"FP8": None, "BF16": 3}),  # AITER's QK-norm stores K and V of the sparse layers
        ({}, GATED, {"FP8": None, "BF16": 3}),
    ],
)
def test_writers_of_one_step(
    version: str, flags: dict[str, str], env: dict[str, str], calls: dict[str, int | None]
) -> None:
    if version in OLD:  # which have no AITER writer
        calls = {"FP8": 57, "BF16": 3} if flags else {"FP8": None, "BF16": 60}
    made = setup(version, flags=flags, env=env)
    assert expected("fp8_kv_cache", made) == calls
    mixed = expected("fp8_kv_cache", made, Point(Phase.MIXED, 64, 8))
    assert mixed == calls, "the op takes all rows of a step at once"
    assert set(expected("fp8_kv_cache", replace(made, pp=2)).values()) == {None}, "a rank runs its stage's layers"


def test_the_index_cache_alone_in_fp8_leaves_the_bf16_writer() -> None:
    found = at("fp8_kv_cache", setup(env=GATED, flags=FP8_INDEX))
    assert found.state is State.UNPROVEN
    assert found.of(Held.UNKNOWN) == ("no kernel names the index cache's dtype: only the live tensor tells",)


WRITER = "void vllm::minimax_m3_fused_ops::fusedMiniMaxM3QNormRopeKVInsertKernel<c10::BFloat16, (vllm::Fp8KVCacheDataType){}>(int)"
AITER_WRITER = "void aiter::fusedQKNormIdxrQKNormKernel<__hip_bfloat16, 128>(int)"
STEP = "execute_context_0(0)_generation_8(8)"


@pytest.mark.parametrize(
    ("env", "names", "verdict"),
    [
        ({}, [WRITER.format(0)] * 3 + [WRITER.format(1)] * 57, "executed"),
        ({}, [WRITER.format(0)] * 4 + [WRITER.format(1)] * 56, "missed"),
        ({}, [WRITER.format(0)] * 60, "missed"),
        (GATED, [WRITER.format(0)] * 3 + [AITER_WRITER] * 57, "unproven"),
    ],
)
def test_three_dense_layers_of_the_bf16_form_are_no_miss(
    tmp_path: Path, env: dict[str, str], names: list[str], verdict: str
) -> None:
    """amd/model.py:589 at 0.33: the dense layers call the op with kv_cache_dtype="auto" and without a cache."""
    events = [step(100.0, 900.0, STEP)]
    for i, name in enumerate(names):
        events += [launch(100 + 4 * i, i + 1), kernel(103 + 4 * i, 2.0, i + 1, name)]
    rec = recording(tmp_path, events)
    told = replace(rec, meta=replace(rec.meta, setup=setup(flags=FP8, env=env)))
    section = paths.ANALYZER.judge(told, trust.ANALYZER.judge(told, Answer())).section(PathsSection)
    assert section is not None
    assert next(row.verdict for row in section.paths if row.id == "fp8_kv_cache") == verdict


# --- KV transfer ----------------------------------------------------------------------------------------------


def test_no_connector_is_off_and_an_unknown_one_stops_the_engine() -> None:
    assert at("kv_transfer", setup()).state is State.OFF
    found = at("kv_transfer", setup(flags=transfer("MoRIOConnector")))
    assert found.state is State.REFUSED_AT_START
    assert "MoRIOConnector is not among the" in refusal(found)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"kv_connector": "NixlConnector"}, "NixlConnector without a kv_role (kv_producer, kv_consumer, kv_both)"),
        ({"kv_connector": "NixlConnector", "kv_role": "both"}, "kv_role both of NixlConnector is none of"),
        (
            {
                "kv_connector": "MultiConnector",
                "kv_role": "kv_both",
                "kv_connector_extra_config": {"connectors": [{"kv_connector": "NixlConnector"}]},
            },
            "NixlConnector without a kv_role",
        ),
    ],
)
def test_a_connector_without_a_known_role_stops_the_engine(version: str, config: dict[str, object], said: str) -> None:
    """KVTransferConfig.__post_init__ raises ValueError; a MultiConnector makes one of each child."""
    found = at("kv_transfer", setup(version, flags={"--kv-transfer-config": config}))
    assert found.state is State.REFUSED_AT_START
    assert refusal(found).startswith(said)
    assert refusal(found).endswith("the engine does not start (ValueError)")


def test_pages_by_hand() -> None:
    """TP4: 128 x 2 x 128 = 32,768 B FP8 main, 128 x 128 x 2 = 32,768 B BF16 index: equal by chance."""
    assert page_bytes(setup(flags=FP8)) == (32_768, 32_768)
    assert page_bytes(setup()) == (65_536, 32_768)
    assert page_bytes(setup(tp=2, flags=FP8)) == (65_536, 32_768)
    assert page_bytes(setup(flags=FP8 | FP8_INDEX)) == (32_768, 16_384)


@pytest.mark.parametrize(
    ("version", "flags", "state"),
    [
        ("0.32.0", FP8, State.ELIGIBLE),
        ("0.32.0", {}, State.REFUSED_AT_START),
        ("0.32.0", {"--disable-hybrid-kv-cache-manager": True}, State.ELIGIBLE),
        ("0.25.1", {}, State.ELIGIBLE),
        ("0.33.0", {}, State.ELIGIBLE),
    ],
)
def test_moriio_of_0_32_wants_equal_pages(version: str, flags: dict[str, object], state: State) -> None:
    """Not in the facts: moriio_connector.py:2456 raises on a block length that differs, hybrid manager on."""
    found = at("kv_transfer", setup(version, flags=transfer() | flags))
    assert found.state is state
    if state is State.REFUSED_AT_START:
        assert "main page 65,536 B != index page 32,768 B" in refusal(found)


def test_nixl_does_not_compare_pages() -> None:
    assert at("kv_transfer", setup("0.32.0", flags=transfer("NixlConnector"))).state is State.ELIGIBLE


def test_layerwise_lmcache_takes_full_graphs_away() -> None:
    made = setup(flags=transfer("LMCacheConnectorV1", use_layerwise=True), env=GATED)
    assert modes(made).decode == "eager"
    assert "LMCache layer-wise asks for PIECEWISE" in modes(made).text
    assert modes(setup(flags=transfer("LMCacheConnectorV1"))).decode == "FULL"


def test_a_layerwise_child_of_a_multi_connector_takes_them_away_too() -> None:
    child = {"kv_connector": "LMCacheConnectorV1", "kv_connector_extra_config": {"use_layerwise": True}}
    other = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
    with_child = transfer("MultiConnector", connectors=[other, child])
    assert (modes(setup("0.25.1", flags=with_child)).decode, modes(setup(flags=with_child)).decode) == (
        "PIECEWISE",
        "eager",
    )
    assert modes(setup(flags=transfer("MultiConnector", connectors=[other]))).decode == "FULL"
