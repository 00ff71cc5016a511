"""How far is what ran from the least time that its bytes and operations can take on this device?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from m3probe.analyzers._basis import basis
from m3probe.analyzers._gemm import gemms
from m3probe.analyzers._layers import layers
from m3probe.analyzers._layout import layout
from m3probe.analyzers._roofline_control import control_finding, control_plane
from m3probe.analyzers._roofline_decode import Decode, decode_of, decode_row, part_rows, step_times_ns
from m3probe.analyzers._roofline_findings import below_floor, headroom, step_finding
from m3probe.analyzers._roofline_gemms import Seen, gemm_rows
from m3probe.analyzers._roofline_known import Model, device_of, model_of, peaks_of
from m3probe.analyzers._roofline_live import counted_decode
from m3probe.analyzers._view import View, kernel_names, view
from m3probe.hardware import Accelerator
from m3probe.model.findings import Finding
from m3probe.model.recording import Recording
from m3probe.model.report import Answer
from m3probe.model.roofline_report import ControlPlaneRow, DecodeFloorRow, Roofline, RooflineSection
from m3probe.model.tables import Array
from m3probe.plugs import Analyzer


def judge(rec: Recording, so_far: Answer) -> Answer:
    """Each GEMM shape, each part of a decode step, and the step itself beside their floors."""
    device = device_of(rec)
    seen = view(rec, so_far)
    found = gemms(rec, seen.ex)
    shape = layout(rec, seen.ex, found.shaped)
    model = model_of(rec, so_far, found, shape, layers(seen), mesh=bool(device and device.link_peers))
    unknown = [model] if isinstance(model, str) else list(model.notes)
    known = None if isinstance(model, str) else model
    if known and any(name.category == "indexer.page_table" for name in kernel_names(seen).values()):
        known = replace(known, rank=replace(known.rank, page_table=True))
    if device is None:
        return _without_device(rec, seen, known, unknown)
    peaks = peaks_of(device, known.rank.tp if known else 1)
    decode = decode_of(seen, known, peaks) if known else None
    step = None
    if isinstance(decode, Decode):
        step = _Step(decode_row(decode, step_times_ns(seen, decode)), "steps", decode.steps)
    elif known and (counted := counted_decode(rec, known, peaks)):
        step = _Step(decode_row(counted[0], (counted[1], None)), "step_counts", counted[0].steps)
    elif decode:
        unknown.append(decode)
    traced = decode if isinstance(decode, Decode) else None
    rows = [*(part_rows(seen, traced) if traced else ()), *gemm_rows(found.shaped, shape, peaks)]
    control = control_plane(seen, known, traced)
    section = _section(device, rows, step, control[0] if control else None, unknown)
    findings: list[Finding] = [*headroom(seen, basis(rec), rows, certain=device.certain), *below_floor(seen, rows)]
    findings += control_finding(seen, *control, known) if control else ()
    findings += step_finding(seen, step.row, (step.table, step.rows), unknown) if step else ()
    return Answer((RooflineSection(section),), tuple(findings))


ANALYZER = Analyzer(title="How far from the least time that it can take?", order=45, judge=judge)


@dataclass(frozen=True, slots=True)
class _Step:
    """The mean decode step, and the rows of a table that show it."""

    row: DecodeFloorRow
    table: str
    rows: Array


def _section(
    device: Accelerator, rows: list[Seen], step: _Step | None, control: ControlPlaneRow | None, unknown: list[str]
) -> Roofline:
    ordered = sorted(rows, key=lambda one: (not one.row.part, (one.floor_ns or 0) - (one.observed_ns or 0)))
    return Roofline(
        device=device.name,
        certain=device.certain,
        bytes_per_s=device.hbm_bytes_per_s.value,
        peak_tflops={word: figure.value for word, figure in device.peak_tflops.items()},
        rows=tuple(one.row for one in ordered),
        decode=step.row if step else None,
        control_plane=control,
        unknown=(*([] if device.certain else [device.note]), *unknown),
    )


def _without_device(rec: Recording, seen: View, model: Model | None, unknown: list[str]) -> Answer:
    """No peaks, so no floor; what choosing blocks takes beside attending is time alone."""
    if rec.meta.devices:
        name = rec.meta.devices[0].name or "a device without a name"
        why = f"{name} with {rec.meta.devices[0].units} units is none of the devices whose peaks are known, or devices differ"
    else:
        why = "the input names no device, and without its peaks there is no floor"
    control = control_plane(seen, model, None)
    section = Roofline(None, None, None, {}, (), None, control[0] if control else None, (why, *unknown))
    return Answer((RooflineSection(section),), tuple(control_finding(seen, *control, model)) if control else ())
