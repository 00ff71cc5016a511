"""Rules files that build on others: ready ones by name, own ones by path; replacing, dropping, and every way to go wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from command_kit import ran
from rules_kit import ATTEND, DECODE, KNOWN, served
from tree import ROOT

from m3probe.errors import UnreadableInput, UsageError
from m3probe.model.report import Answer
from m3probe.rules import RulesFile, judge, load_rules
from m3probe.rules.ready import ready
from m3probe.schema.verdicts import Trust

NAMES = ["any-vllm-graphs", "m3-eagle3-tp4", "m3-mxfp4-tp2", "m3-mxfp4-tp4", "m3-mxfp8-tp4"]
BASE = """
[require]
trust = "complete"
[[rule]]
id = "attends"
kernel = "a"
per_step = 6
[[rule]]
id = "copies"
kernel = "b"
forbid = true
[[rule]]
kernel = "c"
min_count = 1
"""


def written(tmp_path: Path, **files: str) -> Path:
    """Each file by its name; the path of the first."""
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path / f"{next(iter(files))}.toml"


def load(tmp_path: Path, **files: str) -> RulesFile:
    return load_rules(written(tmp_path, **files), KNOWN)


def refusal(tmp_path: Path, **files: str) -> str:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, **files)
    assert caught.value.exit_code == 2
    return caught.value.sentence()


def test_an_own_rule_replaces_the_inherited_one_of_its_id_and_drop_takes_one_out(tmp_path: Path) -> None:
    own = 'extends = "base.toml"\ndrop = ["copies"]\n[[rule]]\nid = "attends"\nkernel = "a"\nper_step = 57\n'
    found = load(tmp_path, own=own, base=BASE)
    assert [rule.text for rule in found.rules] == [
        f"kernel c: at least 1 in all [no id of {tmp_path / 'base.toml'}]",
        "kernel a: exactly 57 per step",
    ]
    assert [(rule.number, rule.line) for rule in found.rules] == [(1, None), (2, 3)]
    assert found.trust is Trust.COMPLETE


def test_an_own_requirement_stands_over_the_inherited_one(tmp_path: Path) -> None:
    own = 'extends = ["base.toml"]\n[require]\ntrust = "degraded"\n'
    found = load(tmp_path, own=own, base=BASE)
    assert (found.trust, len(found.rules)) == (Trust.DEGRADED, 3)


def test_a_later_file_replaces_the_ids_of_an_earlier_one(tmp_path: Path) -> None:
    other = '[[rule]]\nid = "attends"\nkernel = "a"\nper_step = 15\n'
    found = load(tmp_path, own='extends = ["base.toml", "other.toml"]\n', base=BASE, other=other)
    assert [rule.expected for rule in found.rules] == ["forbidden", "at least 1 in all", "exactly 15 per step"]


def test_extending_a_file_that_extends_keeps_each_rules_origin(tmp_path: Path) -> None:
    middle = 'extends = "base.toml"\ndrop = "copies"\n[[rule]]\nid = "mine"\nkernel = "d"\nforbid = true\n'
    found = load(tmp_path, own='extends = "middle.toml"\n', middle=middle, base=BASE)
    assert [(rule.id, Path(rule.origin).name) for rule in found.rules] == [
        ("attends", "base.toml"),
        ("", "base.toml"),
        ("mine", "middle.toml"),
    ]


def test_a_path_begins_at_the_folder_of_the_file_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "base.toml").write_text('extends = "../far.toml"\n' + BASE)
    (tmp_path / "far.toml").write_text('[[rule]]\nkernel = "far"\nforbid = true\n')
    found = load(tmp_path, own='extends = "deep/base.toml"\n')
    assert [rule.name for rule in found.rules] == ["far", "a", "b", "c"]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ('extends = "m3-mxfp8-tp8"\n', "no ready rules file: 'm3-mxfp8-tp8'. Did you mean 'm3-mxfp8-tp4'?"),
        ("extends = 3\n", "extends must be a name in quotes or a list of them"),
        ("extends = [3]\n", "extends must be a name in quotes or a list of them"),
        ('extends = ""\n', "extends must be a name in quotes"),
        ('extends = "base.toml"\ndrop = ["copis"]\n', "drop names no inherited rule: 'copis'. Did you mean 'copies'?"),
        ('drop = ["copies"]\n[[rule]]\nkernel = "a"\nforbid = true\n', "drop names no inherited rule"),
        ('extends = "base.toml"\ndrop = [[1]]\n', "drop must be a name in quotes or a list of them"),
        ('extend = "base.toml"\n', "unknown key 'extend'. Did you mean 'extends'?"),
        ('extends = "own.toml"\n', "extends runs in a circle"),
        ('extends = "./../{folder}/own.toml"\n', "extends runs in a circle"),
        ('extends = "base.toml"\n[[rule]]\nkernel = "a"\nforbid = true\n', "contradicts rule 1"),
        ('[[rule]]\nid = "x"\nkernel = "a"\nforbid = true\n' * 2, "id 'x' is rule 1's. Give it another"),
        ('[[rule]]\nid = "a b"\nkernel = "a"\nforbid = true\n', "id must be up to 64 letters"),
        ("[[rule]]\nid = 3\nkernel = 'a'\nforbid = true\n", "id must be up to 64 letters"),
    ],
)
def test_what_is_wrong_is_said_with_its_file(tmp_path: Path, own: str, said: str) -> None:
    sentence = refusal(tmp_path, own=own.replace("{folder}", tmp_path.name), base=BASE)
    assert said in sentence
    assert "own.toml" in sentence


def test_a_circle_over_two_files_is_told_whole(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, one='extends = "two.toml"\n', two='extends = "one.toml"\n')
    assert sentence.count("one.toml") == 2
    assert "two.toml" in sentence


def test_a_contradiction_names_the_id_that_would_replace(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, own='extends = "base.toml"\n[[rule]]\nkernel = "a"\nforbid = true\n', base=BASE)
    assert "own.toml:2 (rule 1): contradicts rule 1 (kernel a: exactly 6 per step [attends of " in sentence
    assert 'give this one id = "attends" to replace it' in sentence


def test_an_error_in_an_inherited_file_names_that_file(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, own='extends = "base.toml"\n', base='\n[[rule]]\nkernel = "a"\nper_stp = 6\n')
    assert f"{tmp_path / 'base.toml'}:2 (rule 1): unknown key 'per_stp'" in sentence
    assert "base.toml: not valid TOML" in refusal(tmp_path, own='extends = "base.toml"\n', base="[[rule]\n")


def test_nesting_and_number_of_files_have_limits(tmp_path: Path) -> None:
    chain = {f"f{i}": f'extends = "f{i + 1}.toml"\n' for i in range(12)}
    assert "nested more than 8 deep" in refusal(tmp_path, **chain, f12=BASE)
    wide = {"own": f"extends = {[f'g{i}.toml' for i in range(40)]}\n".replace("'", '"')}
    wide |= {f"g{i}": f'[[rule]]\nkernel = "k{i}"\nforbid = true\n' for i in range(40)}
    assert "more than 32 files" in refusal(tmp_path, **wide)
    two = {"own": 'extends = ["g0.toml", "g1.toml"]\n'}
    two |= {f"g{g}": "".join(f'[[rule]]\nkernel = "k{g}{i}"\nforbid = true\n' for i in range(600)) for g in range(2)}
    assert "1,200 rules with the inherited ones" in refusal(tmp_path, **two)


@pytest.mark.parametrize("name", ["gone.toml", "deep/gone.toml", "../gone.toml", "."])
def test_a_file_to_build_on_that_is_not_there_exits_3(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnreadableInput) as caught:
        load(tmp_path, own=f'extends = "./{name}"\n')
    assert caught.value.exit_code == 3
    assert "own.toml" in caught.value.sentence() or name == "."


def test_what_is_no_regular_file_is_not_built_on(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")  # opening it would wait for ever
    for name in ("pipe.toml", "/dev/zero/", "./"):
        with pytest.raises(UnreadableInput, match="not a regular file"):
            load(tmp_path, own=f'extends = "{name}"\n')


def test_a_zero_byte_in_a_path_is_no_traceback(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput):
        load(tmp_path, own='extends = "a\\u0000/b.toml"\n')


# --- ready files ----------------------------------------------------------------------------------------------


def test_the_ready_files_are_these() -> None:
    assert list(ready()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_ready_file_loads_by_its_name_and_every_rule_has_an_id(name: str, tmp_path: Path) -> None:
    found = load_rules(Path(name))
    assert found.path == name
    assert [rule for rule in found.rules if not rule.id] == []
    assert len({rule.id for rule in found.rules}) == len(found.rules)
    own = tmp_path / "own.toml"
    own.write_text(f'extends = "{name}"\ndrop = ["decode-replays"]\n')
    built = load_rules(own)
    assert [rule.id for rule in built.rules] == [rule.id for rule in found.rules if rule.id != "decode-replays"]


def test_a_file_of_that_name_is_read_before_the_ready_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "any-vllm-graphs").write_text('[[rule]]\nkernel = "own"\nforbid = true\n')
    assert load_rules(Path("any-vllm-graphs")).rules[0].name == "own"


def test_a_name_that_is_neither_suggests_the_ready_one() -> None:
    with pytest.raises(UnreadableInput) as caught:
        load_rules(Path("m3-mxfp8-tp-4"))
    assert "Did you mean 'm3-mxfp8-tp4'?" in caught.value.sentence()


def test_the_tp2_file_asks_for_what_tp4_forbids() -> None:
    tp4, tp2 = ({rule.id: rule for rule in load_rules(Path(name)).rules} for name in ("m3-mxfp4-tp4", "m3-mxfp4-tp2"))
    assert (tp4["attends"].variant, tp2["attends"].variant) == ("AITER page-16", "Triton")
    assert tp4["no-triton-attend"].forbid
    assert tp2["attend-kernels"].name == tp4["no-triton-attend"].name
    assert not {"no-triton-attend", "page-16-attention", "mxfp8-experts"} & set(tp2)


def test_inherited_rules_are_judged_like_own_ones(tmp_path: Path) -> None:
    rules = load(tmp_path, own='extends = "base.toml"\ndrop = ["copies"]\n', base=BASE.replace('"a"', '"_gqa*"'))
    rec = served(tmp_path, (DECODE, [ATTEND] * 5))
    found = judge(rules, rec, Answer(()))
    assert [r.number for r in found.results] == [0, 1, 2]
    assert found.results[1].rule.startswith("kernel _gqa*: exactly 6 per step [attends of ")


@pytest.mark.parametrize(("kind", "code"), [("graph", 0), ("eager", 1)])
def test_the_command_takes_a_ready_name(kind: str, code: int) -> None:
    done = ran("assert", "any-vllm-graphs", str(ROOT / "samples" / f"h200-m3-tp4rank-{kind}.pt.trace.json.gz"))
    assert done.returncode == code, done.stdout + done.stderr
    if kind == "eager":
        assert "9 step(s) made no call of it, and nothing can have hidden one" in done.stdout
        assert "--enforce-eager turns it off" in done.stdout


def test_the_command_says_2_for_an_unknown_ready_name_and_3_for_a_missing_file(tmp_path: Path) -> None:
    sample = str(ROOT / "samples" / "h200-m3-tp4rank-graph.pt.trace.json.gz")
    own = tmp_path / "own.toml"
    own.write_text('extends = "nothing-like-it"\n')
    assert ran("assert", str(own), sample).returncode == 2
    own.write_text('extends = "gone.toml"\n')
    assert ran("assert", str(own), sample).returncode == 3
    assert ran("assert", "m3-mxfp8", sample).returncode == 3
