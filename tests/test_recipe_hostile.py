"""Recipes that are large, damaged, or do what a reader would not expect: a sentence, a bound, or a flag left open.

Shell behaviour was checked against bash 5.2. The sizes are small enough for a test and large enough that what was
quadratic or without bounds before takes minutes or gigabytes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from m3probe.errors import M3ProbeError, UnreadableInput, UsageError
from m3probe.recipe.asked import MOST_TOLD, Given, merged, sentences
from m3probe.recipe.flags import Flags
from m3probe.recipe.reading import read_any, read_command, read_environment, read_script, read_yaml
from m3probe.recipe.values import whole

USUAL = Flags.usual()
SERVE = "\nvllm serve M --tensor-parallel-size $TP"
TP = "--tensor-parallel-size"


def refused(tmp_path: Path, text: str, name: str = "x.sh", service: str | None = None) -> str:
    """The sentence that a file ends in."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(M3ProbeError) as caught:
        read_any(file, USUAL, service)
    said = str(caught.value)
    assert len(said) <= 2_000
    assert said.startswith(str(file))
    assert caught.value.next_move
    return said.removeprefix(str(file))


# --- what a file is --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [None, "1", "web"])
@pytest.mark.parametrize(
    "text", ["VLLM_ROCM_USE_AITER=1\n", "export A=1\nB='x y'\n", "environment:\n  A: 1\n", "- name: A\n  value: '1'\n"]
)
def test_an_environment_is_no_command(tmp_path: Path, text: str, service: str | None) -> None:
    said = refused(tmp_path, text, service=service)
    assert said == ": no vllm serve command in it. An environment goes to --env-file"


@pytest.mark.parametrize(
    "text",
    [
        '[[ -n "$TP" ]] || TP=4\nvllm serve M -q fp8\n',
        "# first its probe\ncat > probe.yaml <<EOF\nname: probe\nversion: 1\nEOF\nvllm serve M -q fp8\n",
        "{ echo hi; }\nvllm serve M -q fp8\n",
        '[ -z "$X" ] && X=1\nvllm serve M -q fp8\n',
        "---\nvllm serve M -q fp8\n",
        "vllm serve M -q fp8 # note: one line\n",
        "\ufeffvllm serve M -q fp8\n",
    ],
)
def test_a_script_without_a_first_line_is_a_script(tmp_path: Path, text: str) -> None:
    file = tmp_path / "start"
    file.write_text(text)
    assert read_any(file, USUAL).flags == {"--quantization": "fp8"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("services: {m: {command: [", ": no YAML that can be read at line 1"),
        ("services:\n  m:\n command: vllm serve M\n\tx: y\n", ": no YAML that can be read at line 3"),
        ("command: vllm serve M\nenvironment: {A: 1}\n", ": no services and no containers in it"),
        ("services:\n m:\n  environment:\n   B: !!int x\n", ":4"),
        ("echo hello\n", ": no vllm serve command in it"),
    ],
)
def test_what_is_neither_says_so(tmp_path: Path, text: str, said: str) -> None:
    got = refused(tmp_path, text)
    assert got.startswith(said) or "line 4, column 7: !!int 'x' is no such value" in got


def test_utf_16_is_named(tmp_path: Path) -> None:
    file = tmp_path / "u16.sh"
    file.write_bytes("vllm serve M".encode("utf-16"))
    with pytest.raises(UnreadableInput, match=r"not UTF-8: it begins as UTF-16 does\. Save it as UTF-8"):
        read_any(file, USUAL)


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_bytes(b"\xef\xbb\xbfA=1\n")
    assert read_environment(file).env == {"A": "1"}
    assert read_script("\ufeffexport A=1\nvllm serve M", USUAL).env == {"A": "1"}
    assert read_yaml("\ufeffservices: {m: {command: vllm serve M}}", USUAL).model == "M"


# --- which of several ------------------------------------------------------------------------------------------

TWELVE = "".join(f"vllm serve M{n}\n" for n in range(1, 13))
SERVICES = "services:\n" + "".join(f"  s{n}: {{command: vllm serve M{n}}}\n" for n in range(1, 13))


