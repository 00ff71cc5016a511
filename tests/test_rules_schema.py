"""docs/rules-file.schema.json: every ready and sample file fits it, and what m3probe refuses does not."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tree import ROOT

from m3probe.errors import UsageError
from m3probe.fastpaths import fast_paths
from m3probe.gates import gates
from m3probe.model.agreement import TOPICS
from m3probe.rules import load_rules
from m3probe.rules._entry import COUNTED, FAMILIES, KEYS, REQUIRABLE, TARGETS, VERDICTS
from m3probe.rules.ready import ready
from m3probe.rules.rule import ROLES
from m3probe.schema.verdicts import Phase

FILES = [*ready().values(), *sorted((ROOT / "samples" / "rules").glob("*.toml"))]


@cache
def schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "rules-file.schema.json").read_text())
    return found


@cache
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_ready_and_sample_file_fits_the_schema_and_loads(path: Path) -> None:
    assert list(validator().iter_errors(tomllib.loads(path.read_text()))) == []
    assert load_rules(path).rules


GOOD = [
    'extends = "any-vllm-graphs"',
    'extends = ["any-vllm-graphs"]\ndrop = ["decode-replays"]',
    '[require]\ntrust = "complete"',
    '[[rule]]\nid = "x"\npath = "graph_replay"\nphase = "decode"\nrank = 3\nverdict = "executed"\nvariant = "FULL"\nper_step = 1',
    '[[rule]]\npath = "moe_backend"\nrole = "draft"\nforbid_variants = ["Triton fused_moe"]',
    '[[rule]]\npath = "aiter_sparse_pa"\nforbid = true\ntrust = "degraded"',
    '[[rule]]\nkernel = "a"\nper_step = "2 * layers + 1"',
    '[[rule]]\nkernel = "a"\nper_step = {min = "rows", max = 9}\nmin_count = "steps"\nmax_count = 10',
    '[[rule]]\nfamily = "comm"\nmin_share = 0\nmax_share = 0.2',
    '[[rule]]\ngate = "block_equal"',
    '[[rule]]\nagree = "census"\nid = "c"',
]

BAD = [
    "",
    "[[rules]]\nkernel = 'a'",
    "extends = 3",
    'extends = [""]',
    '[require]\ntrus = "complete"',
    '[require]\ntrust = "unusable"',
    "[[rule]]\nforbid = true",
    '[[rule]]\nkernel = "a"',
    '[[rule]]\nkernel = " "\nforbid = true',
    '[[rule]]\nkernel = "a"\nfamily = "gemm"\nforbid = true',
    '[[rule]]\nkernel = "a"\nforbid = false',
    '[[rule]]\nkernel = "a"\nforbid = true\nper_step = 6',
    '[[rule]]\nkernel = "a"\nper_step = {}',
    '[[rule]]\nkernel = "a"\nper_step = {mn = 1}',
    '[[rule]]\nkernel = "a"\nper_step = 6.5',
    '[[rule]]\nkernel = "a"\nper_step = -1',
    '[[rule]]\nkernel = "a"\nper_step = "layers ^ 2"',
    '[[rule]]\nkernel = "a"\nmin_count = 9223372036854775808',
    '[[rule]]\nkernel = "a"\nmax_share = 20',
    '[[rule]]\nkernel = "a"\nrole = "drafter"\nforbid = true',
    '[[rule]]\nkernel = "a"\nrank = -1\nforbid = true',
    '[[rule]]\nkernel = "a"\nverdict = "executed"',
    '[[rule]]\nkernel = "a"\nid = "a b"\nforbid = true',
    '[[rule]]\nfamily = "memory"\nforbid = true',
    '[[rule]]\npath = "graph_replay"',
    '[[rule]]\npath = "graph_reply"\nverdict = "executed"',
    '[[rule]]\npath = "graph_replay"\nverdict = "unproven"',
    '[[rule]]\npath = "graph_replay"\nverdict = "off"\nvariant = "FULL"',
    '[[rule]]\npath = "graph_replay"\nverdict = "off"\nper_step = 1',
    '[[rule]]\npath = "graph_replay"\nverdict = "off"\nrole = "draft"',
    '[[rule]]\npath = "graph_replay"\nverdict = "executed"\nmin_count = 1',
    '[[rule]]\npath = "graph_replay"\nforbid_variants = []',
    '[[rule]]\npath = "graph_replay"\nforbid_variants = ["eager"]\nforbid = true',
    '[[rule]]\ngate = "kv_block_128"',
    '[[rule]]\ngate = "block_equal"\nphase = "decode"',
    '[[rule]]\nagree = "everything"',
    '[[rule]]\nagree = "census"\nrank = 1',
]


@pytest.mark.parametrize("text", GOOD)
def test_good_files_fit_and_load(tmp_path: Path, text: str) -> None:
    assert list(validator().iter_errors(tomllib.loads(text))) == []
    path = tmp_path / "rules.toml"
    path.write_text(text)
    load_rules(path)


@pytest.mark.parametrize("text", BAD)
def test_bad_files_fit_neither(tmp_path: Path, text: str) -> None:
    assert list(validator().iter_errors(tomllib.loads(text))) != []
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(UsageError):
        load_rules(path)


def test_the_schema_has_every_key_and_word_that_m3probe_knows() -> None:
    defs = schema()["$defs"]
    kinds = [defs[name]["properties"] for name in ("path_rule", "counted_rule", "gate_rule", "agree_rule")]
    assert {key for kind in kinds for key in kind} == set(KEYS)
    assert {key for kind in kinds for key in kind if key in TARGETS} == set(TARGETS)
    assert set(COUNTED) <= set(kinds[1])
    words = {
        "path": (kinds[0], fast_paths()),
        "verdict": (kinds[0], VERDICTS),
        "family": (kinds[1], FAMILIES),
        "gate": (kinds[2], gates()),
        "agree": (kinds[3], TOPICS),
    }
    for key, (kind, known) in words.items():
        assert kind[key]["enum"] == list(known) or set(kind[key]["enum"]) == set(known), key
    assert defs["phase"]["enum"] == [str(p) for p in Phase]
    assert defs["trust"]["enum"] == [str(t) for t in REQUIRABLE]
    assert defs["role"]["enum"] == list(ROLES)


def test_the_page_has_every_key_name_and_word() -> None:
    from m3probe.rules.formula import NAMES

    page = (ROOT / "docs" / "assert.md").read_text()
    wanted = [*KEYS, "extends", "drop", *NAMES, *TOPICS, *ROLES, *ready()]
    assert [word for word in wanted if f"`{word}`" not in page] == []
