"""What a user asked for, read from commands, scripts, containers and env files; every expectation was worked out by hand: the list of flags; vLLM's words; what stands before the server."""

from __future__ import annotations

from typing import Any

import pytest
from input_kit import DATA, KNOWN, NAMES, USUAL, build, serve

from m3probe.errors import UsageError
from m3probe.recipe.flags import Flags, Kind
from m3probe.recipe.reading import (
    read_command,
    read_env_file,
)
from m3probe.schema.setup import Build, Rule, RuleStatus

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
