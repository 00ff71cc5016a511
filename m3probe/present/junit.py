"""``m3probe assert --junit``: one test case per rule.

A failed rule is a ``<failure>``, an inconclusive one an ``<error>``: CI systems colour skipped tests
green, and missing evidence must not look like a pass.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from m3probe.model.judgement import Judgement, RuleResult
from m3probe.present.escape import safe
from m3probe.present.verdict_text import details, summary_line, title
from m3probe.schema.verdicts import RuleOutcome

SUITE = "m3probe assert"

# What XML 1.0 forbids although it is harmless to show; `safe` has spelt the control characters already.
_NO_XML = re.compile("[\ufffe\uffff]")
_TAGS = {RuleOutcome.FAILED: "failure", RuleOutcome.INCONCLUSIVE: "error"}


def junit_xml(judgement: Judgement) -> str:
    """The JUnit report of a judgement; well-formed whatever the names in it hold."""
    root, suite = _suite(
        tests=len(judgement.results),
        failures=judgement.count(RuleOutcome.FAILED),
        errors=judgement.count(RuleOutcome.INCONCLUSIVE),
    )
    _properties(suite, judgement)
    for result in judgement.results:
        _case(suite, judgement.rules_path, result)
    return _written(root)


def junit_unread(rules_path: str, sentence: str) -> str:
    """The report when nothing could be judged (exit 2 or 3): one error, so that no older report is taken for it."""
    root, suite = _suite(tests=1, failures=0, errors=1)
    case = ET.SubElement(suite, "testcase", classname=_xml(rules_path), name="rules and inputs can be read", time="0")
    ET.SubElement(case, "error", type="unread", message=_xml(sentence))
    return _written(root)


def _suite(*, tests: int, failures: int, errors: int) -> tuple[ET.Element, ET.Element]:
    totals = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0", "time": "0"}
    root = ET.Element("testsuites", {"name": SUITE, **totals})
    return root, ET.SubElement(root, "testsuite", {"name": SUITE, **totals})


def _properties(suite: ET.Element, judgement: Judgement) -> None:
    trust = judgement.trust
    said = [("rules", judgement.rules_path), ("trust", trust.verdict if trust else "not judged")]
    said += [(f"trust.{reason.word}", reason.text) for reason in trust.reasons] if trust else []
    said.append(("summary", summary_line(judgement)))
    properties = ET.SubElement(suite, "properties")
    for name, value in said:
        ET.SubElement(properties, "property", name=_xml(name), value=_xml(value))


def _case(suite: ET.Element, rules_path: str, result: RuleResult) -> None:
    case = ET.SubElement(suite, "testcase", classname=_xml(rules_path), name=_xml(title(result)), time="0")
    case.set("file", _xml(rules_path))
    if result.line:
        case.set("line", str(result.line))
    text = details(result)
    tag = _TAGS.get(result.outcome)
    if tag is None:
        ET.SubElement(case, "system-out").text = _xml(text, keep="\n")
        return
    message = f"expected {result.expected}, observed {result.observed}"
    message += f": {result.why}" if result.why else ""
    message += f" -> {result.next_move}" if result.next_move else ""
    ET.SubElement(case, tag, type=str(result.outcome), message=_xml(message)).text = _xml(text, keep="\n")


def _xml(text: str, *, keep: str = "") -> str:
    return _NO_XML.sub(lambda found: f"\\u{ord(found[0]):04x}", safe(text, keep=keep))


def _written(root: ET.Element) -> str:
    ET.indent(root, " ")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'
