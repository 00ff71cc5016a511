"""``--json``: keys, unknown figures, foreign text."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import report_builder as build

from m3probe.model.findings import Bound, Finding
from m3probe.model.repeat_report import Costs, RepeatsSection
from m3probe.model.report import Answer, BytesSection, Report, Summary, SummarySection
from m3probe.present.escape import safe
from m3probe.present.json import inspect_json, report_json
from m3probe.schema.verdicts import Outcome

KEYS = (
    "schema_version outcome notes trust meta coverage summary steps shapes model_match repeats graph_coverage costs layers "
    "bytes counters roofline paths gates recipe queues queue_rows live bench clocks idle findings next_bottleneck ranking"
)


def refused(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def strict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text, parse_constant=refused)
    return found


def with_costs(costs: Costs) -> Report:
    return Report("ok", (), Answer((RepeatsSection((), (), costs),)))


@pytest.mark.parametrize("report", [build.full_report(), build.hollow_report(), build.empty_report()])
def test_keys_come_in_one_order(report: Report) -> None:
    assert list(strict(report_json(report))) == KEYS.split()


def test_rows_say_what_the_report_says() -> None:
    found = strict(report_json(build.full_report()))
    assert found["outcome"] == "partial"
    assert found["trust"]["verdict"] == "degraded"
    assert found["trust"]["reasons"][0]["hides_kernels"] is True
    assert found["summary"]["kernel_time_ns"] == 10_000_000
    assert found["summary"]["families"][0] == {
        "family": "moe_gemm",
        "count": 30,
        "time_ns": 6_000_000,
        "share": 0.6,
        "unrecorded": 0,
    }
    assert found["steps"][2]["rank"] is None
    assert (found["shapes"][0]["N"], found["shapes"][0]["grid"]) == (2560, [40, 1, 1])
    assert found["model_match"]["tp"] == 4
    assert [row["verdict"] for row in found["paths"]][:2] == ["executed", "missed"]
    assert found["bytes"]["state"][1]["bytes"] is None
    assert found["findings"][0]["bound"] is None
    assert found["next_bottleneck"]["finding"] == "shapes.starved.qkv"


def test_a_section_that_was_not_answered_is_null_and_an_empty_one_is_empty() -> None:
    missing, hollow = strict(report_json(build.empty_report())), strict(report_json(build.hollow_report()))
    for key in (
        "trust",
        "meta",
        "coverage",
        "summary",
        "steps",
        "shapes",
        "repeats",
        "costs",
        "bytes",
        "paths",
        "queues",
    ):
        assert missing[key] is None
    assert (missing["findings"], missing["notes"]) == ([], [])
    assert (hollow["steps"], hollow["shapes"], hollow["paths"], hollow["queues"]) == ([], [], [], {})


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_what_is_not_a_number_is_null(figure: Any) -> None:
    costs = Costs(figure, figure, None, None, figure, None)
    assert strict(report_json(with_costs(costs)))["costs"]["ns_per_output_token"] is None


def test_numpy_scalars_become_plain_numbers() -> None:
    summary = Summary(np.int64(3), np.int32(7), None, None, np.uint8(0), tuple(np.array([0, 1])), (), ())  # type: ignore[arg-type]
    found = strict(
        report_json(Report("ok", (), Answer((SummarySection({"a": np.arange(2), "b": np.bool_(1)}, summary, ()),))))
    )
    assert (found["summary"]["kernel_count"], found["summary"]["devices"]) == (3, [0, 1])
    assert found["meta"] == {"a": [0, 1], "b": True}
    half = with_costs(Costs(np.float32(0.5), None, None, None, None, np.bool_(0)))  # type: ignore[arg-type]
    assert strict(report_json(half))["costs"]["ns_per_output_token"] == 0.5
    assert strict(report_json(half))["costs"]["launch_bound"] is False


def test_foreign_text_carries_no_control_character_in_keys_or_values() -> None:
    claim = "a\x1b[31m\x9b\x7f\u202eb\ud800c"
    report = Report("ok", (), Answer(findings=(Finding("x", "paths", "", claim, "", (), "", Bound(0, 1, "")),)))
    assert strict(report_json(report))["findings"][0]["claim"] == r"a\x1b[31m\x9b\x7f\u202eb\ud800c"
    facts = strict(
        inspect_json("kineto", "ok", {"names": ["fused\x1b[31m_add", "tab\there"], "calls": {"k\x1b": 1}}, [])
    )
    # what the case k09 asks for; tab and newline have a spelling of their own in JSON
    assert facts["facts"]["names"] == [r"fused\x1b[31m_add", "tab\there"]
    assert facts["facts"]["calls"] == {r"k\x1b": 1}


def test_output_is_ascii_without_control_bytes_and_ends_without_a_newline() -> None:
    text = report_json(replace(build.full_report(), outcome="partial"))
    assert text.isascii()
    assert not [char for char in text if ord(char) < 0x20 and char != "\n"]
    assert text.endswith("}")


def test_rows_of_a_list_stand_on_lines_of_their_own() -> None:
    lines = [line.strip().rstrip(",") for line in report_json(build.full_report()).splitlines()]
    steps = [json.loads(line) for line in lines if line.startswith('{"rank"')]
    assert [step["phase"] for step in steps] == ["prefill", "decode", "decode"]


def test_the_same_report_is_written_the_same_way_twice() -> None:
    assert report_json(build.full_report()) == report_json(build.full_report())


def test_inspect_has_kind_outcome_facts_and_warnings() -> None:
    facts = {"kernels": np.int64(2), "gap_ns": None, "kernels_by_rank": {"0": 2}, "ranks": {1, 0}}
    notes = (*build.full_report().notes, "control characters in names")
    found = strict(inspect_json("kineto", Outcome.OK_WITH_WARNINGS, facts, notes))
    assert list(found) == ["kind", "outcome", "facts", "warnings"]
    assert found["outcome"] == "ok_with_warnings"
    assert found["facts"] == {"kernels": 2, "gap_ns": None, "kernels_by_rank": {"0": 2}, "ranks": [0, 1]}
    assert found["warnings"][0]["word"] == "lost_events"
    assert found["warnings"][1] == "control characters in names"


def test_other_values_are_written_as_their_text() -> None:
    assert strict(inspect_json("k", "ok", {"bytes": BytesSection, "many": (n for n in (1, 2))}, []))["facts"][
        "many"
    ] == [1, 2]


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("plain_kernel<int>", "plain_kernel<int>"),
        ("naïve 内核 µ", "naïve 内核 µ"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x00\x07\x7f", r"\x00\x07\x7f"),
        ("\x9b31m", r"\x9b31m"),
        ("a\tb\nc\rd", r"a\tb\nc\x0dd"),
        ("\u202a\u202e\u2066\u2069", r"\u202a\u202e\u2066\u2069"),
        ("\u200f\u2028\ufeff", r"\u200f\u2028\ufeff"),
        ("\ud83d\udc00", r"\ud83d\udc00"),
        ("\U000e0041", r"\U000e0041"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
        (r"back\slash", r"back\slash"),
        ("", ""),
    ],
)
def test_safe_spells_what_would_control_the_reader(foreign: str, shown: str) -> None:
    assert safe(foreign) == shown
    assert safe(shown) == shown
    safe(foreign).encode("utf-8")


def test_safe_leaves_alone_what_it_is_told_to_keep() -> None:
    assert safe("a\tb\n\x1b", keep="\t\n") == "a\tb\n\\x1b"