@pytest.mark.parametrize("number", ["12", "0000000012", "00000000000000000012"])
def test_a_number_counts_by_its_value(number: str) -> None:
    assert read_script(TWELVE, USUAL, service=number).model == "M12"
    assert read_yaml(SERVICES, USUAL, service=number).model == "M12"


@pytest.mark.parametrize("number", ["0", "13", "1" * 5_000, "\u0661", "-1", "", "web"])
def test_a_number_that_does_not_exist_lists_what_does(tmp_path: Path, number: str) -> None:
    assert "there are 1: line 1, vllm serve M1; 2: line 2" in refused(tmp_path, TWELVE, service=number)
    assert ": s1, s2, s3" in refused(tmp_path, SERVICES, service=number)
    assert "there are 1: line 1, vllm serve M" in refused(tmp_path, "vllm serve M", service=number or "2")


# --- what a script really does ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "tp"),
    [
        ("TP=4; f() { local TP=8; }; f", "4"),
        ("TP=4; f() { local TP; TP=8; }; f", "4"),
        ("TP=4; f() { typeset TP=8; }; f", "4"),
        ("TP=4; f() { declare -g TP=8; }; f", "8"),
        ("TP=4; f() { TP=8; }; f", "8"),
        ("TP=4; (TP=8)", "4"),
        ("TP=4; f() ( TP=8 ); f", "4"),
        ("TP=4; echo 8 | TP=8", "4"),
        ("TP=4; { TP=8; } | tee log", "4"),
        ("TP=4; cat x | while read -r y; do TP=8; done", "4"),
        ("TP=4; TP=8 &", "4"),
        ("TP=4; { cd x; TP=8; } &\nwait", "4"),
        ("TP=4; if (TP=8); then :; fi", "4"),
        ("TP=4; [[ $X =~ ^(a|b)$ ]]; TP=8", "8"),
        ("TP=1; TP+=6", "16"),
        ("typeset TP=8", "8"),
        ('eval "TP=8"', "8"),
        ('N=TP; eval "$N=8"', "8"),
        ('N=TP; export "$N=8"', "8"),
        ('export "TP=8"', "8"),
        ("builtin export TP=8", "8"),
        ("\\export TP=8", "8"),
        ("TP=4; f() { TP=8; return; TP=2; }; f", "8"),
        ("TP=4; local TP=8", "4"),
    ],
)
def test_a_variable_is_followed(script: str, tp: str) -> None:
    read = read_script(script + SERVE, USUAL)
    assert read.flags == {TP: tp}
    assert not read.uncertain


@pytest.mark.parametrize(
    "script",
    [
        "TP=4; ((TP*=2))",
        "TP=4; (( TP = TP + 4 ))",
        "TP=4; : $((TP++))",
        'TP=4; echo "$((TP=8))"',
        "for ((TP=1; TP<8; TP*=2)); do :; done",
        "TP=4; let TP=8",
        'TP=4; let "TP *= 2"',
        "TP=4; printf -v TP 8",
        "TP=4; printf -vTP %d 8",
        "TP=4; declare -n R=TP; R=8",
        "TP=4; read TP",
        'TP=4; read -r -p "TP? " TP',
        "TP=4; IFS=, read -r TP X <<< 8,1",
        "TP=4; command read TP",
        "TP=4; N=TP; read $N",
        "TP=4; mapfile -t TP < x",
        "TP=4; readarray TP < x",
        "TP=4; getopts t TP",
        "for TP in 4 8; do :; done",
        "select TP in 4 8; do break; done",
        'TP=4; eval "TP=$X"',
        'TP=4; eval "TP=\'"',
        "readonly TP=4; TP=8",
        "declare -i TP=2+2",
        "declare -i TP; TP=2; TP+=2",
        "TP=(4 8); TP[0]=2",
        "TP=$X",
    ],
)
def test_a_variable_that_a_run_decides_is_not_known_and_told(script: str) -> None:
    read = read_script(script + SERVE, USUAL, "s.sh")
    assert read.flags == {}
    assert read.uncertain == (TP,)
    assert any(text.startswith(f"{TP} is not known: ") and "(s.sh:1)" in text for text in read.untold)


