"""KV paths on paper: dtypes, bytes, pages, connectors; by hand."""

from __future__ import annotations

import json

import pytest
from m3_setups import FP8_INDEX, GATED, VERSIONS, at, refusal, setup

from m3probe.fastpaths._capture import modes
from m3probe.fastpaths.fp8_kv_cache import bytes_per_token, page_bytes
from m3probe.schema.setup import Held, State

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
        ("fp8_e5m2", State.ELIGIBLE),
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
    [(128, State.ELIGIBLE), (64, State.REFUSED_AT_START), (16, State.REFUSED_AT_START), (256, State.UNKNOWN)],
)
def test_block_size_is_128(size: int, state: State) -> None:
    assert at("fp8_kv_cache", setup(flags=FP8 | {"--block-size": size})).state is state


@pytest.mark.parametrize(("version", "held"), [("0.25.1", Held.UNKNOWN), ("0.33.0", Held.YES)])
def test_an_unset_block_size_is_128_only_where_every_backend_is_asked(version: str, held: Held) -> None:
    found = at("fp8_kv_cache", setup(version, flags=FP8 | {"--block-size": None}))
    assert any("--block-size is not set" in text for text in found.of(held))


# --- KV transfer ----------------------------------------------------------------------------------------------


def test_no_connector_is_off_and_an_unknown_one_stops_the_engine() -> None:
    assert at("kv_transfer", setup()).state is State.OFF
    found = at("kv_transfer", setup(flags=transfer("MoRIOConnector")))
    assert found.state is State.REFUSED_AT_START
    assert "MoRIOConnector is not among the" in refusal(found)


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
