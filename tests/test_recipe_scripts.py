"""What a user asked for, read from commands, scripts, containers and env files; every expectation was worked out by hand: scripts."""

from __future__ import annotations

from typing import Any

import pytest
from input_kit import DATA, KNOWN, PRINTED, USUAL

from m3probe.errors import UsageError
from m3probe.recipe.reading import (
    read_any,
    read_script,
)

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
