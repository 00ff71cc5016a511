"""What a rules file may say, and what an error about it must name."""

import time
from pathlib import Path

import pytest

from m3probe.errors import UnreadableInput, UsageError
from m3probe.rules import RulesFile, Span, load_rules
from m3probe.rules._entry import Known
from m3probe.schema.verdicts import PathVerdict, Phase, Trust

KNOWN = Known(("graph_replay", "sparse_attention"), lambda _name: ("FULL", "PIECEWISE"))


def load(tmp_path: Path, text: str) -> RulesFile:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    return load_rules(path, KNOWN)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    assert caught.value.exit_code == 2
    sentence = caught.value.sentence()
    assert "rules.toml" in sentence
    return sentence


def one(tmp_path: Path, *lines: str) -> str:
    """The refusal of a file with one rule."""
    return refusal(tmp_path, "\n".join(["[[rule]]", *lines]))


def test_every_key_is_read(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        """
[require]
trust = "degraded"
[[rule]]
path = "graph_replay"
phase = "decode"
rank = 3
verdict = "executed"
variant = "FULL"
[[rule]]
kernel = "a"
per_step = 6
trust = "complete"
[[rule]]
kernel = "b_*"
per_step = {min = 1, max = 3}
min_count = 2
max_count = 9
[[rule]]
family = "comm"
min_share = 0.1
max_share = 1
[[rule]]
family = "gemm"
forbid = true
""",
    )
    path, exact, ranged, share, forbid = found.rules
    assert found.trust is Trust.DEGRADED
    assert (path.kind, path.name, path.phase, path.rank) == ("path", "graph_replay", Phase.DECODE, 3)
    assert (path.verdict, path.variant) == (PathVerdict.EXECUTED, "FULL")
    assert (exact.per_step, exact.trust, exact.line) == (Span(6, 6), Trust.COMPLETE, 10)
    assert (ranged.per_step, ranged.count) == (Span(1, 3), Span(2, 9))
    assert (share.share, share.forbid) == (Span(0.1, 1.0), False)
    assert (forbid.forbid, forbid.number) == (True, 5)