@pytest.mark.parametrize(
    "script",
    [
        "TP=4; if x; then ((TP*=2)); fi",
        "TP=4; x && read TP",
        'TP=4; x && eval "TP=8"',
        "TP=4; f() { [[ -n $X ]] && return; TP=8; }; f",
        "TP=4; f() { if x; then return 0; fi; TP=8; }; f",
    ],
)
def test_under_a_condition_the_value_without_it_stands_and_is_uncertain(script: str) -> None:
    read = read_script(script + SERVE, USUAL)
    assert read.flags == {TP: "4"}
    assert read.uncertain == (TP,)
    assert read.untold


def test_a_loop_changes_what_its_next_round_starts() -> None:
    read = read_script("TP=2; while x; do vllm serve M --tensor-parallel-size $TP; TP=4; done", USUAL)
    assert (read.flags, read.uncertain) == ({TP: "2"}, (TP,))
    once = read_script("TP=2; if x; then vllm serve M --tensor-parallel-size $TP; TP=4; fi", USUAL)
    assert (once.flags, once.uncertain) == ({TP: "2"}, ())


@pytest.mark.parametrize(
    ("script", "env"),
    [
        ("(export A=1)", {}),
        ("echo x | export A=1", {}),
        ("export A=1 &", {}),
        ("export A; A=1", {"A": "1"}),
        ("export A B; A=1", {"A": "1"}),
        ("export A; export -n A; A=1", {}),
        ("A=1; f() { local A=2; export A; }; f", {}),
        ("export A=1; f() { local A=2; }; f", {"A": "1"}),
        ("export A=1; unset -f A", {"A": "1"}),
        ("set -- -a; A=1", {}),
    ],
)
def test_what_is_exported(script: str, env: dict[str, str]) -> None:
    read = read_script(script + "\nvllm serve M", USUAL)
    assert read.env == env
    assert not read.uncertain


@pytest.mark.parametrize(
    "script", ["x && export A; A=1", "export A=1; read A", "x && set -a; A=1", "export A=1; x && unset A"]
)
def test_an_export_that_a_run_decides_is_uncertain(script: str) -> None:
    assert read_script(script + "\nvllm serve M", USUAL).uncertain == ("A",)


def test_a_function_that_calls_the_one_with_the_command_stops_there() -> None:
    script = "main() { setup; go; export Z=9; }; setup() { export A=1; }; go() { vllm serve M; export Y=8; }; main"
    assert read_script(script, USUAL).env == {"A": "1"}


def test_eval_may_hold_the_whole_command() -> None:
    read = read_script('TP=4; eval "TP=8; vllm serve M -tp \\$TP 2>&1 | tee log"', USUAL)
    assert (read.model, read.flags) == ("M", {TP: "8"})


# --- a flag whose value is not known ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("--block-size $Q", "--block-size"),
        ('--block-size "$Q"', "--block-size"),
        ("--block-size=$Q", "--block-size"),
        ("--block_size $(nproc)", "--block-size"),
        ("--max-num-seqs `nproc`", "--max-num-seqs"),
        ("--max-num-seqs 8 --max-num-seqs $Q", "--max-num-seqs"),
        ("--cudagraph-capture-sizes 1 $(cat s)", "--cudagraph-capture-sizes"),
        ('--speculative-config "{\\"num_speculative_tokens\\":$Q}"', "--speculative-config"),
        ("--speculative-config '{\"n\": '$Q'}'", "--speculative-config"),
        ("--speculative-config.num_speculative_tokens $Q", "--speculative-config"),
        ("--speculative-config.num_speculative_tokens=$Q", "--speculative-config"),
        ("--speculative-config.$Q 3", "--speculative-config"),
        ("-cc.mode $Q --compilation-config '{\"mode\": 3}'", "--compilation-config"),
        ("-O $Q", "--optimization-level"),
        ("-O$Q", "--optimization-level"),
        ("-q $Q", "--quantization"),
        ("--brand-new $Q", "--brand-new"),
    ],
)
def test_its_name_is_uncertain_in_every_form(words: str, flag: str) -> None:
    array = f'A=({words}); vllm serve M "${{A[@]}}"'
    loop = f"for Q in 64 128; do vllm serve M {words}; done"
    inside = f"docker run -e X=1 img vllm serve M {words}"
    for script in (
        f"vllm serve M {words}",
        array,
        loop,
        inside,
        f"bash -c 'vllm serve M {words.replace(chr(39), chr(34))}'",
    ):
        if script.startswith("bash") and "{" in words:
            continue
        read = read_script(script, USUAL)
        assert flag in read.uncertain, script
        assert read.model == "M"
        assert read.untold


