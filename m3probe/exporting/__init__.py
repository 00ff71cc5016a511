"""Doors to other tools: a recording and its report as files that they open. One file per format; the table says which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from m3probe.errors import MissingExtra, UsageError
from m3probe.exporting._format import Export, Format
from m3probe.exporting._place import Place
from m3probe.exporting._said import lost_of, trust_of
from m3probe.model.export_report import ExportReport
from m3probe.model.recording import Recording
from m3probe.model.report import Report

FORMATS: Mapping[str, str] = {
    "perfetto": "m3probe.exporting.perfetto",
    "chrome": "m3probe.exporting.chrome",
    "parquet": "m3probe.exporting.parquet",
    "arrow": "m3probe.exporting.arrow",
    "csv": "m3probe.exporting.csv_tables",
}
"""Word of ``--to`` -> the module that writes it, with one ``FORMAT``."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An export that can be written: its library is there, and nothing stands in its place."""

    to: str
    format: Format
    place: Place
    host: bool

    def write(self, rec: Recording, report: Report) -> ExportReport:
        """Write it whole, or nothing of it.

        Raises:
            UnreadableInput: the inputs hold nothing to export.
            UnwrittenResult: the disk is full, or the place cannot be written.
        """
        export = Export(rec, report, self.to, self.place.target.name, self.host)
        with self.place.fresh() as fresh:
            files, more = self.format.write(export, fresh)
        told = export.report
        lost = (*lost_of(told, rec), *more)
        files = tuple(replace(file, path=file.path or self.place.target.name) for file in files)
        return ExportReport(self.to, str(self.place.target), told.outcome, trust_of(told), files, lost)


def asked(to: str, paths: Sequence[Path], out: Path | None, *, force: bool = False, host: bool = False) -> Asked:
    """What the command line asks for, looked at before anything is read.

    Raises:
        MissingExtra: a package is not installed.
        UsageError: something stands in its place.
    """
    form: Format = import_module(FORMATS[to]).FORMAT
    for module in form.needs:
        _importable(module)
    if host and not form.host:
        raise UsageError(f"--host is for time lines, and --to {to} writes every row anyway", next_move="Leave it out")
    folder = form.folder(out, paths)
    place = Place(out or Path(_stem(paths[0]) + form.suffixes[folder]), folder, force, tuple(paths))
    place.check()
    if form.read:
        place.outside()
    return Asked(to, form, place, host)


def _importable(module: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise MissingExtra(module.partition(".")[0], "export", error) from error


def _stem(path: Path) -> str:
    """``run.pt.trace.json.gz`` -> ``run``; a folder's name as it is."""
    name = path.resolve().name or "m3probe"
    for suffix in (".gz", ".json", ".trace", ".pt", ".log", ".prom", ".m3p"):
        name = name.removesuffix(suffix)
    return name or "m3probe"
