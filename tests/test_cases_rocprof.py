"""Every known trouble of rocprofv3's files (tests/data/cases, each from a public report): facts, outcome and what must be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_cases_kineto import in_ns, same

from m3probe import pipeline
from m3probe.errors import UnreadableInput
from m3probe.sources import open_recording

CASES = Path(__file__).parent / "data" / "cases"
EXPECTED = [
    p for p in sorted(CASES.glob("r*.expected.json")) if json.loads(p.read_text())["kind"].startswith("rocprofv3")
]


@pytest.mark.parametrize("path", EXPECTED, ids=lambda p: p.name.removesuffix(".expected.json"))
def test_a_known_case_gives_its_facts(path: Path) -> None:
    wanted = json.loads(path.read_text())
    if wanted["outcome"] == "error":
        with pytest.raises(UnreadableInput) as error:
            open_recording([path.with_name(wanted["case"])])
        for word in wanted["checks"]["message_must_name"]:
            assert (wanted["case"] if word == "file" else word) in error.value.sentence()
        return
    rec = open_recording([path.with_name(wanted["case"])])
    found = pipeline.inspect(rec)
    assert (found.kind, found.outcome) == (wanted["kind"], wanted["outcome"])
    for key, value in wanted["facts"].items():
        name, factor = in_ns(key)
        assert same(found.facts[name], value, factor), (name, found.facts[name], value)
    told = " | ".join(note.text for note in found.warnings)
    assert all(matter in told for matter in wanted["warn"])
    assert wanted["warn"] or not told
    pipeline.report(rec)


def test_there_are_nine_cases() -> None:
    assert len(EXPECTED) == 9