@pytest.mark.parametrize(
    "command",
    ["'vllm serve M --block-size $Q -tp 4'", "[vllm, serve, M, --block-size, '${Q}', -tp, '4']", "[vllm, serve, M, '--block-size=${Q}', -tp, '4']"],
)  # fmt: skip
def test_its_name_is_uncertain_in_a_compose_file(command: str) -> None:
    read = read_yaml(f"services: {{m: {{command: {command}}}}}", USUAL)
    assert (read.flags, read.uncertain) == ({TP: "4"}, ("--block-size",))


@pytest.mark.parametrize("word", ["$EXTRA", '"$EXTRA"', "$(cat flags)", "--$EXTRA", "--enable-$EXTRA 1", "--$EXTRA=1"])
def test_a_word_that_may_be_any_flag_is_told(word: str) -> None:
    read = read_script(f"vllm serve M {word} -tp 4", USUAL)
    assert (read.model, read.flags) == ("M", {TP: "4"})
    assert any("flag" in text and "not known" in text for text in read.untold)


def test_the_last_value_settles_a_flag() -> None:
    read = read_script("vllm serve M --max-num-seqs $N --max-num-seqs 8", USUAL)
    assert (read.flags, read.uncertain) == ({"--max-num-seqs": "8"}, ())


@pytest.mark.parametrize(
    "script", ["env $E vllm serve M", "docker run -e $E img vllm serve M", "docker run $E img vllm serve M"]
)
def test_variables_whose_names_are_not_known_are_told(script: str) -> None:
    read = read_script(script, USUAL)
    assert read.model == "M"
    assert any("variable" in text and "$E" in text for text in read.untold)


# --- depth, digits, size ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a=(" * 3_000 + "\nvllm serve M", ":1: an array stands inside an array"),
        ("".join(f"f{n}() {{ f{n + 1}; }}\n" for n in range(3_000)) + "f0\nvllm serve M", "call each other more than 50"),
        ("docker run x " * 3_000 + "\n", "no vllm serve command in it"),
        ("vllm serve M --a.b '{\"a\":" + "[" * 900 + "]" * 900 + "}' --a.b.c 1 w", "more than one model or a stray word"),
        ('A="' + "$a" * 210_000 + '"\nvllm serve M', ":1: more than 200,000 pieces of words"),
        ("A=" + "x" * 60_000 + "\n" + "B=${A}y\n" * 300 + "vllm serve M", "its values grow beyond 16 MiB"),
        ("A=(" + "x " * 9_000 + ")\n" + 'B=("${A[@]}")\n' * 70 + "vllm serve M", "its values grow beyond 16 MiB"),
        ("A=a\n" + "A=$A$A\n" * 30 + "vllm serve M", ":18: a word grows beyond 65,536 characters"),
        ("".join(f"A{n}=1\n" for n in range(10_001)) + "vllm serve M", "more than 10,000 variables"),
        ("\n" * 200_001 + "vllm serve M", ": more than 200,000 lines"),
        ("services: {m: {command: vllm serve M}}\nx: [" + "a," * 51_000 + "]", "more than 50,000 values"),
        ("services: {m: {command: vllm serve M}}\nx: " + "[" * 2_000, "more than 100 levels inside each other"),
        ("services: {m: {command: vllm serve M}}\nx: " + "a" * 1_100_000, ": YAML of more than 1 MiB"),
        ("kind: P\nspec: {containers: [{name: a, command: [vllm, serve, M], env: [{name: A, value: " + "x" * 60_000 + "}" + ", {name: B, value: $(A)}" * 300 + "]}]}", "values grow beyond 16 MiB"),
    ],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_too_much_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    start = time.process_time()
    assert said in refused(tmp_path, text)
    assert time.process_time() - start < 20  # 1 s here; what had no bound took minutes


