"""What a user asked for, read from commands, scripts, containers and env files; every expectation was worked out by hand: containers; environments; files that are none; hostile text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from input_kit import DATA, KNOWN, USUAL

from m3probe.errors import M3ProbeError, UnreadableInput, UsageError
from m3probe.recipe.asked import Given, merged
from m3probe.recipe.reading import (
    read_any,
    read_command,
    read_env_file,
    read_environment,
    read_script,
    read_yaml,
)
from m3probe.recipe.text import MOST_BYTES

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
