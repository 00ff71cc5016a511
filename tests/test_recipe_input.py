"""What a user asked for, read from commands, scripts, containers and env files; every expectation was worked out by hand.

What vLLM does with its words was read in vllm/utils/argparse_utils.py; a run of that file over 12,000 made-up commands
beside ``read_command`` is how the cases below were chosen.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from tree import ROOT

from m3probe.errors import M3ProbeError, UnreadableInput, UsageError
from m3probe.recipe.asked import Given, merged
from m3probe.recipe.flags import Flags, Kind
from m3probe.recipe.reading import (
    read_any,
    read_command,
    read_env_file,
    read_environment,
    read_script,
    read_yaml,
)
from m3probe.recipe.text import MOST_BYTES
from m3probe.schema.setup import Build, Rule, RuleStatus

DATA = Path(__file__).parent / "data" / "recipe"
PRINTED = ROOT / "samples" / "recipes" / "m3-mxfp8-printed.sh"
USUAL = Flags.usual()
NAMES = [
    "--model", "--tensor-parallel-size", "--max-num-seqs", "--max-num-batched-tokens", "--max-model-len", "--block-size",
    "--enable-prefix-caching", "--enforce-eager", "--disable-log-stats", "--compilation-config", "--attention-config",
    "--speculative-config", "--hf-overrides", "--served-model-name", "--optimization-level", "--quantization", "--config",
    "--enable-expert-parallel", "--port", "-tp",
]  # fmt: skip
SWITCHES = ["--enable-prefix-caching", "--enforce-eager", "--disable-log-stats", "--enable-expert-parallel"]


def build(version: str = "0.33.0") -> Build:
    rules = {
        "cli_flags": Rule(RuleStatus.BUNDLED, NAMES),
        "cli_switches": Rule(RuleStatus.BUNDLED, SWITCHES),
    }
    return Build(version, rules)


KNOWN = Flags.of(build())


def serve(text: str, known: Flags = KNOWN) -> Given:
    """A command whose words hold no blanks."""
    return read_command(["vllm", "serve", *text.split()], known)


# --- the list of flags -----------------------------------------------------------------------------------------


def test_flags_come_from_the_rules_of_the_build() -> None:
    assert KNOWN.complete
    assert KNOWN.names == set(NAMES) - {"-tp"}
    assert KNOWN.kind("--enforce-eager") is Kind.SWITCH
    assert KNOWN.kind("--max-model-len") is Kind.SIZE
    assert KNOWN.match("-tp").of == ("--tensor-parallel-size",)


def test_without_rules_the_list_is_not_complete() -> None:
    assert not Flags.of(Build()).complete
    moved = {"cli_flags": Rule(RuleStatus.MOVED), "cli_switches": Rule(RuleStatus.MOVED)}
    assert not Flags.of(Build("0.33.0", moved)).complete


def test_a_prefix_of_one_flag_is_that_flag_as_argparse_has_it() -> None:
    assert serve("M --tensor 4").flags == {"--tensor-parallel-size": "4"}
    with pytest.raises(UsageError, match="--max-num may be --max-num-batched-tokens, --max-num-seqs"):
        serve("M --max-num 4")


def test_disable_is_a_no_form_from_033_on() -> None:
    assert serve("M --disable-prefix-caching").flags == {"--enable-prefix-caching": False}
    with pytest.raises(UsageError, match="vllm serve has no --disable-prefix-caching"):
        serve("M --disable-prefix-caching", Flags.of(build("0.32.0")))


def test_a_store_true_switch_has_no_no_form() -> None:
    with pytest.raises(UsageError, match="has no --no-disable-log-stats"):
        serve("M --no-disable-log-stats")


# --- vLLM's words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("M -tp 4", {"--tensor-parallel-size": "4"}),
        ("-tp=4 M", {"--tensor-parallel-size": "4"}),
        ("M --max_num_seqs 8", {"--max-num-seqs": "8"}),
        ("M --max_num_seqs=8", {"--max-num-seqs": "8"}),
        ("M --enforce-eager --no-enable-prefix-caching", {"--enforce-eager": True, "--enable-prefix-caching": False}),
        ("--enforce-eager M --max-num-seqs 8", {"--enforce-eager": True, "--max-num-seqs": "8"}),
        ("M -tp 2 -tp 4", {"--tensor-parallel-size": "4"}),
        ("M --max-model-len 1k", {"--max-model-len": "1000"}),
        ("M --max-model-len 1K", {"--max-model-len": "1024"}),
        ("M --max-model-len 25.6k", {"--max-model-len": "25600"}),
        ("M --max-model-len -1", {"--max-model-len": "auto"}),
        ("M --max-model-len AUTO", {"--max-model-len": "auto"}),
        ("M --max-num-batched-tokens 2M", {"--max-num-batched-tokens": "2097152"}),
        ("M -O3", {"--optimization-level": "3"}),
        ("M -O 2", {"--optimization-level": "2"}),
        ("M -O=0", {"--optimization-level": "0"}),
        ("M -q fp8", {"--quantization": "fp8"}),
        ("M --served-model-name a b -tp 4", {"--served-model-name": ["a", "b"], "--tensor-parallel-size": "4"}),
        ("-tp 4 -- M", {"--tensor-parallel-size": "4"}),
        ("M --quantization=-x", {"--quantization": "-x"}),
        ('M --hf-overrides {"a":{"b":80m}}', {"--hf-overrides": {"a": {"b": 80_000_000}}}),
        ("M --hf-overrides my.module:f", {"--hf-overrides": "my.module:f"}),
        ("M --speculative-config None", {}),
        ("M -cc.cudagraph_mode FULL", {"--compilation-config": {"cudagraph_mode": "FULL"}}),
        (
            "M -ac.k+ a --attention-config.l 1k -ac.k+=b,c",
            {"--attention-config": {"l": 1000}},
        ),
        (
            "M --compilation-config.sizes+ 1,2 --compilation-config.sizes+=4",
            {"--compilation-config": {"sizes": ["1", "2", "4"]}},
        ),
    ],
)
def test_words_become_flags_as_vllm_reads_them(words: str, flags: dict[str, Any]) -> None:
    read = serve(words)
    assert read.flags == flags
    assert read.model == "M"
    assert not read.untold


def test_keys_of_an_alias_and_of_the_name_are_gathered_apart_and_the_last_wins() -> None:
    read = serve("M --compilation_config.pass_config.fuse_x true --compilation-config.mode 2 -cc.mode 3")
    assert read.flags == {"--compilation-config": {"mode": 3}}
    alone = serve("M --compilation_config.pass_config.fuse_x true --compilation-config.mode 2")
    assert alone.flags == {"--compilation-config": {"pass_config": {"fuse_x": True}, "mode": 2}}


def test_keys_replace_the_same_flag_given_as_json() -> None:
    read = read_command(
        ["vllm", "serve", "M", "--compilation-config", '{"mode": 3}', "--compilation-config.cudagraph_mode", "FULL"],
        KNOWN,
    )
    assert read.flags == {"--compilation-config": {"cudagraph_mode": "FULL"}}
    assert read.notes == ("--compilation-config is given whole and by keys: vLLM takes the keys alone (command line)",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("M --max-num-seq 8 --frob", "has no --frob in this build"),
        ("M --max-num-sequences 8", r"no --max-num-sequences \(did you mean --max-num-seqs\?\)"),
        ("M N", "more than one model or a stray word: M, N"),
        ("M --model N", "more than one model"),
        ("M --model", "--model has no value"),
        ("M --tensor-parallel-size", "--tensor-parallel-size has no value"),
        ("M --quantization --enforce-eager", "--quantization has no value"),
        ("M --tensor-parallel-size four", "takes a whole number, got 'four'"),
        ("M --max-model-len 1.5K", "binary suffix takes no decimals"),
        ("M --enforce-eager=1", "is a switch and takes no value"),
        ("M --max-model-len -1.5", "takes -1.5 for a dotted key"),
        ("M -O.mode 3", "-O takes a level from 0 to 3, got '-O.mode'"),
        ('M -O {"mode":3}', "-O takes a level from 0 to 3"),
        ('M -cc {"mode":', "--compilation-config is no JSON: Expecting value at column 9"),
        ("M -cc [1]", "takes a JSON object"),
        ("M --enforce-eager.x 1", "--enforce-eager takes no keys"),
        ("M -cc.mode", "-cc.mode has no value"),
        ("-tp 4 M --served-model-name x", "wants MODEL as its first word"),
        ("M --config a.toml", "takes a .yaml or .yml file"),
        ("M --config", "--config names no file"),
    ],
)
def test_words_that_vllm_refuses(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        serve(words)
    assert caught.value.exit_code == 2


def test_a_flag_that_the_usual_list_lacks_is_told_and_kept() -> None:
    read = serve("M --brand-new 7 --tensor-paralel-size 4 --newer", USUAL)
    assert read.flags == {"--brand-new": "7", "--tensor-paralel-size": "4", "--newer": True}
    assert "--tensor-paralel-size (did you mean --tensor-parallel-size?)" in read.unknown_flags
    assert any(text.startswith("not in the list of usual flags") for text in read.untold)


def test_the_config_file_stands_below_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    read = serve("--config serve.yaml -tp 8", KNOWN)
    assert read.model == "MiniMaxAI/MiniMax-M3"
    assert read.flags == {
        "--tensor-parallel-size": "8",
        "--enforce-eager": True,
        "--enable-prefix-caching": False,
        "--served-model-name": ["m3", "minimax"],
        "--compilation-config": {"cudagraph_mode": "FULL"},
    }
    assert read.origins["--enforce-eager"] == "serve.yaml"
    assert read.origins["--tensor-parallel-size"] == "command line"


def test_config_with_an_equals_sign_is_not_read_by_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    read = serve("M --config=serve.yaml")
    assert read.flags == {"--config": "serve.yaml"}
    assert read.notes == ("--config=serve.yaml is not read: vLLM looks for the two words --config FILE (command line)",)


def test_a_config_file_of_another_machine_is_told() -> None:
    read = serve("M --config absent.yaml")
    assert read.untold == ("the config file absent.yaml is not at hand: its flags are not known (command line)",)


# --- what stands before the server -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["A=1", "B=two words", "vllm", "serve", "M", "-tp", "4"],
        ["env", "-u", "C", "A=1", "B=two words", "/opt/bin/vllm", "serve", "M", "-tp", "4"],
        ["A=1", "B=two words", "numactl", "-N", "0", "--membind=0", "vllm", "serve", "--model", "M", "-tp", "4"],
        ["A=1", "B=two words", "python3", "-u", "-m", "vllm.entrypoints.openai.api_server", "--model", "M", "-tp", "4"],
        ["bash", "-lc", "export A=1 B='two words'; exec vllm serve M -tp 4"],
        ["A=9", "docker", "run", "--rm", "-it", "-e", "A=1", "--env=B=two words", "-v", "/x:/x", "vllm/vllm-openai-rocm:v0.33.0", "M", "-tp", "4"],
        ["podman", "run", "-eA=1", "-e", "B=two words", "--entrypoint", "vllm", "some/image", "serve", "M", "-tp", "4"],
        ["docker", "exec", "-e", "A=1", "-e", "B=two words", "box", "vllm", "serve", "M", "-tp", "4"],
        ["docker", "run", "-e", "A=1", "-e", "B=two words", "rocm/vllm:x", "bash", "-c", "vllm serve M -tp 4"],
    ],
)  # fmt: skip
def test_every_way_to_start_a_server_says_the_same(words: list[str]) -> None:
    read = read_command(words, KNOWN)
    assert read.model == "M"
    assert read.flags == {"--tensor-parallel-size": "4"}
    assert read.env == {"A": "1", "B": "two words"}
    assert not read.untold


def test_docker_hands_in_what_the_caller_has_and_tells_the_rest() -> None:
    words = [
        "A=1",
        "docker",
        "run",
        "-e",
        "A",
        "-e",
        "HF_TOKEN",
        "--env-file",
        str(DATA / "docker.env"),
        "vllm/vllm-openai:x",
        "M",
    ]
    read = read_command(words, KNOWN)
    assert read.env == {"A": "1", "B": "x # y"}
    assert set(read.uncertain) == {"HF_TOKEN", "FROM_CALLER"}
    assert "HF_TOKEN is not known: it is handed in from the caller's environment (command line)" in read.untold


def test_an_env_file_keeps_its_quotes_under_docker_alone() -> None:
    read = read_command(["docker", "run", "--env-file", str(DATA / "docker.env"), "vllm/vllm-openai:x", "M"], KNOWN)
    assert read.env["A"] == '"two words"'
    assert read_env_file(DATA / "docker.env")["A"] == "two words"


def test_the_module_ignores_a_model_that_is_no_flag() -> None:
    read = read_command(["python", "-m", "vllm.entrypoints.openai.api_server", "M", "-tp", "4"], KNOWN)
    assert read.model == ""
    assert read.notes == ("the api_server module ignores the word 'M': give --model",)


@pytest.mark.parametrize(
    "words",
    [[], ["vllm"], ["vllm", "bench", "serve"], ["echo", "vllm", "serve", "M"], ["python", "x.py"], ["bash", "x.sh"], ["docker", "ps"], ["docker", "run"]],
)  # fmt: skip
def test_no_server_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError):
        read_command(words, KNOWN)


def test_origins_and_argv_are_kept() -> None:
    read = read_command(["A=1", "vllm", "serve", "M", "-tp", "4"], KNOWN)
    assert read.argv == ("M", "-tp", "4")
    assert read.origins == {"A": "command line", "--tensor-parallel-size": "command line", "MODEL": "command line"}


# --- scripts ---------------------------------------------------------------------------------------------------


def test_the_printed_command_sets_four_variables_and_no_gated_path() -> None:
    read = read_any(PRINTED, USUAL)
    assert read.model == "MiniMaxAI/MiniMax-M3-MXFP8"
    assert read.env == {
        "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
        "VLLM_USE_BREAKABLE_CUDAGRAPH": "0",
        "VLLM_ROCM_USE_AITER": "1",
        "VLLM_ROCM_USE_AITER_FUSION_SHARED_EXPERTS": "1",
    }
    assert read.flags == {
        "--tensor-parallel-size": "4",
        "--block-size": "128",
        "--enable-prefix-caching": False,
        "--language-model-only": True,
        "--moe-backend": "aiter",
        "--max-model-len": "10240",
        "--max-num-batched-tokens": "32768",
        "--kv-cache-dtype": "fp8",
        "--attention-backend": "TRITON_ATTN",
        "--tool-call-parser": "minimax_m3",
        "--reasoning-parser": "minimax_m3",
        "--enable-auto-tool-choice": True,
    }
    assert read.origins["VLLM_ROCM_USE_AITER"].endswith("m3-mxfp8-printed.sh:4")
    assert read.origins["--moe-backend"].endswith("m3-mxfp8-printed.sh:12")
    assert not read.untold
    assert not read.unknown_flags


def test_a_gated_script_tells_what_its_condition_would_set() -> None:
    file = DATA / "gated.sh"
    read = read_any(file, USUAL)
    assert read.model == "MiniMaxAI/MiniMax-M3-MXFP8"
    assert read.env == {
        "VLLM_ROCM_USE_AITER": "1",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT4",
        "VLLM_ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16": "0",
        "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION_MIN_SIZE_KB": "256",
    }
    assert read.flags == {
        "--tensor-parallel-size": "4",
        "--block-size": "128",
        "--kv-cache-dtype": "fp8",
        "--moe-backend": "aiter",
    }
    assert set(read.uncertain) == {"VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT", "--linear-backend", "--port"}
    assert set(read.untold) == {
        f"VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT is '1' under a condition that is not decided ({file}:13)",
        f"EXTRA also gets --linear-backend emulation under a condition that is not decided ({file}:14)",
        f"--port is not known: $PORT is not set in it ({file}:21)",
        f"QR_QUANT is not set in it: its default 'INT4' is taken ({file}:8)",
    }


def test_several_servers_ask_for_a_choice_and_each_has_its_own_branch() -> None:
    file = DATA / "two_servers.sh"
    with pytest.raises(UsageError, match=r"2 vllm commands: 1: line 4, .*2: line 7"):
        read_any(file, USUAL)
    first, second = read_any(file, USUAL, "1"), read_any(file, USUAL, "2")
    assert (first.flags["--tensor-parallel-size"], first.env["ROLE_NAME"]) == ("4", "p")
    assert (second.flags["--tensor-parallel-size"], second.env["ROLE_NAME"]) == ("8", "d")
    assert not second.uncertain
    with pytest.raises(UsageError, match="no command '3'"):
        read_any(file, USUAL, "3")


@pytest.mark.parametrize(
    ("script", "env", "flags"),
    [
        ("A=1\nvllm serve M", {}, {}),
        ("A=1\nexport A\nvllm serve M", {"A": "1"}, {}),
        ("set -a\nA=1\nset +a\nB=2\nvllm serve M", {"A": "1"}, {}),
        ("export A=1\nunset A\nvllm serve M", {}, {}),
        ("export A=1\nexport -n A\nvllm serve M", {}, {}),
        ("declare -x A=1\nA+=2\nvllm serve M", {"A": "12"}, {}),
        ("export A='$X' B=\"a\\\"b\" C=$'x\\ty'\nvllm serve M", {"A": "$X", "B": 'a"b', "C": "x\ty"}, {}),
        ("T=4\nvllm serve M -tp $T", {}, {"--tensor-parallel-size": "4"}),
        ("T=4\nvllm serve M -tp ${T}", {}, {"--tensor-parallel-size": "4"}),
        ("T=\nvllm serve M -tp ${T:-8}", {}, {"--tensor-parallel-size": "8"}),
        ("T='-tp 4'\nvllm serve M $T", {}, {"--tensor-parallel-size": "4"}),
        ("X=(-tp 4)\nX+=(--block-size 128)\nvllm serve M \"${X[@]}\"", {}, {"--tensor-parallel-size": "4", "--block-size": "128"}),
        ("X=()\nvllm serve M \"${X[@]}\"", {}, {}),
        ("X=(\n -tp 4 # four\n)\nvllm serve M ${X[*]}", {}, {"--tensor-parallel-size": "4"}),
        ("CMD=(vllm serve M -tp 4)\n\"${CMD[@]}\"", {}, {"--tensor-parallel-size": "4"}),
        ("CMD='vllm serve M -tp 4'\n$CMD &", {}, {"--tensor-parallel-size": "4"}),
        ("CMD='vllm serve M -tp 4'\neval \"$CMD\"", {}, {"--tensor-parallel-size": "4"}),
        ("cat <<EOF > x\nexport A=1\nvllm serve N\nEOF\nvllm serve M", {}, {}),
        ("cat <<-'E'\n\tvllm serve N\n\tE\nvllm serve M", {}, {}),
        ("echo vllm serve N; pkill -f 'vllm serve'; vllm serve M", {}, {}),
        ("cd /x && export A=1 && vllm serve M -tp 4 2>&1 | tee log", {"A": "1"}, {"--tensor-parallel-size": "4"}),
        ("go() {\n  export B=2\n  vllm serve M -tp 4\n}\nexport A=1\ngo", {"A": "1", "B": "2"}, {"--tensor-parallel-size": "4"}),
        ("f() { g; }\ng() { export A=1; }\nf\nvllm serve M", {"A": "1"}, {}),
        ("f() { export A=1; }\nf\nf() { export B=1; }\nvllm serve M", {"A": "1"}, {}),
        ("main() { setup; vllm serve M; }\nsetup() { export A=1; }\nmain", {"A": "1"}, {}),
        ("setup() { export A=1; }\nsetup\nvllm serve M", {"A": "1"}, {}),
        (": \"${T:=4}\"\nvllm serve M -tp $T", {}, {"--tensor-parallel-size": "4"}),
        ("A=1 B=$((1+1)) true\nA=5 vllm serve M", {"A": "5"}, {}),
        ("# vllm serve N\nvllm serve M # --tensor-parallel-size 4", {}, {}),
        ("if true; then vllm serve M; fi", {}, {}),
        ("for i in 1 2; do vllm serve M & done", {}, {}),
        ("vllm serve M -tp 4 > log 2>&1", {}, {"--tensor-parallel-size": "4"}),
        ("vllm serve M -tp 4 2>err >>log </dev/null", {}, {"--tensor-parallel-size": "4"}),
        ("vllm serve M \\\r\n  -tp 4\r\n", {}, {"--tensor-parallel-size": "4"}),
    ],
)  # fmt: skip
def test_scripts_are_followed_without_running(script: str, env: dict[str, str], flags: dict[str, Any]) -> None:
    read = read_script(script, KNOWN)
    assert read.env == env
    assert read.flags == flags
    assert read.model == "M"
    assert not read.uncertain


@pytest.mark.parametrize(
    ("script", "unsure"),
    [
        ("if x; then export A=1; fi\nvllm serve M", {"A"}),
        ("x && export A=1\nvllm serve M", {"A"}),
        ("x && { export B=2; export A=1; }\nvllm serve M", {"A", "B"}),
        ("x ||\n export A=1\nvllm serve M", {"A"}),
        ("case $X in a) export A=1;; *) export A=2;; esac\nvllm serve M", {"A"}),
        ("for i in 1 2; do export A=$i; done\nvllm serve M", {"A"}),
        ("f() { export A=1; }\nif x; then f; fi\nvllm serve M", {"A"}),
        ("export A=$(date)\nvllm serve M", {"A"}),
        ("export A=`date`\nvllm serve M", {"A"}),
        ("export A=$X\nvllm serve M", {"A"}),
        ("read T\nvllm serve M -tp $T", {"--tensor-parallel-size"}),
        ("X=(-tp 2)\nif x; then X=(-tp 4); fi\nvllm serve M \"${X[@]}\"", {"--tensor-parallel-size"}),
    ],
)  # fmt: skip
def test_what_a_condition_or_a_run_decides_is_uncertain_and_told(script: str, unsure: set[str]) -> None:
    read = read_script(script, KNOWN)
    assert set(read.uncertain) == unsure
    assert read.untold


def test_a_condition_leaves_the_value_that_stands_without_it() -> None:
    read = read_script("export A=1\nif x; then export A=2; fi\nvllm serve M", KNOWN, "s.sh")
    assert read.env == {"A": "1"}
    assert read.uncertain == ("A",)
    assert read.untold == ("A is '2' under a condition that is not decided (s.sh:2)",)


def test_what_a_script_does_not_set_comes_from_its_environment() -> None:
    read = read_script("vllm serve $MODEL -tp ${TP:-8}", KNOWN, env={"MODEL": "M", "TP": "4"})
    assert (read.model, read.flags) == ("M", {"--tensor-parallel-size": "4"})
    unset = read_script("vllm serve $MODEL -tp 4", KNOWN, "s.sh")
    assert unset.model == ""
    assert unset.untold == ("the model is not known: $MODEL is not set in it (s.sh:1)",)


def test_a_sourced_file_is_told() -> None:
    read = read_script("source ./env.sh\nvllm serve M", KNOWN, "s.sh")
    assert read.untold == ("./env.sh is sourced and not read (s.sh:1)",)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("vllm serve 'M", "s.sh:1: a ' quote that begins here never ends"),
        ('\n\nvllm serve "M', 's.sh:3: a " quote that begins here never ends'),
        ("vllm serve ${M", "never ends"),
        ("X=(a b", "an array that begins here never ends"),
        ("ls", "no vllm serve command in it"),
        ("a;" * 51_000, "s.sh:1: more than 100,000 words and operators. Give the vllm command after --"),
        ("\nif x; then " * 65, "s.sh:66: blocks stand more than 64 deep. Give the vllm command after --"),
        ("A=aaaaaaaa\n" + "A=$A$A$A$A\n" * 12 + "vllm serve $A", "s.sh:8: a word grows beyond 65,536 characters. Give"),
        ("f() { g; g; }\ng() { h; h; }\nh() { i; i; }\ni() { " + "x; " * 40_000 + "}\nf\nvllm serve M", "more than 100,000 commands"),
    ],
)  # fmt: skip
def test_scripts_that_cannot_be_followed(script: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_script(script, KNOWN, "s.sh")
    assert said in str(caught.value)


# --- containers ------------------------------------------------------------------------------------------------


def test_a_compose_service_by_its_name() -> None:
    file = DATA / "compose.yml"
    read = read_any(file, USUAL, "m3")
    assert read.model == "MiniMaxAI/MiniMax-M3-MXFP8"
    assert read.env == {"VLLM_ROCM_USE_AITER": "1", "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION": "INT6"}
    assert read.flags == {
        "--tensor-parallel-size": "4",
        "--hf-overrides": {"text_config": {"use_index_cache": True}},
    }
    assert set(read.uncertain) == {"HF_TOKEN", "--port"}
    assert f"TP is not set in it: its default '4' is taken ({file}:11)" in read.untold
    assert read.origins["VLLM_ROCM_USE_AITER"] == f"{file}:3"


def test_a_compose_service_that_starts_a_shell() -> None:
    read = read_any(DATA / "compose.yml", USUAL, "draft")
    assert read.model == "Inferact/MiniMax-M3-EAGLE3"
    assert read.env == {"MODEL_ID": "Inferact/MiniMax-M3-EAGLE3", "VLLM_USE_BREAKABLE_CUDAGRAPH": "0"}
    assert read.flags == {"--tensor-parallel-size": "2"}
    assert not read.untold


def test_two_services_ask_for_a_choice() -> None:
    file = DATA / "compose.yml"
    with pytest.raises(UsageError, match="2 services start vllm: m3, draft"):
        read_any(file, USUAL)
    assert read_any(file, USUAL, "2").model == "Inferact/MiniMax-M3-EAGLE3"
    with pytest.raises(UsageError, match="no one service 'm4'"):
        read_any(file, USUAL, "m4")


def test_a_kubernetes_container_with_its_config_map() -> None:
    file = DATA / "deployment.yaml"
    read = read_any(file, USUAL)
    assert read.model == "MiniMaxAI/MiniMax-M3"
    assert read.env == {
        "VLLM_ROCM_USE_AITER": "1",
        "MODEL": "MiniMaxAI/MiniMax-M3",
        "VLLM_USE_BREAKABLE_CUDAGRAPH": "0",
    }
    assert read.flags == {"--tensor-parallel-size": "8", "--max-model-len": "131072"}
    assert set(read.uncertain) == {"KEY", "--api-key"}
    assert set(read.untold) == {
        f"the variables of envFrom a secret are not known ({file})",
        f"KEY is not known: it is a valueFrom of the cluster ({file}:31)",
        f"--api-key is not known: $(KEY) is not known ({file}:22)",
    }
    assert read.origins["--tensor-parallel-size"] == f"{file}:22"


def test_a_variable_that_grows_beyond_a_word_is_not_known() -> None:
    env = "[{name: A, value: '" + "y" * 60_000 + "'}, {name: B, value: $(A)$(A)}]"
    read = read_yaml(f"kind: P\nspec: {{containers: [{{name: a, command: [vllm, serve, M], env: {env}}}]}}", USUAL)
    assert read.uncertain == ("B",)
    assert set(read.env) == {"A"}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("services: {a: {command: [", UnreadableInput),
        ("a: &a [x, *a]\nservices: {b: *a}", UnreadableInput),
        ("a: &a {k: 1}\n" + "".join(f"b{i}: &b{i} [{','.join(['*a' if not i else f'*b{i - 1}'] * 20)}]\n" for i in range(9)), UnreadableInput),
        ("m0: &m0 {a: 1, b: 2}\n" + "".join(f"m{i}: &m{i} {{<<: [{','.join([f'*m{i - 1}'] * 20)}]}}\n" for i in range(1, 9)), M3ProbeError),
        ("[" * 5000, UnreadableInput),
        ('services: !!int ""', UnreadableInput),
        ("services: !!python/object/apply:os.system [ls]", UnreadableInput),
        ("services: 3", UsageError),
        ("services: {a: {command: 'x \"'}}", UsageError),
        ("services: {a: {image: nginx}}", UsageError),
        ("kind: Pod", UsageError),
        ("services: {a: {command: 'vllm serve M " + "${A:-b}" * 20_000 + "'}}", UsageError),
    ],
)  # fmt: skip
def test_yaml_that_cannot_be_used(text: str, error: type[M3ProbeError]) -> None:
    # The merge bomb: PyYAML 6.0.4 drops doubled keys, 6.0.2 does not and meets the limit.
    with pytest.raises(error):
        read_yaml(text, USUAL)


# --- environments ----------------------------------------------------------------------------------------------


def test_a_dotenv_file() -> None:
    read = read_environment(DATA / "settings.env")
    assert read.env == {"VLLM_ROCM_USE_AITER": "1", "A": "two words", "B": "$A", "C": "two words!", "E": "x", "G": ""}
    assert read.uncertain == ("D", "F")
    assert read.origins["A"].endswith("settings.env:4")


def test_a_dump_of_env_keeps_quotes_and_hashes() -> None:
    env = read_env_file(DATA / "dump.txt")
    assert env["NOTE"] == 'it\'s "fine" # really'
    assert env["VLLM_ROCM_USE_AITER"] == "1"
    assert "second line" not in env


def test_a_yaml_list_of_variables() -> None:
    read = read_environment(DATA / "pod_env.yaml")
    assert read.env == {"VLLM_ROCM_USE_AITER": "1"}
    assert read.uncertain == ("HF_TOKEN",)


@pytest.mark.parametrize("text", ["environment:\n  A: 1\n  B: yes\n", "environment:\n  - A=1\n  - B=yes\n", "env:\n- {name: A, value: 1}\n- {name: B, value: yes}\n"])  # fmt: skip
def test_yaml_environments_keep_what_is_written(tmp_path: Path, text: str) -> None:
    file = tmp_path / "env.yml"
    file.write_text(text)
    assert read_env_file(file) == {"A": "1", "B": "yes"}
    with pytest.raises(UsageError, match=r"no vllm serve command in it\. An environment goes to --env-file"):
        read_any(file, USUAL)


def test_the_command_wins_over_what_came_first() -> None:
    first = Given(env={"A": "1", "B": "1"}, origins={"A": "f:1", "B": "f:2"}, uncertain=("A", "C"), untold=("x",))
    both = merged(first, Given(argv=("M",), env={"A": "2"}, model="M", origins={"A": "g:1"}, untold=("x", "y")))
    assert both.env == {"A": "2", "B": "1"}
    assert both.origins == {"A": "g:1", "B": "f:2"}
    assert both.uncertain == ("C",)
    assert both.untold == ("x", "y")
    assert (both.argv, both.model) == (("M",), "M")


# --- files that are none ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"", b"\x7fELF\0\0", b"vllm serve \xff\xfe", b"#" * (MOST_BYTES + 1)],
    ids=["empty", "binary", "not UTF-8", "too large"],
)
def test_files_that_are_no_text(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x"
    file.write_bytes(data)
    with pytest.raises(UnreadableInput) as caught:
        read_any(file, USUAL)
    assert caught.value.exit_code == 3


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, tmp_path / "absent", pipe, Path("a\0b")):
        with pytest.raises(UnreadableInput):
            read_any(path, USUAL)


# --- hostile text ----------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "vllm", "serve", "M", "-tp", "4", "--x", "--max-model-len", "1k", '{"a":1}', "'", '"', "\\", "\n", "$", "${", "}", "$(", ")",
        "(", "((", "`", ";", "&&", "||", "|", ";;", "if", "then", "fi", "case", "in", "esac", "do", "done", "for", "A=", "A+=(", "=",
        "[@]", ":-", "<<", "EOF", "<", ">", "2>", "{", "bash", "-c", "docker", "run", "-e", "env", ".", "+", "--", "-O", ",", "-cc.a",
        "#", "export", "$'", "!", "\t", "\r", "\x0b", "\x85", "services:", "command:", "- ", ": ", "&a", "*a", "<<: *a", "!!int",
        "kind: Pod", "containers:", "env:", "name: A", "valueFrom:", "\u00e9", "\ud7ff", "eval", "f()", "unset", "set -a", "A", "local", "read", "let",
        "declare -n", "printf -v", "return", "while", "[[", "]]", "[*]", ":=", "--$X", "function", "|", "&", "((A=1))",
    ]
)  # fmt: skip
TEXT = st.one_of(
    st.text(max_size=60), st.lists(PIECES, max_size=25).map(" ".join), st.lists(PIECES, max_size=25).map("".join)
)


@for_all(TEXT)
@settings(max_examples=400, deadline=None)
def test_no_text_does_more_than_a_named_error(text: str) -> None:
    for known in (KNOWN, USUAL):
        for read in (read_script, read_yaml):
            try:
                assert isinstance(read(text, known), Given)
            except (UsageError, UnreadableInput) as error:
                assert str(error)


@for_all(st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=12))
@settings(max_examples=400, deadline=None)
def test_no_words_do_more_than_a_named_error(words: list[str]) -> None:
    for known in (KNOWN, USUAL):
        for line in (words, ["vllm", "serve", *words], ["docker", "run", *words], ["bash", "-c", *words]):
            try:
                assert isinstance(read_command(line, known), Given)
            except (UsageError, UnreadableInput) as error:
                assert str(error)