@pytest.mark.parametrize(
    ("lines", "suggested"),
    [
        (['kernel = "a"', "per_stp = 6"], "unknown key 'per_stp'. Did you mean 'per_step'?"),
        (['path = "graph_reply"', 'verdict = "executed"'], "unknown path 'graph_reply'. Did you mean 'graph_replay'?"),
        (['family = "moegemm"', "forbid = true"], "unknown family 'moegemm'. Did you mean 'moe_gemm'?"),
        (['family = "COMM"', "forbid = true"], "unknown family 'COMM'. Did you mean 'comm'?"),
        (['kernel = "a"', 'phase = "decod"', "forbid = true"], "unknown phase 'decod'. Did you mean 'decode'?"),
        (['path = "graph_replay"', 'verdict = "excuted"'], "unknown verdict 'excuted'. Did you mean 'executed'?"),
        (['kernel = "a"', 'trust = "complet"', "forbid = true"], "unknown trust 'complet'. Did you mean 'complete'?"),
        (['kernel = "a"', "per_step = {mn = 1}"], "unknown key 'mn'. Did you mean 'min'?"),
        (
            ['path = "graph_replay"', 'verdict = "executed"', 'variant = "full"'],
            "unknown variant 'full'. Did you mean 'FULL'?",
        ),
        (['kernel = "a"', 'phase = "zzz"', "forbid = true"], "unknown phase 'zzz'. Known: capture, decode, dummy"),
    ],
)
def test_unknown_word_names_file_line_rule_and_the_nearest(tmp_path: Path, lines: list[str], suggested: str) -> None:
    before = ["# a comment", "[[rule]]", 'kernel = "x"', "forbid = true", "", "[[rule]]"]
    sentence = refusal(tmp_path, "\n".join([*before, *lines]))
    assert suggested in sentence
    assert "rules.toml:6 (rule 2): " in sentence


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['kernel = "a"', "forbid = true", "per_step = 6"], "forbid and per_step"),
        (['kernel = "a"', "forbid = false"], "forbid can only be true"),
        (['kernel = "a"', 'verdict = "executed"'], "verdict is for path rules"),
        (
            ['path = "graph_replay"', 'verdict = "executed"', "min_count = 1"],
            "min_count is for family and kernel rules",
        ),
        (['path = "graph_replay"'], "checks nothing"),
        (['path = "graph_replay"', 'verdict = "unproven"'], "no rule can ask for it"),
        (['path = "graph_replay"', 'verdict = "off"', 'variant = "FULL"'], "variant belongs"),
        (['kernel = "a"'], "checks nothing"),
        (['kernel = "a"', "per_step = {}"], "checks nothing"),
        (['kernel = "a"', 'family = "gemm"', "forbid = true"], "exactly one of path, family, kernel"),
        (["forbid = true"], "exactly one of path, family, kernel, gate, agree; this one has none"),
        (['kernel = ""', "forbid = true"], "a name or a pattern"),
        (["kernel = 7", "forbid = true"], "a name or a pattern"),
        (["family = 7", "forbid = true"], "must be a text"),
        (['family = "memory"', "forbid = true"], "no kernels"),
        (['kernel = "a"', "per_step = {min = 3, max = 2}"], "minimum 3 is above the maximum 2"),
        (['kernel = "a"', "min_share = 0.3", "max_share = 0.2"], "minimum 0.3 is above the maximum 0.2"),
        (['kernel = "a"', "min_count = 3", "max_count = 2"], "minimum 3 is above the maximum 2"),
        (['kernel = "a"', "per_step = 6", "max_count = 5"], "never hold together"),
        (['kernel = "a"', "per_step = 6", 'phase = "empty"'], "non-empty steps"),
        (['kernel = "a"', "per_step = 6.5"], "whole number"),
        (['kernel = "a"', "per_step = -1"], "whole number"),
        (['kernel = "a"', "per_step = true"], "whole number"),
        (['kernel = "a"', "rank = -1", "forbid = true"], "whole number"),
        (['kernel = "a"', "max_share = 20"], "20 % is written 0.2"),
        (['kernel = "a"', "max_share = nan"], "fraction from 0 to 1"),
    ],
)
def test_contradictory_or_empty_rule_is_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    assert said in one(tmp_path, *lines)


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("forbid = true", 'phase = "decode"\nper_step = 6', True),
        ("forbid = true", "per_step = 0", False),
        ('phase = "prefill"\nforbid = true', 'phase = "decode"\nper_step = 6', False),
        ("rank = 0\nforbid = true", "rank = 1\nmin_count = 1", False),
        ("per_step = 6", 'phase = "decode"\nper_step = 7', True),
        ("per_step = {min = 5}", 'phase = "decode"\nper_step = 7', False),
        ("max_share = 0.2", "min_share = 0.3", True),
        ("max_share = 0.2", 'phase = "decode"\nmin_share = 0.3', False),
        ("max_count = 5", 'phase = "decode"\nmin_count = 6', True),
    ],
)
def test_two_rules_that_cannot_both_hold(tmp_path: Path, first: str, second: str, clash: bool) -> None:
    text = f'[[rule]]\nkernel = "a"\n{first}\n[[rule]]\nkernel = "a"\n{second}\n'
    for order in (text, f'[[rule]]\nkernel = "a"\n{second}\n[[rule]]\nkernel = "a"\n{first}\n'):
        if clash:
            sentence = refusal(tmp_path, order)
            assert "(rule 2): contradicts rule 1 (kernel a" in sentence
        else:
            assert len(load(tmp_path, order).rules) == 2


