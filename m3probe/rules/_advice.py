"""The next move: what changed the state, and what to do, from the catalogue's and the configuration's own words."""

from __future__ import annotations

from m3probe.model.path_report import PathRow
from m3probe.model.recording import Recording
from m3probe.model.report import TrustRow
from m3probe.rules.file import FAST_PATHS
from m3probe.schema.paths import FastPath, Variant
from m3probe.schema.verdicts import PathVerdict

_BY_REASON = {
    "missing_rank": "Give every rank's trace.",
    "graph_launches_without_kernels": "The profiler lost the kernels of graph replays (ROCm 7.2 does): give the capture "
    "traces beside the trace, or record with m3probe attach.",
    "fewer_kernels_than_census": "Record again with a profiler library that keeps graph kernels.",
    "unequal_replays": "Kernels were lost in some replays: record again, or give the capture traces.",
    "uneven_layers": "Kernels were lost in every replay: record again, or give the capture traces.",
    "capture_as_serving": "A capture trace holds no served step: give the trace of a served step beside it.",
    "frontend_only": "Give the workers' traces; the API server's holds no kernel.",
    "no_kernels": "Profile the workers with GPU activity, or record with m3probe attach.",
    "no_worker": "Record the workers too (M3PROBE=1 in their environment).",
    "no_steps": "Send requests while it records.",
    "recording_lossy": "Record again: the guest dropped records.",
    "unread": "Give files that can be read, or leave the others out of the command.",
}
AGAIN = "Record again; the evidence given cannot carry the rule."
_TRACE_ONLY = "Give the server's configuration (--recipe FILE), or record with m3probe attach, which brings its own."
MOST_REASONS = 2
RANGES = (
    "In a trace of rocprofv3, RPD, nsys or Perfetto a step is a range: record with --profiler-config.profiler cuda on the "
    "server (docs/record.md)."
)


def no_steps(phase: str, rec: Recording) -> str:
    """What to do where no step of the phase (any, where it is empty) was recorded."""
    what = f"Record some {phase} steps." if phase else AGAIN
    ranges = any(file.role == "rank" and file.kind != "kineto" for file in rec.files) and not len(rec.steps)
    return f"{what} {RANGES}" if ranges else what


def by_trust(trust: TrustRow | None) -> str:
    """What to do about evidence that may hide something; empty where nothing does."""
    reasons = [reason for reason in trust.reasons if reason.hides_kernels] if trust else []
    return " ".join(dict.fromkeys(_BY_REASON.get(reason.word, AGAIN) for reason in reasons))


def of_path(row: PathRow, rec: Recording, *, failed: bool) -> str:
    """What a path's rule that did not hold asks for.

    Args:
        failed: the path surely did not do what was asked; else its evidence is missing.
    """
    path = FAST_PATHS.load(row.id)
    if path is None:
        return ""
    changed = "; ".join(row.reasons[:MOST_REASONS])
    ran = f"{row.variant} ran" if row.variant else ""
    said = ". ".join(part for part in (f"What decided: {changed}" if changed else "", ran) if part)
    todo = _todo(path, row) if failed or rec.meta.setup is not None else f"{_TRACE_ONLY} {_asked_by(path)}"
    return f"{said}. {todo}" if said else todo


def _todo(path: FastPath, row: PathRow) -> str:
    if row.verdict == PathVerdict.UNEXPECTED:
        return f"It ran though the configuration does not ask for it or refuses it. {_asked_by(path)}"
    needs = {PathVerdict.DECLINED, PathVerdict.REFUSED_AT_START, PathVerdict.MISSED}
    fast = f" It needs: {'; '.join(need.text for need in path.needs)}." if row.verdict in needs and path.needs else ""
    return _asked_by(path) + fast


def _asked_by(path: FastPath) -> str:
    default = f" (default {path.default})" if path.default else ""
    return f"Asked for by: {path.configured}{default}."


def of_kernel(name: str, rows: tuple[PathRow, ...], rec: Recording, *, failed: bool) -> str:
    """For a kernel that the catalogue knows: the path that launches it, as judged here."""
    for row in rows:
        path = FAST_PATHS.load(row.id)
        variant = _launches(path, name) if path is not None else None
        if variant is not None:
            head = f"{name} is {row.title}'s {variant.name}, which is {row.verdict} here"
            said = of_path(row, rec, failed=failed)
            return f"{head}. {said}"
    return ""


def _launches(path: FastPath, name: str) -> Variant | None:
    """The variant that a kernel counts for, where its calls are launches of it alone."""
    lower = name.lower()
    return next((v for v in path.variants if v.in_layers is None and v.counts(lower)), None)
