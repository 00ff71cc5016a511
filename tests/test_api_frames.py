"""DataFrames of tables and of a report's rows: text, units, and <NA> for what is not known."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from builders import kernel, launch, op, recording, step
from report_builder import full_report

import m3probe
from m3probe.model._dataframes import ROWS
from m3probe.model.device_report import DeviceRow, DevicesSection, UnansweredRow
from m3probe.model.report import Answer
from m3probe.model.tables import TABLES, Table


@pytest.fixture
def rec(tmp_path: Path) -> m3probe.Recording:
    """One decode step of 3 requests with a known kernel, and one kernel that no launch tells of."""
    events: list[dict[str, Any]] = [
        step(100.0, 50.0, "execute_context_0(0)_generation_3(3)"),
        op(101.0, 9.0, "aten::mm", [[3, 8], [8, 4]], ["float", "float"]),
        launch(102.0, 7),
        kernel(110.0, 1.5, 7, "<b>fused_moe_kernel</b>", grid=[4, 2, 1]),
        kernel(120.0, 2.0, 99, "orphan"),
    ]
    return recording(tmp_path, events)


def test_ids_become_text_and_what_is_not_known_is_na(rec: m3probe.Recording) -> None:
    frame = rec.kernels.df()
    assert frame["name"].tolist() == ["<b>fused_moe_kernel</b>", "orphan"]
    assert frame["dur_ns"].tolist() == [1500, 2000]
    assert frame["dur_ns"].dtype == np.int64
    assert frame["step"].dtype == "Int32"
    assert frame["step"][0] == 0
    assert frame["step"][1] is pd.NA
    assert frame["launch"].isna().tolist() == [False, True]
    assert frame["grid"].tolist() == [(4, 2, 1), None]
    assert frame["timed"].tolist() == [True, True]


def test_rows_of_other_tables_are_their_index(rec: m3probe.Recording) -> None:
    kernels, steps, ops, launches = (t.df() for t in (rec.kernels, rec.steps, rec.ops, rec.launches))
    assert steps["phase"][kernels["step"][0]] == "decode"
    assert steps[["requests", "rows"]].to_numpy().tolist() == [[3, 3]]
    assert ops["name"][kernels["op"][0]] == "aten::mm"
    assert ops["dims"].tolist() == ["[[3,8],[8,4]]"] or ops["dims"].tolist() == ["[[3, 8], [8, 4]]"]
    assert launches["kind"][kernels["launch"][0]] == "launch"
    assert launches["graph"].isna().all()


def test_every_column_has_its_unit_and_meaning(rec: m3probe.Recording) -> None:
    for name, table in rec.tables.items():
        frame = table.df()
        assert frame.columns.tolist() == [column.name for column in TABLES[name]]
        assert frame.attrs["table"] == name
        assert frame.attrs["meanings"] == {column.name: column.meaning for column in TABLES[name]}
        assert not [unit for unit in frame.attrs["units"].values() if unit.startswith(("string id", "index into "))]
    units = rec.kernels.df().attrs["units"]
    assert (units["dur_ns"], units["name"], units["step"], units["grid"]) == (
        "ns",
        "text",
        "row of steps",
        "workgroups",
    )


def test_a_measured_value_of_minus_one_stays_where_the_column_can_hold_one() -> None:
    """A negative duration is a damaged record, which ``timed`` tells; a rank of -1 is not known."""
    columns = {c.name: np.array([-1, 5], dtype=c.dtype) for c in TABLES["kernels"]}
    columns["family"] = np.array([0, 1], dtype=np.int8)
    frame = Table("kernels", columns).df()
    assert frame["dur_ns"].tolist() == [-1, 5]
    assert frame["device"].isna().tolist() == [True, False]
    # outside of a recording no text is known: the ids stay
    assert frame["name"].isna().tolist() == [True, False]
    assert frame["name"][1] == 5


def test_yes_and_no_are_booleans_with_a_third_value() -> None:
    columns = {c.name: np.full(3, -1, dtype=c.dtype) for c in TABLES["processes"]}
    columns["late"] = np.array([1, 0, -1], dtype=np.int8)
    frame = Table("processes", columns).df()
    assert frame["late"].dtype == "boolean"
    assert frame["late"].tolist() == [True, False, pd.NA]


def test_a_column_holds_only_the_texts_that_occur(rec: m3probe.Recording) -> None:
    assert len(rec.strings) > 2
    assert sorted(rec.kernels.df()["name"].cat.categories) == ["<b>fused_moe_kernel</b>", "orphan"]
    assert rec.transfers.df()["name"].cat.categories.tolist() == []


# --- rows of a report --------------------------------------------------------------------------------------


def test_every_kind_of_row_is_a_frame_with_the_fields_of_its_type() -> None:
    device = DeviceRow(0, 4, "Agent 4", 3, 4_200, 4_400, 4_200, 0.05, 0, 0, 0, None)
    lacks = UnansweredRow("queues", "rocprofv3 sees no request", "pages of /metrics")
    report = full_report()
    report = replace(report, answer=report.answer.plus(Answer((DevicesSection((device,), (lacks,)),))))
    for name, rows in ROWS.items():
        frame = report.df(name)
        assert frame.attrs["rows"] == name
        plain = [field for field, hint in rows.kind.__annotations__.items() if "Bound" not in str(hint)]
        assert [field for field in plain if field not in frame.columns] == []
    families = report.df("families")
    assert report.summary is not None
    assert families["count"].tolist() == [row.count for row in report.summary.families]
    assert families["share"].dtype == "Float64"
    assert report.df("devices")["overlap_share"].isna().tolist() == [True]
    assert report.df("unanswered")["lacks"].tolist() == [lacks.lacks]
    assert set(report.df("planes")["plane"]) <= {"compute", "state", "comm"}


def test_a_bound_is_columns_and_no_bound_is_not_known() -> None:
    bound = m3probe.Bound(0.0, 0.25, "a / b", "decode step time", ("1 ns / 4 ns",))
    told = [
        m3probe.Finding("a.b", "a", "observed", "claim", "", (), "", bound),
        m3probe.Finding("a.c", "a", "observed", "claim", "", (), ""),
    ]
    frame = m3probe.Report("ok", (), Answer(findings=tuple(told))).df("findings")
    assert frame["bound_high"].tolist() == [0.25, pd.NA]
    assert frame["bound_basis"].tolist() == ["decode step time", pd.NA]
    assert frame["trusted"].tolist() == [True, True]
    assert "bound" not in frame.columns


def test_rows_that_are_not_there_say_why() -> None:
    empty = m3probe.Report("ok", (), Answer())
    with pytest.raises(m3probe.UsageError, match="this report has no steps: their analyzer failed"):
        empty.df("steps")
    with pytest.raises(
        m3probe.UsageError, match=r"no rows called 'kernels'\. Known are cells, counters, devices, families, findings"
    ):
        empty.df("kernels")
    assert empty.df("findings").empty


def test_without_pandas_the_extra_is_named(rec: m3probe.Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call in (rec.kernels.df, lambda: full_report().df("steps")):
        with pytest.raises(
            m3probe.MissingExtra, match=r"pandas cannot be imported .* pip install 'm3probe\[df\]'"
        ) as told:
            call()
        assert told.value.exit_code == 2