def test_two_verdicts_of_one_path_contradict(tmp_path: Path) -> None:
    rule = '[[rule]]\npath = "graph_replay"\nphase = "{}"\nverdict = "{}"\n'
    assert "contradicts" in refusal(tmp_path, rule.format("decode", "executed") + rule.format("decode", "off"))
    assert len(load(tmp_path, rule.format("decode", "executed") + rule.format("prefill", "off")).rules) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rule"),
        ("[[rules]]\n", "unknown key 'rules'. Did you mean 'rule'?"),
        ("[rule]\n", "two brackets"),
        ("rule = 3\n", "two brackets"),
        ('[require]\ntrus = "complete"\n', "Did you mean 'trust'?"),
        ('[require]\ntrust = "unusable"\n', "unknown trust 'unusable'"),
        ("require = 3\n", "[require] is a table"),
        ('[[rule]]\nkernel = "a\n', "line 2"),
        ('[[rule]]\nkernel = "a"\nkernel = "b"\n', "line 3"),
        ("n = " + "9" * 5000, "more digits"),
        ("[[rule]]\nkernel = 'a'\nmin_count = 0x" + "f" * 5000, "min_count must be a whole number"),
        ("[[rule]]\nkernel = 'a'\nmin_count = 9223372036854775808", "min_count must be a whole number"),
        ("[[rule]]\nkernel = 'a'\nmin_share = 0x" + "f" * 5000, "min_share must be a fraction"),
        ("a = " + "[" * 50_000, "nested too deeply"),
        ("a = " + "{b = " * 5_000, "nested too deeply"),
        ("[[rule]]\nkernel = 'a'\nforbid = true\n" * 1001, "1,001 rules"),
    ],
)
def test_file_that_is_no_rules_file(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path, text)


def test_trust_alone_is_a_rules_file(tmp_path: Path) -> None:
    assert load(tmp_path, '[require]\ntrust = "complete"\n').rules == ()


@pytest.mark.parametrize("content", [None, b"\x89PNG\r\n\x1a\n\xff"])
def test_missing_or_unreadable_file_exits_3(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "rules.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableInput) as caught:
        load_rules(path, KNOWN)
    assert caught.value.exit_code == 3
    with pytest.raises(UnreadableInput):
        load_rules(tmp_path, KNOWN)


def test_control_characters_of_a_rules_file_do_not_reach_an_error_raw(tmp_path: Path) -> None:
    assert "\x1b" not in one(tmp_path, 'family = "\\u001b[2J"', "forbid = true")


def test_shelf_names_the_paths_and_variants_when_nothing_is_given(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\npath = "graph_replay"\nverdict = "executed"\nvariant = "FULL"\n')
    assert load_rules(path).rules[0].variant == "FULL"
    path.write_text('[[rule]]\npath = "graph_rplay"\nverdict = "executed"\n')
    with pytest.raises(UsageError, match="Did you mean 'graph_replay'"):
        load_rules(path)


@pytest.mark.parametrize(
    "key", ["x." * 50_000 + "y = 1", "[" + ".".join("a" * 50_000) + "]", " . ".join(['"q.r"'] * 50_000) + " = 1"]
)
def test_a_key_of_many_parts_is_refused_at_once(tmp_path: Path, key: str) -> None:
    """tomllib alone takes 43 s for the first of them."""
    began = time.process_time()
    assert "a key of more than 16 parts" in refusal(tmp_path, key)
    assert time.process_time() - began < 2


def test_dots_in_names_and_comments_are_no_parts_of_a_key(tmp_path: Path) -> None:
    dots = ".".join("abcdefghijklmnopqrstuvwxyz")
    text = f"[[rule]] # {dots}\nkernel = \"{dots}\"\nforbid = true\n[[rule]]\nkernel = '''{dots}'''\nforbid = true\n"
    assert [rule.name for rule in load(tmp_path, text).rules] == [dots, dots]


def test_a_value_of_any_length_makes_a_short_sentence(tmp_path: Path) -> None:
    for lines in (['family = "' + "x" * 10_000 + '"'], ["kernel = " + str([1] * 5_000)], ["x" * 10_000 + " = 1"]):
        assert len(one(tmp_path, *lines, "forbid = true")) < 600


def test_a_thousand_rules_are_compared_quickly(tmp_path: Path) -> None:
    text = "".join(f'[[rule]]\nkernel = "k{i}"\nmin_count = 1\n' for i in range(1000))
    began = time.process_time()
    assert len(load(tmp_path, text).rules) == 1000
    assert time.process_time() - began < 1


def test_a_file_of_more_than_one_mebibyte_is_no_rules_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(UnreadableInput) as caught:
        load_rules(path, KNOWN)
    assert "larger than 1 MiB" in caught.value.sentence()
    with pytest.raises(UnreadableInput, match="larger"):
        load_rules(Path("/dev/zero"), KNOWN)
