"""What ``export`` wrote, as text."""

from __future__ import annotations

from m3probe.model.export_report import ExportReport
from m3probe.present.escape import safe


def export_text(report: ExportReport) -> str:
    """One line for each file, rows and bytes aligned; the place first."""
    rows = [(safe(row.path), f"{row.rows:,}", f"{row.bytes:,}") for row in report.files]
    name, count, size = (max(len(row[i]) for row in rows) for i in range(3))
    lines = [f"  {path:<{name}}  {number:>{count}} rows  {bytes_:>{size}} bytes" for path, number, bytes_ in rows]
    total = sum(row.bytes for row in report.files)
    return "\n".join([f"wrote {safe(report.path)} ({report.to}, {total:,} bytes)", *lines])
