"""A live recording's own configuration: which setup it makes, and what is left open where the record does not tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_kit import call, count, path, steps, write
from served_kit import GRAPHS, MODEL, ON_ROCM, SIZES, config, server

from m3probe.fastpaths import fast_paths
from m3probe.fastpaths._state import state_at
from m3probe.model.path_report import PathRow
from m3probe.pipeline import analyze, read
from m3probe.schema import records
from m3probe.schema.setup import Point, Setup, State
from m3probe.schema.verdicts import Phase

WORK = steps(count("prefill", 3, 2000), count("decode", 4, 8))


def setup(tmp_path: Path, *found: object) -> Setup | None:
    return read([write(tmp_path / "w.m3p", found)]).meta.setup


def row(tmp_path: Path, name: str, *found: object) -> PathRow:
    return path(analyze([write(tmp_path / "w.m3p", found)]), name)


def test_the_setup_is_that_of_the_sections(tmp_path: Path) -> None:
    made = setup(tmp_path, server(), config())
    assert made is not None
    assert (made.tp, made.pp, made.dp, made.ep, made.nodes, made.spec_tokens) == (1, 1, 1, 1, 1, 0)
    assert (made.build.version, made.gfx, made.draft, made.resolved) == ("0.25.1", "NVIDIA H200", None, True)
    assert made.env == GRAPHS
    told = made.flags
    assert (told["--dtype"], told["--kv-cache-dtype"], told["--block-size"]) == ("bfloat16", "auto", 128)
    assert (told["--moe-backend"], told["--max-num-seqs"], told["--enforce-eager"]) == ("auto", 64, False)
    assert told["--compilation-config"] == {
        "mode": 0,
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_capture_sizes": SIZES,
        "max_cudagraph_capture_size": 64,
    }
    assert not {"--attention-backend", "--hf-overrides", "--kv-transfer-config"} & set(told)
    model = made.model
    assert (model.is_minimax_m3, model.layers, model.sparse_layers, model.kv_heads) == (True, 9, 6, 1)
    assert (model.linear_quant, model.moe_quant) == ("bf16", "bf16")


def test_a_device_of_rocm_is_its_gfx_and_a_device_of_nobody_is_not_known(tmp_path: Path) -> None:
    rocm, dumb = setup(tmp_path, server(ON_ROCM), config()), setup(tmp_path, server({"device": "cuda"}), config())
    assert rocm is not None
    assert dumb is not None
    assert (rocm.gfx, dumb.gfx) == ("gfx950", None)


@pytest.mark.parametrize(
    ("section", "method", "linear", "moe"),
    [
        ({"class": "ModelOptMxFp8Config"}, "mxfp8", "mxfp8", "mxfp8"),
        (
            {
                "class": "QuarkConfig",
                "quant_config": {"global_quant_config": {"weight": {"dtype": "fp4"}}, "exclude": ["re:.*self_attn.*"]},
            },
            "quark",
            "bf16",
            "mxfp4",
        ),
        ({"class": "AWQConfig"}, "awq", None, None),
        ("gone", "mxfp8", None, None),  # a method without its object is no proof of bf16
    ],
)
def test_quantisation_is_vllms_own_object(
    tmp_path: Path, section: object, method: str, linear: str | None, moe: str | None
) -> None:
    made = setup(tmp_path, server(), config(quant=section, model={"quantization": method}))
    assert made is not None
    assert (made.model.linear_quant, made.model.moe_quant) == (linear, moe)


@pytest.mark.parametrize(
    "lost",
    [
        (server(tp=-1), config(parallel={"tensor_parallel_size": None})),
        (server(ep=-1), config(parallel={"enable_expert_parallel": None})),
        (server(), config(parallel={"tensor_parallel_size": "4; rm"})),
        (server(), config(speculative={"method": "eagle3", "num_speculative_tokens": "three"})),
        (server(),),
    ],
)
def test_without_a_size_that_every_shape_hangs_on_there_is_no_setup(tmp_path: Path, lost: tuple[object, ...]) -> None:
    assert setup(tmp_path, *lost) is None


def test_what_is_not_in_the_record_is_open_and_never_a_default(tmp_path: Path) -> None:
    bare = (server(), config(without=("cache", "kernel", "compilation", "attention", "scheduler", "offload")), WORK)
    made = setup(tmp_path, *bare)
    assert made is not None
    assert {"--kv-cache-dtype", "--moe-backend", "--compilation-config", "--attention-config"} <= set(made.uncertain)
    kept = call("fp8_kv_cache", "BF16", count=4)
    assert row(tmp_path, "fp8_kv_cache", *bare, kept).verdict == "unproven"
    assert row(tmp_path, "graph_replay", *bare).verdict == "unproven"
    state = state_at(fast_paths()["fp8_kv_cache"], made, Point(Phase.DECODE, 8, 8))
    assert state.state is State.UNPROVEN
    assert "--attention-config, --kv-cache-dtype hangs on" in state.asked


def test_a_hidden_size_of_the_model_is_not_the_published_one(tmp_path: Path) -> None:
    made = setup(tmp_path, server(), config({**MODEL, "num_key_value_heads": "(set)"}))
    assert made is not None
    assert (made.model.kv_heads, made.model.hidden_size, made.model.is_minimax_m3) == (None, 6144, True)


def test_two_servers_in_one_folder_have_no_setup_and_ranks_that_differ_leave_a_flag_open(tmp_path: Path) -> None:
    write(tmp_path / "a.m3p", [server(), config()])
    write(tmp_path / "b.m3p", [server(rank=1, env={}), config(scheduler={"max_num_seqs": 32})])
    made = read([tmp_path]).meta.setup
    assert made is not None
    assert {"--max-num-seqs", "VLLM_USE_BREAKABLE_CUDAGRAPH"} <= set(made.uncertain)
    write(tmp_path / "c.m3p", [server(rank=2, vllm="0.32.0"), config()])
    assert read([tmp_path]).meta.setup is None


def test_drafts_and_a_connector_are_read(tmp_path: Path) -> None:
    draft = {"method": "eagle3", "num_speculative_tokens": 3, "attention_backend": "AttentionBackendEnum.TRITON_ATTN"}
    moves = {"class": "KVTransferConfig", "kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_rank": None}
    made = setup(tmp_path, server(), config(speculative=draft, kv_transfer=moves))
    assert made is not None
    assert made.draft == {"method": "eagle3", "num_speculative_tokens": 3, "attention_backend": "TRITON_ATTN"}
    assert made.flags["--kv-transfer-config"] == {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


def test_index_reuse_counts_where_the_text_model_holds_it(tmp_path: Path) -> None:
    reuse = {"use_index_cache": True, "index_topk_freq": 2}
    made = setup(tmp_path, server(ON_ROCM), config({**MODEL, **reuse}))
    assert made is not None
    assert made.flags["--hf-overrides"] == {"text_config": reuse}
    hidden = setup(tmp_path, server(), config(model={"hf_overrides": "<function f>"}))
    assert hidden is not None
    assert "--hf-overrides" in hidden.uncertain


JUNK = [7, -1, 2**63, True, "text", "1e9", [1, [2]], {"x": {"y": [1]}}, 3.5, float("nan"), "(set)"]


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_a_section_and_each_of_its_fields_may_be_anything(tmp_path: Path, junk: Any) -> None:
    whole = config(
        quant={"class": "QuarkConfig", "quant_config": {}},
        speculative={"method": "eagle3", "num_speculative_tokens": 3},
    )
    made = 0
    for section, held in whole.sections.items():
        for broken in (junk, dict.fromkeys(held, junk), *({**held, field: junk} for field in held)):
            record = records.Config(sections={**whole.sections, section: broken}, model=MODEL)
            rec = read([write(tmp_path / "w.m3p", [server(ON_ROCM), record, WORK])])
            made += rec.meta.setup is not None
            for path_ in fast_paths().values() if rec.meta.setup else ():
                state_at(path_, rec.meta.setup, Point(Phase.DECODE, 8, 8))
    assert made > 40  # most fields leave a setup


@pytest.mark.parametrize("junk", JUNK, ids=str)
def test_the_report_of_such_a_record_is_whole(tmp_path: Path, junk: Any) -> None:
    everything = {section: dict.fromkeys(held, junk) for section, held in config().sections.items()}
    for record in (records.Config(sections=everything, model=dict.fromkeys(MODEL, junk)), config({"model_type": junk})):
        report = analyze([write(tmp_path / "w.m3p", [server(), record, WORK])])
        assert not [f for f in report.answer.findings if f.id.endswith(".failed")]