@pytest.mark.parametrize(
    "value", ["0x" + "f" * 6_000, "9" * 6_000, "1" + ":1" * 3_000, "0b" + "1" * 6_000, "1" * 6_000 + ".5"]
)
def test_a_number_of_thousands_of_digits_in_a_config_file(tmp_path: Path, value: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"speculative-config: {{num_speculative_tokens: {value}}}\n")
    with pytest.raises(UnreadableInput, match=r"line 1, column 46: a number of 6,\d\d\d characters"):
        read_command(["vllm", "serve", "M", "--config", str(file)], USUAL)


@pytest.mark.parametrize("flag", ["--block-size", "--max-model-len", "--speculative-config"])
def test_a_number_of_thousands_of_digits_in_a_command(flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        read_command(["vllm", "serve", "M", flag, "9" * 6_000], USUAL)
    assert whole("9" * 6_000) is None


def test_a_suffix_of_zero_is_a_number() -> None:
    assert read_command(["vllm", "serve", "M", "--hf-overrides", '{"a": 0k}'], USUAL).flags == {
        "--hf-overrides": {"a": 0}
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["w"] * 40_000, "a stray word: M, w, w"),
        ([f"--tensor-paralel-siz{n}" for n in range(20_000)], "no 19,980 more in this build"),
        ([f"-x{n}.a=1" for n in range(20_000)], "no 19,980 more in this build"),
    ],
    ids=["words", "flags", "keys"],
)
def test_a_long_command_is_read_in_one_pass(words: list[str], said: str) -> None:
    complete = Flags(USUAL.names, USUAL.switches, aliases=USUAL.aliases)
    start = time.process_time()
    with pytest.raises(UsageError) as caught:
        read_command(["vllm", "serve", "M", *words], complete)
    assert said in str(caught.value)
    assert len(str(caught.value)) <= 2_000
    assert time.process_time() - start < 20  # below 1 s; it was 40 s


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("".join(f"A{n}=1\n" for n in range(10_001)), "more than 10,000 variables"),
        ("A=" + "x" * 60_000 + "\n" + "B=${A}\n" * 300, "its values grow beyond 16 MiB"),
    ],
    ids=["variables", "values"],
)
def test_an_environment_has_bounds(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "a.env"
    file.write_text(text)
    with pytest.raises(UnreadableInput, match=said):
        read_environment(file)


@pytest.mark.parametrize(
    "text", ['A="x\n' * 50_000, "A=x" + " " * 1_000_000 + "y", "A=" + "${A:-" * 200_000, "\n" * 190_000 + "A=$(x)"]
)
def test_lines_of_an_environment_are_read_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.env"
    file.write_text(text)
    start = time.process_time()
    read = read_environment(file)
    assert {*read.env, *read.uncertain} == {"A"}
    assert len(read.untold) <= MOST_TOLD + 1
    assert time.process_time() - start < 20  # below 1 s; blanks before a # alone took hours


@pytest.mark.parametrize("text", ["garbage\n", "<?xml version='1.0'?>\n<testsuite>\n"])
def test_an_environment_without_a_variable_is_none(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.env"
    file.write_text(text)
    with pytest.raises(UnreadableInput, match="holds no NAME=value line"):
        read_environment(file)


def test_a_value_over_lines_ends_where_its_quote_does(tmp_path: Path) -> None:
    file = tmp_path / "a.env"
    file.write_text('A="one\ntwo"\nB=\'three\nfour\'\nC="${A:-${B}}"\n')
    read = read_environment(file)
    assert read.env == {"A": "one\ntwo", "B": "three\nfour"}
    assert read.uncertain == ("C",)


def test_sentences_are_bounded_and_counted() -> None:
    many = sentences([f"{n} is not known" for n in range(250)])
    assert len(many) == MOST_TOLD + 1
    assert many[-1] == "and 150 more of this kind"
    both = merged(Given(untold=many), Given(untold=many, argv=("M",)))
    assert both.untold[-1] == "and 300 more of this kind"
    assert sentences(["x" * 9_000]) == ("x" * 1_997 + "...",)


def test_every_sentence_of_a_large_script_is_short() -> None:
    long: list[Any] = ["N" * 5_000, "n" * 60_000]
    read = read_script(f"read {long[0]}\nexport {long[0]}\nvllm serve M --{long[1]} ${long[0]} $Z", USUAL)
    assert max(map(len, (*read.untold, *read.notes, *read.unknown_flags))) <= 2_000
