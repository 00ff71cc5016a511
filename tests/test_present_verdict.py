"""``assert`` in text, JSON and JUnit: every verdict with its evidence, and the next move where it is no pass."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from m3probe.model.findings import Evidence
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.present.escape import safe
from m3probe.present.junit import junit_xml
from m3probe.present.verdict_text import details, judgement_json, judgement_text, proofs, result_line
from m3probe.schema.verdicts import RuleOutcome

NASTY = 'k<1, 2>(a&b)"]]>\n\x1b[2J\u202e|`--> 100 %'
ROWS = (
    Evidence("kernels", (4, 5), 7, "7 of 9"),
    Evidence("graphs", (1,), 1_000, "census"),
    Evidence("paths", (), 1, "decode: 9 graph launches"),
    Evidence("steps", (8,), 1, "one"),
)


def found(text: str = "kernel a: forbidden", move: str = "", rows: tuple[Evidence, ...] = ROWS) -> RuleResult:
    outcome = RuleOutcome.FAILED
    return RuleResult(2, 20, text, outcome, "none", "7 of 9", "kernels", "7 x a", f"why {text}", rows, move)


def test_evidence_is_table_and_rows_or_what_was_seen() -> None:
    assert proofs(found()) == [
        "kernels rows 4, 5 of 7",
        "graphs rows 1 of 1,000",
        "paths: decode: 9 graph launches",
        "steps rows 8 of 1",
    ]


def test_a_line_holds_basis_place_reason_and_the_first_evidence() -> None:
    assert result_line(found()) == (
        "FAILED        rule 2: kernel a: forbidden | observed 7 of 9 [kernels] | at 7 x a | why kernel a: forbidden"
        " | evidence: kernels rows 4, 5 of 7; graphs rows 1 of 1,000; paths: decode: 9 graph launches; and 1 more"
    )


def test_the_next_move_stands_below_behind_an_arrow() -> None:
    lines = result_line(found(move="set VLLM_ROCM_USE_AITER=1\nor drop it")).split("\n")
    assert len(lines) == 2
    assert lines[1] == "              -> set VLLM_ROCM_USE_AITER=1\\nor drop it"
    assert "->" not in result_line(found())


def test_every_fact_is_one_line_of_the_details() -> None:
    said = details(found(move="do this")).split("\n")
    assert said[:4] == ["expected: none", "observed: 7 of 9 [kernels]", "where: 7 x a", "why: why kernel a: forbidden"]
    assert said[4:8] == [f"evidence: {proof}" for proof in proofs(found())]
    assert said[8:] == ["next move: do this"]


def test_foreign_names_stay_on_their_line() -> None:
    text = judgement_text(Judgement("r.toml", None, (found(NASTY, NASTY),)))
    assert len(text.split("\n")) == 3
    assert not set(text) & set("\x1b\u202e")


def test_json_has_the_next_move_and_the_rows() -> None:
    (result,) = json.loads(judgement_json(Judgement("r.toml", None, (found(move="do this"),))))["results"]
    assert result["next_move"] == "do this"
    assert result["evidence"][0] == {
        "table": "kernels",
        "rows": [4, 5],
        "count": 7,
        "observed": "7 of 9",
        "expected": "",
    }


def test_junit_gives_a_foreign_name_back_as_it_was_shown() -> None:
    """Read by an XML parser: the name, the message and the text are the escaped name, character by character."""
    root = ET.fromstring(junit_xml(Judgement("ci/<&>.toml", None, (found(NASTY, NASTY),))))
    (case,) = root.findall("./testsuite/testcase")
    assert case.get("name") == f"rule 2: {safe(NASTY)}"
    assert case.get("classname") == "ci/<&>.toml"
    (failure,) = case
    assert failure.get("message") == f"expected none, observed 7 of 9: why {safe(NASTY)} -> {safe(NASTY)}"
    said = str(failure.text).split("\n")
    assert f"why: why {safe(NASTY)}" in said
    assert said[-1] == f"next move: {safe(NASTY)}"
    assert "evidence: kernels rows 4, 5 of 7" in said
