"""JUnit reports: the right totals, missing evidence never green, and well-formed whatever the names hold."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from m3probe.model.findings import Evidence
from m3probe.model.judgement import Judgement, RuleResult
from m3probe.model.report import Reason, TrustRow
from m3probe.present.junit import junit_unread, junit_xml
from m3probe.present.verdict_text import judgement_json, judgement_text, summary_line
from m3probe.schema.verdicts import RuleOutcome

HOLDS, FAILED, INCONCLUSIVE = RuleOutcome.HOLDS, RuleOutcome.FAILED, RuleOutcome.INCONCLUSIVE
NASTY = "evil\x1b[2J]]>\x00<&\"'\ud800\ufffe\uffff\u202e\nname\x9b31m"


def rule(number: int, outcome: RuleOutcome, text: str = "kernel a: forbidden") -> RuleResult:
    rows = (Evidence("kernels", (4, 5), 7, f"seen {text}"), Evidence("paths", (), 1, text))
    return RuleResult(number, number * 10, text, outcome, "none", f"3 of {text}", "kernels", f"at {text}", text, rows)


def judgement(*outcomes: RuleOutcome, text: str = "kernel a: forbidden") -> Judgement:
    trust = TrustRow("degraded", (Reason("missing_rank", text, hides_kernels=True),))
    return Judgement(f"ci/{text}.toml", trust, tuple(rule(i, o, text) for i, o in enumerate(outcomes)))


def cases(xml: str) -> list[ET.Element]:
    return ET.fromstring(xml).findall("./testsuite/testcase")


def test_failed_is_a_failure_and_inconclusive_an_error_and_nothing_is_skipped() -> None:
    xml = junit_xml(judgement(HOLDS, FAILED, INCONCLUSIVE, INCONCLUSIVE))
    root = ET.fromstring(xml)
    totals = {"tests": "4", "failures": "1", "errors": "2", "skipped": "0"}
    for element in (root, root.find("testsuite")):
        assert element is not None
        assert {key: element.get(key) for key in totals} == totals
    found = [[child.tag for child in case] for case in cases(xml)]
    assert found == [["system-out"], ["failure"], ["error"], ["error"]]
    assert root.findall(".//skipped") == []


def test_case_says_what_was_expected_and_seen_and_where() -> None:
    case = cases(junit_xml(judgement(HOLDS, FAILED)))[1]
    assert (case.get("name"), case.get("line")) == ("rule 1: kernel a: forbidden", "10")
    failure = case[0]
    assert failure.get("type") == "failed"
    assert str(failure.get("message")).startswith("expected none, observed 3 of kernel a: forbidden")
    assert "evidence: kernels rows 4, 5 of 7" in str(failure.text)


def test_trust_and_its_reasons_are_properties() -> None:
    root = ET.fromstring(junit_xml(judgement(HOLDS)))
    found = {p.get("name"): p.get("value") for p in root.findall(".//property")}
    assert found["trust"] == "degraded"
    assert found["trust.missing_rank"] == "kernel a: forbidden"


@pytest.mark.parametrize("outcome", list(RuleOutcome))
def test_foreign_names_leave_the_report_well_formed(outcome: RuleOutcome) -> None:
    xml = junit_xml(judgement(outcome, text=NASTY))
    raw = xml.encode("utf-8")  # a lone surrogate would raise here
    assert ET.fromstring(raw).get("tests") == "1"
    assert not [char for char in xml if char != "\n" and (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0)]
    assert not set(xml) & set("\ufffe\uffff\u202e")
    name = str(cases(xml)[0].get("name"))
    assert "\\x1b[2J]]>\\x00<&\"'\\ud800\\ufffe\\uffff\\u202e\\nname\\x9b31m" in name


def test_file_is_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    path.write_text(junit_xml(judgement(FAILED, text="größer 核")), encoding="utf-8")
    assert "größer 核" in str(ET.parse(path).getroot().findall(".//testcase")[0].get("name"))


def test_input_that_could_not_be_read_is_one_error() -> None:
    root = ET.fromstring(junit_unread("rules.toml", f"a.json: {NASTY}"))
    assert (root.get("tests"), root.get("errors"), root.get("failures")) == ("1", "1", "0")
    assert len(root.findall(".//testcase/error")) == 1


def test_no_rule_at_all_is_an_empty_suite() -> None:
    assert ET.fromstring(junit_xml(Judgement("r.toml", None, ()))).get("tests") == "0"


def test_json_holds_every_result_and_no_control_character() -> None:
    text = judgement_json(judgement(FAILED, INCONCLUSIVE, text=NASTY))
    assert text.isascii()
    found = json.loads(text)
    assert found["totals"] == {"holds": 0, "failed": 1, "inconclusive": 1}
    assert (found["exit_code"], found["trust"]["reasons"][0]["hides_kernels"]) == (1, True)
    assert found["results"][0]["evidence"][0]["rows"] == [4, 5]
    assert not [char for char in found["results"][0]["rule"] if ord(char) < 0x20]


def test_text_of_every_outcome() -> None:
    lines = judgement_text(judgement(HOLDS, FAILED, INCONCLUSIVE)).split("\n")
    assert [line.split()[0] for line in lines] == ["ok", "FAILED", "inconclusive", "1"]
    assert lines[-1] == "1 holds, 1 failed, 1 inconclusive; trust degraded; exit 1: a rule failed"
    assert summary_line(Judgement("r", None, ())).startswith("0 hold, 0 failed, 0 inconclusive; trust not judged")
